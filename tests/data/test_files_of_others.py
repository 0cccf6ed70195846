"""Files as other people write them, small: each is read right, or asked about."""

import bz2
import gzip
import json
import lzma
import zipfile
from itertools import pairwise

import pytest
import readers_table
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf._internal.validation import DataError
from bat_tf.data import FORMATS, AmbiguousFile, Example, TextDataset, describe, read


@pytest.fixture
def write(tmp_path):
    def write(content, name="rows.txt"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def marked(data):
    return [[(e.text[s:t], kind) for s, t, kind in e.spans] for e in data]


# === Every reader's own examples ===


@pytest.mark.parametrize(
    ("format", "name", "content"),
    [pytest.param(*row, id=row[1]) for row in readers_table.examples()],
)
def test_an_example_of_a_reader_is_recognised_by_what_it_holds(
    tmp_path, format, name, content
):
    for other, text in FORMATS[format].examples.items():
        (tmp_path / other).write_text(text, "utf-8")
    data = read(tmp_path / name)
    assert data.found["format"] == format and data.notices == []
    assert len(data) >= 2 and data.counts().total() >= 1
    assert data[0].line == {"numbered.txt": 2, "words.csv": 2}.get(name, data[0].line)
    if format == "xmc":
        return
    (tmp_path / "x.data").write_text(content, "utf-8")
    again = read(tmp_path / "x.data")
    assert list(again) == list(data) and again.found["format"] == format


def test_the_guide_has_the_table_of_the_readers():
    text = readers_table.GUIDE.read_text("utf-8")
    assert readers_table.BEGIN + readers_table.table() + readers_table.END in text, (
        "run: python tests/readers_table.py"
    )


# === JSON ===

SPANS = [
    {"text": "EU rejects", "label": [[0, 2, "ORG"]]},
    {"text": "EU rejects", "labels": [[0, 2, "ORG"]]},
    {
        "text": "EU rejects",
        "entities": [{"label": "ORG", "start_offset": 0} | END]
        if (END := {"end_offset": 2})
        else None,
        "relations": [],
        "Comments": [],
    },
    {"text": "EU rejects", "spans": [{"start": 0, "end": 2, "label": "ORG"}]},
    {
        "text": "EU rejects",
        "label": [{"start": 0, "end": 2, "text": "EU", "labels": ["ORG"]}],
    },
    {"text": "EU rejects", "entities": [{"name": "EU", "span": [0, 2], "type": "ORG"}]},
    {"text": "EU rejects", "entities": [[0, 2, "ORG"]]},
    {
        "text": "EU rejects",
        "entities": [{"start": 0, "end": 1, "entity": "ORG", "word": "EU"}],
    },
    {"text": "EU rejects", "label": {"ORG": {"EU": [[0, 1]]}}},
    {"text": "EU rejects", "entities": {"ORG": [[0, 2]]}},
    {"tokens": ["EU", "rejects"], "ner_tags": ["B-ORG", "O"]},
    {"words": ["EU", "rejects"], "labels": ["S-ORG", "O"], "id": 3},
    ["EU rejects", {"entities": [[0, 2, "ORG"]]}],
    {
        "data": {"text": "EU rejects"},
        "id": 1,
        "annotations": [
            {"was_cancelled": True, "result": []},
            {
                "result": [
                    {
                        "type": "labels",
                        "from_name": "label",
                        "value": {
                            "start": 0,
                            "end": 2,
                            "text": "EU",
                            "labels": ["ORG"],
                        },
                    }
                ]
            },
        ],
    },
]


# A pair stands in a list of its own: neither as a line of JSONL nor inside an object.
FORMS = [
    pytest.param(row, form, id=f"{number}-{form}")
    for number, row in enumerate(SPANS)
    for form in (["json"] if isinstance(row, list) else ["jsonl", "json", "wrapped"])
]


@pytest.mark.parametrize(("row", "form"), FORMS)
def test_spans_in_json_of_any_tool(write, row, form):
    if form == "jsonl":
        path = write(f"{json.dumps(row)}\n" * 2, "a.jsonl")
    else:
        rows = [row, row] if form == "json" else {"data": [row, row]}
        path = write(json.dumps(rows, indent=1), "a.json")
    data = read(path)
    assert data.texts == ["EU rejects"] * 2 and marked(data) == [[("EU", "ORG")]] * 2


LABELS = [
    {"text": "A goal", "labels": ["sport", "news"]},
    {"text": "A goal", "label": ["sport", "news"], "id": 3},
    {"sentence": "A goal", "tags": ["sport", "news"]},
    {"title": "A goal", "content": "", "categories": "sport|news", "price": 3},
    {
        "data": {"text": "A goal"},
        "annotations": [
            {"result": [{"type": "choices", "value": {"choices": ["sport", "news"]}}]}
        ],
    },
    {"text": "A goal", "sport": 1, "news": True, "art": 0},
    {"text": "A goal", "labels": {"sport": 1.0, "news": 0.9, "art": 0.1}},
]


@pytest.mark.parametrize("row", LABELS, ids=range(len(LABELS)))
def test_labels_in_json_of_any_tool(write, row):
    data = read(write(f"{json.dumps(row)}\n" * 2, "a.json"))
    assert data.texts == ["A goal"] * 2 and data.labels == [("sport", "news")] * 2


def test_numbers_get_their_names(write):
    rows = '{"tokens": ["EU", "rejects"], "ner_tags": [3, 0]}\n'
    path = write(rows, "a.jsonl")
    with pytest.raises(DataError, match="the tags in 'ner_tags' are numbers.*names="):
        read(path)
    names = ["O", "B-PER", "I-PER", "B-ORG"]
    assert marked(read(path, names=names)) == [[("EU", "ORG")]]
    file = write("\n".join(names), "names.txt")
    assert marked(read(path, names=str(file))) == [[("EU", "ORG")]]
    with pytest.raises(DataError, match="numbers from 0 to 1. Received: 3"):
        read(path, names=names[:2])
    path = write('{"text": "A goal", "label": 1}\n', "a.jsonl")
    assert read(path).labels == [("1",)]
    assert read(path, names=["art", "sport"]).labels == [("sport",)]


def test_flags_in_a_list_are_no_numbers_of_labels(write):
    rows = '{"text": "a", "labels": [0, 1, 1]}\n{"text": "b", "labels": [0, 0, 1]}\n'
    path = write(rows, "a.jsonl")
    assert read(path).labels == [("1", "2"), ("2",)]
    assert read(path, names=["x", "y", "z"]).labels == [("y", "z"), ("z",)]
    with pytest.raises(DataError, match="3 numbers, but 2 names"):
        read(path, names=["x", "y"])
    ids = '{"text": "a", "labels": [0, 1]}\n{"text": "b", "labels": [2, 1]}\n'
    assert read(write(ids, "a.jsonl")).labels == [("0", "1"), ("2", "1")]


def test_pairs_in_json(write):
    data = read(write('[["A goal", "sport"], ["A play", ["art"]]]', "a.json"))
    assert data.texts == ["A goal", "A play"] and data.labels == [("sport",), ("art",)]


def test_rows_with_spans_and_labels_are_asked_about(write):
    row = '{"text": "EU rejects", "entities": [[0, 2, "ORG"]], "intent": "say"}\n'
    path = write(row, "a.jsonl")
    with pytest.raises(AmbiguousFile, match="several columns may hold") as found:
        read(path)
    tasks = [read(path, **one.options).task for one in found.value.readings]
    assert tasks == ["spans", "labels"]


def test_columns_in_json_are_rows(write):
    for columns in (
        {"text": ["A goal", "A play"], "label": ["sport", "art"]},
        {"text": {"0": "A goal", "1": "A play"}, "label": {"0": "sport", "1": "art"}},
    ):
        data = read(write(json.dumps(columns), "a.json"))
        assert data.texts == ["A goal", "A play"] and data.kinds == []
        assert data.labels == [("sport",), ("art",)]


def test_rejected_rows_of_prodigy_are_left_out(write):
    row = '{"text": "EU", "label": "ORG", "answer": "%s", "_task_hash": 1}\n'
    data = read(write("".join(row % a for a in ("accept", "reject")), "a.jsonl"))
    assert len(data) == 1 and "answer is 'reject'" in str(data.skipped[0])


# === Tokens with tags ===


@pytest.mark.parametrize(
    ("content", "text", "spans"),
    [
        ("東京\tB-LOC\n駅\tI-LOC\nは\tO\nApple\tB-ORG\nStore\tI-ORG\nの\tO\n近く\tO\n",
         "東京駅はApple Storeの近く", [("東京駅", "LOC"), ("Apple Store", "ORG")]),
        ("我\tO\n在\tO\n北\tB-LOC\n京\tE-LOC\n", "我在北京", [("北京", "LOC")]),
        ("我们 O\n在 O\n北京 S-LOC\n2008 O\n年 O\n", "我们在北京2008年",
         [("北京", "LOC")]),
        ("ผม\tO\nไป\tO\nกรุงเทพ\tB-LOC\n", "ผมไปกรุงเทพ", [("กรุงเทพ", "LOC")]),
        ("서울\tB-LOC\n에\tO\n간다\tO\n", "서울 에 간다", [("서울", "LOC")]),
        ("Der O\nMünchner B-LOCderiv\nFlughafen O\n", "Der Münchner Flughafen",
         [("Münchner", "LOCderiv")]),
        # The tag first, as in the MIT restaurant queries.
        ("B-Rating\tgood\nI-Rating\tfood\nO\tnearby\n", "good food nearby",
         [("good food", "Rating")]),
        # Numbers, comments and a header beside the tokens.
        ("# id = 7\n1\tEU\tNNP\tB-ORG\n2\tsays\tVBZ\tO\n", "EU says", [("EU", "ORG")]),
        ("#\thttp://example.org\t[2009]\n1\tEU\tB-ORG\n2\tsays\tO\n", "EU says",
         [("EU", "ORG")]),
        ("token\tner\nEU\tB-ORG\nsays\tO\n", "EU says", [("EU", "ORG")]),
        # Chunks are no names; the last column is.
        ("EU NNP B-NP B-ORG\nsays VBZ B-VP O\n", "EU says", [("EU", "ORG")]),
        ("EU\tU-ORG\nNew\tB-LOC\nYork\tL-LOC\n", "EU New York",
         [("EU", "ORG"), ("New York", "LOC")]),
        ("## id-7\tEU says\nEU\tB-ORG\nsays\tO\n", "EU says", [("EU", "ORG")]),
        ("1\tEU\tname=B-ORG|SpaceAfter=No\n2\tsays\tname=O\n", "EU says",
         [("EU", "ORG")]),
        ("EU\tB_ORG\nsays\tO\n", "EU says", [("EU", "ORG")]),
        ("EU ORG\nsays O\nso O\n", "EU says so", [("EU", "ORG")]),
    ],
    ids=range(16),
)  # fmt: skip
def test_columns_of_tokens_and_tags(write, content, text, spans):
    header = content.startswith("token")
    data = read(write(content + "\n" + ("so\tO\n" if header else content)))
    assert data[0].text == text and marked(data)[0] == spans
    assert data.notices == [] and data.found["format"] == "conll"


def test_two_columns_of_the_same_kinds_are_asked_about(write):
    path = write("1\tUni\tB-ORG\tO\n2\tBonn\tI-ORG\tB-LOC\n3\tBonn\tB-LOC\tO\n\n" * 2)
    with pytest.raises(AmbiguousFile, match="several columns hold tags") as found:
        read(path)
    first, second = (read(path, **one.options) for one in found.value.readings)
    assert marked(first)[0] == [("Uni Bonn", "ORG"), ("Bonn", "LOC")]
    assert marked(second)[0] == [("Bonn", "LOC")]


def test_untidy_tags_are_repaired_with_a_notice(write, caplog):
    path = write("a\tB-X\nb\tI-X\n\n" * 5 + "c\tO\nd\tI-X\n\ne\tI-X\n\n", "a.bio")
    data = read(path)
    assert marked(data)[5:] == [[("d", "X")], [("e", "X")]]
    (notice,) = data.notices
    assert notice.startswith("2 sentences have tags that do not fit their scheme")
    assert "line 17: I-X continues nothing" in notice and notice in caplog.text
    assert notice in data.summary()
    with pytest.raises(DataError, match="line 17: I-X continues nothing"):
        read(path, strict=True)
    path = write("东\tB-X\n京\tM-X\n好\tO\n\n" + "东\tB-X\n京\tE-X\n\n" * 5, "a.bmes")
    assert marked(read(path))[0] == [("东京", "X")] and read(path).notices


# === Tables ===


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("text\tspam\tads\nA goal in time\t1\t0\nA play\t0\t1\n",
         [("spam",), ("ads",)]),
        ("A goal in time\t1\t0\nA play in town\t0\t1\n", [("2",), ("3",)]),
        ("text\ttags\nA goal\tx z\nA play\tz\n", [("x", "z"), ("z",)]),
        ('text,tags\nA goal,"x,y"\nA play,y\n', [("x", "y"), ("y",)]),
        ("text^label\nA goal^x|y\nA play^y\n", [("x", "y"), ("y",)]),
        ('text;labels\n"A ""late""; goal";x\n"A\nplay";y\n', [("x",), ("y",)]),
        ("Text;Kategorie\nEin Tor;x\nEin Spiel;y\n", [("x",), ("y",)]),
        ("文本,标签\n我们在北京,x\n他们在上海,y\n", [("x",), ("y",)]),
        ("beitrag,rubrik\nEin spätes Tor im Spiel,x\nEin Stück in Akten,y\n" * 1,
         [("x",), ("y",)]),
        ("text,topic_1,topic_2\nA goal,x,y\nA play,y,\n", [("x", "y"), ("y",)]),
        ("text,label,label_text\nA goal,0,x\nA play,1,y\n", [("x",), ("y",)]),
        ("1_!_x_!_A goal in the end\n2_!_y_!_A play in acts\n3_!_x_!_A race of ten\n",
         [("x",), ("y",)]),
        ("titles,summaries,terms\nSurvey of it,It is one of,\"['x', 'y']\"\n"
         "Now,The end of it,\"['y']\"\n", [("x", "y"), ("y",)]),
        ("यह एक अच्छा उत्पाद है\tसकारात्मक\nयह बहुत बुरा है और नहीं\tनकारात्मक\n"
         "यह भी अच्छा है\tसकारात्मक\n", [("सकारात्मक",), ("नकारात्मक",)]),
        ("text,x,y\nA goal,x,\nA play,,x\n", [("x",), ("y",)]),
        ("A goal in the end\t<http://a/x> <http://a/y>\nA play in acts\t<http://a/y>\n"
         "A race of ten\t<http://a/x>\n",
         [("<http://a/x>", "<http://a/y>"), ("<http://a/y>",)]),
        ("id,text,labels\n1,A goal,<x><y>\n2,A play,<y>\n", [("x", "y"), ("y",)]),
        ("4,A goal in the end\n3,A play in two acts\n4,A race of ten\n",
         [("4",), ("3",)]),
    ],
    ids=range(18),
)  # fmt: skip
def test_tables_of_any_form(write, content, labels):
    data = read(write(content))
    assert data.labels[:2] == labels and data.found["format"] in ("csv", "tsv")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ('text,label\nA goal,"a,b"\nA play,c\n', "may be one label or 2"),
        ("text,category,topic\nA goal,x,p\nA play,y,q\n", "several columns may hold"),
        ("text,kind,spam\nA goal,x,1\nA play,y,0\n", "several columns may hold"),
        ("Late goal,x\nA play in acts,y\nA race of ten,z\n", "the first row may name"),
        (
            "p,q,label\nA goal in the end,A new day of,x\nA play in acts,Old as it,y\n",
            "several columns look like texts",
        ),
    ],
    ids=range(5),
)  # fmt: skip
def test_tables_that_read_in_two_ways_are_asked_about(write, content, what):
    path = write(content)
    with pytest.raises(AmbiguousFile, match=what) as found:
        read(path)
    readings = found.value.readings
    assert len(readings) >= 2 and all(str(one) in str(found.value) for one in readings)
    read_so = [list(read(path, **one.options)) for one in readings]
    assert all(one != other for one, other in pairwise(read_so))


