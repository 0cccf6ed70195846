"""Votes of the training texts that are most like a text."""

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from test_classifier import ENCODER, documents

import bat_tf
from bat_tf.layers import NeighbourVotes, neighbours
from bat_tf.models import ExpertClassifier


def by_hand(states, keys, labels, number, temperature, smoothing):
    """The formula of `NeighbourVotes`, text by text."""
    logits = np.zeros((len(states), labels.shape[1]))
    for row, state in enumerate(states):
        near = keys @ state / np.linalg.norm(keys, axis=1) / np.linalg.norm(state)
        chosen = np.argsort(-near)[:number]
        votes = np.exp(near[chosen] / temperature)
        share = votes @ labels[chosen] / votes.sum()
        logits[row] = np.log(share + smoothing) - np.log(1 - share + smoothing)
    return logits


@pytest.fixture
def memory():
    """Texts with no label, one and several, and the layer that remembers them."""
    random = np.random.default_rng(0)
    keys = random.normal(size=(37, 6))
    labels = (random.random((37, 5)) < 0.3).astype("float32")
    sparse = scipy.sparse.csr_matrix(labels)

    def made(**settings):
        layer = NeighbourVotes(5, 6, 37, sparse.nnz, **settings)
        layer.remember(keys, sparse)
        return layer

    return keys, labels, made


@pytest.mark.parametrize("chunk", [4, 37, 2**16])
@pytest.mark.parametrize("number", [1, 7, 100])
def test_formula_whatever_the_chunk(memory, monkeypatch, chunk, number):
    monkeypatch.setattr(neighbours, "CHUNK", chunk)
    keys, labels, made = memory
    layer = made(neighbours=number, temperature=0.2, smoothing=0.01)
    states = np.random.default_rng(1).normal(size=(9, 6)).astype("float32")
    expected = by_hand(states, keys, labels, number, 0.2, 0.01)
    np.testing.assert_allclose(layer(states), expected, atol=0.02)
    compiled = tf.function(lambda x: layer(x))
    np.testing.assert_allclose(compiled(states), layer(states), atol=1e-4)


def test_of_some_labels_and_of_no_text(memory):
    layer = memory[2]()
    states = np.random.default_rng(1).normal(size=(3, 6)).astype("float32")
    every = np.asarray(layer(states))
    np.testing.assert_allclose(layer(states, labels=[4, 0]), every[:, [4, 0]])
    own = np.array([[1], [2], [0]])
    expected = np.take_along_axis(every, own, axis=1)
    np.testing.assert_allclose(layer(states, labels=own), expected)
    assert layer(states[:0]).shape == (0, 5)
    # A text without any state is like none: the votes stay finite.
    assert np.isfinite(layer(np.zeros((1, 6)))).all()


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"neighbours": 0}, "`neighbours` must be an integer >= 1"),
        ({"temperature": 0.0}, "`temperature` must be a number > 0"),
        ({"smoothing": 0.0}, "`smoothing` must be a number > 0"),
    ],
)
def test_bad_settings(memory, settings, message):
    with pytest.raises(ValueError, match=message):
        memory[2](**settings)


def test_texts_of_another_shape(memory):
    layer = memory[2]()
    with pytest.raises(ValueError, match="`states` must be of the shapes"):
        layer.remember(np.zeros((37, 5)), scipy.sparse.csr_matrix((37, 5)))


def experts():
    keras.utils.set_random_seed(0)
    model = ExpertClassifier.for_data(
        documents(), experts=["D-1", "S"], pooling="mean", **ENCODER
    )
    model.compile(bat_tf.optimizers.Adam(0.01), loss="zlpr", metrics=["p@1"])
    return model


@pytest.fixture
def model():
    return experts()


def test_untrained_model_answers_from_memory(model):
    """Of a text that was remembered, the labels are known."""
    data = documents(60)
    texts, expected = list(data.texts), [set(labels) for labels in data.labels]
    before = model(next(iter(model.batches(data, 8)))[0])
    model.remember(data, neighbours=1, temperature=0.01)
    after = model(next(iter(model.batches(data, 8)))[0])
    assert before.shape == (8, 2, 3) and after.shape == (8, 3, 3)
    np.testing.assert_allclose(after[:, :2], before, atol=1e-5)
    votes = model.score_scale * np.asarray(after[:, 2])
    assert (np.abs(votes) > 6.9).all()
    model.averaging = "logits"
    found = [{name for name, _ in row} for row in model.label(texts)]
    assert np.mean([a == b for a, b in zip(found, expected, strict=True)]) > 0.9
    model.remember(data, neighbours=0)
    assert model.memory is None
    again = model(next(iter(model.batches(data, 8)))[0])
    np.testing.assert_allclose(again, before, atol=1e-5)


