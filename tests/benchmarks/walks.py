"""How long the walks through the house are: files and functions that a text passes.

    python tests/benchmarks/walks.py                          # this checkout
    python tests/benchmarks/walks.py --before ../before       # beside another one
    python tests/benchmarks/walks.py --before ../before --write examples/guides/house.md

Prints the lines of each room; the files and functions of bat_tf that run between a
text and its loss inside `fit`, between a text and its answer, and in `bat-tf train`;
the private names of other libraries; how long imports and commands take; and the size
of the README. Every walk has a process of its own and is a tiny model's first, so that
what runs only while a graph is made is counted too. `--write` puts the tables into a
page, between its lines `<!-- tables -->` and `<!-- end of tables -->`.
"""

import argparse
import ast
import importlib.util
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from configparser import ConfigParser
from pathlib import Path

HERE = Path(__file__).resolve()
CHECKOUT = HERE.parents[2]
ENCODER = {"d_model": 16, "d_ff": 32, "num_heads": 2, "num_layers": 1}
MARK = "walks:"
COLUMNS = ["files", "lines", "of code", "functions"]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


class Trace:
    """Notes each function of a package that is called meanwhile, in all threads."""

    def __init__(self, package):
        self.package = str(package) + os.sep
        self.seen = set()
        self._codes = set()

    def _note(self, frame, event, _):
        if event != "call" or frame.f_code in self._codes:
            return
        self._codes.add(frame.f_code)
        path, name = frame.f_code.co_filename, frame.f_code.co_qualname
        if "__autograph_generated_file" in path:
            # What TensorFlow rewrote for a graph keeps the globals of its source.
            name = name.rpartition(".")[2]
            # Bodies of branches and loops, which it adds, are no functions of ours.
            path = frame.f_globals.get("__file__", "") if "tf__" in name else ""
            name = name.removeprefix("tf__")
        # Comprehensions and modules are no functions that a reader jumps to.
        if path.startswith(self.package) and not name.endswith(
            ("comp>", "expr>", "<module>")
        ):
            self.seen.add((path[len(self.package) :], name))

    def forget(self):
        """Begins anew."""
        self.seen.clear()
        self._codes.clear()

    def __enter__(self):
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def result(self):
        """Files, functions, and the functions of each file."""
        by_file = Counter(path for path, _ in self.seen)
        return {
            "files": len(by_file),
            "functions": len(self.seen),
            "by_file": dict(by_file.most_common()),
        }


def tagger():
    """A tiny tagger, ready for `fit`, and its texts."""
    import bat_tf

    train = bat_tf.data.read("product_pages/en", split="train").take(16)
    model = bat_tf.BATTagger.for_data(train, tokenizer="words", **ENCODER)
    model.compile("adam", loss="pbp")
    return model, train


def classifier():
    """A tiny classifier that was trained, and its texts."""
    import bat_tf

    train = bat_tf.data.read("product_shelves/en", split="train").take(16)
    model = bat_tf.LabelClassifier.for_data(train, tokenizer="words", **ENCODER)
    model.compile("adam", loss="zlpr")
    model.fit(train, epochs=1, verbose=0)
    return model, train


def walk_fit(trace):
    """From text to loss, in `fit`."""
    model, train = tagger()
    with trace:
        model.fit(train, epochs=1, verbose=0)


def walk_tag(trace):
    """From text to marked keywords."""
    model, train = tagger()
    model.fit(train, epochs=1, verbose=0)
    with trace:
        model.tag(train.texts[:2])


def walk_label(trace):
    """From text to labels."""
    model, train = classifier()
    with trace:
        model.label(train.texts[:2])


def walk_train(trace):
    """A whole `bat-tf train` on a tiny file, in the form that the checkout takes."""
    import bat_tf
    from bat_tf import cli

    forms = itertools.product(
        ([], ["--train"]), ("encoder", "encoder_settings"), (["--recipe", "none"], [])
    )
    with tempfile.TemporaryDirectory() as folder:
        part = f"{folder}/train.jsonl"
        bat_tf.data.read("product_pages/en", split="train").take(16).save(part)
        for number, (option, group, recipe) in enumerate(forms):
            settings = [
                f"--set={group}.{key}={value}" for key, value in ENCODER.items()
            ]
            files = [*option, part, "--valid", part, "--output", f"{folder}/{number}"]
            settings += recipe
            sys.argv = ["bat-tf", "train", *files, "--epochs", "1", *settings]
            try:
                with trace:
                    cli.main()
                return
            except SystemExit as end:
                if not end.code:
                    return
                trace.forget()
    raise SystemExit("`bat-tf train` takes none of the forms that are known here.")


