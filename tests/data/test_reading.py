import gzip
import json

import pytest

from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError
from bat_tf.data import FORMATS, Example, read
from bat_tf.data.readers.jsonl import iter_jsonl

GOOD = b'{"text": "Acme hat", "spans": [[0, 4, "brand"]], "id": 7, "price": 3}'


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.jsonl"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def test_jsonl_with_spans_and_with_labels(write):
    data = read(write(GOOD + b'\n\n  \n{"text": "", "spans": []}\n'))
    assert data.task == "spans" and data.name.endswith("rows.jsonl")
    assert list(data) == [
        Example("Acme hat", spans=[(0, 4, "brand")], id="7"),
        Example("", spans=[]),
    ]
    data = read(write(b'{"text": "A goal", "labels": ["sport"]}'))
    assert data.task == "labels" and data.labels == [("sport",)]


@pytest.mark.parametrize("label", ['"sport"', '["sport"]'])
def test_jsonl_takes_a_single_label(write, label):
    row = f'{{"text": "A goal", "label": {label}}}'.encode()
    assert read(write(row)).labels == [("sport",)]
    # Beside labels or spans it is one of the things that are ignored.
    row = f'{{"text": "A goal", "labels": ["art"], "label": {label}}}'.encode()
    assert read(write(row)).labels == [("art",)]


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.NDJSON.GZ"])
def test_jsonl_compressed(write, name):
    assert read(write(gzip.compress(GOOD), name)).texts == ["Acme hat"]


def test_jsonl_byte_order_mark_and_windows_line_ends(write):
    path = write(b"\xef\xbb\xbf" + GOOD + b"\r\n" + GOOD + b"\r\n")
    assert read(path).texts == ["Acme hat"] * 2


BAD_ROWS = [
    (b'{"text": "a", "spans": [}', "not JSON: Expecting value at character 25"),
    (b"Acme hat", "not JSON: Expecting value at character 1"),
    (b'["Acme hat"]', "expected an object such as"),
    (b'{"txt": "a", "spans": []}', '"text" is missing. Received: txt, spans'),
    (b"{}", r'"text" is missing. Received: \{\}'),
    (b'{"text": null, "spans": []}', "text must be a string. Received: None"),
    (b'{"text": ["a"], "spans": []}', "text must be a string"),
    (b'{"text": "a"}', "this one has neither"),
    (b'{"text": "a", "spans": null}', "this one has neither"),
    (b'{"text": "a", "label": null}', "this one has neither"),
    (b'{"text": "a", "label": 3}', "this row has labels, those before have spans"),
    (b'{"text": "a", "spans": [], "labels": []}', "this one has both"),
    (b'{"text": "a", "labels": ["x"]}', "this row has labels, those before have spans"),
    (b'{"text": "a", "spans": [[0, 2, "k"]]}', "outside the text, which has 1 char"),
    (b'{"text": "ab", "spans": [[1, 1, "k"]]}', "ends before it has begun"),
    (b'{"text": "ab", "spans": [[0, 1, 5]]}', "kind of a span must be a name"),
    (b'{"text": "ab", "spans": [[0, 1]]}', r'must be \[start, end, "kind"\]'),
    (b'{"text": "ab", "spans": 3}', "spans must be a list"),
    (b'{"text": "abc", "spans": [[0, 2, "k"], [1, 3, "k"]]}', "overlap"),
    (
        b'{"text": "caf\xff", "spans": []}',
        r"not UTF-8 text \(byte 0xff at position 14\)",
    ),
    (b'{"text": "\\ud83d", "spans": []}', "lone surrogate"),
    (
        b'{"text": "ab", "spans": [[0, 1, "\\ud83d"]]}',
        "kind of a span holds half a character",
    ),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"text": ' + b"[" * 900 + b"]" * 900 + b', "spans": []}', "nested|a string"),
    (b"\0\1\2", "NUL bytes"),
]


@pytest.mark.parametrize("row, reason", BAD_ROWS, ids=range(len(BAD_ROWS)))
def test_a_bad_row_is_an_error_or_skipped_and_counted(write, row, reason):
    path = write(GOOD + b"\n" + row + b"\n" + GOOD + b"\n")
    with pytest.raises(DataError, match=rf"rows\.jsonl, line 2: .*{reason}"):
        read(path)
    data = read(path, on_error="skip")
    assert data.texts == ["Acme hat"] * 2
    assert [error.line for error in data.skipped] == [2]


