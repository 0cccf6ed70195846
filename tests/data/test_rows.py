import numpy as np
import pytest

from bat_tf._internal.validation import DataError
from bat_tf.data import AmbiguousFile, Example, from_rows

GOAL = [Example("A goal", labels=["sport"]), Example("A play", labels=["art", "new"])]


class Frame:
    """As much of pandas' DataFrame as is asked for."""

    def __init__(self, columns):
        self.columns, self._values = list(columns), list(columns.values())

    def itertuples(self, index, name):
        assert index is False and name is None
        return zip(*self._values, strict=True)


class Column:
    """A column of pandas."""

    def __init__(self, values):
        self._values = values

    def to_list(self):
        return list(self._values)


TEXTS, LABELS = ["A goal", "A play"], [["sport"], ["art", "new"]]
FORMS = {
    "dicts": ([{"text": t, "labels": x} for t, x in zip(TEXTS, LABELS, strict=True)],),
    "pairs": (list(zip(TEXTS, LABELS, strict=True)),),
    "listed pairs": ([list(row) for row in zip(TEXTS, LABELS, strict=True)],),
    "two lists": (TEXTS, LABELS),
    "arrays": (
        np.array(TEXTS),
        np.array([["sport", ""], ["art", "new"]])[:, :].tolist(),
    ),
    "columns": ({"text": TEXTS, "labels": LABELS},),
    "a frame": (Frame({"text": TEXTS, "labels": [np.array(x) for x in LABELS]}),),
    "a frame of flags": (
        Frame({"text": TEXTS, "sport": [1, 0], "art": [0, 1], "new": [False, True]}),
    ),
    "two columns": (Column(TEXTS), Column(LABELS)),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_any_form(form):
    if form == "arrays":
        texts, rows = FORMS[form]
        rows = [[name for name in row if name] for row in rows]
        data = from_rows(texts, rows)
    else:
        data = from_rows(*FORMS[form])
    assert list(data) == GOAL and from_rows(data) is data
    assert [example.line for example in data] == [1, 2]


def test_single_labels_spans_tokens_and_spacy():
    assert from_rows([("A goal", "New York"), ("b", "Rome")]).labels[0] == ("New York",)
    assert from_rows(TEXTS, ["a b", "c"]).labels == [("a b",), ("c",)]
    assert from_rows(TEXTS, np.array([1, 0])).labels == [("1",), ("0",)]
    assert from_rows(TEXTS, [1, 0], names=["x", "y"]).labels == [("y",), ("x",)]
    data = from_rows(["Zorv lamp"], [[(0, 4, "brand")]])
    assert data.spans == [((0, 4, "brand"),)]
    for rows in (
        ([["Zorv", "lamp"]], [["B-brand", "O"]]),
        ([(["Zorv", "lamp"], ["B-brand", "O"])],),
        ([("Zorv lamp", {"entities": [(0, 4, "brand")]})],),
    ):
        assert list(from_rows(*rows)) == list(data)
    assert from_rows([("A goal", {"cats": {"x": 1, "y": 0}})]).labels == [("x",)]


class ClassLabels:
    feature = type("Feature", (), {"names": ["O", "B-ORG"]})


class HuggingFace(list):
    column_names = ["tokens", "ner_tags"]
    features = {"tokens": object(), "ner_tags": ClassLabels()}


def test_a_data_set_of_hugging_face_names_its_numbers():
    rows = HuggingFace([{"tokens": ["EU", "says"], "ner_tags": [1, 0]}])
    assert from_rows(rows).spans == [((0, 2, "ORG"),)]
    with pytest.raises(TypeError, match=r'one of its parts, as in rows\["train"\]'):
        from_rows({"train": rows})


def test_what_cannot_be_rows_is_a_sentence():
    with pytest.raises(DataError, match="rows, line 2: the text must be a string"):
        from_rows([("a", "x"), (None, "x")])
    data = from_rows([("a", "x"), (None, "x")], on_error="skip", name="mine")
    assert len(data) == 1 and data.skipped[0].line == 2 and data.name == "mine"
    with pytest.raises(DataError, match="expected a dict .* Received: 3"):
        from_rows([3])
    with pytest.raises(TypeError, match="`rows` must be a list of rows"):
        from_rows("rows.csv")
    with pytest.raises(
        ValueError, match="`targets` must be as long as `rows`, 2 texts"
    ):
        from_rows(TEXTS, ["x"])
    with pytest.raises(TypeError, match="rows have no option 'delimiter'"):
        from_rows(TEXTS, LABELS, delimiter=",")
    with pytest.raises(DataError, match="holds no examples"):
        from_rows([])
    row = {"text": "EU", "spans": [[0, 2, "ORG"]], "labels": ["x"]}
    with pytest.raises(AmbiguousFile, match="labels='spans'"):
        from_rows([row])
    assert from_rows([row], labels="labels").labels == [("x",)]
