"""Logits from the n-grams of a text: a linear model that is solved, not trained."""

import keras
import numpy as np
import scipy.sparse
import tensorflow as tf

from bat_tf._internal.gather import of_some
from bat_tf._internal.validation import check_number, sentence
from bat_tf.heads.head import Head, chosen_labels
from bat_tf.text.ngrams import common_keys, counted, ngram_keys

BATCH = 256  # texts at a time, where there are many


@keras.saving.register_keras_serializable(package="bat_tf")
class NgramsHead(Head):
    """Scores labels from a text's n-grams of words and characters: a linear model.

        logits = Σ_n (1 + log c_n) idf_n K[n] / norm + b

    for an n-gram n that occurs c times; those of words and those of characters are
    brought to length 1 each. The weights are those of linear support vector machines,
    see `bat_tf.models.linear`: the head has no part in training.

    It reads the whole text, and the same numbers wherever it runs: the n-grams are
    found in the graph. Not for XLA, which knows no sets.

    Args:
        num_labels: L.
        num_ngrams: how many n-grams it knows.
        words: neighbouring words that make an n-gram at most; 0 for none.
        characters: characters of a word that make one at most; 0 for none.
        share: how much of the model's answer it is, from 0 to 1, beside other heads.

    Call arguments: see `Head`; it reads no states, and of the inputs `letters` [B, T].

    Example:
        >>> from bat_tf.text.ngrams import read_letters
        >>> letters = read_letters(["red shoes", "a red lamp"])
        >>> head = NgramsHead.knowing(letters, 2, words=1, characters=0)
        >>> head.set_linear([[1.0], [-1.0]], [0.0, 0.5])
        >>> head([], {"letters": letters.to_tensor()}).numpy().round(1).tolist()
        [[1.0, -0.5], [1.0, -0.5]]
    """

    trains = False

    def __init__(
        self, num_labels, num_ngrams, *, words=1, characters=4, share=1.0, **kwargs
    ):
        kwargs.pop("layers", None)
        super().__init__((), **{**kwargs, "trainable": False})
        self.supports_jit = False
        self.num_labels = check_number("num_labels", num_labels, low=1, integer=True)
        self.num_ngrams = check_number("num_ngrams", num_ngrams, low=1, integer=True)
        self.words = check_number("words", words, low=0, integer=True)
        self.characters = check_number("characters", characters, low=0, integer=True)
        self.share = check_number("share", share, low=0, high=1)
        if self.characters == 1 or not (self.words or self.characters):
            expected = "2 or more, or 0 beside `words`"
            raise ValueError(sentence("characters", expected, characters))

    def build(self, states_shape=(), inputs_shape=None):
        size = (self.num_ngrams,)
        self.keys = self.keep("keys", size, "int64")  # sorted
        self.idf = self.keep("idf", size)
        # Which n-grams are of characters: their lengths are apart.
        self.group = self.keep("group", size, "int32")
        self.kernel = self.keep("kernel", (self.num_ngrams, self.num_labels))
        self.label_bias = self.keep("label_bias", (self.num_labels,))
        super().build(())

    @classmethod
    def knowing(cls, letters, num_labels, most=None, min_count=2, **settings):
        """A head that knows the commonest n-grams of texts, without weights yet.

        Args:
            letters: RaggedTensor int32 [N, None].
            num_labels: L.
            most: n-grams at most; None is all.
            min_count: texts that an n-gram has to occur in.
            **settings: of the class.
        """
        total = int(letters.nrows())
        head = cls(num_labels, 1, **settings)
        batches = (
            letters[first : first + BATCH].to_tensor()
            for first in range(0, total, BATCH)
        )
        lengths = head.words, head.characters
        keys, groups, counts = common_keys(batches, *lengths, min_count, most)
        if not len(keys):
            expected = f"texts with n-grams that {min_count} of them have"
            raise ValueError(sentence("letters", expected, f"{total} texts"))
        head.num_ngrams = len(keys)
        head.build()
        head.keys.assign(keys)
        head.group.assign(groups)
        head.idf.assign(np.log((1 + total) / (1 + counts)) + 1)
        return head

    def set_linear(self, weights, bias):
        """Takes the weights [L, n-grams] and the bias [L] of a linear model."""
        self.kernel.assign(np.transpose(weights))
        self.label_bias.assign(bias)

    def call(self, states, inputs, training=None):
        letters = inputs["letters"]
        rows, ids, values = self.features(letters)
        shape = tf.stack([tf.shape(letters, tf.int64)[0], self.num_ngrams])
        at = tf.stack([rows, ids], axis=1)
        texts = tf.SparseTensor(at, values, tf.cast(shape, tf.int64))
        logits = tf.sparse.sparse_dense_matmul(texts, self.kernel) + self.label_bias
        return of_some(logits, chosen_labels(inputs))

    def features(self, letters):
        """The TF-IDF of texts, one entry an n-gram they have.

        Args:
            letters: int32 [B, T].

        Returns:
            (rows, ids, values), in order of rows and ids.
        """
        keys = ngram_keys(letters, self.words, self.characters)
        rows, keys = (tf.concat(parts, 0) for parts in zip(*keys, strict=True))
        rows, ids, counts = counted(rows, keys, self.keys)
        values = 1 + tf.math.log(tf.cast(counts, "float32"))
        values *= tf.gather(self.idf, ids)
        groups = 2 * rows + tf.cast(tf.gather(self.group, ids), "int64")
        total = 2 * tf.shape(letters, tf.int64)[0]
        square = tf.math.unsorted_segment_sum(values**2, groups, total)
        norm = tf.gather(tf.sqrt(square), groups)
        return rows, ids, tf.math.divide_no_nan(values, norm)

    def matrix(self, letters):
        """The TF-IDF of texts, RaggedTensor [N, None], as a SciPy CSR matrix."""
        spec = tf.TensorSpec([None, None], tf.int32)
        features = tf.function(self.features, input_signature=[spec])
        parts = []
        for first in range(0, int(letters.nrows()), BATCH):
            batch = letters[first : first + BATCH].to_tensor()
            rows, ids, values = (x.numpy() for x in features(batch))
            shape = (batch.shape[0], self.num_ngrams)
            parts.append(scipy.sparse.csr_matrix((values, (rows, ids)), shape))
        return scipy.sparse.vstack(parts, format="csr")