def test_tags_in_a_cell(write):
    for tags in ('"B-ORG,O"', "B-ORG O", "\"['B-ORG', 'O']\""):
        path = write(f"id,sentence,pos,tags\n1,EU says,N V,{tags}\n", "a.csv")
        assert marked(read(path)) == [[("EU", "ORG")]]


def test_a_title_alone_is_asked_about_beside_longer_texts(write):
    story = "A bartender is working at a saloon, and so on for a while"
    rows = f"Late goal\t{story}\tx\nPlay\t{story}!\ty\n"
    path = write(f"title\thandling\tgenre\n{rows}", "a.tsv")
    with pytest.raises(AmbiguousFile, match="several columns look like texts"):
        read(path)
    assert read(path, text="handling").texts[0] == story


def test_spans_in_a_cell(write):
    path = write('text,entities\nEU says,"[[0, 2, ""ORG""]]"\nSo,[]\n', "a.csv")
    assert marked(read(path)) == [[("EU", "ORG")], []]


def test_other_files_are_named(write):
    for content, what in (
        (b"PAR1\0\1", "Parquet"),
        (b"<a>\n<b>", "XML or HTML"),
        (b"2 5 3\n0,1 0:1.0 3:2.0\n", "numbers of features"),
    ):
        with pytest.raises(
            ValueError, match=f"tell what it holds. It looks like {what}"
        ):
            read(write(content, "a.bin"))


