"""A tagger whose head has transitions: training, answers, files."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import bat_tf
from bat_tf.runs.build import new_model
from bat_tf.runs.settings import Settings


def tagger(**settings):
    model = tiny.tagger(compiled=False, crf=True, **settings)
    model.compile(keras.optimizers.Adam(0.01), metrics=["span_f1", "token_macro_f2"])
    return model


@pytest.fixture(scope="module")
def model():
    model = tagger()
    model.fit(tiny.dataset(), epochs=2, verbose=0)
    return model


def answers(model, texts):
    return [[tag[:4] for tag in tags] for tags in model.tag(texts)]


def assert_same(found, wanted):
    assert [[tag[:3] for tag in tags] for tags in found] == [
        [tag[:3] for tag in tags] for tags in wanted
    ]
    scores = [[tag[3] for tags in part for tag in tags] for part in (found, wanted)]
    np.testing.assert_allclose(*scores, atol=1e-5)


def test_a_reloaded_model_answers_and_trains_on(model, tmp_path):
    texts = tiny.dataset(6, "test").texts
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    assert_same(answers(again, texts), answers(model, texts))
    assert np.isfinite(again.evaluate(tiny.dataset(8), verbose=0)).all()


def test_its_loss_is_that_of_a_crf_and_all_weights_learn(model):
    assert isinstance(model.loss, bat_tf.losses.CRF)
    assert model.transitions.shape == (len(model.tags) + 1,) * 2
    learnt = np.array(model.transitions)
    inside = [tag.startswith("I-") for tag in model.tags]
    assert learnt[-1, :-1][~np.array(inside)].all()
    # What cannot be is never counted on.
    assert not learnt[-1, :-1][inside].any()


def shaken(model):
    """Gives the head weights under which logits and transitions matter."""
    random = np.random.default_rng(0)
    for weight in model.heads[0].weights:
        weight.assign(random.normal(size=weight.shape))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["bio", "plain"])
def test_answers_are_the_same_through_every_door(scheme, tmp_path):
    model = shaken(tagger(scheme=scheme))
    texts = [*tiny.dataset(12, "test").texts, "", "two lamps " * 20]
    found = answers(model, texts)
    assert any(found) and all(0 < tag[3] <= 1 for tags in found for tag in tags)
    model.export(tmp_path / "model" / "1")
    assert_same(answers(bat_tf.load(tmp_path / "model" / "1"), texts), found)
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    assert_same(answers(again, texts), found)
    assert np.isfinite(again.evaluate(tiny.dataset(8), verbose=0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_trains_in_half_precision(precision):
    model = tagger(dtype=precision)
    history = model.fit(tiny.dataset(16), epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all() and history[1] < history[0]


@pytest.mark.slow
def test_jit_compiled_training_equals_plain_training():
    weights = []
    for jit_compile in (False, True):
        model = tiny.tagger(compiled=False, crf=True)
        metrics = ["span_f1"]
        optimizer = keras.optimizers.SGD(1e-2)
        model.compile(optimizer, metrics=metrics, jit_compile=jit_compile)
        before = model.get_weights()
        model.fit(tiny.dataset(16), epochs=2, verbose=0)
        weights.append(
            [w - b for w, b in zip(model.get_weights(), before, strict=True)]
        )
    # The empty rows that fill up XLA's batches change no step.
    assert max(np.abs(w).max() for w in weights[0]) > 1e-3
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.slow
def test_long_texts_are_one_chain():
    """Windows put logits together; the best path is that of the whole text."""
    short, long = tagger(max_length=16, overlap=4), tagger()
    for model in (short, long):  # with logits that are the same in every window
        kernel = shaken(model).heads[0].scores.kernel
        kernel.assign(np.zeros(kernel.shape))
    texts = ["a red lamp by Veloria " * times for times in (2, 5, 12, 30)]
    found = answers(long, texts)
    assert_same(answers(short, texts), found)
    assert any(found)


def test_metrics_score_the_best_path(model):
    data = tiny.dataset(24, "test")
    found = model.evaluate(data, verbose=0, return_dict=True)
    report = model.evaluate_report(data).values
    assert found["span_f1"] == pytest.approx(report["span_f1"], abs=1e-6)
    assert found["token_macro_f2"] == pytest.approx(report["token_macro_f2"], abs=1e-6)


@pytest.mark.slow
def test_token_losses_train_the_logits_alone():
    model = tagger()
    model.compile("adam", loss="pbp")
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        model.fit(tiny.dataset(8), verbose=0)
    assert not np.any(model.transitions)
    model.compile("adam", model.named_loss("crf", token_loss="cecla", token_weight=0.1))
    model.fit(tiny.dataset(8), verbose=0)
    assert np.any(model.transitions)
    assert model.loss.token_loss.class_counts is not None


def test_texts_that_were_cut_inside_a_span_train():
    data = bat_tf.TextDataset(
        [bat_tf.data.Example("word " * 40, spans=[(0, 150, "x")])] * 4
    )
    model = tiny.tagger(data, compiled=False, crf=True, max_length=8, overlap=0)
    model.compile("adam")
    loss = model.fit(data, verbose=0).history["loss"][0]
    assert 0 < loss < 10


def test_a_head_without_transitions_has_no_such_loss():
    model = tiny.tagger(compiled=False)
    with pytest.raises(ValueError, match="Build the model with `crf=True`"):
        model.compile("adam", loss="crf")
    with pytest.raises(ValueError, match=r"heads: \{crf: true\}"):
        Settings.of(data="product_pages/en", loss="crf")


def test_a_recipe_switches_it_on():
    settings = Settings.of(data="product_pages/en", heads={"crf": True})
    assert settings.loss.name == "crf"
    encoder = {f"encoder.{name}": value for name, value in tiny.ENCODER.items()}
    model = new_model(settings.changed(**encoder), tiny.dataset(8))
    assert model.transitions is not None
    config = keras.saving.serialize_keras_object(model.heads[0])
    assert config["config"]["crf"] is True
    settings = settings.changed(**{"loss.token_loss": "cecl"})
    assert settings.loss.settings == {"token_loss": "cecl"}


def test_transitions_reach_served_tokens(model):
    from bat_tf.models.signatures import tag_tokens

    texts = tiny.dataset(6, "test").texts
    inputs = model.preprocessor(texts)
    found = tag_tokens(model)(inputs)
    for row, tags in enumerate(model.tag(texts)):
        begins = tf.strings.regex_full_match(found["tags"][row], "B-.*")
        assert int(tf.reduce_sum(tf.cast(begins, tf.int32))) == len(tags)