WALKS = {
    "fit": ("text → loss, inside `fit`", walk_fit),
    "label": ("text → answer, `label`", walk_label),
    "tag": ("text → answer, `tag`", walk_tag),
    "train": ("`bat-tf train` on a tiny file", walk_train),
}


def private(package):
    """Private names of other libraries, in their one home and elsewhere."""
    spec = importlib.util.spec_from_file_location(
        "rooms", CHECKOUT / "tests" / "test_rooms.py"
    )
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    own = rooms.own_names() | rooms.DOCUMENTED
    found = {"elsewhere": [], "home": []}
    for path in rooms.FILES:
        home = path.as_posix().endswith(rooms.PRIVATE)
        for line, name in rooms.private_names(path):
            if home or name not in own:
                where = f"{path.relative_to(package)}:{line}: {name}"
                found["home" if home else "elsewhere"].append(where)
    return found


def rooms_of(package):
    """Files, lines, lines of code and functions of each room, see `COLUMNS`."""
    rooms = {}
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).parts
        if "saved_models" in inside:
            continue
        room = inside[0] + "/" if len(inside) > 1 else "(files beside the rooms)"
        text = path.read_text("utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        functions = sum(isinstance(node, FUNCTIONS) for node in nodes)
        said = sum(map(docstring_lines, nodes))
        lines = text.splitlines()
        silent = sum(line.strip()[:1] in ("", "#") for line in lines)
        code = len(lines) - said - silent
        row = rooms.setdefault(room, [0] * len(COLUMNS))
        for place, value in enumerate((1, len(lines), code, functions)):
            row[place] += value
    return rooms


def docstring_lines(node):
    """Lines of the docstring of a module, class or function that are not blank."""
    if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
        return 0
    text = ast.get_docstring(node, clean=False)
    return sum(bool(line.strip()) for line in text.splitlines()) if text else 0


def environment(checkout):
    """Variables under which a process imports bat_tf of that checkout."""
    return {**os.environ, "PYTHONPATH": str(checkout), "TF_CPP_MIN_LOG_LEVEL": "3"}


def child(checkout, what):
    """Runs one measurement in a process of its own."""
    command = [sys.executable, str(HERE), "--package", str(checkout), "--only", what]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            command,
            env=environment(checkout),
            cwd=folder,
            capture_output=True,
            text=True,
        )
    for line in done.stdout.splitlines():
        if line.startswith(MARK):
            return json.loads(line[len(MARK) :])
    return {"error": (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]}


def run_only(checkout, what):
    """One measurement, in this process."""
    package = checkout / "bat_tf"
    if what == "private":
        found = private(package)
    else:
        trace = Trace(package)
        WALKS[what][1](trace)
        found = trace.result()
    print(f"\n{MARK}{json.dumps(found)}")


