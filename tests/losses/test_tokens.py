"""Several tags a token: the losses and metrics of documents on [B, T, L]."""

import cases
import keras
import numpy as np
import oracles
import pytest
import tensorflow as tf

import bat_tf.losses
import bat_tf.metrics
from bat_tf.layers import AttentionTournament, FeedForwardTournament

COUNTS, NUMBER, MU = [30, 12, 5], 200, 0.4
WEIGHED = {"class_counts": COUNTS, "num_examples": NUMBER, "rebalance_mu": MU}
MASK = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool)
LOSSES = ["bce", "fl", "cb", "r-fl", "ntr-fl", "db-0fl", "cb-ntr", "db"]
LOSSES += ["dl1", "dl2", "zlpr", "rl", "warp", "bp-mll", "lsep"]
METRICS = ["micro_f1", "macro_f1", "macro_f2", "mlc_f1", "jaccard", "subset_accuracy"]
METRICS += ["average_precision", "ranking_loss", "precision_at_1"]


def make(name, **settings):
    return bat_tf.losses.get(
        name, **(WEIGHED if name in LOSSES[:8] else {}), **settings
    )


def batch():
    rng = np.random.default_rng(0)
    hot = (rng.random((2, 4, 3)) < 0.5).astype("float32")
    return hot, rng.normal(size=(2, 4, 3)).astype("float32")


def masked(scores, mask=MASK):
    """Scores with Keras' mask, as a layer behind an embedding gives them."""
    scores = tf.convert_to_tensor(scores)
    scores._keras_mask = tf.constant(mask)
    return scores


def as_ids(hot, width=4):
    rows = [np.flatnonzero(row).tolist() for row in hot.reshape(-1, hot.shape[-1])]
    rows = [row + [-1] * (width - len(row)) for row in rows]
    return np.array(rows).reshape(*hot.shape[:2], width)


@pytest.mark.parametrize("name", ["db", "zlpr"])
def test_each_token_costs_what_a_document_would(name):
    hot, scores = batch()
    expected = np.array(
        [
            [oracles.document_loss(name, *token, COUNTS, NUMBER, MU) for token in row]
            for row in (
                list(zip(y, s, strict=True)) for y, s in zip(hot, scores, strict=True)
            )
        ]
    )
    cases.close(make(name, reduction=None)(hot, scores), expected)
    cases.close(make(name)(hot, scores), expected.mean())
    value = make(name)(hot, masked(scores))
    cases.close(value, expected[MASK].mean())
    for weight in (np.array([1.0, 3.0]), np.arange(8.0).reshape(2, 4)):
        wide = np.broadcast_to(weight.reshape(2, -1), (2, 4))
        value = make(name)(hot, masked(scores), weight)
        cases.close(value, np.sum((wide * expected)[MASK]) / MASK.sum())
        mean = make(name, reduction="mean_with_sample_weight")
        value = mean(hot, masked(scores), weight)
        cases.close(value, np.sum((wide * expected)[MASK]) / wide[MASK].sum())


@pytest.mark.parametrize("name", LOSSES)
def test_what_stands_at_padding_changes_nothing(name):
    """Neither wrong labels nor NaN scores, nor more of them; and in every form."""
    hot, scores = batch()
    expected, slope = make(name)(hot[MASK], scores[MASK]), None
    odd = np.where(MASK[..., None], scores, np.nan)
    wrong = np.where(MASK[..., None], hot, 7)
    ids = np.where(MASK[..., None], as_ids(hot), 99)
    longer = [np.pad(x, [(0, 0), (0, 2), (0, 0)]) for x in (hot, scores)]
    for y_true, y_pred, mask in (
        (hot, scores, MASK),
        (wrong, odd, MASK),
        (wrong.astype(int), odd, MASK),
        (ids, odd, MASK),
        (*longer, np.pad(MASK, [(0, 0), (0, 2)])),
    ):
        y_pred = tf.constant(y_pred, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(y_pred)
            given = tf.identity(y_pred)
            given._keras_mask = tf.constant(mask)
            value = make(name)(y_true, given)
        gradient = tape.gradient(value, y_pred).numpy()
        cases.close(value, expected, 1e-5)
        assert not gradient[~mask].any()
        slope = gradient[mask] if slope is None else slope
        cases.close(gradient[mask], slope, 1e-5)


@pytest.mark.parametrize("name", METRICS)
def test_metrics_count_tokens(name):
    hot, scores = batch()
    weight = np.array([1.0, 2.0])
    each = np.broadcast_to(weight[:, None], (2, 4))
    told = bat_tf.metrics.get(name)
    told.update_state(hot[MASK], scores[MASK], np.repeat(weight, MASK.sum(1)))
    odd = np.where(MASK[..., None], scores, np.nan).astype("float32")
    for y_true in (hot, hot.astype(int), hot > 0, as_ids(hot)):
        metric = bat_tf.metrics.get(name)
        for wide in (weight, each, each[..., None]):
            metric.reset_state()
            metric.update_state(y_true, masked(odd), wide)
            cases.close(metric.result(), told.result(), 1e-6)


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_in_a_stock_keras_model(tmp_path, jit_compile):
    keras.utils.set_random_seed(0)
    hot, _ = batch()
    tokens = np.where(MASK, [[5, 9, 2, 1], [7, 5, 3, 3]], 0)
    model = keras.Sequential(
        [
            keras.layers.Embedding(10, 8, mask_zero=True),
            AttentionTournament(2),
            FeedForwardTournament(8),
            keras.layers.Dense(3),
        ]
    )
    metrics = [bat_tf.metrics.get("micro_f1"), bat_tf.metrics.get("macro_f1")]
    model.compile("adam", make("db"), metrics=metrics, jit_compile=jit_compile)
    history = model.fit(tokens, hot.astype(int), epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    found = model.evaluate(tokens, hot, verbose=0, return_dict=True)
    scores = model.predict(tokens, verbose=0)
    cases.close(found["loss"], make("db")(hot[MASK], scores[MASK]))
    told = bat_tf.metrics.get("micro_f1")
    told.update_state(hot[MASK], scores[MASK])
    cases.close(found["micro_f1"], told.result(), 1e-6)
    model.save(tmp_path / "model.keras")
    fresh = keras.saving.load_model(tmp_path / "model.keras")
    assert fresh.evaluate(tokens, hot, verbose=0, return_dict=True) == found


def test_weights_that_do_not_fit():
    hot, scores = batch()
    metric = bat_tf.metrics.get("micro_f1")
    with pytest.raises(ValueError, match=r"per token, \[B, T\].*\(2, 4, 3\)"):
        metric.update_state(hot, scores, np.ones((2, 4, 3)))
