import csv
import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError
from bat_tf.data import Example, read
from bat_tf.data.readers.tables import iter_csv


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    "content",
    [
        "text,labels\nA goal,sport|news\n\nA play,\n",
        "Label;Text\r\n".replace(";", ",") + "sport; news,A goal\r\n,A play\r\n",
        'id,text,labels\n,A goal,"[""sport"", ""news""]"\n,A play,[]\n',
        "text,labels\nA goal,\"['sport', 'news']\"\nA play,[]\n",
        "text,sport,news,art\nA goal,1,1,0\nA play,0,0,0\n",
        ",comment_text,sport,news\n0,A goal,True,1.0\n1,A play,False,\n",
        "\ufeffcategories,price,sentence\nsport|news,3,A goal\n,4,A play",
    ],
    ids=range(7),
)
def test_columns_are_found_by_their_usual_names(write, content):
    data = read(write(content))
    assert data.task == "labels" and data.name.endswith("rows.csv")
    assert list(data) == [
        Example("A goal", labels=["sport", "news"]),
        Example("A play", labels=[]),
    ]


def test_title_text_and_id(write):
    data = read(write("id,body,title,labels\n7,A goal,Final,sport\n8,,Lost,\n"))
    assert data.texts == ["Final\nA goal", "Lost"]
    assert [example.id for example in data] == ["7", "8"]
    assert read(write("title,label\nFinal,sport\n")).texts == ["Final"]


def test_columns_can_be_named(write):
    path = write("a,b,c,d\none,two,1,0\n")
    data = read(path, text="b", labels="a")
    assert data.texts == ["two"] and data.labels == [("one",)]
    data = read(path, text=["b", "a"], labels=["d", "c"])
    assert data.texts == ["two\none"] and data.labels == [("c",)]
    with pytest.raises(ValueError, match="`text` must be columns of .*: a, b, c, d"):
        read(path, text="e", labels="a")
    with pytest.raises(
        ValueError, match="`labels` must be columns of .* Received: 'B'"
    ):
        read(path, text="a", labels=["B"])
    with pytest.raises(ValueError, match="`labels` must be columns"):
        read(path, text="a", labels=[])


def test_the_separator_can_be_given(write):
    path = write('text,labels\nA goal,"R&B; Soul, Pop|Rock"\n')
    assert read(path).labels == [("R&B", "Soul, Pop", "Rock")]
    assert read(path, separator=",").labels == [("R&B; Soul", "Pop|Rock")]
    assert read(path, separator="").labels == [("R&B; Soul, Pop|Rock",)]
    with pytest.raises(ValueError, match="`separator` must be a string or None"):
        read(path, separator=3)


def test_tabs_and_other_delimiters(write):
    path = write('text\tlabels\nA goal, "late"\tsport\n', "rows.tsv")
    assert read(path).texts == ['A goal, "late"']
    assert read(path).labels == [("sport",)]
    path = write('text\tlabels\n"A" goal\tsport\n"B\tart\n', "rows.tsv")
    with pytest.raises(DataError, match="line 2: not a row.* or pass quotes=False"):
        read(path, quotes=True)
    assert (
        read(path).texts == ['"A" goal', '"B'] and read(path).found["quotes"] is False
    )
    path = write("text;labels\nA goal, late;sport\n")
    assert read(path).texts == ["A goal, late"]
    with pytest.raises(DataError, match="line 1: no column .* or check `delimiter`"):
        read(path, delimiter="\t")
    assert read(write("text||labels\nA goal||sport\n")).labels == [("sport",)]
    with pytest.raises(ValueError, match="`delimiter` must be a sign or several"):
        read(path, delimiter="")


def test_packed_tables(write):
    path = write(gzip.compress(b"text,label\nA goal,sport\n"), "rows.csv.gz")
    assert read(path).labels == [("sport",)]
    assert read(path, format="csv").labels == [("sport",)]


