"""The TF-IDF layer gives what scikit-learn's TF-IDF and a matrix product give."""

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from sklearn.feature_extraction.text import TfidfVectorizer

from bat_tf.heads.sparse_words import (
    GAIN,
    SparseWordsHead,
    WordsHead,
    inverse_document_frequency,
    pairs_with_names,
    word_label_pairs,
)

TEXTS = ["a b b c", "c c c c d", "e", "a e e d d d"]
IDS = {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}


def batch():
    """Token ids as rows, and as what a head reads."""
    rows = tf.ragged.constant([[IDS[word] for word in text.split()] for text in TEXTS])
    ids = rows.to_tensor(0).numpy()
    return rows, {"token_ids": ids, "padding_mask": ids > 0}


def without(inputs):
    return {**inputs, "padding_mask": np.zeros_like(inputs["padding_mask"])}


def test_equals_scikit_learn():
    rows, inputs = batch()
    idf = inverse_document_frequency(rows, 7)
    layer = WordsHead(3, idf, use_bias=False)
    layer.build()
    kernel = np.random.default_rng(0).normal(size=(7, 3)).astype("float32")
    layer.kernel.assign(kernel / GAIN)
    vectorizer = TfidfVectorizer(
        sublinear_tf=True, token_pattern=r"\w", vocabulary=sorted(IDS)
    )
    expected = vectorizer.fit_transform(TEXTS) @ kernel[1:6]
    np.testing.assert_allclose(layer([], inputs), expected, rtol=1e-5)
    assert idf[0] == idf[6] == 0


def test_padding_and_empty_texts():
    rows, inputs = batch()
    layer = WordsHead(3, inverse_document_frequency(rows, 7), use_bias=False)
    layer.build()
    layer.kernel.assign(np.ones((7, 3)))
    wide = {name: np.pad(part, [[0, 0], [0, 4]]) for name, part in inputs.items()}
    wide["token_ids"][:, -4:] = 2
    np.testing.assert_allclose(layer([], wide), layer([], inputs), rtol=1e-6)
    assert not np.any(layer([], without(inputs)))


def test_reloads():
    layer = WordsHead(3, [0.0, 1.5])
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again.get_config() == layer.get_config()


def test_names_of_labels_are_a_first_guess():
    rows, inputs = batch()
    layer = WordsHead(2, inverse_document_frequency(rows, 7), use_bias=False)
    layer.build()
    # Label 0 is called "b", label 1 "a zzz": of a name, what is unknown says nothing.
    layer.start_from_names([[IDS["b"]], [IDS["a"], 6]])
    logits = np.asarray(layer([], inputs))
    assert logits[0, 0] > 0 and not logits[1:, 0].any()
    assert logits[0, 1] > 0 and logits[3, 1] > 0 and not logits[1:3, 1].any()


def test_sparse_kernel_equals_the_dense_one():
    rows, inputs = batch()
    idf = inverse_document_frequency(rows, 7)
    kernel = np.random.default_rng(0).normal(size=(7, 3)).astype("float32")
    kernel[:, 1] = 0
    dense = WordsHead(3, idf)
    dense.build()
    words, labels = np.nonzero(kernel)
    sparse = SparseWordsHead(3, idf, len(words))
    sparse.set_pairs(words[::-1], labels[::-1], kernel[words, labels][::-1])
    for layer in (dense, sparse):
        layer.label_bias.assign([1.0, 2.0, 3.0])
    dense.kernel.assign(kernel)
    np.testing.assert_allclose(sparse([], inputs), dense([], inputs), rtol=1e-5)
    assert not np.any(sparse([], without(inputs)) - sparse.label_bias)
    every = np.asarray(dense([], inputs))
    for chosen in (None, np.array([2, 0])):
        given = inputs if chosen is None else {**inputs, "candidates": chosen}
        expected = every if chosen is None else every[:, chosen]
        gradients = []
        for layer in (dense, sparse):
            with tf.GradientTape() as tape:
                logits = layer([], given)
                total = tf.reduce_sum(tf.square(logits))
            np.testing.assert_allclose(logits, expected, rtol=1e-5)
            gradient = tape.gradient(total, layer.kernel.value)
            gradients.append(tf.convert_to_tensor(gradient).numpy())
        np.testing.assert_allclose(gradients[1], gradients[0][words, labels], rtol=1e-4)
    again = keras.layers.deserialize(keras.layers.serialize(sparse))
    assert again.get_config() == sparse.get_config()
    with pytest.raises(ValueError, match="num_pairs"):
        sparse.set_pairs([1], [2])


def test_pairs_are_those_of_the_texts_the_telling_ones_first():
    rows, _ = batch()
    labels = scipy.sparse.csr_matrix([[1, 0], [1, 1], [1, 0], [0, 1]])
    words, found = word_label_pairs(rows, labels, 7, most=2)
    pairs = set(zip(words.tolist(), found.tolist(), strict=True))
    # b is in the first text alone, whose only label is 0; d never without label 1.
    assert pairs >= {(IDS["b"], 0), (IDS["d"], 1)}
    assert (IDS["b"], 1) not in pairs
    words, found = word_label_pairs(rows, labels, 7, most=1)
    assert len(words) == len(set(words)) == 5
    assert found[words.tolist().index(IDS["d"])] == 1


def test_names_join_the_pairs():
    rows, inputs = batch()
    idf = inverse_document_frequency(rows, 7)
    pairs = np.array([IDS["a"]]), np.array([1])
    kernel = pairs_with_names(pairs, [[IDS["b"]], [IDS["a"], 6]], idf, 0.2)
    layer = SparseWordsHead(2, idf, len(kernel[0]))
    layer.set_pairs(*kernel)
    dense = WordsHead(2, idf)
    dense.build()
    dense.start_from_names([[IDS["b"]], [IDS["a"], 6]], 0.2 * GAIN)
    np.testing.assert_allclose(layer([], inputs), dense([], inputs), rtol=1e-5)
