"""What breaks and what the user sees: the guide's table is made of marks on tests.

    @pytest.mark.fault("port in use", 'it ends: "Port … cannot be listened on"')

What a mark quotes is checked by the fixture `sees` against what was really shown; "…"
stands for anything. `python tests/faults.py` writes the table into
examples/guides/reliability.md, and test_faults.py fails while another one is there.
"""

import ast
import contextlib
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent
GUIDE = TESTS.parent / "examples" / "guides" / "reliability.md"
BEGIN, END = "<!-- faults: made by tests/faults.py -->\n", "<!-- end of faults -->\n"


class Fault(NamedTuple):
    """One row of the table."""

    what: str
    seen: str
    test: str
    slow: bool
    arguments: tuple


def faults():
    """The marks of all test files, read without running them."""
    return [
        fault
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        for fault in _marks(path, node)
    ]


def _marks(path, node):
    slow = any(ast.unparse(mark) == "pytest.mark.slow" for mark in node.decorator_list)
    arguments = tuple(argument.arg for argument in node.args.args)
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault":
            what, seen = map(ast.literal_eval, mark.args)
            yield Fault(
                what, seen, f"{path.relative_to(TESTS)}::{node.name}", slow, arguments
            )


def table():
    """The rows as Markdown."""
    lines = ["| what breaks | what you see | test |", "|---|---|---|"]
    for fault in faults():
        test = f"`{fault.test}`" + (" (slow)" if fault.slow else "")
        lines.append(f"| {fault.what} | {fault.seen} | {test} |")
    return "\n".join(lines) + "\n"


def quotes(seen):
    """The quoted parts of what is seen."""
    return re.findall('"([^"]+)"', seen)


def check(seen, output):
    """Fails unless everything that is quoted stands in the output."""
    output = " ".join(output.split())  # a terminal breaks lines anywhere
    for quote in quotes(seen):
        pattern = ".*?".join(map(re.escape, quote.split("…")))
        assert re.search(pattern, output), f"{quote!r} is not in {output!r}"
    assert "Traceback" not in output


class Disk:
    """A disk that becomes full: a real one where mounting is allowed.

    Elsewhere a limit on the size of files stands in for it, which child processes
    inherit.
    """

    def __init__(self, folder, mounted):
        self.folder, self._mounted = Path(folder), mounted
        self._filler = self.folder / ".filler"
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, leave):
        """Leaves room for so many bytes."""
        if not self._mounted:
            resource.setrlimit(resource.RLIMIT_FSIZE, (leave, self._limits[1]))
            return
        found = os.statvfs(self.folder)
        with open(self._filler, "wb") as file:
            os.posix_fallocate(
                file.fileno(), 0, found.f_bavail * found.f_frsize - leave
            )

    def clear(self):
        """Makes room again."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)
        self._filler.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(folder, size=32 * 2**20):
    """A `Disk` at a new folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = not subprocess.run(command, capture_output=True).returncode
    except OSError:
        mounted = False
    disk = Disk(folder, mounted)
    try:
        yield disk
    finally:
        disk.clear()
        if mounted:
            # Lazily: a log file may still be open in it.
            subprocess.run(["umount", "-l", str(folder)], check=True)


def cut(path):
    """Leaves the first half of a file, as a copy that was stopped does."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def run_command(capsys, monkeypatch, *arguments):
    """What `bat-tf …` prints and its exit code, without a process of its own."""
    from bat_tf import cli

    monkeypatch.setattr(sys, "argv", ["bat-tf", *map(str, arguments)])
    capsys.readouterr()
    try:
        cli.main()
        code = 0
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def write_guide():
    """Puts the table between its marks in the guide."""
    text = GUIDE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    GUIDE.write_text(before + BEGIN + table() + END + after, encoding="utf-8")


if __name__ == "__main__":
    write_guide()
