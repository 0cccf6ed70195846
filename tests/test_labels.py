import json

import keras
import numpy as np
import pytest

from bat_tf.data import LabelSpace


def space():
    return LabelSpace.fit(
        [["sport", "news"], ["news", "news"], []], names=["sport", "art", "news"]
    )


def test_fit_sorts_counts_and_finds_what_is_missing():
    labels = space()
    assert labels.names == ("art", "news", "sport")
    assert labels.counts.tolist() == [0, 2, 1] and labels.counts.dtype == np.int64
    assert labels.num_examples == 3
    assert labels.missing == ("art",)
    assert len(labels) == 3 and "art" in labels and "arts" not in labels


def test_ids_do_not_depend_on_the_order_of_the_data():
    rows = [["c"], ["a", "b"], ["b"]]
    assert LabelSpace.fit(rows) == LabelSpace.fit(reversed(rows))
    assert LabelSpace.fit(iter(rows)).ids(["c", "a"]) == [2, 0]


def test_the_constructor_keeps_the_order_given():
    labels = LabelSpace(["zero", "one", "two"])
    assert labels.ids(["two", "zero"]) == [2, 0]
    assert labels.counts is None and labels.missing == ()


def test_an_unknown_label_names_similar_ones_and_a_remedy():
    with pytest.raises(ValueError, match=r"no label 'sprot' .* Did you mean 'sport'\?"):
        space().id_of("sprot")
    with pytest.raises(ValueError, match="Correct the data, or make a new LabelSpace"):
        space().ids(["news", "山"])
    with pytest.raises(ValueError, match="no label 'opera'"):
        LabelSpace.fit([["opera"]], names=["news"])


@pytest.mark.parametrize(
    "arguments, error, reason",
    [
        ([["b", "a", "b"]], ValueError, r"Received more than once: \['b'\]"),
        (["news"], TypeError, 'Write \\["news"\\], not "news"'),
        ([["news", 3]], TypeError, "`names` must be a list of names"),
        ([["news", ""]], TypeError, "`names` must be a list of names"),
        ([["a", "b"], [1]], ValueError, "`counts` must be 2 counts >= 0"),
        ([["a"], [-1]], ValueError, "`counts` must be 1 counts >= 0"),
        ([["a"], [1], -5], ValueError, "`num_examples` must be an integer >= 0"),
    ],
)
def test_bad_arguments_get_a_sentence(arguments, error, reason):
    with pytest.raises(error, match=reason):
        LabelSpace(*arguments)


def test_fit_refuses_names_where_rows_of_names_belong():
    with pytest.raises(TypeError, match="`labels` must be a list of names"):
        LabelSpace.fit(["sport", "news"])


def test_save_and_load(tmp_path):
    path = tmp_path / "labels.json"
    space().save(path)
    assert LabelSpace.load(path) == space()
    assert LabelSpace.load(path) != LabelSpace(["art", "news", "sport"])


@pytest.mark.parametrize("content", ["[1, 2]", '{"labels": []}', "{", '{"names": [3]}'])
def test_a_file_that_holds_something_else_is_a_sentence(tmp_path, content):
    path = tmp_path / "labels.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"labels\.json does not hold a LabelSpace"):
        LabelSpace.load(path)


def test_keras_serialises_it():
    config = keras.saving.serialize_keras_object(space())
    assert config["registered_name"] == "bat_tf>LabelSpace"
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again == space()
    assert again.ids(["sport"]) == [2]
