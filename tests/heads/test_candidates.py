"""Candidates stand for all labels: the loss over them is that over all, on average."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bat_tf import losses
from bat_tf.heads import CandidateLabels
from bat_tf.losses.document import Candidates

TOTAL, WORDS = 60, 7
IDS = np.array([[3, 41, -1], [17, -1, -1]], "int32")
TOKENS = np.array([[1, 2, 0], [4, 0, 0]], "int32")
MASK = TOKENS > 0


def layer(size=20, **settings):
    found = CandidateLabels(TOTAL, size, WORDS, **settings)
    found.set_hard(words=[1, 1, 4, 5], labels=[8, 9, 50, 51])
    return found


def test_labels_and_hard_ones_are_certain_and_stand_for_themselves():
    for _ in range(5):
        labels, weights, places = map(np.asarray, layer()(TOKENS, MASK, IDS))
        assert len(set(labels)) == 20
        np.testing.assert_array_equal(labels[places[IDS >= 0]], IDS[IDS >= 0])
        assert (places[IDS < 0] == -1).all()
        # Word 1 points to 8 first, word 4 to 50; word 5 is in no text.
        certain = {3, 41, 17, 8, 50}
        assert certain <= set(labels)
        own = np.isin(labels, list(certain))
        assert (weights[own] == 1).all()
        np.testing.assert_allclose(weights[~own], (TOTAL - 5) / 15, rtol=1e-6)


def test_more_hard_labels_a_word():
    labels, weights, _ = map(np.asarray, layer(hard_per_word=2)(TOKENS, MASK, IDS))
    assert {8, 9, 50} <= set(labels[weights == 1])


@pytest.mark.parametrize("name", ["bce", "fl", "cb", "r-fl", "cb-ntr", "db"])
def test_loss_of_candidates_is_unbiased(name):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 40, TOTAL)
    loss = losses.get(name, class_counts=counts, num_examples=100)
    scores = rng.normal(size=(2, TOTAL)).astype("float32")
    exact = loss(IDS, scores)
    choose = layer()

    @tf.function
    def estimate():
        labels, weights, places = choose(TOKENS, MASK, IDS)
        some = Candidates(labels, weights, TOTAL)
        return loss(places, tf.gather(scores, labels, axis=1), None, some)

    found = np.array([estimate() for _ in range(400)])
    spread = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - exact) < 4 * spread + 1e-6
    assert found.std() > 0


@pytest.mark.parametrize("name", ["bce", "db", "zlpr", "lsep", "bp-mll"])
def test_with_all_labels_the_loss_is_exact(name):
    rng = np.random.default_rng(1)
    weighed = name in losses.balanced.NAMES
    settings = {"class_counts": rng.integers(1, 9, TOTAL), "num_examples": 20}
    loss = losses.get(name, **(settings if weighed else {}))
    scores = rng.normal(size=(2, TOTAL)).astype("float32")
    labels, weights, places = layer(TOTAL)(TOKENS, MASK, IDS)
    some = Candidates(labels, weights, TOTAL)
    found = loss(places, np.take(scores, labels, axis=1), None, some)
    np.testing.assert_allclose(found, loss(IDS, scores), rtol=1e-5)


def test_experts_and_their_diversity():
    rng = np.random.default_rng(2)
    counts = rng.integers(1, 9, TOTAL)
    loss = losses.ExpertLoss(
        "bce", label_counts=counts, diversity=1.0, diversity_start_epoch=0
    )
    scores = rng.normal(size=(2, 3, TOTAL)).astype("float32")
    labels, weights, places = layer(TOTAL)(TOKENS, MASK, IDS)
    some = Candidates(labels, weights, TOTAL)
    found = loss(places, np.take(scores, labels, axis=2), None, some)
    np.testing.assert_allclose(found, loss(IDS, scores), rtol=1e-5)


def test_bad_input():
    with pytest.raises(ValueError, match="at most the number of labels, 60"):
        CandidateLabels(TOTAL, 61, WORDS)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Raise `candidates`"):
        layer(2)(TOKENS, MASK, IDS)
    for name in ("rl", "warp", "dl1", "dl2"):
        some = Candidates(tf.range(3), tf.ones(3), TOTAL)
        with pytest.raises(ValueError, match="stand for all"):
            losses.get(name)(np.array([[0]]), np.zeros((1, 3)), None, some)


def test_reloads():
    first = layer()
    again = keras.layers.deserialize(keras.layers.serialize(first))
    assert again.get_config() == first.get_config()
