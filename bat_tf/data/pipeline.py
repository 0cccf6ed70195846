"""Examples → batches: the only tf.data code of the library.

Texts are tokenised once, before the first step, and kept as compact ragged integers.
What flows through tf.data is the index of an example: shuffled by a permutation that is
a function of (seed, epoch), grouped by length, gathered, padded and prefetched. A run
that was killed and resumed therefore sees the batches it would have seen anyway, and
the train step holds no string operation.

Examples are a dict of `tf.RaggedTensor`s and tensors, one row an example: what
`TextTokenizer.tokenize` gives, and beside it `TARGETS`, `WEIGHTS`, `TOKEN_STATES` or
`DOCUMENT_STATES`.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bat_tf._internal.validation import check_number
from bat_tf.text.ngrams import read_letters

# Texts and characters tokenised at a time: each time costs some hundredths of a second,
# and each character about a hundred bytes until it is done.
MAX_TEXTS, MAX_CHARACTERS = 4096, 2**22
TARGETS, WEIGHTS = "targets", "weights"
# What a frozen backbone says of each token, or of each text: see
# `training/backbone_cache.py`.
TOKEN_STATES, DOCUMENT_STATES = "backbone_states", "document_states"
LETTERS = "letters"  # of the whole text, see `text/ngrams.py`
WHOLE = (DOCUMENT_STATES, LETTERS)  # inputs that have no columns of tokens


class Share(NamedTuple):
    """Which rows of every batch are read: those of some replicas.

    Replica i of n has rows i, i + n, i + 2n …; `count` replicas from number `first` on
    get a batch each, one after the other. Rows of other replicas are not even gathered.
    """

    first: int = 0
    count: int = 1
    total: int = 1


def text_examples(texts, tokenizer, max_length, letters=0):
    """The first tokens of each text: a dict of RaggedTensors, one row a text.

    Args:
        texts: list of str.
        tokenizer: a `TextTokenizer`.
        max_length: tokens of a text, special ones included.
        letters: letters of a text, see `text.ngrams.read_letters`; 0 for none.
    """
    parts = []
    for rows in chunks(texts):
        # Half a character (a lone surrogate) has no UTF-8.
        chunk = [text.encode("utf-8", "replace") for text in texts[rows]]
        chunk = tf.constant(chunk, tf.string)
        parts.append(text_rows(chunk, tokenizer, max_length, letters))
    return joined(parts)


def text_rows(texts, tokenizer, max_length, letters=0):
    """As `text_examples`, of strings [B], also in a graph."""
    size = max_length - tokenizer.num_special
    tokens = tokenizer.tokenize(texts)
    rows = {name: values[:, :size] for name, values in tokens.items()}
    return rows | {LETTERS: read_letters(texts, letters)} if letters else rows


def chunks(texts, most=None):
    """Yields slices of the texts, none too large to be tokenised at once; one at least.

    >>> [rows.stop - rows.start for rows in chunks(["a title"] * 5000)]
    [4096, 904]
    """
    most, first, size = most or MAX_TEXTS, 0, 0
    for last, text in enumerate(texts):
        if last - first == most or (size and size + len(text) > MAX_CHARACTERS):
            yield slice(first, last)
            first, size = last, 0
        size += len(text)
    yield slice(first, len(texts))


def joined(parts):
    """Examples of several chunks, one below the other."""
    return {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}


def rows_of(examples, rows):
    """Some rows of examples."""
    return {name: tf.gather(values, rows) for name, values in examples.items()}


def token_names(examples):
    """What of examples is about tokens: neither targets nor states."""
    others = (TARGETS, WEIGHTS, TOKEN_STATES, *WHOLE)
    return [name for name in examples if name not in others]


def input_names(tokenizer):
    """The names of a model's inputs: what an encoder reads of the packed tokens."""
    return ("token_ids", "padding_mask", *tokenizer.features)


def lengths_of(examples, tokenizer):
    """How many tokens each example has, special tokens included."""
    return examples["token_ids"].row_lengths().numpy() + tokenizer.num_special


def pack_inputs(rows, tokenizer, length=None):
    """Rows of tokens as the dense inputs of a model.

    States of a backbone, if rows have them, become an input of float32.
    """
    tokens = {name: rows[name] for name in token_names(rows)}
    packed = tokenizer.pack(tokens, length)
    inputs = {name: packed[name] for name in input_names(tokenizer)}
    if TOKEN_STATES in rows:
        inputs[TOKEN_STATES] = tf.cast(rows[TOKEN_STATES].to_tensor(0), tf.float32)
    if DOCUMENT_STATES in rows:
        inputs[DOCUMENT_STATES] = tf.cast(rows[DOCUMENT_STATES], tf.float32)
    if LETTERS in rows:
        inputs[LETTERS] = rows[LETTERS].to_tensor(0)
    return inputs


