"""A shortlist finds what scoring all labels would."""

import keras
import numpy as np
import pytest
from test_classifier import ENCODER, documents

import bat_tf
from bat_tf.data import LabelSpace
from bat_tf.models import ExpertClassifier, Shortlist

OTHERS = [f"other {number}" for number in range(200)]


def trained(experts):
    data = documents()
    known = LabelSpace.fit(data.labels)
    space = LabelSpace(
        [*known.names, *OTHERS],
        counts=[*known.counts, *[1] * len(OTHERS)],
        num_examples=known.num_examples,
    )
    keras.utils.set_random_seed(0)
    model = ExpertClassifier.for_data(
        data, labels=space, experts=experts, pooling="mean", expert_width=8, **ENCODER
    )
    model.compile(bat_tf.optimizers.Adam(0.01), loss="bce")
    model.fit(data, epochs=3, batch_size=16, verbose=0)
    return model


@pytest.fixture(scope="module")
def model():
    return trained(["A-0", "D-1", "S"])


def test_scores_are_those_of_the_model(model):
    texts = documents(12, seed=1).texts
    exact = model.scores(texts)
    ids, logits = Shortlist(model, size=40).top_k(texts, 3)
    np.testing.assert_allclose(
        logits, np.take_along_axis(exact, ids, axis=1), rtol=1e-4, atol=1e-4
    )
    assert (np.diff(logits, axis=1) <= 0).all()
    assert all(len(set(row)) == 3 for row in ids)


def test_neighbours_vote_on_the_shortlist_too(model):
    texts = documents(12, seed=1).texts
    model.remember(documents(20))
    exact = model.scores(texts)
    ids, logits = Shortlist(model, size=40).top_k(texts, 3)
    model.remember(documents(20), neighbours=0)
    expected = np.take_along_axis(exact, ids, axis=1)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    assert np.abs(model.scores(texts) - exact).max() > 0.1


def test_recall(model):
    test = documents(30, seed=2)
    assert Shortlist(model, size=60).recall(test, 1) > 0.95
    everything = Shortlist(model, size=500, effort=500)
    assert everything.size == 203
    assert everything.recall(test, 3) > 0.6


def test_bad_input(model, monkeypatch):
    with pytest.raises(ValueError, match="document expert"):
        Shortlist(trained(["A-1"]))
    with pytest.raises(ValueError, match="`k`"):
        Shortlist(model, size=10).top_k(["a"], 9)
    with pytest.raises(ValueError, match="the place of a document expert"):
        model.document_features(0)
    monkeypatch.setitem(__import__("sys").modules, "faiss", None)
    with pytest.raises(ImportError, match="faiss-cpu"):
        Shortlist(model)


def test_recall_among_thousands_of_rare_labels():
    """As after training: all biases far below 0, rows of unequal length."""
    random = np.random.default_rng(0)
    space = LabelSpace([f"label {number}" for number in range(5000)])
    data = documents(64)
    model = ExpertClassifier.for_data(
        data, labels=LabelSpace.fit(data.labels), experts=["D-1"], **ENCODER
    )
    model = ExpertClassifier(
        model.encoder, model.tokenizer, space, experts=["D-1"], expert_width=0
    )
    head = model.get_layer("document_1")
    rows = random.normal(size=head.label_kernel.shape) + 0.5
    head.label_kernel.assign(rows * random.uniform(0.5, 1.5, (5000, 1)))
    head.label_bias.assign(random.uniform(-12, -8, 5000))
    assert Shortlist(model, size=200).recall(data, 5) > 0.95
