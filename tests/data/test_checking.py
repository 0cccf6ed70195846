import json
import re
import time

import pytest

from bat_tf.data import (
    Check,
    Description,
    Example,
    Finding,
    TextDataset,
    check,
    from_rows,
    read,
)


def kinds(found):
    return {finding.kind for finding in found.findings}


def one(found, kind):
    (finding,) = [finding for finding in found.findings if finding.kind == kind]
    return finding


WORDS = {"goal": "sport", "play": "art"}
TRAIN = [(f"{word} number {n}", [WORDS[word]]) for n in range(20) for word in WORDS]


def test_clean_data_have_no_findings():
    test = from_rows([("another goal", ["sport"]), ("another play", ["art"])])
    found = check(from_rows(TRAIN), test)
    assert kinds(found) <= {"rare label"} and found.clean
    assert isinstance(found, Check) and isinstance(found.findings[0], Finding)
    assert all(isinstance(each, Description) for each in found.descriptions)
    assert found.counts[0] == {"sport": 20, "art": 20}
    assert [each.counts["texts"] for each in found.descriptions] == [40, 2]


@pytest.mark.parametrize(
    ("rows", "kind", "line", "message"),
    [
        ([(" ", ["art"])], "empty text", 41, "the text is empty"),
        ([("Goal  number 3", ["art"])], "different targets", 41, "in line 7 .sport."),
        ([("Goal  number 3", ["sport"])], "repeated text", 41, "same as in line 7"),
        ([("x", ["Art"])], "similar names", 41, "'Art' .1 times. looks like 'art'"),
        ([("x", ["sprot"])], "similar names", 41, "'sprot' .* looks like 'sport'"),
        ([("x", ["sport "])], "similar names", 41, "'sport ' .* looks like 'sport'"),
        ([("word " * 300, ["art"])], "long texts", 41, "2.4 % .* the 256 tokens"),
        ([("語" * 300, ["art"])], "long texts", 41, "2.4 % .* the 256 tokens"),
        ([("x", ["news"])], "rare label", 41, "1 of 3 labels .* 'news'"),
    ],
)
def test_what_is_wrong_with_labelled_texts(rows, kind, line, message):
    finding = one(check(from_rows(TRAIN + rows)), kind)
    assert (finding.path, finding.line, finding.count) == ("rows", line, 1)
    assert re.search(message, finding.message) and finding.remedy


def test_names_of_few_letters_or_with_numbers_are_no_typos():
    names = ["cat", "car", "p12498", "p12499", "label 1", "label 2", "C++", "C#"]
    rows = [(f"{name} {n}", name) for name in names[::2] for n in range(30)]
    rows += [(f"{name} {n}", name) for name in names[1::2] for n in range(2)]
    assert "similar names" not in kinds(check(from_rows(rows)))


@pytest.mark.parametrize(
    ("text", "span", "kind"),
    [
        ("Zorv lamp", (0, 5), "blank in span"),
        ("Zorv lamp", (4, 9), "blank in span"),
        ("Zorv lamp", (0, 3), "cut word"),
        ("Zorv lamp", (6, 9), "cut word"),
        ("Größe 42", (0, 7), "cut word"),
        ("Zorv lamp", (0, 4), None),
        ("東京タワー", (0, 2), None),
        ("10kg", (0, 2), None),
        ("iPhone用", (0, 6), None),
    ],
)
def test_borders_of_spans(text, span, kind):
    data = TextDataset([Example(text, spans=[(*span, "x")], line=7)], "shop")
    found = check(data)
    assert kinds(found) == ({kind} if kind else set())
    assert not kind or one(found, kind).line == 7


def test_what_test_and_train_have_in_common_or_not():
    test = [("GOAL number 3", ["sport"]), ("a film", ["cinema"]), ("b", ["cinema"])]
    found = check(from_rows(TRAIN), from_rows(test, name="test"))
    leak = one(found, "text in both files")
    assert (leak.level, leak.path, leak.line, leak.count) == ("error", "test", 1, 1)
    assert "is also in rows, line 7" in leak.message and not found.clean
    unknown = one(found, "unknown name")
    assert "1 of 2 names are not in rows, such as 'cinema': 66.7 %" in unknown.message
    assert unknown.line == 2
    spans = from_rows([("Zorv", [(0, 4, "brand")])], name="spans")
    assert "other task" in kinds(check(from_rows(TRAIN), spans))
    german = from_rows([("das ist der Ball und die Lampe", ["sport"])], name="de")
    english = from_rows([("this is the ball and the lamp", ["sport"])], name="en")
    assert (
        one(check(english, german), "other language").message == "is de, but en is en."
    )


def test_faulty_rows_of_a_file_are_findings(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [
        {"text": "Zorv lamp", "spans": [[0, 4, "brand"]]},
        {"text": "Zorv lamps", "spans": [[0, 4, "brand"], [2, 6, "x"]]},
        {"text": 3, "spans": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = check(read(path, on_error="skip"))
    assert one(found, "overlapping spans").line == 2
    assert one(found, "faulty row").line == 3
    assert json.dumps(found.to_dict()) and found.findings[0].level == "error"
    path = tmp_path / "a.bio"
    path.write_text("a\tB-X\nb\tI-X\n\n" * 5 + "c\tO\nd\tI-X\n\n")
    assert one(check(read(path)), "untidy tags").level == "note"


def test_many_labels_are_compared_in_no_time():
    rows = [(f"text {n}", [f"name of {chr(97 + n % 26)}{n:x}"]) for n in range(20_000)]
    data = TextDataset(Example(text, labels=names) for text, names in rows)
    begun = time.process_time()
    check(data)
    assert time.process_time() - begun < 10  # 0.6 s on an idle core
