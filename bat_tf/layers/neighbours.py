"""What the nearest training texts say: votes of neighbours."""

import keras
import numpy as np
import tensorflow as tf

from bat_tf._validation import check_number, sentence
from bat_tf.layers._gather import of_some, owners, rows_of

# Remembered texts that a step of the search looks at: with a batch of 64, the
# similarities of a step take 16 MiB.
CHUNK = 2**16


@keras.saving.register_keras_serializable(package="bat_tf")
class NeighbourVotes(keras.layers.Layer):
    """Labels of the remembered texts that are most like a text, as logits.

    Of the `neighbours` with the largest cosine c, each has the vote exp(c / τ), and a
    label's share v of all votes is what the neighbours that carry it have:

        logit = log (v + ε) - log (1 - v + ε)

    Nothing is learnt but by `remember`. The search is exact: it compares a text with
    all others, a chunk of them at a time.

    Not for XLA: how many labels the neighbours have is known when they are.

    Args:
        num_labels: L.
        width: of a state.
        num_texts: N, of remembered texts.
        num_tags: labels that they have, each counted as often as it occurs.
        neighbours: how many vote.
        temperature: τ; lower hears the nearest ones more.
        smoothing: ε, which keeps the logits of 0 and all votes finite.

    Call arguments:
        states: [B, width].
        labels: optional label ids, [C] for all texts alike or [B, C]; only the logits
            of these are returned.

    Example:
        >>> import scipy.sparse
        >>> layer = NeighbourVotes(2, width=2, num_texts=2, num_tags=2)
        >>> layer.remember(np.eye(2), scipy.sparse.csr_matrix(np.eye(2)))
        >>> layer(np.array([[1.0, 0.1]])).numpy().round().tolist()
        [[7.0, -7.0]]

    Reference:
        Khandelwal et al., Generalization through Memorization: Nearest Neighbor
        Language Models, 2020, mix a model with its neighbours in this way.
    """

    supports_jit = False

    def __init__(
        self,
        num_labels,
        width,
        num_texts,
        num_tags,
        neighbours=50,
        temperature=0.03,
        smoothing=1e-3,
        **kwargs,
    ):
        super().__init__(**{**kwargs, "trainable": False})
        self.num_labels = num_labels
        self.width = width
        self.num_texts = check_number("num_texts", num_texts, low=1, integer=True)
        self.num_tags = check_number("num_tags", num_tags, low=0, integer=True)
        check_votes(neighbours, temperature, smoothing)
        self.neighbours = neighbours
        self.temperature = temperature
        self.smoothing = smoothing

    def build(self, *_):
        def kept(name, shape, dtype):
            return self.add_weight(
                name=name,
                shape=shape,
                dtype=dtype,
                initializer="zeros",
                trainable=False,
                autocast=False,
            )

        # Half precision: two million texts of MiniLM take 1.5 GB.
        self.keys = kept("keys", (self.num_texts, self.width), "float16")
        # The labels of text n are splits[n] to splits[n + 1].
        self.splits = kept("splits", (self.num_texts + 1,), "int32")
        self.text_labels = kept("text_labels", (self.num_tags,), "int32")

    def remember(self, states, labels):
        """Keeps texts and their labels.

        Args:
            states: [N, width].
            labels: SciPy CSR [N, L].
        """
        if not self.built:
            self.build()
        states = np.asarray(states)
        expected = (self.num_texts, self.width), (self.num_texts, self.num_labels)
        if (states.shape, labels.shape) != expected or labels.nnz != self.num_tags:
            found = (states.shape, labels.shape, labels.nnz)
            expected = f"of the shapes {expected}, with {self.num_tags} labels"
            raise ValueError(sentence("states", expected, found))
        keys = np.zeros(states.shape, "float16")
        for start in range(0, len(states), CHUNK):
            keys[start : start + CHUNK] = unit(states[start : start + CHUNK])
        self.keys.assign(keys)
        self.splits.assign(labels.indptr)
        self.text_labels.assign(labels.indices)

    def call(self, states, labels=None):
        nearness, texts = self.search(states)
        votes = tf.nn.softmax(nearness / self.temperature, axis=-1)
        texts, splits = tf.reshape(texts, (-1,)), self.splits.value
        label = rows_of(self.text_labels.value, splits, texts)
        counts = tf.gather(splits, texts + 1) - tf.gather(splits, texts)
        owner = owners(counts)  # of each label, the neighbour that carries it
        rows, total = tf.shape(votes)[0], self.num_labels
        text = owner // tf.shape(votes)[1]
        share = tf.math.unsorted_segment_sum(
            tf.gather(tf.reshape(votes, (-1,)), owner),
            tf.cast(text, "int64") * total + tf.cast(label, "int64"),
            tf.cast(rows, "int64") * total,
        )
        share = tf.clip_by_value(tf.reshape(share, (rows, total)), 0.0, 1.0)
        share = tf.ensure_shape(share, (None, total))
        logits = tf.math.log(share + self.smoothing)
        return of_some(logits - tf.math.log(1 - share + self.smoothing), labels)

    def search(self, states):
        """The nearest remembered texts: cosines and places, both [B, neighbours]."""
        query = tf.math.l2_normalize(tf.cast(states, "float32"), axis=-1)
        keys, total = self.keys.value, self.num_texts
        number = min(self.neighbours, total)
        rows = tf.shape(query)[0]

        def look(start, best, places):
            part = tf.cast(keys[start : start + CHUNK], "float32")
            near = tf.matmul(query, part, transpose_b=True)
            near, found = tf.math.top_k(near, tf.minimum(number, tf.shape(part)[0]))
            best, at = tf.math.top_k(tf.concat([best, near], axis=1), number)
            places = tf.concat([places, start + found], axis=1)
            return start + CHUNK, best, tf.gather(places, at, batch_dims=1)

        best = tf.fill((rows, number), -2.0)  # below any cosine
        places = tf.zeros((rows, number), "int32")
        _, best, places = tf.while_loop(
            lambda start, *_: start < total,
            look,
            (0, best, places),
            shape_invariants=(
                tf.TensorShape([]),
                tf.TensorShape([None, number]),
                tf.TensorShape([None, number]),
            ),
            parallel_iterations=1,
        )
        return best, places

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "width": self.width,
            "num_texts": self.num_texts,
            "num_tags": self.num_tags,
            "neighbours": self.neighbours,
            "temperature": self.temperature,
            "smoothing": self.smoothing,
        }


def unit(states):
    """States [N, width] at length 1, in float32; those of length 0 stay as they are."""
    states = np.asarray(states, "float32")
    norm = np.linalg.norm(states, axis=1, keepdims=True)
    return states / np.where(norm > 0, norm, 1)


def check_votes(neighbours, temperature, smoothing=1.0):
    """Raises if neighbours cannot vote like that."""
    check_number("neighbours", neighbours, low=1, integer=True)
    for name, value in (("temperature", temperature), ("smoothing", smoothing)):
        if not check_number(name, value, low=0):
            raise ValueError(sentence(name, "a number > 0", value))
