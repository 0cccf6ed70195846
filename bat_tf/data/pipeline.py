"""Examples → batches: the only tf.data code of the library.

Texts are tokenised once, before the first step, and kept as compact ragged integers.
What flows through tf.data is the index of an example: shuffled by a permutation that is
a function of (seed, epoch), grouped by length, gathered, padded and prefetched. A run
that was killed and resumed therefore sees the batches it would have seen anyway, and
the train step holds no string operation.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bat_tf._validation import check_number
from bat_tf.text import alignment, windows

CHUNK = 512  # marked texts tokenised at a time
# Texts and characters tokenised at a time: each time costs some hundredths of a second,
# and each character about a hundred bytes until it is done.
MAX_TEXTS, MAX_CHARACTERS = 4096, 2**22
# What a frozen backbone says of each token, or of each text: see `models/frozen.py`.
TOKEN_STATES, DOCUMENT_STATES = "backbone_states", "document_states"


class Share(NamedTuple):
    """Which rows of every batch are read: those of some replicas.

    Replica i of n has rows i, i + n, i + 2n …; `count` replicas from number `first` on
    get a batch each, one after the other. Rows of other replicas are not even gathered.
    """

    first: int = 0
    count: int = 1
    total: int = 1


def tag_examples(dataset, tokenizer, kinds, scheme, max_length):
    """Tokenises a dataset of marked texts and aligns its spans with the tokens.

    Texts of more than `max_length` tokens become several examples, without overlap,
    so that nothing of the training data is lost.

    Args:
        dataset: a `TextDataset` with spans.
        tokenizer: a `TextTokenizer` with a vocabulary.
        kinds: the `LabelSpace` of span kinds.
        scheme: `"plain"` or `"bio"`.
        max_length: tokens an example may have, special tokens included.

    Returns:
        A dict of RaggedTensors, one row an example: what `tokenizer.tokenize` gives,
        and `"tags"`.
    """
    size = max_length - tokenizer.num_special
    parts = []
    for first in range(0, len(dataset), CHUNK):
        chunk = dataset[first : first + CHUNK]
        tokens = tokenizer.tokenize(tf.constant(chunk.texts))
        spans = _ragged_spans(chunk, kinds)
        tokens["tags"] = alignment.encode_spans(tokens, spans, scheme)
        parts.append(windows.split(tokens, size, overlap=0)[0])
    return {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}


def _ragged_spans(dataset, kinds):
    rows = [sorted(example.spans) for example in dataset]
    splits = np.cumsum([0, *map(len, rows)])
    flat = [span for row in rows for span in row]
    columns = {
        "starts": [span.start for span in flat],
        "ends": [span.end for span in flat],
        "kinds": kinds.ids([span.kind for span in flat]),
    }
    return {
        name: tf.RaggedTensor.from_row_splits(tf.constant(values, tf.int32), splits)
        for name, values in columns.items()
    }


def text_examples(texts, tokenizer, max_length):
    """The first tokens of each text: a dict of RaggedTensors, one row a text."""
    size = max_length - tokenizer.num_special
    parts = []
    for chunk in _chunks(texts):
        # Half a character (a lone surrogate) has no UTF-8.
        chunk = [text.encode("utf-8", "replace") for text in chunk]
        tokens = tokenizer.tokenize(tf.constant(chunk, tf.string))
        parts.append({name: values[:, :size] for name, values in tokens.items()})
    return {name: tf.concat([part[name] for part in parts], 0) for name in parts[0]}


def _chunks(texts):
    """Yields the texts in lists, none too large to be tokenised at once; one at least.

    >>> [len(chunk) for chunk in _chunks(["a title"] * 5000)]
    [4096, 904]
    """
    first = size = 0
    for last, text in enumerate(texts):
        if last - first == MAX_TEXTS or (size and size + len(text) > MAX_CHARACTERS):
            yield texts[first:last]
            first, size = last, 0
        size += len(text)
    yield texts[first:]


def text_batches(examples, tokenizer, batch_size):
    """Yields (rows, inputs) of what `text_examples` returned, shortest texts first."""
    lengths = examples["token_ids"].row_lengths().numpy()
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), batch_size):
        rows = order[first : first + batch_size]
        part = {name: tf.gather(values, rows) for name, values in examples.items()}
        yield rows, pack_inputs(part, tokenizer)


def label_examples(dataset, tokenizer, labels, max_length, unknown="error"):
    """Tokenises a dataset of labelled texts.

    Of a text with more than `max_length` tokens the first ones are kept: the labels
    are of the whole document, and no part of it can be said to carry them.

    Args:
        dataset: a `TextDataset` with labels.
        tokenizer: a `TextTokenizer` with a vocabulary.
        labels: the `LabelSpace`.
        max_length: tokens an example may have, special tokens included.
        unknown: `"error"`, or `"skip"` to leave out labels that are not in the space.

    Returns:
        A dict of RaggedTensors, one row a document: what `tokenizer.tokenize` gives,
        and `"labels"`, the ids.
    """
    examples = text_examples(dataset.texts, tokenizer, max_length)
    found = labels.csr(dataset.labels, unknown=unknown)
    examples["labels"] = tf.RaggedTensor.from_row_splits(
        tf.constant(found.indices, tf.int32), found.indptr.astype("int64")
    )
    return examples


def label_batches(
    examples,
    tokenizer,
    *,
    batch_size=32,
    seed=None,
    epoch=None,
    fixed_shapes=False,
    num_buckets=5,
    share=None,
):
    """Batches of (inputs, label ids) from what `label_examples` returned.

    Ids are padded with -1. Arguments as for `tag_batches`; with `fixed_shapes`, a batch
    that lacks rows repeats some of its own, which is for training alone.
    """
    lengths = examples["token_ids"].row_lengths().numpy() + tokenizer.num_special
    most = max(1, int(examples["labels"].bounding_shape(axis=1)))

    def batch(rows, bound):
        if fixed_shapes:
            rows = tf.gather(rows, tf.range(batch_size) % tf.size(rows))
        part = {name: tf.gather(values, rows) for name, values in examples.items()}
        ids = part.pop("labels").to_tensor(-1, shape=[None, most])
        inputs = pack_inputs(part, tokenizer)
        if fixed_shapes:
            inputs = _pad_inputs(inputs, batch_size, bound)
        return inputs, ids

    return _batches(lengths, batch, batch_size, seed, epoch, num_buckets, share)


def class_counts(examples, num_classes):
    """How many labelled tokens each tag class has: the N_j of the token losses."""
    tags = examples["tags"].flat_values
    return np.bincount(tags[tags >= 0].numpy(), minlength=num_classes).tolist()


def bucket_lengths(lengths, num_buckets=5):
    """Chooses the lengths that batches are padded to, from the lengths at hand.

    Few fixed lengths keep both padding and the number of compiled programs small.

    >>> bucket_lengths([3, 5, 9, 12, 30, 31, 60], num_buckets=3)
    [16, 32, 64]
    """
    shares = np.linspace(0, 1, num_buckets + 1)[1:]
    chosen = np.quantile(lengths, shares, method="higher") if len(lengths) else [1]
    return sorted({int(-(-max(length, 1) // 8) * 8) for length in chosen})


def tag_batches(
    examples,
    tokenizer,
    *,
    batch_size=8,
    seed=None,
    epoch=None,
    fixed_shapes=False,
    num_buckets=5,
    share=None,
):
    """Batches of (inputs, tags) from what `tag_examples` returned.

    Args:
        examples: dict of RaggedTensors with `"tags"`.
        tokenizer: packs the rows: special tokens, padding, mask.
        batch_size: rows of a batch. The last batch of a length may have fewer.
        seed: None keeps the order (by length); a number shuffles.
        epoch: an integer `tf.Variable`; the order is a function of (seed, epoch).
        fixed_shapes: pad every batch to its bucket's length and to `batch_size` rows,
            so that XLA compiles one program a bucket. Added rows carry no tag and
            count nowhere.
        num_buckets: how many lengths there are at most.
        share: a `Share` of every batch; None is all of it.

    Returns:
        A `tf.data.Dataset` of known cardinality.
    """
    lengths = examples["tags"].row_lengths().numpy() + tokenizer.num_special

    def batch(rows, bound):
        part = {name: tf.gather(values, rows) for name, values in examples.items()}
        packed = pack_tags(part, tokenizer)
        return _pad_to(packed, batch_size, bound) if fixed_shapes else packed

    return _batches(lengths, batch, batch_size, seed, epoch, num_buckets, share)


def _batches(lengths, batch, batch_size, seed, epoch, num_buckets, share):
    """Rows of similar length, `batch_size` at a time, through `batch(rows, bound)`.

    `bound` is the largest length that the rows' bucket holds.
    """
    check_number("batch_size", batch_size, low=1, integer=True)
    bounds = bucket_lengths(lengths, num_buckets)
    bucket = np.searchsorted(bounds, lengths)
    bucket_of, bound_of = tf.constant(bucket, tf.int64), tf.constant(bounds, tf.int32)
    order = _row_order(lengths, seed, epoch)
    grouped = order.group_by_window(
        key_func=lambda row: bucket_of[row],
        reduce_func=lambda _, rows: rows.batch(batch_size),
        window_size=batch_size,
    )
    count = sum(-(-size // batch_size) for size in np.bincount(bucket).tolist())

    def whole(rows):
        return batch(rows, bound_of[bucket_of[rows[0]]])

    def part(rows, replica):
        own = rows[replica :: share.total]
        # A replica takes part in a step that has no row for it, with a batch of none.
        made = whole(tf.cond(tf.size(own) > 0, lambda: own, lambda: rows[:1]))
        return tf.nest.map_structure(lambda values: values[: tf.size(own)], made)

    if share is None:
        batches = grouped.map(whole)
    else:
        replicas = tf.data.Dataset.range(share.first, share.first + share.count)
        batches = grouped.flat_map(
            lambda rows: replicas.map(lambda replica: part(rows, replica))
        )
        count *= share.count
    # There is nothing to tune here, and TensorFlow 2.21 may wait for the tuner's thread
    # at the end of an epoch, for as long again as the epoch took.
    options = tf.data.Options()
    options.autotune.enabled = False
    batches = batches.apply(tf.data.experimental.assert_cardinality(count))
    return batches.prefetch(2).with_options(options)


def pack_tags(rows, tokenizer):
    """Rows of tokens and tags as the dense (inputs, tags) of a model."""
    tags = rows["tags"].to_tensor(-1)
    inputs = pack_inputs(rows, tokenizer)
    # Tags stand behind [CLS], where there is one, and in front of [SEP] and padding.
    left = tokenizer.num_special // 2
    right = tf.shape(inputs["token_ids"])[1] - tf.shape(tags)[1] - left
    return inputs, tf.pad(tags, [[0, 0], [left, right]], constant_values=-1)


def pack_inputs(rows, tokenizer):
    """Rows of tokens as the dense inputs of a model.

    States of a backbone, if rows have them, become an input of float32.
    """
    packed = tokenizer.pack({name: rows[name] for name in token_names(rows)})
    inputs = {name: packed[name] for name in input_names(tokenizer)}
    if TOKEN_STATES in rows:
        inputs[TOKEN_STATES] = tf.cast(rows[TOKEN_STATES].to_tensor(0), tf.float32)
    if DOCUMENT_STATES in rows:
        inputs[DOCUMENT_STATES] = tf.cast(rows[DOCUMENT_STATES], tf.float32)
    return inputs


def token_names(rows):
    """What of some rows is about tokens: neither targets nor states."""
    others = ("tags", "labels", TOKEN_STATES, DOCUMENT_STATES)
    return [name for name in rows if name not in others]


def input_names(tokenizer):
    """The names of a model's inputs: what an encoder reads of the packed tokens."""
    return ("token_ids", "padding_mask", *tokenizer.features)


