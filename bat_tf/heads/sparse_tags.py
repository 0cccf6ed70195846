"""Logits of tags straight from what stands around a token."""

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal.validation import check_number, sentence
from bat_tf.heads.tags import TransitionHead

# The steps of an optimizer are meant for the weights of an encoder.
GAIN = 600.0
# Keys of features that are counted at a time.
_MOST_KEYS = 2**23
_TOKEN, _CASE = "token_ids", "case"


@keras.saving.register_keras_serializable(package="bat_tf")
class SparseTagHead(TransitionHead):
    """Scores tags by the features of a token: a linear layer on a stored vocabulary.

    A feature is a conjunction of what stands around a token: the word itself, the one
    before it and the case of this one, three characters in a row. `set_features` stores
    those that are worth weights; all others say nothing. A training step touches the
    weights of the features that its batch has, see `training.optimizers`.

    Padding: what stands behind the end of a text is the same as what stands before its
    beginning. Not for XLA: how many features a batch has is known when its words are.

    Args:
        num_tags: C, the number of tag classes.
        num_features: how many features have weights.
        sizes: name → number of values of each input that a feature reads: `token_ids`
            and features of the tokenizer.
        templates: the kinds of features, each a list of [name of an input, offset]; see
            `templates_for`.
        dropout: share of the features that a training step hides.
        crf: see `TagHead`.

    Call arguments: see `Head`; it reads no states.

    Returns:
        Logits [B, T, C].

    Example:
        >>> ids = np.array([[5, 7, 5]])
        >>> inputs = {"token_ids": ids, "padding_mask": ids > 0}
        >>> head = SparseTagHead(4, 2, {"token_ids": 9}, [[["token_ids", 0]]])
        >>> head.set_features(count_features([inputs], head.templates, head.sizes))
        >>> head([], inputs).shape
        TensorShape([1, 3, 4])
    """

    def __init__(
        self,
        num_tags,
        num_features,
        sizes,
        templates,
        *,
        dropout=0.0,
        crf=False,
        **kwargs,
    ):
        kwargs.pop("layers", None)
        super().__init__(num_tags, crf, (), **kwargs)
        self.supports_jit = False
        self.num_features = check_number("num_features", num_features, 1, integer=True)
        self.sizes = dict(sizes)
        self.templates = [[tuple(part) for part in parts] for parts in templates]
        self.dropout = check_number("dropout", dropout, 0, 1)
        self.seed = keras.random.SeedGenerator()

    def build(self, states_shape=(), inputs_shape=None):
        self.keys = self.add_weight(
            name="keys",
            shape=(self.num_features,),
            initializer="zeros",
            dtype="int64",
            trainable=False,
        )
        shape = (self.num_features, self.num_tags)
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer="zeros")
        self.kernel.updates_rows = True  # see `training.optimizers`
        self.bias = self.add_weight(
            name="bias", shape=(self.num_tags,), initializer="zeros"
        )
        super().build(states_shape)

    def set_features(self, keys):
        """Says which features have weights.

        Args:
            keys: what `count_features` found, `num_features` of them.
        """
        if not self.built:
            self.build()
        keys = np.unique(np.asarray(keys, "int64"))
        if len(keys) != self.num_features:
            expected = f"of `num_features`, {self.num_features}, features"
            raise ValueError(sentence("keys", expected, len(keys)))
        self.keys.assign(keys)

    def call(self, states, inputs, training=None):
        found = feature_keys(inputs, self.templates, self.sizes)
        rows, width, each = tf.unstack(tf.shape(found))
        known, found = self.keys.value, tf.reshape(found, [-1])
        ids = tf.minimum(tf.searchsorted(known, found), self.num_features - 1)
        counts = tf.gather(known, ids) == found
        gain = GAIN
        if training and self.dropout:
            drawn = keras.random.uniform(tf.shape(counts), seed=self.seed)
            counts &= drawn >= self.dropout
            gain = GAIN / (1 - self.dropout)
        at = tf.where(counts)[:, 0]
        weights = tf.gather(tf.convert_to_tensor(self.kernel), tf.gather(ids, at))
        token = at // tf.cast(each, at.dtype)
        logits = tf.math.unsorted_segment_sum(weights, token, rows * width)
        logits = gain * tf.reshape(logits, [rows, width, self.num_tags])
        return logits + self.bias


