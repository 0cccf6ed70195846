"""R-Drop and VAT: what they add to the loss, and that they train."""

import cases
import keras
import numpy as np
import oracles
import pytest
import tensorflow as tf
from label_cases import ENCODER, documents

from bat_tf.losses import (
    ZLPR,
    BalancedLoss,
    ExpertLoss,
    TagLoss,
    kl_divergence,
    symmetric_kl,
)
from bat_tf.models import ExpertClassifier, LabelClassifier
from bat_tf.training import VAT, RDrop, consistent


def network(dropout=0.5):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(8, "tanh")(inputs)
    hidden = keras.layers.Dropout(dropout, seed=1)(hidden)
    return keras.Model(inputs, keras.layers.Dense(3)(hidden))


def batch():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 4)).astype("float32")
    return tf.constant(x), tf.constant(np.eye(3, dtype="float32")[np.arange(8) % 3])


LOSSES = {
    "zlpr": (ZLPR(), 2.0, "sum"),
    "zlpr, summed": (ZLPR(reduction="sum"), 2.0, "sum"),
    "masked": (ZLPR(label_mask=[True, False, True]), 2.0, "sum"),
    "bce": (BalancedLoss(gamma=0), 1.0, "mean"),
    "bce, sum": (BalancedLoss(gamma=0, label_reduction="sum"), 1.0, "sum"),
    "keras": (keras.losses.BinaryCrossentropy(from_logits=True), 1.0, "mean"),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_r_drop_follows_loss_and_weights(name, weighted):
    """½ (ℓ + ℓ') + α/4 Σ w D / B, where D is a sum or a mean over labels, as ℓ is."""
    loss, scale, over_labels = LOSSES[name]
    rng = np.random.default_rng(1)
    s, t = rng.normal(size=(2, 8, 3)).astype("float32")
    weight = np.arange(8, dtype="float32") if weighted else None
    x, y = batch()
    model = consistent(network(), RDrop(4.0))
    model.compile("adam", loss)
    object.__setattr__(model, "call", lambda *_, **__: tf.constant(t))
    found = float(model.compute_loss(x, y, tf.constant(s), weight))
    kept = [0, 2] if name == "masked" else [0, 1, 2]
    apart = [
        oracles.symmetric_kl(a[kept], b[kept], scale) for a, b in zip(s, t, strict=True)
    ]
    apart = np.array(apart) / (len(kept) if over_labels == "mean" else 1)
    apart = np.sum(apart if weight is None else apart * weight)
    apart /= 1 if "summed" in name else 8
    expected = (loss(y, s, weight) + loss(y, t, weight)) / 2 + apart
    assert found == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
def test_r_drop_of_experts_is_their_mean(reduction):
    """As the loss is: also where it is the sum over texts."""
    rng = np.random.default_rng(1)
    s, t = rng.normal(size=(2, 4, 2, 3)).astype("float32")
    weight = np.arange(4, dtype="float32")
    experts = {"experts": ["D-1", "A-0"], "consistency": [RDrop(4.0)]}
    model = ExpertClassifier.for_data(documents(16), **experts, **ENCODER)
    model.compile("adam", ExpertLoss("bce", diversity=0, reduction=reduction))
    found = float(model.distance(symmetric_kl, s, t, weight))
    apart = [
        np.mean([oracles.symmetric_kl(a, b, 1.0) for a, b in zip(*pair, strict=True)])
        for pair in zip(s, t, strict=True)
    ]
    expected = np.dot(weight, apart) / 3  # a mean over labels, as bce is
    expected /= 1 if reduction == "sum" else 4
    assert found == pytest.approx(expected, rel=1e-5)


def test_vat_follows_loss_and_weights():
    x, y = batch()
    weight = np.arange(8, dtype="float32")

    def term(loss, weight=None):
        keras.utils.set_random_seed(0)
        model = consistent(network(0.0), VAT(1.0, radius=0.5))
        model.compile("adam", loss)
        return float(
            model.compute_loss(x, y, model(x), weight) - loss(y, model(x), weight)
        )

    alone = [term(ZLPR(), np.eye(8, dtype="float32")[row]) for row in range(8)]
    assert np.ptp(alone) > 0
    assert term(ZLPR(), weight) == pytest.approx(np.dot(weight, alone), rel=1e-3)
    whole, mean = (BalancedLoss(label_reduction=over) for over in ("sum", "mean"))
    assert term(whole) == pytest.approx(3 * term(mean), rel=1e-3)


def test_tokens_under_a_mask_owe_nothing():
    keras.utils.set_random_seed(0)
    ids = keras.Input((4,), dtype="int32")
    hidden = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    scores = keras.layers.Dense(3)(keras.layers.Dropout(0.5)(hidden))
    model = consistent(keras.Model(ids, scores), RDrop(4.0))
    model.compile("sgd", ZLPR())
    tokens = np.array([[1, 2, 0, 0], [3, 4, 5, 0]])
    s, t = (model(tokens, training=True) for _ in "st")
    apart = model.distance(symmetric_kl, s, t)
    each = np.array(symmetric_kl(s, t))[tokens > 0]
    assert float(apart) == pytest.approx(each.mean(), rel=1e-5)
    tags = np.random.default_rng(0).integers(0, 2, (2, 4, 3))
    assert np.isfinite(model.fit(tokens, tags, verbose=0).history["loss"]).all()


def test_steps_make_no_tokens_of_padding():
    """`Masking` tells padding by its zeros, which a step must leave alone."""
    keras.utils.set_random_seed(0)
    x = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    x[0, 2:] = x[1, 3:] = 0
    inputs = keras.Input((None, 3))
    hidden = keras.layers.Masking()(inputs)
    hidden = keras.layers.GRU(4, return_sequences=True)(hidden)
    scores = keras.Model(inputs, keras.layers.Dense(2)(hidden))
    model = consistent(scores, VAT(1.0))
    model.compile("sgd", ZLPR())
    seen, perturbed = [], model.perturbed
    object.__setattr__(
        model, "perturbed", lambda x, step: seen.append(perturbed(x, step)) or seen[-1]
    )
    model.consistency[0].distance(model, tf.constant(x))
    assert len(seen) == 2
    for moved in seen:
        assert not moved.numpy()[x == 0].any() and (moved.numpy()[x != 0] != 0).all()


def test_without_dropout_r_drop_changes_nothing():
    x, y = batch()
    plain, with_it = network(dropout=0.0), consistent(network(0.0), RDrop(4.0))
    for model in (plain, with_it):
        model.compile("sgd", ZLPR())
        model.fit(x, y, epochs=2, verbose=0)
    for one, other in zip(plain.get_weights(), with_it.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_r_drop_makes_answers_agree():
    x, y = batch()
    apart = []
    for alpha in (0.0, 20.0):
        model = consistent(network(), RDrop(alpha))
        model.compile(keras.optimizers.Adam(0.02), ZLPR())
        model.fit(x, y, epochs=60, verbose=0)
        pairs = [(model(x, training=True), model(x, training=True)) for _ in range(8)]
        apart.append(np.mean([symmetric_kl(*pair) for pair in pairs]))
    assert apart[1] < 0.5 * apart[0]


def test_vat_looks_where_it_hurts():
    x, y = batch()
    model = consistent(network(), VAT(1.0, radius=0.5))
    model.compile("adam", ZLPR())
    worst = float(model.consistency[0].distance(model, x))
    answer, rng = model(x), np.random.default_rng(0)
    steps = rng.normal(size=(50, 8, 4))
    steps *= 0.5 / np.linalg.norm(steps, axis=-1, keepdims=True)
    others = [np.mean(kl_divergence(answer, model(x + step))) for step in steps]
    assert worst > np.mean(others)
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"]).all()


def test_only_training_is_changed():
    x, y = batch()
    model = consistent(network(), RDrop(4.0), VAT(1.0))
    model.compile("adam", ZLPR())
    assert model.evaluate(x, y, verbose=0) == pytest.approx(
        float(ZLPR()(y, model(x))), rel=1e-5
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "jit_compile"),
    cases.with_xla(
        [(encoder, way) for encoder in ("bat", "bert") for way in (RDrop, VAT)],
        [],
    ),
)
def test_label_classifier(parts, jit_compile):
    encoder, term = parts
    data = documents(16)
    model = LabelClassifier.for_data(
        data, encoder, dropout=0.2, consistency=[term(1.0)], **ENCODER
    )
    model.compile("adam", "zlpr", jit_compile=jit_compile)
    history = model.fit(data, validation_data=data, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"] + history.history["val_loss"]).all()
    again = LabelClassifier.from_config(model.get_config())
    assert again.consistency[0].get_config() == term(1.0).get_config()


@pytest.mark.slow
def test_adversarial_steps_past_label_attention():
    """XLA has no gradient of its loop there: the model does without."""
    data, experts = documents(16), {"experts": ["D-1", "A-0"]}
    settings = {"consistency": [VAT(1.0), RDrop(1.0)], **experts, **ENCODER}
    model = ExpertClassifier.for_data(data, **settings)
    model.compile("adam", "zlpr", jit_compile=True)
    assert np.isfinite(model.fit(data, epochs=1, verbose=0).history["loss"]).all()


def test_adversarial_steps_follow_the_seed():
    x, y = batch()
    weights = []
    for _ in range(2):
        model = consistent(network(0.0), VAT(1.0))
        assert "seed_generator_state" in model.non_trainable_variables[-1].path
        model.compile("sgd", ZLPR())
        model.fit(x, y, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "loss",
    [
        "binary_crossentropy",
        keras.losses.BinaryCrossentropy(),
        BalancedLoss(from_logits=False),
    ],
)
def test_probabilities_are_not_compared_as_logits(loss):
    model = consistent(network(), RDrop(4.0))
    model.compile("adam", loss)
    with pytest.raises(ValueError, match="compares logits. Leave the sigmoid out"):
        model.fit(*batch(), verbose=0)


def test_bad_use_gets_a_sentence():
    experts = {"experts": ["D-1"], "candidates": 2, "consistency": [RDrop(1.0)]}
    with pytest.raises(ValueError, match="`consistency` must be empty for a model w"):
        ExpertClassifier.for_data(documents(16), **experts, **ENCODER)
    x, y = batch()
    model = consistent(network(), RDrop(1.0))
    model.compile("adam", TagLoss())
    with pytest.raises(ValueError, match="compares probabilities"):
        model.fit(x, np.argmax(y, axis=1), verbose=0)
    model = LabelClassifier.for_data(documents(16), consistency=[RDrop(1.0)], **ENCODER)
    model.compile("adam", "lsep")
    with pytest.raises(ValueError, match="compares probabilities"):
        model.fit(documents(16), verbose=0)
    with pytest.raises(ValueError, match="`alpha` must be a number >= 0"):
        consistent(network(), RDrop(-1))
    ids = keras.Input((3,), dtype="int32")
    hidden = keras.layers.Flatten()(keras.layers.Embedding(5, 2)(ids))
    model = consistent(keras.Model(ids, keras.layers.Dense(2)(hidden)), VAT(1.0))
    model.compile("adam", ZLPR())
    with pytest.raises(ValueError, match="Token ids have no small steps"):
        model.fit(np.ones((4, 3), "int32"), np.ones((4, 2)), verbose=0)
