"""What the nearest training texts say: votes of neighbours."""

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal.gather import of_some, owners, rows_of
from bat_tf._internal.validation import check_number, sentence
from bat_tf.heads.head import Head, chosen_labels, states_mask
from bat_tf.layers.pooling import Pooling

# Remembered texts that a step of the search looks at: with a batch of 64, the
# similarities of a step take 16 MiB.
CHUNK = 2**16


@keras.saving.register_keras_serializable(package="bat_tf")
class NeighbourHead(Head):
    """Answers with the labels of the remembered texts that are most like a text.

    Of the `neighbours` with the largest cosine c between pooled states, each has the
    vote exp(c / τ), and a label's share v of all votes is what the neighbours that
    carry it have:

        logit = log (v + ε) - log (1 - v + ε)

    Nothing is learnt but by `remember`, and the head has no part in training. The
    search is exact: it compares a text with all others, a chunk of them at a time.
    `LabelClassifier.remember` makes such a head.

    Not for XLA: how many labels the neighbours have is known when they are.

    Args:
        num_labels: L.
        num_texts: N, of remembered texts.
        num_tags: labels that they have, each counted as often as it occurs.
        layers: which states are compared, side by side.
        pooling: see `Pooling`.
        neighbours: how many vote.
        temperature: τ; lower hears the nearest ones more.
        smoothing: ε, which keeps the logits of 0 and all votes finite.

    Call arguments: see `Head`.

    Example:
        >>> import scipy.sparse
        >>> head = NeighbourHead(2, num_texts=2, num_tags=2)
        >>> head.build([(None, None, 2)])
        >>> head.remember(np.eye(2), scipy.sparse.csr_matrix(np.eye(2)))
        >>> head.vote(np.array([[1.0, 0.1]])).numpy().round().tolist()
        [[7.0, -7.0]]

    Reference:
        Khandelwal et al., Generalization through Memorization: Nearest Neighbor
        Language Models, 2020, mix a model with its neighbours in this way.
    """

    trains = False

    def __init__(
        self,
        num_labels,
        num_texts,
        num_tags,
        *,
        layers=(-1,),
        pooling="mean",
        neighbours=50,
        temperature=0.03,
        smoothing=1e-3,
        **kwargs,
    ):
        super().__init__(layers, **{**kwargs, "trainable": False})
        self.supports_jit = False
        self.num_labels = num_labels
        self.num_texts = check_number("num_texts", num_texts, low=1, integer=True)
        self.num_tags = check_number("num_tags", num_tags, low=0, integer=True)
        check_votes(neighbours, temperature, smoothing)
        self.pooling = pooling
        self.neighbours = neighbours
        self.temperature = temperature
        self.smoothing = smoothing
        self.pool = Pooling(pooling, name="pooling", dtype=self.dtype_policy)

    def build(self, states_shape, inputs_shape=None):
        width = self.read_shape(states_shape)[-1]
        # Half precision: two million texts of MiniLM take 1.5 GB.
        self.keys = self.keep("keys", (self.num_texts, width), "float16")
        # The labels of text n are splits[n] to splits[n + 1].
        self.splits = self.keep("splits", (self.num_texts + 1,), "int32")
        self.text_labels = self.keep("text_labels", (self.num_tags,), "int32")
        super().build(states_shape)

    def remember(self, states, labels):
        """Keeps texts and their labels.

        Args:
            states: [N, width], what `document` makes of them.
            labels: SciPy CSR [N, L].
        """
        states = np.asarray(states)
        expected = tuple(self.keys.shape), (self.num_texts, self.num_labels)
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

    def document(self, states, inputs):
        """What texts are compared by: [B, width]."""
        return self.pool(self.read(states), states_mask(inputs))

    def call(self, states, inputs, training=None):
        votes = self.vote(self.document(states, inputs))
        return of_some(votes, chosen_labels(inputs))

    def vote(self, states):
        """The logits [B, L] of texts with the pooled states [B, width]."""
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
        return logits - tf.math.log(1 - share + self.smoothing)

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
