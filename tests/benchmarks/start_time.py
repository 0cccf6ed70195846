"""How long `bat-tf` takes to start, beside `import tensorflow` alone.

    python tests/benchmarks/start_time.py [--rounds 7]

The commands take turns, each in a process of its own; what counts is the ratio within a
round. On a machine that does other work too, look at the seconds of processor time.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
# As pip writes it: the name of the file is what the package looks at.
SCRIPT = "import sys\nfrom bat_tf.cli import main\nsys.exit(main())\n"
TEXT = "Hoover EmPower Bagless Upright Vacuum"
BASE = "import tensorflow"


def commands(folder):
    """What is timed, by name; the first is what the others are compared with."""
    script = Path(folder, "bat-tf")
    script.write_text(SCRIPT)
    python, bat_tf = [sys.executable], [sys.executable, str(script)]
    return {
        BASE: [*python, "-c", BASE],
        "import bat_tf": [*python, "-c", "import bat_tf"],
        "bat-tf --help": [*bat_tf, "--help"],
        "bat-tf --version": [*bat_tf, "--version"],
        "bat-tf tag, one text": [*bat_tf, "tag", TEXT],
        "bat-tf tag, one text, labels": [*bat_tf, "tag", "-m", "reuters_topics", TEXT],
    }


def measure(command):
    """Seconds on the clock, and of processor time."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, spent


def main():
    """Prints a table of medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        todo = commands(folder)
        for command in todo.values():
            measure(command)  # reads files that are not in memory yet
        found = [{name: measure(todo[name]) for name in todo} for _ in range(rounds)]
    table = Table(title=f"Medians of {rounds} rounds")
    for name in ("command", "seconds", "ratio", "processor", "ratio"):
        table.add_column(name, justify="left" if name == "command" else "right")
    for name in todo:
        cells = []
        for kind in (0, 1):
            spent = [one[name][kind] for one in found]
            base = [one[BASE][kind] for one in found]
            ratios = [own / other for own, other in zip(spent, base, strict=True)]
            cells += [f"{statistics.median(x):.2f}" for x in (spent, ratios)]
        table.add_row(name, *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
