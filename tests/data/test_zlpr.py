"""The sets of ZLPR's paper, read from small files of the shape of their releases."""

import gzip
import json

import pytest

from bat_tf._internal.validation import DataError
from bat_tf.data import CORPORA, read
from bat_tf.data.readers.zlpr import EMOTIONS, INSULTS, SUBJECTS

SPLITS = ("train", "valid", "test")
ROWS = 40


def toutiao(number):
    return f"10{number}|,|tip,news|,|十招教你做PPT {number}|,|互联网,微软|,|"


def patent(number):
    names = ["A43B", "A41D"]
    row = {"Title": f"lace {number}", "Abstract": "a clip", "Subclass_labels": names}
    return {**row, "No": f"US{number}"}


def chinese_patent(number):
    ipc = "G06F17/30; G06F 3/01;H04L12/00"
    return {"id": number, "title": f"方法{number}", "abstract": "一种方法", "ipc": ipc}


def movie(number):
    genres = {"/m/07s9rl0": "Drama", "/m/01z4y": "Com\u00e9die"}
    cells = [str(number), "/m/x", f"Movie {number}", "2001", "", "90", "{}", "{}"]
    return "\t".join([*cells, json.dumps(genres)])


def table(columns, labels, rows=range(ROWS)):
    lines = [",".join([*columns, *labels])]
    for number in rows:
        cells = [f'"{name} {number}, ""so"""' for name in columns]
        lines.append(",".join([*cells, "1", *["0"] * (len(labels) - 2), "1"]))
    return "\n".join(lines) + "\n"


def lines(make, rows=range(ROWS)):
    return "".join(f"{make(number)}\n" for number in rows)


def objects(make):
    return lines(lambda number: json.dumps(make(number), ensure_ascii=False))


