"""Counting, choosing and finding tokens."""

import pytest
import tensorflow as tf

from bat_tf.text.vocabulary import (
    Lookup,
    as_batch,
    check_vocabulary,
    count_keys,
    most_frequent,
)


def blank_words(texts):
    words, _, counts = tf.unique_with_counts(tf.strings.split(texts).values)
    return words, counts


def test_counts_go_on_over_batches_and_trace_once():
    traces = []

    def watched(texts):
        traces.append(texts)
        return blank_words(texts)

    texts = (f"a {number % 2}" for number in range(5000))
    assert count_keys(watched, texts) == {"a": 5000, "0": 2500, "1": 2500}
    assert len(traces) == 1


def test_long_texts_come_in_small_batches():
    def counted(texts):
        tf.debugging.assert_less(tf.size(texts), 100)
        return blank_words(texts)

    assert count_keys(counted, ("a " * 10_000 for _ in range(200))) == {"a": 2_000_000}


@pytest.mark.parametrize(
    "texts",
    [
        ["a b", "a"],
        [b"a b", b"a"],
        tf.data.Dataset.from_tensor_slices(["a b", "a"]),
        tf.data.Dataset.from_tensor_slices(["a b", "a"]).batch(2),
        (text for text in ("a b", "a")),
    ],
)
def test_texts_come_in_any_iterable(texts):
    assert count_keys(blank_words, texts) == {"a": 2, "b": 1}


def test_most_frequent_breaks_ties_by_code_points():
    counts = {"b": 2, "é": 2, "a": 2, "z": 3, "q": 1}
    assert most_frequent(counts, 4, 1, ()) == ["z", "a", "b", "é"]
    assert most_frequent(counts, 9, 2, ("a",)) == ["z", "b", "é"]
    with pytest.raises(ValueError, match=r"`min_count` must be at most 3.*Received: 4"):
        most_frequent(counts, 9, 4, ())


def test_lookup_finds_every_token_and_nothing_else():
    tokens = ["", "a", "b c", "\n", "東", "\x00", *(f"w{n}" for n in range(500))]
    lookup = Lookup(tokens, first_id=7, unknown_id=3)
    found = lookup(tf.constant([*reversed(tokens), "w500", "A", " "])).numpy().tolist()
    assert found == [*range(6 + len(tokens), 6, -1), 3, 3, 3]


@pytest.mark.parametrize(
    ("vocabulary", "error", "message"),
    [
        (["[PAD]"], ValueError, "must be a list of tokens"),
        (["a", "b"], ValueError, r"without \[PAD\]"),
        (["[PAD]", "a", "a"], ValueError, "'a' 2 times"),
        (["[PAD]", 3], TypeError, "list of str. Received: 3"),
    ],
)
def test_bad_vocabulary(vocabulary, error, message):
    with pytest.raises(error, match=message):
        check_vocabulary(vocabulary, ("[PAD]",))


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("abc", TypeError, "Put it into a list"),
        ([1], TypeError, "Received: 1"),
        ([], ValueError, "0 texts without a token"),
        (["", " "], ValueError, "2 texts without a token"),
    ],
)
def test_bad_texts_to_count(texts, error, message):
    with pytest.raises(error, match=message):
        count_keys(blank_words, texts)


def test_batches_of_texts():
    assert as_batch(["a", b"\xff", "\ud800"]).numpy().tolist() == [b"a", b"\xff", b"?"]
    assert as_batch(tf.constant([["a"], ["b"]])).shape == [2]
    with pytest.raises(ValueError, match="Put a single text into a list"):
        as_batch("abc")
    with pytest.raises(TypeError, match="`texts` must be a list, array or tensor"):
        as_batch([1, 2])
