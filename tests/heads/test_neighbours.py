"""Votes of the training texts that are most like a text."""

import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from label_cases import ENCODER, documents

import bat_tf
from bat_tf.heads import Average, NeighbourHead, neighbours
from bat_tf.models import ExpertClassifier


def by_hand(states, keys, labels, number, temperature, smoothing):
    """The formula of `NeighbourHead`, text by text."""
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
        layer = NeighbourHead(5, 37, sparse.nnz, **settings)
        layer.build([(None, None, 6)])
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
    np.testing.assert_allclose(layer.vote(states), expected, atol=0.02)
    compiled = tf.function(layer.vote)
    np.testing.assert_allclose(compiled(states), layer.vote(states), atol=1e-4)


def test_of_some_labels_and_of_no_text(memory):
    layer = memory[2]()
    states = np.random.default_rng(1).normal(size=(3, 6)).astype("float32")
    every = np.asarray(layer.vote(states))
    inputs = {"padding_mask": np.ones((3, 1), bool), "candidates": np.array([4, 0])}
    np.testing.assert_allclose(layer([states[:, None]], inputs), every[:, [4, 0]])
    assert layer.vote(states[:0]).shape == (0, 5)
    # A text without any state is like none: the votes stay finite.
    assert np.isfinite(layer.vote(np.zeros((1, 6)))).all()


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
    model.compile(bat_tf.optimizers.Adam(0.01), loss="zlpr", metrics=["precision_at_1"])
    return model


@pytest.fixture
def model():
    return experts()


def test_untrained_model_answers_from_memory(model):
    """Of a text that was remembered, the labels are known."""
    data = documents(60)
    texts, expected = list(data.texts), [set(labels) for labels in data.labels]
    inputs = next(iter(model.batches(data, 8)))[0]
    before = model(inputs)
    votes = model.remember(data, neighbours=1, temperature=0.01)
    after = votes(inputs)
    assert before.shape == (8, 2, 3) and after.shape == (8, 3, 3)
    np.testing.assert_allclose(after[:, :2], before, atol=1e-5)
    shares = votes.score_scale * np.asarray(after[:, 2])
    assert (np.abs(shares) > 6.9).all()
    votes.combine = Average("logits")
    found = [{name for name, _ in row} for row in votes.label(texts)]
    assert np.mean([a == b for a, b in zip(found, expected, strict=True)]) > 0.9
    forgot = votes.remember(data, neighbours=0)
    assert [head.name for head in forgot.heads] == ["document_1", "words"]
    np.testing.assert_allclose(forgot(inputs), before, atol=1e-5)


@pytest.mark.slow
def test_training_goes_on_without_neighbours(model):
    data = documents(40)
    twin = experts()
    votes = model.remember(data)
    ours, theirs = (
        one.fit(data, validation_data=data, epochs=2, verbose=0).history
        for one in (votes, twin)
    )
    np.testing.assert_allclose(ours["loss"], theirs["loss"], rtol=1e-4)
    # Validation has the votes in it.
    assert ours["val_loss"][0] != theirs["val_loss"][0]
    assert len(votes.trainable_variables) == len(twin.trainable_variables)


def everything(model, data, texts):
    """What compiled functions say."""
    loss = model.evaluate(data, return_dict=True, verbose=0)["loss"]
    served = model.serving_function()(tf.constant(texts))["scores"]
    return model.scores(texts), [loss, model.disagreement(data)], served.numpy()


@pytest.mark.slow
def test_saved_and_exported(model, tmp_path):
    data, texts = documents(60), documents(8, seed=2).texts
    model.fit(data, epochs=2, verbose=0)
    plain = everything(model, data, texts)
    remembering = model.remember(data)
    votes = everything(remembering, data, texts)
    assert np.abs(votes[0] - plain[0]).max() > 0.1
    assert (np.abs(np.subtract(votes[1], plain[1])) > 0.01).all()
    assert votes[2].shape != plain[2].shape or np.abs(votes[2] - plain[2]).max() > 0.01
    # The model that remembers nothing answers as before.
    np.testing.assert_allclose(model.scores(texts), plain[0], atol=1e-6)
    remembering.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.scores(texts), votes[0], atol=1e-5)
    served = bat_tf.load(remembering.export(tmp_path / "served" / "1"))
    for ours, theirs in zip(remembering.label(texts), served.label(texts), strict=True):
        assert [name for name, _ in ours] == [name for name, _ in theirs]


def test_what_is_remembered_is_no_weight(model):
    before = len(model.variables), model.count_params()
    for data in (documents(60), documents(20)):
        votes = model.remember(data)
        assert len(votes.variables) == before[0] + 3
        assert votes.count_params() == before[1]
    # What was remembered before is forgotten.
    assert len(votes.remember(documents(24)).variables) == before[0] + 3


def test_compiled_models_answer_without_xla():
    model = ExpertClassifier.for_data(documents(), experts=["D-1"], **ENCODER)
    model.compile("adam", "zlpr", jit_compile=True)
    votes = model.remember(documents(20))
    assert np.isfinite(votes.scores(["oil"])).all()
    assert not votes.jit_compile


def test_thresholds_are_to_be_fitted_again(model):
    model.fit_thresholds(documents(20))
    with pytest.warns(UserWarning, match="fitted to other scores"):
        model.remember(documents(20))


def test_large_states_are_remembered(memory):
    keys, labels, made = memory
    layer, states = made(), np.float32(keys[:5])
    expected = np.asarray(layer.vote(states))
    layer.remember(1e6 * keys, scipy.sparse.csr_matrix(labels))
    np.testing.assert_allclose(layer.vote(1e6 * states), expected, atol=1e-3)
    again = NeighbourHead.from_config(layer.get_config())
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
    direct = model.remember(data).scores(data)
    votes = model.remember(data, cache_backbone=str(tmp_path))
    assert list(tmp_path.glob("*.npy"))
    np.testing.assert_allclose(
        votes.scores(data, cache_backbone=str(tmp_path)), direct, atol=0.02
    )


def test_what_cannot_be_remembered(model):
    data = documents(8)
    with pytest.raises(TypeError, match="a TextDataset whose examples have labels"):
        model.remember(["a text"])
    other = bat_tf.TextDataset(
        bat_tf.data.Example(text, labels=["elsewhere"]) for text in data.texts
    )
    with pytest.raises(ValueError, match="texts with labels that the model knows"):
        model.remember(other)
    model.compile("adam", loss="lsep")
    model.fit(data, verbose=0)
    with pytest.raises(ValueError, match="only ranks labels"):
        model.remember(data)
    words = ExpertClassifier.for_data(data, experts=["S"], **ENCODER)
    with pytest.raises(ValueError, match="`heads` must be with a document head"):
        words.remember(data)