RAW = ["text", "id", "author", "subreddit", "rater_id", "example_very_unclear"]
# Set → its files, a text, and the labels of every row.
SETS = {
    "toutiao": ({"toutiao.txt": lines(toutiao)}, "十招教你做PPT 0", ("tip", "news")),
    "uspto/title": ({"uspto.json": objects(patent)}, "lace 0", ("A43B", "A41D")),
    "uspto/abstract": (
        {"uspto.json": json.dumps([patent(n) for n in range(ROWS)], indent=1)},
        *("a clip", ("A43B", "A41D")),
    ),
    "cnipa/title": ({"cnipa.json": objects(chinese_patent)}, "方法0", ("G06F", "H04L")),
    "cnipa/abstract": (
        {"cnipa.json": objects(chinese_patent)},
        *("一种方法", ("G06F", "H04L")),
    ),
    **{
        f"cmu_movie/{kind}": (
            {
                # A movie without a plot, and a plot without a movie, are left out.
                "movie.metadata.tsv": lines(movie, range(ROWS + 1)),
                "plot_summaries.txt": lines("{0}\tPlot {0}.".format)
                + f"{ROWS + 9}\tx\n",
            },
            *(text, ("Drama", "Comédie")),
        )
        for kind, text in (("name", "Movie 0"), ("summary", "Plot 0."))
    },
    "goemotions/raw": (
        {
            f"goemotions_{part}.csv": table(RAW, EMOTIONS, rows)
            for part, rows in enumerate((range(9), range(9, 20), range(20, ROWS)), 1)
        },
        *('text 0, "so"', (EMOTIONS[0], "neutral")),
    ),
    "archive/title": (
        {"train.csv": table(["ID", "TITLE", "ABSTRACT"], SUBJECTS)},
        *('TITLE 0, "so"', (SUBJECTS[0], SUBJECTS[-1])),
    ),
    "archive/abstract": (
        {"train.csv": table(["ID", "TITLE", "ABSTRACT"], SUBJECTS)},
        *('ABSTRACT 0, "so"', (SUBJECTS[0], SUBJECTS[-1])),
    ),
    "toxic": (
        {"train.csv": table(["id", "comment_text"], INSULTS)},
        *('comment_text 0, "so"', ("toxic", "identity_hate")),
    ),
}


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Writes the files of a set where BAT_TF_DATA is, packed if told so."""
    monkeypatch.setenv("BAT_TF_DATA", str(tmp_path))

    def write(name, files, packed=False):
        folder = tmp_path / name.partition("/")[0]
        folder.mkdir(exist_ok=True)
        for file, text in files.items():
            content = text.encode()
            if packed:
                file, content = f"{file}.gz", gzip.compress(content)
            (folder / file).write_bytes(content)

    return write


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("name", SETS)
def test_a_set_is_read_in_its_release_s_shape(name, packed, put):
    files, text, labels = SETS[name]
    put(name, files, packed)
    parts = [read(name, split) for split in SPLITS]
    assert sum(map(len, parts)) == ROWS
    assert len(parts[0]) > len(parts[1]) + len(parts[2])
    assert {row.labels for part in parts for row in part} == {labels}
    assert text in {row.text for part in parts for row in part}
    # The same rows every time.
    assert read(name, "valid").texts == parts[1].texts


@pytest.mark.parametrize(
    ("name", "file", "row", "said"),
    [
        (
            "toutiao",
            "toutiao.txt",
            "7|,|tip",
            r"toutiao.txt, line 1: expected id\|,\|labels",
        ),
        ("uspto/title", "uspto.json", "{}", "expected the field 'Title' among none"),
        ("uspto/title", "uspto.json", '{"Title": "x", "Subclass_labels": 3}', "a list"),
        (
            "cnipa/title",
            "cnipa.json",
            '{"title": 3, "ipc": []}',
            "`title` must be a text",
        ),
        (
            *("cmu_movie/name", "movie.metadata.tsv"),
            movie("0").replace('"Drama"', "null"),
            "`genres` must be names of genres. Received: .None",
        ),
    ],
)
def test_a_faulty_row_is_named_or_left_out(name, file, row, said, put):
    good = dict(SETS[name][0])
    put(name, {**good, file: f"{row}\n{good[file]}"})
    with pytest.raises(DataError, match=said):
        [read(name, split) for split in SPLITS]
    found = [read(name, split, on_error="skip") for split in SPLITS]
    assert sum(map(len, found)) == ROWS and sum(len(x.skipped) for x in found) == 1


@pytest.mark.parametrize(
    "symbols",
    [
        "G06F17/30；H04L12/00",
        "G06F17/30、H04L",
        "g06f 17/30|H 04 L 12/00",
        "G06F，H04L",
    ],
)
def test_no_symbol_of_a_patent_is_lost(symbols, put):
    """However a file divides them, and with blanks where print has them."""
    row = {**chinese_patent(0), "ipc": symbols}
    put("cnipa", {"cnipa.json": f"{json.dumps(row)}\n" * ROWS})
    assert read("cnipa/title")[0].labels == ("G06F", "H04L")


@pytest.mark.parametrize("name", ["toutiao", "cmu_movie/summary", "uspto/title"])
def test_blank_lines_are_no_rows(name, put):
    put(name, {file: f"\n{text}\n\n" for file, text in SETS[name][0].items()})
    assert sum(len(read(name, split)) for split in SPLITS) == ROWS


def test_movies_need_nine_columns(put):
    files = {"movie.metadata.tsv": "1\tx\n", "plot_summaries.txt": "1\tA plot.\n"}
    put("cmu_movie/name", files)
    with pytest.raises(DataError, match="expected 9 columns. Received: 2"):
        read("cmu_movie/name", "valid")


def test_fields_of_patents_can_be_called_otherwise(put):
    row = {"题目": "方法", "分类号": ["H01L21/02", "H01L 33/00"]}
    put("cnipa", {"cnipa.json": f"{json.dumps(row)}\n" * ROWS})
    data = read("cnipa/title", text="题目", labels="分类号")
    assert data[0].text == "方法" and data[0].labels == ("H01L",)


def test_a_set_that_is_missing_says_where_it_comes_from(tmp_path, monkeypatch):
    monkeypatch.setenv("BAT_TF_DATA", str(tmp_path))
    for name in SETS:
        with pytest.raises(FileNotFoundError, match="is not part of bat_tf"):
            read(name)
        assert len(CORPORA[name].origin) > 40
