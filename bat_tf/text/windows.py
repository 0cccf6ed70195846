"""Long texts in overlapping windows, and what was said of the windows put together."""

from typing import NamedTuple

import tensorflow as tf

from bat_tf._internal.validation import check_number
from bat_tf.text.splitting import first_of_row


class Windows(NamedTuple):
    """Which windows belong to which text, and where to read each token.

    Attributes:
        rows: int64 [N], the text of each window.
        offsets: int64 [N], which token of the text is the window's first.
        token_windows: int64 [tokens], the window to read each token from.
        token_places: int64 [tokens], its place in that window.
        row_splits: int64 [B + 1], where the tokens of each text begin and end.
    """

    rows: tf.Tensor
    offsets: tf.Tensor
    token_windows: tf.Tensor
    token_places: tf.Tensor
    row_splits: tf.Tensor


def split(tokens, size, overlap):
    """Cuts tokenised texts into overlapping windows.

    A text that fits is one window, an empty one too. Windows begin every
    `size - overlap` tokens; where two meet, both are cut back to whole words. Only a
    word of more than `overlap + 1` tokens may be cut.

    Args:
        tokens: what `TextTokenizer.tokenize` returns.
        size: the most tokens in a window, special tokens not counted.
        overlap: how many tokens neighbouring windows share at most; no more than half
            of `size`. Each token is read where half of them or more are around it.

    Returns:
        dict like `tokens`, with a row for each window, and `Windows`, for `merge`.
        Offsets and word ids stay those of the whole text.

    Example:
        >>> from bat_tf.text import TextTokenizer
        >>> tokenizer = TextTokenizer("characters", list("abcdefg"))
        >>> windows, places = split(tokenizer.tokenize(["abcdefg", "ab"]), 4, 2)
        >>> windows["token_ids"].to_list()
        [[2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8], [2, 3]]
        >>> places.rows.numpy().tolist()
        [0, 0, 0, 1]
    """
    check_number("size", size, low=1, integer=True)
    check_number("overlap", overlap, low=0, high=size // 2, integer=True)
    word_ids = tokens["word_ids"]
    splits = tf.cast(word_ids.row_splits, tf.int64)
    stride = size - overlap
    counts = 1 + tf.maximum(splits[1:] - splits[:-1] - overlap - 1, 0) // stride
    rows = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    numbers = tf.ragged.range(counts).values
    first, last = numbers == 0, numbers == tf.gather(counts, rows) - 1
    # Windows k - 1 and k meet from where k would begin to where k - 1 would end. There
    # k begins with the first word, and k - 1 ends before the last.
    low = tf.gather(splits, rows) + numbers * stride
    bounds = _word_bounds(word_ids)
    begin, end = _meeting(bounds, low, low + overlap)
    begins = tf.where(first, tf.gather(splits, rows), begin)
    ends = tf.where(last, tf.gather(splits, rows + 1), tf.roll(end, -1, 0))
    places = tf.ragged.range(begins, ends)
    windows = {
        name: places.with_values(tf.gather(values.values, places.values))
        for name, values in tokens.items()
    }
    # Up to the middle of the meeting, a token is farther from the edge of the left one.
    middle = tf.where(first, begins, (begins + tf.roll(ends, 1, 0) + 1) // 2)
    reading = tf.ragged.range(middle, tf.where(last, ends, tf.roll(middle, -1, 0)))
    token_windows = reading.value_rowids()
    return windows, Windows(
        rows=rows,
        offsets=begins - tf.gather(splits, rows),
        token_windows=token_windows,
        token_places=reading.values - tf.gather(begins, token_windows),
        row_splits=splits,
    )


def _word_bounds(word_ids):
    """Where words begin in the flat tokens, and where the last one ends."""
    begins = first_of_row(word_ids.values) | first_of_row(word_ids.value_rowids())
    return tf.concat([tf.where(begins)[:, 0], [tf.size(begins, tf.int64)]], 0)


def _meeting(bounds, low, high):
    """The first and last word bound in [low, high], or `low` and `high` if none is."""
    begin = tf.gather(bounds, tf.searchsorted(bounds, low))
    place = tf.searchsorted(bounds, high, side="right") - 1
    end = tf.gather(bounds, tf.maximum(place, 0))
    whole = begin <= end
    return tf.where(whole, begin, low), tf.where(whole, end, high)


def merge(values, windows, num_special=0):
    """Puts values of windows together into values of texts.

    Args:
        values: [N, T, ...], one value for each token of the packed windows.
        windows: `Windows` that `split` returned.
        num_special: `TextTokenizer.num_special`; the first special token of each window
            stands before its tokens.

    Returns:
        `tf.RaggedTensor` [B, None, ...]: of each token, the value from the window in
        which it is farthest from an edge.

    Example:
        >>> from bat_tf.text import TextTokenizer
        >>> tokenizer = TextTokenizer("characters", list("abcdefg"))
        >>> windows, places = split(tokenizer.tokenize(["abcdefg", "ab"]), 4, 2)
        >>> merge(tokenizer.pack(windows)["token_ids"], places).to_list()
        [[2, 3, 4, 5, 6, 7, 8], [2, 3]]
    """
    check_number("num_special", num_special, low=0, high=2, integer=True)
    before = 1 if num_special else 0
    indices = tf.stack([windows.token_windows, windows.token_places + before], 1)
    return tf.RaggedTensor.from_row_splits(
        tf.gather_nd(values, indices), windows.row_splits, validate=False
    )
