"""The TF-IDF layer gives what scikit-learn's TF-IDF and a matrix product give."""

import keras
import numpy as np
import tensorflow as tf
from sklearn.feature_extraction.text import TfidfVectorizer

from bat_tf.layers.bag_of_words import BagOfWords, inverse_document_frequency

TEXTS = ["a b b c", "c c c c d", "e", "a e e d d d"]
IDS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def batch():
    rows = tf.ragged.constant([[IDS[word] for word in text.split()] for text in TEXTS])
    ids = rows.to_tensor(0).numpy()
    return rows, ids, ids > 0


def test_equals_scikit_learn():
    rows, ids, mask = batch()
    idf = inverse_document_frequency(rows, 7)
    layer = BagOfWords(3, idf, gain=1.0)
    layer.build(None)
    kernel = np.random.default_rng(0).normal(size=(7, 3)).astype("float32")
    layer.kernel.assign(kernel)
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, token_pattern=r"\w", vocabulary=sorted(IDS)
    )
    expected = vectorizer.fit_transform(TEXTS) @ kernel[1:6]
    np.testing.assert_allclose(layer(ids, mask), expected, rtol=1e-5)
    assert idf[0] == idf[6] == 0


def test_padding_and_empty_texts():
    rows, ids, mask = batch()
    layer = BagOfWords(3, inverse_document_frequency(rows, 7))
    layer.build(None)
    layer.kernel.assign(np.ones((7, 3)))
    wide = np.pad(ids, [[0, 0], [0, 4]], constant_values=2)
    wide_mask = np.pad(mask, [[0, 0], [0, 4]])
    np.testing.assert_allclose(layer(wide, wide_mask), layer(ids, mask), rtol=1e-6)
    assert not np.any(layer(ids, np.zeros_like(mask)))


def test_reloads():
    layer = BagOfWords(3, [0.0, 1.5])
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()


def test_names_of_labels_are_a_first_guess():
    rows, ids, mask = batch()
    layer = BagOfWords(2, inverse_document_frequency(rows, 7))
    layer.build(None)
    # Label 0 is called "b", label 1 "a zzz": of a name, what is unknown says nothing.
    layer.start_from_names([[IDS["b"]], [IDS["a"], 6]])
    logits = np.asarray(layer(ids, mask))
    assert logits[0, 0] > 0 and not logits[1:, 0].any()
    assert logits[0, 1] > 0 and logits[3, 1] > 0 and not logits[1:3, 1].any()