# === Packed, and fastText ===


@pytest.mark.parametrize("format", ["conll", "csv", "jsonl", "fasttext"])
@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2", ".zip"])
def test_every_packed_file(tmp_path, format, ending):
    name, content = next(iter(FORMATS[format].examples.items()))
    plain = tmp_path / name
    plain.write_text(content, "utf-8")
    packed = tmp_path / f"{name}{ending}"
    if ending == ".zip":
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(name, content)
    else:
        pack = {".gz": gzip, ".xz": lzma, ".bz2": bz2}[ending].compress
        packed.write_bytes(pack(content.encode()))
    assert list(read(packed)) == list(read(plain))


labels = st.lists(
    st.text(st.characters(categories=["L", "N"]), min_size=1), unique=True, max_size=3
)
words = st.text(st.characters(categories=["L", "N", "Zs"]), max_size=30)


@settings(deadline=None)
@given(st.lists(st.tuples(words, labels.filter(bool)), min_size=1))
def test_what_fasttext_writes_is_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "written.ft"
    lines = [" ".join([f"__label__{x}" for x in row[1]] + [row[0]]) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    data = read(path)
    assert data.texts == [text.strip() for text, _ in rows]
    assert data.labels == [tuple(names) for _, names in rows]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=3)


@settings(deadline=None)
@given(st.lists(st.tuples(texts, st.sampled_from(["a", "b c", "d,e"])), min_size=1))
def test_spans_that_are_saved_are_read_back(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "saved.jsonl"
    data = TextDataset(Example(text, spans=[(1, 3, kind)]) for text, kind in rows)
    data.save(path)
    assert list(read(path)) == list(data)


def test_a_description_says_how_a_file_was_read(write):
    path = write(
        "text\tspam\nDie Lampe ist nicht im Haus\t1\nDas Tor und der Ball\t0\n"
    )
    about = describe(path)
    assert (about.task, about.format, about.language) == ("labels", "tsv", "de")
    assert about.counts == {"texts": 2, "marked": 1, "targets": 1, "names": 1}
    assert str(about).splitlines()[:2] == [
        "Read as: labels of texts from tsv, de, Latin script, utf-8",
        "  text: text; labels: spam; delimiter: tab",
    ]
    assert "'Die Lampe ist nicht im Haus' → spam" in str(about)
    assert json.dumps(about.to_dict()) and about.examples[0]["line"] == 2
    spans = describe("product_pages/ja", split="valid")
    assert (spans.task, spans.language, spans.format) == ("spans", "ja", "")
