"""Logits straight from the words of a text."""

import keras
import numpy as np
from keras import ops

from bat_tf.optimizers import share_second_moment


@keras.saving.register_keras_serializable(package="bat_tf")
class BagOfWords(keras.layers.Layer):
    """A linear layer on the TF-IDF of a text's tokens, without the vector itself.

        logits = g · Σ_words (1 + log c) idf K[word] / norm

    for a word that occurs c times: the usual sublinear TF-IDF of length 1, summed token
    by token, so that nothing of the size of the vocabulary exists but the kernel K.

    Padding: masked tokens take no part.

    Args:
        num_labels: width of the logits.
        idf: how much each token id says; 0 leaves it out.
        gain: g. TF-IDF values and the steps of an optimizer are small; without a gain
            the kernel would lag behind the rest of a model.

    Call arguments:
        token_ids: [B, T].
        padding_mask: bool [B, T].

    Example:
        >>> import numpy as np
        >>> layer = BagOfWords(2, idf=[0.0, 1.0, 2.0])
        >>> layer(np.array([[1, 2, 2]]), np.ones((1, 3), bool)).shape
        TensorShape([1, 2])
    """

    def __init__(self, num_labels, idf, gain=50.0, **kwargs):
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.idf = np.asarray(idf, "float32")
        self.gain = gain

    def build(self, *_):
        self.kernel = self.add_weight(
            name="kernel",
            shape=(len(self.idf), self.num_labels),
            initializer="zeros",
        )
        share_second_moment(self.kernel)

    def start_from_names(self, names, strength=10.0):
        """Begins with the guess that a label applies where its name is in the text.

        Each word of the name adds its share · strength · TF-IDF to the label's logit;
        words that say more have the larger share. What is known of a rare label is
        often no more than what it is called.

        Args:
            names: for each label, the token ids of its name.
            strength: how much the name counts before training.
        """
        kernel = np.zeros(self.kernel.shape, "float32")
        for label, tokens in enumerate(names):
            tokens = np.unique(np.asarray(tokens, int))
            total = self.idf[tokens].sum()
            if total:
                share = self.idf[tokens] / total
                kernel[tokens, label] = strength / self.gain * share
        self.kernel.assign(kernel)

    def call(self, token_ids, padding_mask):
        same = ops.equal(token_ids[:, :, None], token_ids[:, None, :])
        same = ops.logical_and(same, padding_mask[:, None, :])
        count = ops.maximum(ops.sum(ops.cast(same, "float32"), axis=-1), 1.0)
        idf = ops.take(ops.convert_to_tensor(self.idf), token_ids, axis=0)
        value = ops.where(padding_mask, idf * (1.0 + ops.log(count)), 0.0)
        # Each of a word's `count` tokens carries its share of the word.
        share = value / count
        norm = ops.sqrt(ops.sum(value * share, axis=-1, keepdims=True))
        share = ops.divide_no_nan(self.gain * share, norm)
        rows = ops.take(self.kernel, token_ids, axis=0)
        share = ops.cast(share, rows.dtype)
        return ops.squeeze(ops.matmul(share[:, None, :], rows), 1)

    def get_config(self):
        return {
            **super().get_config(),
            "num_labels": self.num_labels,
            "idf": self.idf.tolist(),
            "gain": self.gain,
        }


def inverse_document_frequency(token_ids, vocabulary_size):
    """log((1 + N) / (1 + n)) + 1 of each token id, and 0 for those that never occur.

    Args:
        token_ids: RaggedTensor, a row a document.
        vocabulary_size: number of token ids.
    """
    rows, ids = token_ids.value_rowids().numpy(), token_ids.flat_values.numpy()
    pairs = np.unique(rows.astype("int64") * vocabulary_size + ids)
    documents = np.bincount(pairs % vocabulary_size, minlength=vocabulary_size)
    total = int(token_ids.nrows())
    idf = np.log((1 + total) / (1 + documents)) + 1
    return np.where(documents > 0, idf, 0.0).astype("float32")
