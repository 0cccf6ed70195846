"""Which labels a training step scores, where all of them would take too long."""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.configured import Configured
from bat_tf._internal.validation import check_number, sentence


@keras.saving.register_keras_serializable(package="bat_tf")
class CandidateLabels(Configured, keras.layers.Layer):
    """Chooses a bounded number of labels for a batch.

    In this order: all labels of the batch's texts; hard ones, those that the words of a
    text point to; and, for the rest, labels drawn evenly from all others without
    replacement. The first two kinds are there for certain. A drawn one stands for
    (others / drawn) labels and gets that weight, so that a weighted sum over the
    candidates is an unbiased estimate of the sum over all labels.

    Args:
        num_labels: L.
        size: C, the number of candidates.
        vocabulary_size: number of token ids.
        hard_per_word: hard labels that a word points to.

    Call arguments:
        token_ids: [B, T].
        padding_mask: bool [B, T].
        label_ids: [B, P], -1 where a text has no more.

    Returns:
        (labels [C], weights [C], places [B, P]): the candidates, what each stands for,
        and where the labels of each text are among them, -1 where there is none.

    Example:
        >>> import numpy as np
        >>> layer = CandidateLabels(100, size=8, vocabulary_size=5)
        >>> tokens, mask = np.array([[1, 2]]), np.ones((1, 2), bool)
        >>> labels, weights, places = layer(tokens, mask, np.array([[42, -1]]))
        >>> int(labels[places[0, 0]]), float(weights[places[0, 0]])
        (42, 1.0)
    """

    def __init__(self, num_labels, size, vocabulary_size, hard_per_word=1, **kwargs):
        super().__init__(**kwargs)
        check_number("size", size, low=1, integer=True)
        if size > num_labels:
            expected = f"at most the number of labels, {num_labels}"
            remedy = "Without candidates, all labels are scored."
            raise ValueError(sentence("size", expected, size, remedy))
        self.num_labels = num_labels
        self.size = size
        self.vocabulary_size = vocabulary_size
        self.hard_per_word = hard_per_word
        self.seed_generator = keras.random.SeedGenerator()

    def build(self, *_):
        self.hard = self.add_weight(
            name="hard",
            shape=(self.vocabulary_size, self.hard_per_word),
            initializer=keras.initializers.Constant(-1),
            dtype="int32",
            trainable=False,
        )

    def set_hard(self, words, labels):
        """Says which labels words point to.

        Args:
            words: token ids, each as often as it has labels; the best label first.
            labels: a label id for each.
        """
        if not self.built:
            self.build()
        words, labels = np.asarray(words), np.asarray(labels)
        order = np.argsort(words, kind="stable")
        words, labels = words[order], labels[order]
        starts = np.searchsorted(words, np.arange(self.vocabulary_size))
        place = np.arange(len(words)) - starts[words]
        kept = place < self.hard_per_word
        hard = np.full((self.vocabulary_size, self.hard_per_word), -1, "int32")
        hard[words[kept], place[kept]] = labels[kept]
        self.hard.assign(hard)

    def call(self, token_ids, padding_mask, label_ids):
        total = self.num_labels
        hard = ops.take(self.hard, token_ids, axis=0)
        hard = ops.where(padding_mask[..., None], hard, -1)
        # Ranks: 3 for labels, 2 for hard ones, and below 1 what is drawn.
        rank = tf.zeros(total + 1)
        for ids, level in ((hard, 2.0), (label_ids, 3.0)):
            ids = tf.reshape(tf.where(ids < 0, total, ids), (-1, 1))
            rank = tf.tensor_scatter_nd_max(
                rank, ids, tf.fill(tf.shape(ids)[:1], level)
            )
        rank = rank[:total]
        drawn = keras.random.uniform((total,), seed=self.seed_generator)
        rank, labels = tf.math.top_k(rank + drawn, self.size)
        certain = tf.cast(rank >= 2, "float32")
        chosen = tf.reduce_sum(certain)
        weight = (total - chosen) / tf.maximum(self.size - chosen, 1)
        weights = certain + (1 - certain) * weight
        places = tf.fill((total + 1,), -1)
        places = tf.tensor_scatter_nd_update(
            places, labels[:, None], tf.range(self.size)
        )
        places = tf.gather(places, tf.where(label_ids < 0, total, label_ids))
        self._check_all_there(places, label_ids)
        return labels, weights, places

    def _check_all_there(self, places, label_ids):
        there = tf.reduce_all((places >= 0) | (label_ids < 0))
        said = (
            f"The texts of a batch have more labels than there are candidates, "
            f"{self.size}. Raise `candidates` or train on smaller batches."
        )
        tf.debugging.Assert(there, [said])
