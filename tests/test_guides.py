"""The README and the guides: their code runs, and what they name exists.

Blocks of a file run in order, in one namespace and one folder, on the small files that
`prepare` writes. A block that cannot run says so in a comment right before it:

    <!-- not run: needs two hosts -->       never; only its names are checked
    <!-- slow: trains for a minute -->      with the slow tests
"""

import configparser
import gzip
import itertools
import json
import re
import shlex
import shutil
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import faults
import pytest
import tiny
from typer.main import get_command

import bat_tf

ROOT = Path(__file__).parent.parent
GUIDES = sorted((ROOT / "examples" / "guides").glob("*.md"))
CARDS = {p.parent.name: p for p in (ROOT / "saved_models").glob("*/README.md")}
NOTEBOOKS = {p.name: p for p in sorted((ROOT / "examples").glob("*.ipynb"))}
PAGES = {page.name: page for page in GUIDES} | {"the README": ROOT / "README.md"}
CONTRIBUTING = {"CONTRIBUTING.md": ROOT / "CONTRIBUTING.md"}
# Said of a block that does not run with the others.
REASONS = re.compile(r"<!-- (not run|slow): (\S.*) -->")
# Languages of what is shown and never run.
SHOWN = ("json", "yaml", "")
# What makes training small, whatever the page says.
SMALL = ["--epochs=1", *(f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items())]


class Block(NamedTuple):
    """A block of code in a page."""

    page: Path
    line: int
    language: str
    text: str
    kind: str
    reason: str


def blocks(page):
    """The blocks of a page, from the top."""
    lines = page.read_text("utf-8").splitlines()
    numbers = iter(range(len(lines)))
    for begin in numbers:
        if not lines[begin].startswith("```"):
            continue
        end = next(n for n in numbers if lines[n] == "```")
        above = REASONS.fullmatch(lines[begin - 1]) if begin else None
        kind, reason = above.groups() if above else ("", "")
        text = "\n".join(lines[begin + 1 : end])
        yield Block(page, begin + 2, lines[begin][3:].strip(), text, kind, reason)


# Their code takes the longest.
SLOW = "losses serving distributed bulk encoders own_data extreme_labels".split()
SLOW = [f"{name}.md" for name in SLOW]


def pages(others=MappingProxyType({}), slow=()):
    """The pages as parameters."""
    pages = {**PAGES, **others}
    marks = {name: [pytest.mark.slow] * (name in slow) for name in pages}
    return [pytest.param(pages[n], id=n, marks=marks[n]) for n in pages]


def commands(block):
    """The commands of a block of shell, each with the output that stands below it."""
    if block.language == "console":
        entries = re.split(r"(?m)^\$ ", block.text)[1:]
    else:
        entries = re.split(r"\n| && ", block.text.replace("\\\n", " "))
    for entry in entries:
        line, _, output = entry.partition("\n")
        words = shlex.split(line, comments=True)
        if words:
            yield words, output.strip("\n")


# === What they need ===


def tagged(number):
    """Rows with marked keywords."""
    makers = "Zorv Veloria Zurten Quarvum AmberPlum Stasota".split()
    things = "desk lamp;wool cape;brass kettle;paper lantern".split(";")
    pairs = itertools.islice(itertools.product(makers, things), number)
    for maker, thing in pairs:
        text = f"{maker} {thing}, warm white"
        end = len(maker) + 1 + len(thing)
        yield {
            "text": text,
            "spans": [[0, len(maker), "brand"], [len(maker) + 1, end, "product"]],
        }


def labelled(number):
    """Rows with labels."""
    stories = [
        ("Oil prices rose again in {}", ["crude"]),
        ("Wheat exports of {} fell", ["grain", "wheat"]),
        ("{} asks for lower tariffs", ["trade"]),
        ("{} sells crude oil and buys grain", ["crude", "grain", "trade"]),
    ]
    places = "Kuwait Canada Japan Norway Brazil Egypt".split()
    pairs = itertools.islice(itertools.product(places, stories), number)
    for place, (story, labels) in pairs:
        yield {"text": story.format(place), "labels": labels}


