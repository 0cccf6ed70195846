"""N-grams against a spelt-out count in plain Python."""

import re
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf.text.ngrams import common_keys, counted, ngram_keys, read_letters

TEXTS = ["Red shoes, red", "", "a", "東京 へ a", "the red shoes of Zoë-Ann"]


def words_of(text):
    """Words as the tokenizer has them: letters and digits, or one other character."""
    return re.findall(r"[^\W\u3040-\u9fff]+|[^\s]", text.lower())


def word_ngrams(text, most):
    words = words_of(text)
    return Counter(
        tuple(words[i : i + n])
        for n in range(1, most + 1)
        for i in range(len(words) - n + 1)
    )


def character_ngrams(text, most):
    """Blanks only at the ends; those between two words belong to both."""
    found = Counter()
    spelt = "".join(f" {word}" for word in words_of(text)) + " "
    for n in range(2, most + 1):
        for i in range(len(spelt) - n + 1):
            part = spelt[i : i + n]
            if " " not in part[1:-1] and part.strip():
                found[part] += 1
    return found if words_of(text) else Counter()


def counts_of(rows, keys, row):
    """How often each n-gram of a row occurs, whatever it is called."""
    own = keys[rows == row]
    return sorted(np.unique(own, return_counts=True)[1].tolist())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_words_are_counted_as_in_plain_python(most):
    letters = read_letters(TEXTS).to_tensor()
    ((rows, keys),) = ngram_keys(letters, most, 0)
    for row, text in enumerate(TEXTS):
        expected = sorted(word_ngrams(text, most).values())
        assert counts_of(rows.numpy(), keys.numpy(), row) == expected, text


@pytest.mark.parametrize("most", [2, 3, 5])
def test_characters_are_counted_as_in_plain_python(most):
    letters = read_letters(TEXTS).to_tensor()
    ((rows, keys),) = ngram_keys(letters, 0, most)
    for row, text in enumerate(TEXTS):
        expected = sorted(character_ngrams(text, most).values())
        assert counts_of(rows.numpy(), keys.numpy(), row) == expected, text


@settings(max_examples=20)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_company_and_padding_change_nothing(texts):
    together = read_letters(texts).to_tensor()
    padded = tf.pad(together, [[0, 0], [0, 3]])
    for group in range(2):
        rows, keys = ngram_keys(padded, 2, 3)[group]
        for row, text in enumerate(texts):
            _, own = ngram_keys(read_letters([text]).to_tensor(), 2, 3)[group]
            found = keys.numpy()[rows.numpy() == row]
            assert sorted(found.tolist()) == sorted(own.numpy().tolist())


def test_the_same_ngram_has_the_same_key_anywhere():
    letters = read_letters(["red shoes", "Old RED shoes!"]).to_tensor()
    (rows, keys), (_, _) = ngram_keys(letters, 2, 3)
    rows, keys = rows.numpy(), keys.numpy()
    assert set(keys[rows == 0]) < set(keys[rows == 1])


def test_different_ngrams_have_different_keys():
    words = [f"word{i} {i} x{i * 7919} b a ab ba" for i in range(5000)]
    (_, keys), (_, parts) = ngram_keys(read_letters(words).to_tensor(), 2, 4)
    spelt = set().union(*(word_ngrams(text, 2) for text in words))
    assert len(set(keys.numpy())) == len(spelt)
    spelt = set().union(*(character_ngrams(text, 4) for text in words))
    assert len(set(parts.numpy())) == len(spelt)


def test_common_ngrams_are_those_of_enough_texts():
    letters = read_letters(TEXTS)
    batches = [letters[:2].to_tensor(), letters[2:].to_tensor()]
    keys, groups, counts = common_keys(batches, 2, 0, 2, None)
    texts = Counter(gram for text in TEXTS for gram in word_ngrams(text, 2))
    assert sorted(counts.tolist()) == sorted(n for n in texts.values() if n > 1)
    assert keys.tolist() == sorted(set(keys.tolist())) and not groups.any()
    few, _, most = common_keys(batches, 2, 3, 2, 3)
    assert len(few) == 3 and most.min() >= np.sort(counts)[-3]


def test_unknown_ngrams_are_left_out():
    rows, ids, counts = counted(
        tf.constant([0, 0, 1, 0], tf.int64),
        tf.constant([7, 5, 5, 7], tf.int64),
        tf.constant([2, 7], tf.int64),
    )
    assert [x.numpy().tolist() for x in (rows, ids, counts)] == [[0], [1], [2]]


def test_only_so_many_letters_are_read():
    assert read_letters(["some long text"], 6).row_lengths().numpy() == [6]