def test_training_goes_on_without_neighbours(model):
    data = documents(40)
    twin = experts()
    model.remember(data)
    ours, theirs = (
        one.fit(data, validation_data=data, epochs=2, verbose=0).history
        for one in (model, twin)
    )
    np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-4)
    # Validation has the votes in it.
    assert ours["val_loss"][0] != theirs["val_loss"][0]
    assert len(model.trainable_variables) == len(twin.trainable_variables)


def test_saved_and_exported(model, tmp_path):
    data, texts = documents(60), documents(8, seed=2).texts
    model.fit(data, epochs=2, verbose=0)

    def everything():
        """What compiled functions say."""
        loss = model.evaluate(data, return_dict=True, verbose=0)["loss"]
        served = model.serving_function()(tf.constant(texts))["scores"]
        return model.scores(texts), [loss, model.disagreement(data)], served.numpy()

    plain = everything()
    model.remember(data)
    votes = everything()
    assert np.abs(votes[0] - plain[0]).max() > 0.1
    assert (np.abs(np.subtract(votes[1], plain[1])) > 0.01).all()
    assert votes[2].shape != plain[2].shape or np.abs(votes[2] - plain[2]).max() > 0.01
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.scores(texts), votes[0], atol=1e-5)
    served = bat_tf.load(model.export(tmp_path / "served" / "1"))
    for ours, theirs in zip(model.label(texts), served.label(texts), strict=True):
        assert [name for name, _ in ours] == [name for name, _ in theirs]


def test_what_is_forgotten_is_gone(model):
    """Out of what is counted, saved and exported, too."""
    before = len(model.variables), model.count_params()
    for data in (documents(60), documents(20)):
        model.remember(data)
        assert len(model.variables) == before[0] + 3
    assert model.count_params() == before[1]
    model.remember(data, neighbours=0)
    assert (len(model.variables), model.count_params()) == before


def test_compiled_models_answer_without_xla():
    model = ExpertClassifier.for_data(documents(), experts=["D-1"], **ENCODER)
    model.compile("adam", "zlpr", jit_compile=True)
    model.remember(documents(20))
    assert np.isfinite(model.scores(["oil"])).all()
    model.compile("adam", "zlpr", jit_compile=True)
    assert not model.jit_compile


def test_thresholds_are_to_be_fitted_again(model):
    model.fit_thresholds(documents(20))
    with pytest.warns(UserWarning, match="fitted to other scores"):
        model.remember(documents(20))


def test_large_states_are_remembered(memory):
    keys, labels, made = memory
    layer, states = made(), np.float32(keys[:5])
    expected = np.asarray(layer(states))
    layer.remember(1e6 * keys, scipy.sparse.csr_matrix(labels))
    np.testing.assert_allclose(layer(1e6 * states), expected, atol=1e-3)
    again = NeighbourVotes.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_cached_states_are_remembered_too(tmp_path):
    data = documents(24)
    encoder = bat_tf.encoders.BertEncoder(
        40, 8, d_ff=8, num_heads=2, num_layers=1, frozen_layers=1
    )
    model = ExpertClassifier.for_data(
        data, encoder, experts=["D-1", "S"], pooling="mean"
    )
    model.compile("adam", "bce")
    model.remember(data)
    direct = model.scores(data)
    model.remember(data, cache_backbone=str(tmp_path))
    assert list(tmp_path.glob("*.npy"))
    np.testing.assert_allclose(
        model.scores(data, cache_backbone=str(tmp_path)), direct, atol=0.02
    )


def test_what_cannot_be_remembered(model):
    data = documents(8)
    with pytest.raises(TypeError, match="a TextDataset whose examples have labels"):
        model.remember(["a text"])
    other = bat_tf.TextDataset(
        bat_tf.data.Example(text, labels=["elsewhere"]) for text in data.texts
    )
    model.remember(data)
    with pytest.raises(ValueError, match="texts with labels that the model knows"):
        model.remember(other)
    assert model.memory.num_texts == 8  # what was there stays
    model.compile("adam", loss="lsep")
    with pytest.raises(ValueError, match="only ranks labels"):
        model.remember(data)
    words = ExpertClassifier.for_data(data, experts=["S"], **ENCODER)
    with pytest.raises(ValueError, match="`experts` must be with a document expert"):
        words.remember(data)