def prepare(folder):
    """Writes the files that the pages read."""

    def write(name, rows):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / name).write_text("".join(lines), "utf-8")

    for name, number in {"train": 24, "valid": 12, "test": 12}.items():
        write(f"{name}.jsonl", tagged(number))
    for name, number in {"news": 24, "news_valid": 12, "news_test": 12}.items():
        write(f"{name}.jsonl", labelled(number))
    rows = [f'"{row["text"]}",{"|".join(row["labels"])}\n' for row in labelled(24)]
    (folder / "news.csv").write_text("text,labels\n" + "".join(rows), "utf-8")
    (folder / "train.conll").write_text("Zorv B-brand\nlamp B-product\nnew O\n\n" * 4)
    texts = [row["text"] for row in tagged(8)]
    (folder / "pages.txt").write_text("\n".join(texts) + "\n", "utf-8")
    with gzip.open(folder / "pages.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": text}) + "\n" for text in texts)


def prepare_model(folder, page):
    """The models that a page takes for granted."""
    text = page.read_text("utf-8")
    if "--model runs/shop" in text and "--output runs/shop" not in text:
        (folder / "runs" / "shop").mkdir(parents=True)
        model = tiny.tagger()
        model.fit(tiny.dataset(4), epochs=1, verbose=0)
        model.save(folder / "runs" / "shop" / "best.keras")
    if "--model shop/1" in text:
        shutil.copytree(ROOT / "saved_models/product_pages/1", folder / "shop" / "1")


# === They run ===


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty folder with the small files in it, where BAT is shallow unless told."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    usual = bat_tf.encoders.BATEncoder.__init__.__kwdefaults__
    monkeypatch.setitem(usual, "num_layers", 1)
    return tmp_path


@pytest.fixture
def shell(capsys, monkeypatch):
    """Runs what a block of shell says; what it installs is taken for granted."""

    def run(block):
        for (program, *arguments), output in commands(block):
            if program != "bat-tf":
                continue
            small = SMALL if arguments[0] == "train" else []
            if small and not {"--recipe", "--config"}.intersection(arguments):
                small = [*small, "--recipe=none"]
            code, shown = faults.run_command(capsys, monkeypatch, *arguments, *small)
            where = f"{block.page.name}, line {block.line}: {shlex.join(arguments)}"
            assert code in (0, None), f"{where}\n{shown}"
            assert output in shown, f"{where}\n{shown}"

    return run


def run_python(block, names):
    """Runs a block of Python; a traceback shows the line of the page."""
    text = "\n" * (block.line - 1) + block.text
    exec(compile(text, block.page, "exec"), names)


@pytest.mark.parametrize("page", pages(slow=SLOW))
def test_the_code_of_a_page_runs(page, workplace, shell, request):
    ready = [block for block in blocks(page) if not block.kind]
    if any('"minilm"' in block.text for block in ready):
        request.getfixturevalue("minilm")
    prepare_model(workplace, page)
    names = {"__name__": "guide"}
    for block in ready:
        if block.language == "python":
            run_python(block, names)
        elif block.language in ("bash", "console"):
            shell(block)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{name}:{block.line}")
        for name, page in PAGES.items()
        for block in blocks(page)
        if block.kind == "slow"
    ],
)
def test_the_slow_code_of_a_page_runs(block, workplace, shell):
    if block.language == "python":
        run_python(block, {"__name__": "guide"})
    else:
        shell(block)


def test_blocks_that_do_not_run_are_few():
    found = [block for page in PAGES.values() for block in blocks(page)]
    left_out = [block for block in found if block.kind == "not run"]
    for block in found:
        where = f"{block.page.name}, line {block.line}"
        assert block.language in ("python", "bash", "console", *SHOWN), where
        if block.language in SHOWN:
            assert "bat-tf " not in block.text and "import " not in block.text, where
        elif block.language != "python" and not block.kind:
            programs = [command[0] for command, _ in commands(block)]
            assert {*programs} <= {"bat-tf", "python"}, (
                f"{where}: say why it is not run"
            )
    assert len(left_out) <= 12, [(b.page.name, b.line, b.reason) for b in left_out]