def text_batches(examples, tokenizer, batch_size):
    """Yields (rows, inputs), shortest texts first."""
    order = np.argsort(lengths_of(examples, tokenizer), kind="stable")
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        yield rows, pack_inputs(rows_of(examples, rows), tokenizer)


def bucket_lengths(lengths, num_buckets=5):
    """Chooses the lengths that batches are padded to, from the lengths at hand.

    Few fixed lengths keep both padding and the number of compiled programs small.

    >>> bucket_lengths([3, 5, 9, 12, 30, 31, 60], num_buckets=3)
    [16, 32, 64]
    """
    shares = np.linspace(0, 1, num_buckets + 1)[1:]
    chosen = np.quantile(lengths, shares, method="higher") if len(lengths) else [1]
    return sorted({int(-(-max(length, 1) // 8) * 8) for length in chosen})


def batches(
    lengths, pack, batch_size, *, seed=None, epoch=None, shuffle=True, share=None
):
    """Rows of similar length, `batch_size` at a time, through `pack(rows, bound)`.

    Args:
        lengths: tokens of each example.
        pack: the function from indices of examples to a batch; `bound` is the largest
            length that the rows' bucket holds.
        batch_size: rows of a batch. The last batch of a length may have fewer.
        seed: None keeps the order (by length); a number shuffles.
        epoch: an integer `tf.Variable`; the order is a function of (seed, epoch).
        shuffle: False keeps the order of the examples, whatever the seed.
        share: a `Share` of every batch; None is all of it.

    Returns:
        A `tf.data.Dataset` of known cardinality.
    """
    check_number("batch_size", batch_size, low=1, integer=True)
    bounds = bucket_lengths(lengths)
    bucket = np.searchsorted(bounds, lengths)
    bucket_of, bound_of = tf.constant(bucket, tf.int64), tf.constant(bounds, tf.int32)
    grouped = _row_order(lengths, seed, epoch, shuffle).group_by_window(
        key_func=lambda row: bucket_of[row],
        reduce_func=lambda _, rows: rows.batch(batch_size),
        window_size=batch_size,
    )
    count = sum(-(-size // batch_size) for size in np.bincount(bucket).tolist())

    def whole(rows):
        return pack(rows, bound_of[bucket_of[rows[0]]])

    def part(rows, replica):
        own = rows[replica :: share.total]
        # A replica takes part in a step that has no row for it, with a batch of none.
        made = whole(tf.cond(tf.size(own) > 0, lambda: own, lambda: rows[:1]))
        return tf.nest.map_structure(lambda values: values[: tf.size(own)], made)

    if share is None:
        made = grouped.map(whole)
    else:
        replicas = tf.data.Dataset.range(share.first, share.first + share.count)
        made = grouped.flat_map(
            lambda rows: replicas.map(lambda replica: part(rows, replica))
        )
        count *= share.count
    # There is nothing to tune here, and TensorFlow 2.21 may wait for the tuner's thread
    # at the end of an epoch, for as long again as the epoch took.
    options = tf.data.Options()
    options.autotune.enabled = False
    made = made.apply(tf.data.experimental.assert_cardinality(count))
    return made.prefetch(2).with_options(options)


def _row_order(lengths, seed, epoch, shuffle):
    """Example indices: by length without a seed, else shuffled by (seed, epoch)."""
    if seed is None:
        return tf.data.Dataset.from_tensor_slices(np.argsort(lengths, kind="stable"))
    if not shuffle:
        return tf.data.Dataset.range(len(lengths))

    def shuffled(_):
        number = 0 if epoch is None else epoch.read_value()
        key = tf.stack([tf.constant(seed, tf.int64), tf.cast(number, tf.int64)])
        rows = tf.range(len(lengths), dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices(
            tf.random.experimental.stateless_shuffle(rows, key)
        )

    return tf.data.Dataset.range(1).flat_map(shuffled)


def one_row_at_least(inputs):
    """Adds a row of padding to a batch that has no row."""
    rows, length = tf.unstack(tf.shape(inputs["token_ids"]))
    return pad_inputs(inputs, tf.maximum(rows, 1), length)


def pad_inputs(inputs, num_rows, length):
    """Fills a batch up with rows and columns that have no tokens."""
    rows, columns = tf.unstack(tf.shape(inputs["token_ids"]))
    missing = [[0, num_rows - rows], [0, length - columns], [0, 0]]
    padded = {
        name: tf.pad(values, missing[: len(values.shape)])
        for name, values in inputs.items()
        if name not in WHOLE
    }
    whole = {name: inputs[name] for name in WHOLE if name in inputs}
    return padded | {name: tf.pad(x, [missing[0], [0, 0]]) for name, x in whole.items()}