def _row_order(lengths, seed, epoch):
    """Example indices: by length without a seed, else shuffled by (seed, epoch)."""
    if seed is None:
        return tf.data.Dataset.from_tensor_slices(np.argsort(lengths, kind="stable"))

    def shuffled(_):
        number = 0 if epoch is None else epoch.read_value()
        key = tf.stack([tf.constant(seed, tf.int64), tf.cast(number, tf.int64)])
        rows = tf.range(len(lengths), dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices(
            tf.random.experimental.stateless_shuffle(rows, key)
        )

    return tf.data.Dataset.range(1).flat_map(shuffled)


def _pad_to(packed, num_rows, length):
    """Fills a batch up with rows and columns that have neither tokens nor tags."""
    inputs, tags = packed
    rows, columns = tf.unstack(tf.shape(tags))
    missing = [[0, num_rows - rows], [0, length - columns]]
    inputs = _pad_inputs(inputs, num_rows, length)
    return inputs, tf.pad(tags, missing, constant_values=-1)


def one_row_at_least(inputs):
    """Adds a row of padding to a batch that has no row."""
    rows, length = tf.unstack(tf.shape(inputs["token_ids"]))
    return _pad_inputs(inputs, tf.maximum(rows, 1), length)


def _pad_inputs(inputs, num_rows, length):
    rows, columns = tf.unstack(tf.shape(inputs["token_ids"]))
    missing = [[0, num_rows - rows], [0, length - columns], [0, 0]]
    padded = {
        name: tf.pad(values, missing[: len(values.shape)])
        for name, values in inputs.items()
        if name != DOCUMENT_STATES
    }
    if DOCUMENT_STATES in inputs:  # no columns of tokens
        some = inputs[DOCUMENT_STATES]
        padded[DOCUMENT_STATES] = tf.pad(some, [missing[0], [0, 0]])
    return padded