# === What they name exists ===


@pytest.mark.parametrize("page", pages())
def test_commands_are_those_of_the_command_line(page):
    """Of every `bat-tf …`, run or not, in a block or in a sentence."""
    from bat_tf import cli

    known = get_command(cli.app).commands
    text = page.read_text("utf-8")
    spans = re.findall(r"`bat-tf ([^`]+)`", text) + re.findall(
        r"(?m)^bat-tf (.+)", text
    )
    for span in spans:
        verb, *arguments = span.split("#")[0].split()
        if verb.startswith("-"):
            continue
        assert verb in known, f"bat-tf {span}"
        options = {o for p in known[verb].params for o in (*p.opts, *p.secondary_opts)}
        given = [
            word.partition("=")[0] for word in arguments if re.match("--?[a-z]", word)
        ]
        assert {*given} <= options | {"--help"}, f"bat-tf {span}"


@pytest.mark.parametrize("page", pages(CONTRIBUTING))
def test_paths_and_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    folder = r"\b(?:bat_tf|tests|examples)/[\w./-]*"
    for path in re.findall(rf"{folder}\.(?:py|yaml|c|ipynb|md)\b", text):
        assert (ROOT / path).is_file(), path
    for path in re.findall(rf"`({folder}/)`", text):
        assert (ROOT / path).is_dir(), path
    for module in re.findall(r"python -m (examples[.\w]*)", text):
        path = ROOT / module.replace(".", "/")
        assert (path / "__main__.py").is_file() or path.with_suffix(".py").is_file(), (
            module
        )
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?s)```.*?```", "", text)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path) if path else page
        assert found.exists(), target
        if anchor:
            headings = re.findall(r"(?m)^#+ (.+)", found.read_text("utf-8"))
            known = [
                re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings
            ]
            assert anchor in known, target


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_extras_are_those_of_the_package(page):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = {*setup["options.extras_require"]}
    for names in re.findall(r"(?:\.|bat-tf)\[([a-z, ]+)\]", page.read_text("utf-8")):
        assert {name.strip() for name in names.split(",")} <= extras, names


def test_what_contributing_speaks_of_is_there():
    """A word in backticks that follows or precedes a file stands in that file."""
    text = CONTRIBUTING["CONTRIBUTING.md"].read_text("utf-8")
    pairs = [
        (name, path)
        for name, path in re.findall(r"`(\w+)` (?:of|in) `([\w/.]+\.py)`", text)
    ]
    pairs += re.findall(r"`(\w+)` \(`([\w/.]+\.py)`\)", text)
    assert len(pairs) >= 6
    for name, path in pairs:
        assert re.search(rf"\b{name}\b", (ROOT / path).read_text("utf-8")), (name, path)


def test_the_readme_is_read_in_three_minutes():
    readme = (ROOT / "README.md").read_bytes()
    assert len(readme) <= 8192
    # `.ci/run` looks for this line.
    assert re.search(rb"(?m)^python -m pip install .*python -m pytest", readme)


@pytest.mark.parametrize("page", pages(CARDS | NOTEBOOKS | CONTRIBUTING))
def test_nobody_is_sent_to_an_address_that_is_not_ours(page):
    text = page.read_text("utf-8").lower()
    assert "github.com/bat-tf" not in text and "colab" not in text
    # What looks like a badge is one.
    assert not re.search(r"!\[[^\]]*\]\(https?:|shields\.io|badge", text)


def test_every_guide_is_in_the_index():
    index = (ROOT / "examples/guides/README.md").read_text("utf-8")
    names = {page.name for page in GUIDES} - {"README.md"}
    assert names == {*re.findall(r"\]\((\w+\.md)\)", index)}