def test_of_overlapping_spans_the_longest_is_kept_and_the_other_listed(write):
    row = {"text": "red shoes", "spans": [[0, 3, "colour"], [0, 9, "product"]]}
    path = write(json.dumps(row).encode())
    data = read(path, overlaps="longest")
    assert data.spans == [((0, 9, "product"),)]
    (error,) = data.skipped
    assert error.line == 1 and "(0, 3, 'colour') dropped" in error.reason


def test_rows_stream(write):
    rows = iter_jsonl(Source(write(GOOD + b"\nrubbish")))
    assert next(rows).text == "Acme hat"
    with pytest.raises(DataError, match="line 2"):
        next(rows)


def test_a_json_list_names_the_line_on_which_an_object_begins(write):
    rows = json.loads(f"[{GOOD.decode()}, {GOOD.decode()}]")
    path = write(json.dumps(rows, indent=1).encode(), "rows.json")
    assert read(path).texts == ["Acme hat"] * 2
    rows.insert(1, {"text": 5})
    path = write(json.dumps(rows, indent=1).encode(), "rows.json")
    line = path.read_text().splitlines().index('  "text": 5')
    with pytest.raises(DataError, match=f"line {line}: the text must be a string"):
        read(path)
    assert len(read(path, on_error="skip")) == 2


@pytest.mark.parametrize(
    "content, reason",
    [
        (
            b"[\n" + GOOD + b"\n" + GOOD + b"]",
            "line 3: not JSON: Expecting ',' delimiter",
        ),
        (GOOD + b"\n" + GOOD, 'line 2: not JSON: .* pass format="jsonl"'),
        (GOOD, 'line 1: expected a JSON list. .* pass format="jsonl"'),
        (b"[\n\xff]", "line 2: not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", r"rows\.json: .* a number is too long"),
        (b"", "holds no examples"),
        (b" [ ] ", "holds no examples"),
        (b"[[[1]]]", "line 1: expected an object"),
    ],
)
def test_a_file_that_is_not_a_json_list_is_a_sentence(write, content, reason):
    with pytest.raises(DataError, match=reason):
        read(write(content, "rows.json"), format="json")


def test_empty_files_and_files_without_a_good_row_are_sentences(write):
    with pytest.raises(DataError, match=r"rows\.jsonl: holds no examples\."):
        read(write(b""))
    with pytest.raises(
        DataError, match="holds no examples. The first fault: .* line 1"
    ):
        read(write(b"rubbish\n"), on_error="skip")


def test_the_format_is_taken_from_the_name_or_given(write):
    path = write(b"Ann\nBob\n", "eng.train")
    with pytest.raises(
        DataError, match="neither its name .* its `format`, one of jsonl, .*, xmc"
    ):
        read(path)
    assert read(write(b"Ann PER\n"), format="conll").texts == ["Ann"]
    with pytest.raises(ValueError, match="`format` must be one of 'jsonl'.*'xls'"):
        read(path, format="xls")


def test_every_format_reads_every_ending(tmp_path, write):
    content = {
        "jsonl": GOOD,
        "json": b"[" + GOOD + b"]",
        "conll": b"Acme B-brand\nhat O",
        "csv": b"text,labels\nAcme hat,brand",
        "tsv": b"text\tlabels\nAcme hat\tbrand",
        "fasttext": b"__label__brand Acme hat",
    }
    assert set(FORMATS) == {*content, "xmc"}  # which test_xmc.py reads: two files
    for name in content:
        for ending in FORMATS[name].endings:
            data = read(write(content[name], f"file{ending}"))
            assert data.texts == ["Acme hat"] and list(data.counts()) == ["brand"]


def test_a_source_that_is_nothing_names_what_there_is(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'conll2003'\?"):
        read("conl2003")
    with pytest.raises(FileNotFoundError, match="neither a file nor one of the named"):
        read(tmp_path / "train.jsonl")
    with pytest.raises(IsADirectoryError, match="is a folder; expected a file"):
        read(tmp_path, format="jsonl")


def test_wrong_arguments_are_sentences(write):
    path = write(GOOD)
    with pytest.raises(ValueError, match="`split` must be None for a file"):
        read(path, split="train")
    with pytest.raises(TypeError, match="option 'header'. Its options are: text, lab"):
        read(path, header=True)
    with pytest.raises(ValueError, match="`on_error` must be one of 'raise', 'skip'"):
        read(path, on_error="ignore")
    with pytest.raises(ValueError, match="`overlaps` must be one of"):
        read(path, overlaps="shortest")
