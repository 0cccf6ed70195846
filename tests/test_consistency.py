"""R-Drop and VAT: what they add to the loss, and that they train."""

import cases
import keras
import numpy as np
import pytest
import tensorflow as tf
from test_classifier import ENCODER, documents

from bat_tf.losses import ZLPR, kl_divergence, symmetric_kl
from bat_tf.models import LabelClassifier, consistent


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


def test_r_drop_is_half_the_sum_and_a_quarter_of_the_distance():
    rng = np.random.default_rng(1)
    s, t = (tf.constant(rng.normal(size=(8, 3)), tf.float32) for _ in "st")
    x, y = batch()
    model = consistent(network(), r_drop=4.0)
    model.compile("adam", ZLPR())
    answers = iter([t])
    object.__setattr__(model, "call", lambda *_, **__: next(answers))
    found = float(model.compute_loss(x, y, s))
    expected = (ZLPR()(y, s) + ZLPR()(y, t)) / 2 + tf.reduce_mean(symmetric_kl(s, t))
    assert found == pytest.approx(float(expected), rel=1e-5)


def test_without_dropout_r_drop_changes_nothing():
    x, y = batch()
    plain, with_it = network(dropout=0.0), consistent(network(0.0), r_drop=4.0)
    for model in (plain, with_it):
        model.compile("sgd", ZLPR())
        model.fit(x, y, epochs=2, verbose=0)
    for one, other in zip(plain.get_weights(), with_it.get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_r_drop_makes_answers_agree():
    x, y = batch()
    apart = []
    for alpha in (0.0, 20.0):
        model = consistent(network(), r_drop=alpha)
        model.compile(keras.optimizers.Adam(0.02), ZLPR())
        model.fit(x, y, epochs=60, verbose=0)
        pairs = [(model(x, training=True), model(x, training=True)) for _ in range(8)]
        apart.append(np.mean([symmetric_kl(*pair) for pair in pairs]))
    assert apart[1] < 0.5 * apart[0]


def test_vat_looks_where_it_hurts():
    x, y = batch()
    model = consistent(network(), vat=1.0, vat_radius=0.5)
    model.compile("adam", ZLPR())
    worst = float(model._adversarial(x, 2.0))
    answer, rng = model(x), np.random.default_rng(0)
    steps = rng.normal(size=(50, 8, 4))
    steps *= 0.5 / np.linalg.norm(steps, axis=-1, keepdims=True)
    others = [np.mean(kl_divergence(answer, model(x + step))) for step in steps]
    assert worst > np.mean(others)
    assert np.isfinite(model.fit(x, y, verbose=0).history["loss"]).all()


def test_only_training_is_changed():
    x, y = batch()
    model = consistent(network(), r_drop=4.0, vat=1.0)
    model.compile("adam", ZLPR())
    assert model.evaluate(x, y, verbose=0) == pytest.approx(
        float(ZLPR()(y, model(x))), rel=1e-5
    )


@pytest.mark.parametrize(
    ("parts", "jit_compile"),
    cases.with_xla(
        [(encoder, way) for encoder in ("bat", "bert") for way in ("r_drop", "vat")],
        [],
    ),
)
def test_label_classifier(parts, jit_compile):
    encoder, setting = parts
    data = documents(16)
    model = LabelClassifier.for_data(
        data, encoder, dropout=0.2, **{setting: 1.0}, **ENCODER
    )
    model.compile("adam", "zlpr", jit_compile=jit_compile)
    history = model.fit(data, validation_data=data, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"] + history.history["val_loss"]).all()
    again = LabelClassifier.from_config(model.get_config())
    assert getattr(again, setting) == 1.0


def test_adversarial_steps_follow_the_seed():
    x, y = batch()
    weights = []
    for _ in range(2):
        model = consistent(network(0.0), vat=1.0)
        assert "seed_generator_state" in model.non_trainable_variables[-1].path
        model.compile("sgd", ZLPR())
        model.fit(x, y, epochs=2, verbose=0)
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_bad_use_gets_a_sentence():
    model = LabelClassifier.for_data(documents(16), r_drop=1.0, **ENCODER)
    model.compile("adam", "lsep")
    with pytest.raises(ValueError, match="compare probabilities"):
        model.fit(documents(16), verbose=0)
    with pytest.raises(ValueError, match="`r_drop` must be a number >= 0"):
        consistent(network(), r_drop=-1)
    ids = keras.Input((3,), dtype="int32")
    hidden = keras.layers.Flatten()(keras.layers.Embedding(5, 2)(ids))
    model = consistent(keras.Model(ids, keras.layers.Dense(2)(hidden)), vat=1.0)
    model.compile("adam", ZLPR())
    with pytest.raises(ValueError, match="Token ids have no small steps"):
        model.fit(np.ones((4, 3), "int32"), np.ones((4, 2)), verbose=0)