def templates_for(sizes, characters=False):
    """The kinds of features of tokens, out of the inputs there are.

    Args:
        sizes: see `SparseTagHead`.
        characters: whether tokens are characters, of which several make a word.

    >>> len(templates_for({"token_ids": 100}, characters=True))
    16
    """

    def window(name, *offsets):
        return [(name, offset) for offset in offsets]

    if characters:
        found = [window(_TOKEN, place) for place in (-3, -2, -1, 0, 1, 2, 3)]
        found += [window(_TOKEN, place, place + 1) for place in (-2, -1, 0, 1)]
        found += [window(_TOKEN, -1, 1)]
        found += [window(_TOKEN, place, place + 1, place + 2) for place in (-2, -1, 0)]
        found += [window(_TOKEN, -1, 0, 1, 2)]
    else:
        found = [window(_TOKEN, place) for place in (-2, -1, 0, 1, 2)]
        found += [window(_TOKEN, -1, 0), window(_TOKEN, 0, 1)]
    affixes = [name for name in sizes if name not in (_TOKEN, _CASE)]
    found += [window(name, 0) for name in affixes]
    if "suffix3" in sizes:
        found += [window("suffix3", -1), window("suffix3", 1)]
    if _CASE in sizes:
        found += [window(_CASE, place) for place in (-2, -1, 0, 1, 2)]
        found += [window(_CASE, -1, 0), window(_CASE, 0, 1), window(_CASE, -1, 0, 1)]
        found += [[(_CASE, 0), (_TOKEN, -1)], [(_CASE, 0), (_TOKEN, 1)]]
        found += [[(_CASE, 0), (_TOKEN, 0)]]
    return found


def feature_keys(inputs, templates, sizes):
    """The number of each feature of each token: int64 [B, T, templates].

    Args:
        inputs: dict of `padding_mask` and what the templates read, each [B, T].
        templates: see `SparseTagHead`.
        sizes: see `SparseTagHead`.
    """
    real = tf.convert_to_tensor(inputs["padding_mask"])
    width = tf.shape(real)[1]
    most = max((abs(offset) for parts in templates for _, offset in parts), default=0)
    # 0 is what stands outside of a text.
    values = {
        name: tf.pad(
            tf.where(real, tf.cast(inputs[name], tf.int64) + 1, 0),
            [[0, 0], [most, most]],
        )
        for name in sizes
    }
    keys = []
    for number, parts in enumerate(templates):
        key = tf.constant(0, tf.int64)
        for name, offset in parts:
            part = values[name][:, most + offset : most + offset + width]
            key = key * (sizes[name] + 1) + part
        # No two kinds of features share a number.
        keys.append(key * len(templates) + number)
    return tf.stack(keys, axis=-1)


def count_features(batches, templates, sizes, min_count=1, most=None):
    """The features that texts have, those that are frequent enough: sorted keys.

    Args:
        batches: iterable of inputs of the model.
        templates: see `SparseTagHead`.
        sizes: see `SparseTagHead`.
        min_count: how often a feature must occur.
        most: how many are kept at most, the most frequent ones.
    """
    keys, counts = np.zeros(0, "int64"), np.zeros(0, "int64")
    waiting = []

    def merge():
        parts = np.concatenate([keys, *waiting])
        each = np.ones(len(parts), "int64")
        each[: len(keys)] = counts
        waiting.clear()
        found, place = np.unique(parts, return_inverse=True)
        return found, np.bincount(place, each, len(found)).astype("int64")

    for inputs in batches:
        real = np.asarray(inputs["padding_mask"])
        waiting.append(feature_keys(inputs, templates, sizes).numpy()[real].ravel())
        if sum(map(len, waiting)) > _MOST_KEYS:
            keys, counts = merge()
    keys, counts = merge()
    order = np.argsort(-counts, kind="stable")[:most]
    return np.sort(keys[order[counts[order] >= min_count]])
