"""S3's baselines by name: each config builds the model that its paper has."""

from pathlib import Path

import keras
import numpy as np
import pytest
from label_cases import documents

import bat_tf
from bat_tf.encoders import BertEncoder
from bat_tf.runs.build import build, head_arguments
from bat_tf.runs.recipes import settings_for

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"


def settings_of(name):
    # A vocabulary of all words: the texts here are few.
    settings = settings_for(RECIPES / f"extreme_{name}.yaml", data="-")
    settings.text.settings.clear()
    return settings


def test_attention_xml():
    model = build(settings_of("attention_xml"), documents(16))
    (head,) = model.heads
    assert head.attention.label_kernel.shape == (3, 512)
    assert head.attention.hidden_kernel.shape == (512, 256)
    assert isinstance(model.encoder, bat_tf.encoders.BiLSTMEncoder)
    assert model.loss.base.name == "bce"


def test_xml_cnn(monkeypatch):
    data = documents(16)
    model = build(settings_of("xml_cnn"), data)
    (head,) = model.heads
    assert isinstance(model.encoder, bat_tf.encoders.CNNEncoder)
    assert head.hidden.kernel.shape == (8 * 3 * 128, 512)
    assert head.label_kernel.shape == (3, 512)
    # Dropout is between the two, as in the paper.
    assert head.drop.rate == 0.5
    dropped = []
    monkeypatch.setattr(head.drop, "call", lambda x, training: dropped.append(x) or x)
    inputs, _ = next(iter(model.batches(data, 8)))
    model(inputs)
    assert dropped[0].shape == (8, 512) and np.min(dropped[0]) == 0  # behind ReLU


def test_light_xml_is_dropout_and_a_linear_layer_on_five_first_tokens():
    settings = settings_of("light_xml")
    data = documents(16)
    encoder = BertEncoder(60, 8, d_ff=8, num_heads=2, num_layers=6)
    heads = {"head_dropout": settings.heads.dropout, **head_arguments(settings)}
    model = bat_tf.ExpertClassifier.for_data(data, encoder, **heads)
    (head,) = model.heads
    assert head.hidden is None and head.label_kernel.shape == (3, 5 * 8)
    assert head.drop.rate == 0.5
    model.compile("adam", settings.loss.name)
    inputs, _ = next(iter(model.batches(data, 8)))
    states = encoder(inputs)
    first = np.concatenate([states[i][:, 0] for i in (6, 5, 4, 3, 2)], axis=-1)
    kernel, bias = head.get_weights()
    expected = first @ kernel.T + bias
    np.testing.assert_allclose(model(inputs)[:, 0], expected, atol=1e-5)


def small(name, **changes):
    sizes = {"attention_xml": {"d_model": 16}, "xml_cnn": {"filters": 8}}[name]
    settings = settings_of(name)
    settings.encoder.settings |= {**sizes, "embedding_width": 16, "dropout": 0.1}
    return settings.changed(**{"budget.batch_size": 16, **changes})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention_xml", "xml_cnn"])
def test_learns_and_is_saved(name, tmp_path):
    keras.utils.set_random_seed(0)
    # After 10 epochs it depends on the seed: micro F1 of 0.70 to 0.95.
    settings = small(name, **{"budget.epochs": 20, "optimizer.learning_rate": 0.02})
    model = build(settings, documents())
    model.fit(documents(), epochs=settings.budget.epochs, batch_size=16, verbose=0)
    test = documents(40, seed=1)
    assert model.evaluate_report(test).values["micro_f1"] > 0.9
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.scores(test), model.scores(test), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "jit_compile", "precision"),
    [
        # The encoder alone is compiled in test_bilstm.py.
        pytest.param("attention_xml", True, "float32", marks=pytest.mark.slow),
        ("attention_xml", False, "mixed_float16"),
        ("xml_cnn", True, "float32"),
        ("xml_cnn", False, "mixed_bfloat16"),
    ],
)
def test_trains_under_xla_and_in_half_precision(name, jit_compile, precision):
    changes = {"encoder.precision": precision, "budget.jit_compile": jit_compile}
    settings = small(name, **changes)
    model = build(settings, documents(16))
    history = model.fit(documents(16), epochs=1, batch_size=16, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
