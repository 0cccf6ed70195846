"""Windows over long texts."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf.text import TextTokenizer
from bat_tf.text.windows import merge, split


def tokens_of(word_lengths):
    """Tokens of texts, given how many pieces each word of each text has."""
    word_ids = [
        [word for word, length in enumerate(row) for _ in range(length)]
        for row in word_lengths
    ]
    word_ids = tf.ragged.constant(word_ids, tf.int32, ragged_rank=1)
    numbers = tf.range(tf.size(word_ids.values), dtype=tf.int32)
    return {"token_ids": word_ids.with_values(numbers), "word_ids": word_ids}


@functools.cache
def windows_of(size, overlap):
    """`split` and `merge`, traced once for each pair of settings."""
    row = tf.RaggedTensorSpec([None, None], tf.int32, 1)

    @tf.function(input_signature=[{"token_ids": row, "word_ids": row}], autograph=False)
    def there_and_back(tokens):
        windows, places = split(tokens, size, overlap)
        return windows, places, merge(windows["token_ids"].to_tensor(-1), places)

    return there_and_back


@st.composite
def settings_of(draw):
    size = draw(st.sampled_from([1, 4, 9]))
    return size, draw(st.sampled_from([0, size // 2]))


TEXTS = st.lists(
    st.lists(st.integers(1, 4) | st.integers(5, 30), max_size=12),
    min_size=1,
    max_size=5,
)


@settings(max_examples=25, deadline=None)
@given(TEXTS, settings_of())
def test_windows_cover_texts_and_merge_gives_them_back(texts, sizes):
    size, overlap = sizes
    tokens = tokens_of(texts)
    windows, places, merged = windows_of(size, overlap)(tokens)
    rows = windows["token_ids"].to_list()
    whole = tokens["token_ids"].to_list()
    assert max(map(len, rows)) <= size
    for window, row, offset in zip(rows, places.rows, places.offsets, strict=True):
        assert window == whole[row][offset : int(offset) + len(window)]
    assert merged.to_list() == whole


@settings(max_examples=25, deadline=None)
@given(TEXTS, settings_of())
def test_each_token_is_read_where_it_is_farthest_from_an_edge(texts, sizes):
    tokens = tokens_of(texts)
    windows, places, _ = windows_of(*sizes)(tokens)
    lengths = windows["token_ids"].row_lengths().numpy()
    ends_of_text = tokens["token_ids"].row_lengths().numpy()[places.rows.numpy()]
    starts = places.offsets.numpy()
    read = places.token_windows.numpy()
    offsets = places.token_places.numpy()
    for window, place in zip(read, offsets, strict=True):
        row, token = places.rows.numpy()[window], starts[window] + place

        def distance(other, row=row, token=token):
            """How far the token is from the nearest edge inside the text."""
            if places.rows.numpy()[other] != row:
                return -1
            left, right = (
                token - starts[other],
                starts[other] + lengths[other] - token - 1,
            )
            if min(left, right) < 0:
                return -1
            left = left if starts[other] else np.inf
            inner = starts[other] + lengths[other] < ends_of_text[other]
            return min(left, right if inner else np.inf)

        assert distance(window) == max(distance(other) for other in range(len(starts)))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 4), max_size=15), min_size=1, max_size=4),
    st.sampled_from([7, 10]),
)
def test_words_no_longer_than_the_overlap_and_one_are_never_cut(texts, size):
    tokens = tokens_of(texts)
    windows, places, _ = windows_of(size, 3)(tokens)
    pieces = {
        (row, word): length
        for row, lengths in enumerate(texts)
        for word, length in enumerate(lengths)
    }
    for row, words in zip(
        places.rows.numpy(), windows["word_ids"].to_list(), strict=True
    ):
        for word in set(words):
            assert words.count(word) == pieces[row, word]


def test_an_empty_text_is_an_empty_window():
    windows, places = split(tokens_of([[], [2], []]), 4, 1)
    assert windows["token_ids"].to_list() == [[], [0, 1], []]
    assert places.rows.numpy().tolist() == [0, 1, 2]
    assert merge(tf.zeros([3, 2, 5]), places).shape == [3, None, 5]
    windows, places = split(tokenizer_of("words").tokenize([]), 4, 1)
    assert windows["token_ids"].shape[0] == places.rows.shape[0] == 0


@functools.cache
def tokenizer_of(kind):
    tokenizer = TextTokenizer(kind, vocabulary_size=40, features=("case",))
    tokenizer.adapt(["waterproof water phones"])
    return tokenizer


@pytest.mark.parametrize("kind", ["words", "wordpiece"])
def test_through_pack_in_a_graph(kind):
    tokenizer = tokenizer_of(kind)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def there_and_back(texts):
        windows, places = split(tokenizer.tokenize(texts), 6, 2)
        packed = tokenizer.pack(windows, length=6 + tokenizer.num_special)
        del packed["padding_mask"]
        return {
            key: merge(values, places, tokenizer.num_special)
            for key, values in packed.items()
        }

    texts = ["waterproof Phones water phonesproof water", "", "water"]
    expected = tokenizer.tokenize(texts)
    found = there_and_back(tf.constant(texts))
    assert {key: value.to_list() for key, value in found.items()} == {
        key: value.to_list() for key, value in expected.items()
    }


@pytest.mark.parametrize(
    ("size", "overlap", "message"),
    [
        (0, 0, "`size` must be an integer >= 1"),
        (8, 5, "`overlap` must be an integer >= 0 and <= 4. Received: 5"),
        (8, -1, "`overlap` must be an integer >= 0"),
    ],
)
def test_bad_sizes(size, overlap, message):
    with pytest.raises(ValueError, match=message):
        split(tokens_of([[1]]), size, overlap)
