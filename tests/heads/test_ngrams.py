"""The linear head against scikit-learn's TF-IDF, and wherever it runs."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from sklearn.feature_extraction.text import TfidfVectorizer

from bat_tf.heads.ngrams import NgramsHead
from bat_tf.text.ngrams import read_letters

TEXTS = [
    "red shoes for red feet",
    "blue shoes",
    "a blue lamp for the table",
    "the lamp",
    "",
]
LETTERS = read_letters(TEXTS)


def made(words, characters, num_labels=3):
    settings = {"words": words, "characters": characters, "min_count": 1}
    head = NgramsHead.knowing(LETTERS, num_labels, **settings)
    random = np.random.default_rng(0)
    head.set_linear(
        random.normal(size=(num_labels, head.num_ngrams)), random.normal(size=3)
    )
    return head


def sklearn_tfidf(words, characters):
    """Dense TF-IDF, [N, F], the two kinds side by side."""
    parts = []
    if words:
        pattern = {"token_pattern": r"\w+", "ngram_range": (1, words)}
        parts.append(TfidfVectorizer(sublinear_tf=True, **pattern))
    if characters:
        pattern = {"analyzer": "char_wb", "ngram_range": (2, characters)}
        parts.append(TfidfVectorizer(sublinear_tf=True, **pattern))
    return np.hstack([part.fit_transform(TEXTS).toarray() for part in parts])


@pytest.mark.parametrize("words, characters", [(1, 0), (2, 0), (0, 3), (2, 4)])
def test_features_are_those_of_scikit_learn(words, characters):
    ours = made(words, characters).matrix(LETTERS)
    theirs = sklearn_tfidf(words, characters)
    # Columns have another order: likeness of texts does not depend on it.
    np.testing.assert_allclose((ours @ ours.T).toarray(), theirs @ theirs.T, atol=1e-5)


def test_logits_are_the_linear_model_of_the_features():
    head = made(2, 4)
    expected = head.matrix(LETTERS) @ head.kernel.numpy() + head.label_bias.numpy()
    logits = head([], {"letters": LETTERS.to_tensor()})
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_padding_and_company_change_nothing():
    head = made(2, 3)
    together = head([], {"letters": LETTERS.to_tensor()}).numpy()
    for row in range(len(TEXTS)):
        alone = tf.pad(LETTERS[row : row + 1].to_tensor(), [[0, 0], [0, 5]])
        np.testing.assert_allclose(
            head([], {"letters": alone})[0], together[row], atol=1e-5
        )


def test_a_text_without_letters_has_the_bias_alone():
    head = made(1, 0)
    logits = head([], {"letters": np.zeros((2, 0), "int32")})
    np.testing.assert_allclose(logits, [head.label_bias.numpy()] * 2)


def test_some_labels_are_those_of_all():
    head, inputs = made(1, 2), {"letters": LETTERS.to_tensor()}
    some = head([], {**inputs, "candidates": np.array([2, 0])})
    np.testing.assert_allclose(some, head([], inputs).numpy()[:, [2, 0]])


def test_config_and_weights_come_back():
    head = made(2, 3)
    other = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(head)
    )
    other.set_weights(head.get_weights())
    inputs = {"letters": LETTERS.to_tensor()}
    np.testing.assert_array_equal(head([], inputs), other([], inputs))


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"characters": 1}, "characters"),
        ({"words": 0, "characters": 0}, "characters"),
        ({"words": -1}, "words"),
        ({"share": 1.5}, "share"),
    ],
)
def test_bad_settings_are_named(settings, named):
    with pytest.raises(ValueError, match=f"`{named}`"):
        NgramsHead(2, 10, **settings)


def test_texts_without_common_ngrams_are_refused():
    with pytest.raises(ValueError, match="2 of them"):
        NgramsHead.knowing(read_letters(["abc", "xyz"]), 2, words=1, characters=0)