def commands(checkout, folder):
    """What is timed: a name, and the arguments of Python.

    The script stands in a folder of its own, as pip writes it: the package looks at
    its name when it starts.
    """
    setup = ConfigParser()
    setup.read(checkout / "setup.cfg")
    scripts = setup["options.entry_points"]["console_scripts"].split("=")
    module, function = scripts[1].strip().split(":")
    script = Path(folder, "bat-tf")
    script.write_text(
        f"import sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    )
    return {
        "import tensorflow": ["-c", "import tensorflow"],
        "import bat_tf": ["-c", "import bat_tf"],
        "bat-tf --version": [script, "--version"],
        "bat-tf --help": [script, "--help"],
        "bat-tf tag TEXT": [script, "tag", "A brass desk lamp by Zurten"],
    }


def times(checkouts, turns):
    """Seconds of processor time of every command, for each checkout: the median.

    Commands and checkouts take turns, as the machine may be busy.
    """
    spent = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            for name, checkout in checkouts.items():
                for what, arguments in commands(checkout, folder).items():
                    one = seconds(checkout, arguments)
                    spent.setdefault((name, what), []).append(one)
    return {place: statistics.median(values) for place, values in spent.items()}


def seconds(checkout, arguments):
    """Seconds of processor time of one command; not a number if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment(checkout),
        cwd=checkout,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        return float("nan")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(head, rows):
    """A Markdown table, with a blank line behind it."""
    rows = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(map(str, row)) + " |" for row in rows] + [""]


def beside(names, whats):
    """A head for several checkouts: each column of each."""
    if len(names) == 1:
        return [*whats]
    return [f"{what}, {name}" for name in names for what in whats]


def house(checkouts):
    """Lines of each room."""
    rooms = {name: rooms_of(path / "bat_tf") for name, path in checkouts.items()}
    for one in rooms.values():
        one["all"] = [sum(column) for column in zip(*one.values(), strict=True)]
    order = dict.fromkeys(
        room for one in rooms.values() for room in one if room != "all"
    )
    rows = []
    for room in (*sorted(order), "all"):
        found = [one.get(room) or ["–"] * len(COLUMNS) for one in rooms.values()]
        rows.append(
            [room, *(f"{n:,}" if n != "–" else n for row in found for n in row)]
        )
    return table(["room", *beside(checkouts, COLUMNS)], rows)


def walks(checkouts):
    """Files and functions of each walk."""
    rows = []
    for walk, (title, _) in WALKS.items():
        row = [title]
        for checkout in checkouts.values():
            found = child(checkout, walk)
            row += [found.get("files", "–"), found.get("functions", found.get("error"))]
        rows.append(row)
    return table(["walk", *beside(checkouts, ["files", "functions"])], rows)


def private_uses(checkouts):
    """Private names of other libraries: how often, in their home and elsewhere."""
    found = [child(checkout, "private") for checkout in checkouts.values()]
    where = {"home": "in `_internal/keras_private.py`", "elsewhere": "elsewhere"}
    rows = [
        [text, *(len(one[key]) if key in one else one["error"] for one in found)]
        for key, text in where.items()
    ]
    uses = beside(checkouts, ["uses"])
    return table(["private names of other libraries", *uses], rows)


def starts(checkouts, turns):
    """How long commands take, beside TensorFlow's import alone."""
    found, base = times(checkouts, turns), "import tensorflow"
    rows = []
    for what in dict.fromkeys(what for _, what in found):
        row = [f"`{what}`"]
        for name in checkouts:
            spent = found[name, what]
            ratio = spent / found[name, base]
            row += (
                ["fails", "–"] if spent != spent else [f"{spent:.2f}", f"{ratio:.2f}"]
            )
        rows.append(row)
    columns = ["seconds of processor time", "× `import tensorflow`"]
    return table(["command", *beside(checkouts, columns)], rows)


def readme(checkouts):
    """The size of the README."""
    sizes = [(path / "README.md").stat().st_size for path in checkouts.values()]
    row = ["README.md", *(f"{size:,}" for size in sizes)]
    return table(["page", *beside(checkouts, ["bytes"])], [row])


def by_file(checkout):
    """Each walk of one checkout, file by file."""
    for walk, (title, _) in WALKS.items():
        found = child(checkout, walk).get("by_file", {})
        yield from table([title, "functions"], found.items())


def write(page, lines):
    """Puts the tables into a page, between the two lines that mark their place."""
    before, _, rest = page.read_text("utf-8").partition(f"{BEGIN}\n")
    _, end, after = rest.partition(f"{END}\n")
    if not end:
        raise SystemExit(f"{page} must have the lines {BEGIN} and {END}.")
    text = "\n".join(lines)
    page.write_text(f"{before}{BEGIN}\n{text}{END}\n{after}", "utf-8")


def checkout(text):
    """A folder that is a checkout."""
    path = Path(text).resolve()
    if not (path / "bat_tf" / "__init__.py").is_file():
        raise argparse.ArgumentTypeError(f"{path} is no checkout: it has no bat_tf/.")
    return path


def main():
    """Prints everything about one checkout or two, as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", type=checkout, default=CHECKOUT, help="a checkout")
    parser.add_argument("--before", type=checkout, help="another one, for comparison")
    parser.add_argument("--write", type=Path, help="a page that has a place for tables")
    parser.add_argument("--turns", type=int, default=3, help="times a command is timed")
    parser.add_argument("--files", action="store_true", help="also walks file by file")
    parser.add_argument("--only", choices=[*WALKS, "private"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        run_only(options.package, options.only)
        return
    checkouts = {"after": options.package}
    if options.before:
        checkouts = {"before": options.before, **checkouts}
    lines = [
        *house(checkouts),
        *walks(checkouts),
        *private_uses(checkouts),
        *starts(checkouts, options.turns),
        *readme(checkouts),
    ]
    print("\n".join(lines))
    if options.files:
        print("\n".join(by_file(options.package)))
    if options.write:
        write(options.write, lines)


if __name__ == "__main__":
    main()