GOOD = '"A\ngoal",sport\n'
BAD_ROWS = [
    ("A goal\n", "expected 2 cells, as many as the header has. Received: 1"),
    ("A goal,sport,news\n", "expected 2 cells, .* Received: 3"),
    ('A goal,"[""sport"", 3]"\n', "a label must be a name"),
    ("A goal,[{[]: 1}]\n", "expected a list such as"),
    ("A goal,[sport]\n", r"expected a list such as .* Received: '\[sport\]'"),
    ('"A" goal,sport\n', "not a row of a table: ',' expected after '\"'"),
    (b"caf\xff,sport\n", "not UTF-8 text .byte 0xff at position 4"),
    (b"caf\0,sport\n", "NUL bytes"),
]


@pytest.mark.parametrize("row, reason", BAD_ROWS, ids=range(len(BAD_ROWS)))
def test_a_bad_row_is_an_error_or_skipped_and_counted(write, row, reason):
    row = row if isinstance(row, bytes) else row.encode()
    path = write(b"text,label\n" + GOOD.encode() + row + GOOD.encode())
    with pytest.raises(DataError, match=rf"rows\.csv, line 4: .*{reason}"):
        read(path)
    data = read(path, on_error="skip")
    assert data.texts == ["A\ngoal"] * 2
    assert [error.line for error in data.skipped] == [4]


def test_a_column_that_is_no_label_is_a_sentence(write):
    path = write("text,sport,price\nA goal,1,0\nA play,0,2.50\n")
    with pytest.raises(
        DataError, match="line 3: the cell of 'price' must be 0 or 1. Received: '2.50'"
    ):
        read(path)
    assert read(path, labels=["sport"]).labels == [("sport",), ()]


@pytest.mark.parametrize(
    "content, reason",
    [
        ("", "holds no examples"),
        ("text,labels\n", "holds no examples"),
        ("a,b\n1,2\n", r"line 1: no column .* text \(usual names: text, title"),
        ("id,text\n1,A goal\n", "line 1: no column of the header holds the labels"),
        ("text,a,a\nA goal,1,0\n", r"line 1: the header names columns twice: \['a'\]"),
        (" , \nA goal,sport\n", "line 1: the header is blank"),
        (b"text,caf\xff\nA,1\n", "line 1: not UTF-8"),
    ],
    ids=range(7),
)
def test_a_file_that_is_no_such_table_is_a_sentence(write, content, reason):
    with pytest.raises(DataError, match=reason):
        read(write(content))


def test_long_cells_are_read_and_the_limit_of_csv_stays(write):
    limit = csv.field_size_limit()
    rows = iter_csv(Source(write(f"text,label\n{'a' * 200_000},sport\nA,art\n")))
    assert len(next(rows).text) == 200_000
    assert csv.field_size_limit() == limit


words = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"))
names = st.text("abc ,\"'\n", min_size=1).filter(lambda name: name == name.strip())


@given(st.lists(st.tuples(words, st.lists(names, unique=True)), min_size=1))
def test_what_csv_writes_is_read_back(tmp_path_factory, rows):
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(["text", "labels"])
    for text, labels in rows:
        writer.writerow([text, "|".join(labels)])
    path = tmp_path_factory.getbasetemp() / "written.csv"
    path.write_bytes(file.getvalue().encode())
    data = read(path, separator="|", quotes=True, delimiter=",")
    assert data.texts == [text.strip() for text, _ in rows]
    assert data.labels == [tuple(labels) for _, labels in rows]


@pytest.mark.fault(
    "a table of a hundred thousand columns", "it is read, in seconds, as any other"
)
def test_a_header_of_many_columns_is_read_at_once(write):
    """What looks for a name among the others would take minutes."""
    names = [f"l{number}" for number in range(100_000)]
    path = write(f"text,{','.join(names)}\na,1{',0' * (len(names) - 1)}\n")
    assert read(path).labels == [("l0",)]
    assert read(path, labels=names).labels == [("l0",)]
