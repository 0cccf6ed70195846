import cases
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import bat_tf.losses
from bat_tf.losses import (
    BPMLL,
    LSEP,
    WARP,
    ZLPR,
    BatchDiceLoss,
    DiceLoss,
    RankingHinge,
    kl_divergence,
    ranking,
    symmetric_kl,
)

VECTORS = {
    "zlpr": ZLPR(reduction=None),
    "tlpr_s0_0.7": ZLPR(threshold=0.7, reduction=None),
    "soft_zlpr": ZLPR(reduction=None),
    "zlpr_smooth_0.1": ZLPR(label_smoothing=0.1, reduction=None),
    "dl1_g1": DiceLoss(reduction=None),
    "rl_m1": RankingHinge(reduction=None),
    "warp_m1": WARP(reduction=None),
    "bpmll_log": BPMLL(reduction=None),
    "bpmll_raw": BPMLL(log_form=False, reduction=None),
    "lsep": LSEP(reduction=None),
}


def inputs(case):
    return np.float32(case["inputs"]["labels"]), np.float32(case["inputs"]["logits"])


def fresh(loss, **settings):
    return type(loss).from_config({**loss.get_config(), **settings})


@pytest.mark.parametrize("name", VECTORS)
class TestVectors:
    def test_value_and_gradient(self, vectors, name):
        case = vectors[f"ranking/{name}"]
        per_sample = VECTORS[name](*inputs(case))
        cases.close(per_sample, case["expected"]["per_sample"])
        loss = fresh(VECTORS[name], reduction="mean")
        value, gradient = cases.value_and_gradient(loss, *inputs(case))
        cases.close(value, case["expected"]["value"])
        cases.close(gradient, case["expected"]["grad_logits"])

    def test_from_bools_and_from_ids(self, vectors, name):
        case = vectors[f"ranking/{name}"]
        if name == "soft_zlpr":
            case = vectors["ranking/zlpr"]
        labels, scores = inputs(case)
        ids = tf.ragged.constant([np.flatnonzero(row) for row in labels])
        loss = fresh(VECTORS[name], reduction="mean")
        for y_true in (labels > 0, ids.to_tensor(-1).numpy()):
            value, gradient = cases.value_and_gradient(loss, y_true, scores)
            cases.close(value, case["expected"]["value"])
            cases.close(gradient, case["expected"]["grad_logits"])


@pytest.mark.parametrize(
    "jit_compile", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_vectors_inside_fit(vectors, jit_compile):
    names = [name for name in VECTORS if name != "soft_zlpr"]
    losses = {
        name.replace(".", "_"): fresh(VECTORS[name], reduction="mean") for name in names
    }
    labels, scores = inputs(vectors["ranking/zlpr"])
    steps = cases.fit_step(losses, labels, scores, jit_compile=jit_compile)
    for name in names:
        value, gradient = steps[name.replace(".", "_")]
        expected = vectors[f"ranking/{name}"]["expected"]
        cases.close(value, expected["value"])
        cases.close(gradient, expected["grad_logits"])


def test_batch_dice(vectors):
    case = vectors["ranking/dl2_g1"]
    for reduction in ("mean", "sum", "sum_over_batch_size", None):
        loss = BatchDiceLoss(reduction=reduction)
        value, gradient = cases.value_and_gradient(loss, *inputs(case))
        cases.close(value, case["expected"]["value"])
        cases.close(gradient, case["expected"]["grad_logits"])


def test_dice_at_zero():
    loss = DiceLoss(reduction="sum")
    value, gradient = cases.value_and_gradient(
        loss, np.array([[1.0, 0.0]]), np.zeros((1, 2), "float32")
    )
    cases.close(value, 0.111111 + 0.2, 1e-6)
    cases.close(gradient, [[-0.123457, 0.16]], 1e-6)


@pytest.mark.parametrize("as_ids", [False, True])
def test_masked_labels(vectors, as_ids):
    case = vectors["ranking/zlpr_masked"]
    mask = case["inputs"]["label_mask"]
    assert all(row == mask[0] for row in mask)
    labels, scores = inputs(case)
    # Whatever the model says about a label that does not count.
    scores[:, ~np.array(mask[0])] = [np.nan, 1e4]
    if as_ids:
        rows = [np.flatnonzero(row) for row in labels]
        width = labels.shape[1] + 1  # no multi-hot
        labels = tf.ragged.constant(rows).to_tensor(-1, shape=[None, width]).numpy()
    loss = ZLPR(label_mask=mask[0])
    value, gradient = cases.value_and_gradient(loss, labels, scores)
    cases.close(value, np.mean(case["expected"]["per_sample"]))
    cases.close(gradient, case["expected"]["grad_logits"])


DEGENERATE = {
    "zlpr": ("zlpr", {}),
    "bce_sum": ("bce", {"label_reduction": "sum"}),
    "focal_sum": ("fl", {"label_reduction": "sum"}),
    "dl1": ("dl1", {}),
    "rl": ("rl", {}),
    "lsep": ("lsep", {}),
    "bpmll_log": ("bp-mll", {}),
    "warp": ("warp", {}),
    "dl2": ("dl2", {}),
}


@pytest.mark.parametrize("key", DEGENERATE)
def test_rows_without_labels_or_without_others(vectors, key):
    case = vectors["ranking/degenerate"]
    name, options = DEGENERATE[key]
    loss = bat_tf.losses.get(name, reduction=None, **options)
    labels, scores = inputs(case)
    ids = np.array([[-1] * 5, [0, 1, 2, 3, -1], [0, -1, -1, -1, -1]])
    for y_true in (labels, labels > 0, ids):
        value, gradient = cases.value_and_gradient(loss, y_true, scores)
        cases.close(value, case["expected"][key])
        assert np.isfinite(gradient).all()
        if key in ("rl", "lsep", "bpmll_log", "warp"):
            assert not gradient[:2].any() and gradient[2].any()


def test_extreme_scores(vectors):
    case = vectors["ranking/extreme"]
    labels, scores = inputs(case)
    for key, loss in {
        "zlpr": ZLPR(reduction=None),
        "lsep": LSEP(reduction=None),
        "bce_sum": bat_tf.losses.get("bce", label_reduction="sum", reduction=None),
        "bpmll_log": BPMLL(reduction=None),
        "tlpr_s0_2": ZLPR(2.0, reduction=None),
    }.items():
        for y_true in (labels, labels > 0, np.array([[0, 2], [0, -1]])):
            value, gradient = cases.value_and_gradient(loss, y_true, scores)
            cases.close(value, case["expected"][key])
            assert np.isfinite(gradient).all()
    for key, function in {"symkl": symmetric_kl, "kl": kl_divergence}.items():
        value = function(scores, np.zeros_like(scores))
        cases.close(value, case["expected"][f"{key}_with_zero"])


def test_values_at_zero():
    """P = 2 of L = 5."""
    labels, scores = np.array([[1.0, 1, 0, 0, 0]]), np.zeros((1, 5), "float32")
    for loss, positive, negative in (
        (ZLPR(), -1 / 3, 1 / 4),
        (BPMLL(), -1 / 2, 1 / 3),
        (LSEP(), -3 / 7, 2 / 7),
    ):
        _, gradient = cases.value_and_gradient(loss, labels, scores)
        cases.close(gradient, [[positive] * 2 + [negative] * 3], 1e-6)


def test_soft_optimum(vectors):
    case = vectors["ranking/soft_optimum"]
    _, gradient = cases.value_and_gradient(ZLPR(), *inputs(case))
    cases.close(gradient, case["expected"]["grad"], 1e-6)


def test_probabilities_next_to_the_borders():
    p = np.array([[1e-30, 1 - 1e-7, 0.0, 1.0]], "float32")
    scores = np.array([[-1e4, 1e4, -1e4, 1e4]], "float32")
    value, gradient = cases.value_and_gradient(ZLPR(), p, scores)
    cases.close(value, 1e4 + np.log(1e-30) + 1e4 + np.log(1.19e-7))
    assert np.isfinite(gradient).all()


class TestThreshold:
    def test_learnt_threshold_is_the_last_score(self, vectors):
        case = vectors["ranking/tlpr_s0_0.7"]
        labels, scores = inputs(case)
        wide = np.pad(scores, [(0, 0), (0, 1)], constant_values=0.7)
        loss = ZLPR(threshold="learnt")
        value, gradient = cases.value_and_gradient(loss, labels, wide)
        cases.close(value, case["expected"]["value"])
        cases.close(gradient[:, :-1], case["expected"]["grad_logits"])
        # A threshold moves against its labels: nothing changes if all move together.
        cases.close(gradient.sum(-1), np.zeros(len(labels)), 1e-6)
        assert loss.score_threshold is None and loss.probability_scale == 2.0

    def test_learnt_threshold_with_masked_labels_and_ids(self, vectors):
        labels, scores = inputs(vectors["ranking/tlpr_s0_0.7"])
        wide = np.pad(scores, [(0, 0), (0, 1)], constant_values=0.7)
        mask = [True] * 6 + [False, True]
        loss = ZLPR(threshold="learnt", label_mask=mask)
        ids = tf.ragged.constant([np.flatnonzero(row) for row in labels])
        kept = np.flatnonzero(mask)
        expected = ZLPR(0.7)(labels[:, kept], scores[:, kept])
        cases.close(loss(labels, wide), expected)
        cases.close(loss(ids, wide), expected)

    def test_sentences(self):
        for threshold in ("learned", None, float("nan"), True):
            with pytest.raises(ValueError, match="threshold"):
                ZLPR(threshold=threshold)
        with pytest.raises(ValueError, match="8 labels"):
            ZLPR("learnt")(np.zeros((1, 9)), np.zeros((1, 9)))


class TestDivergence:
    def test_vectors(self, vectors):
        for key, function in {"kl": kl_divergence, "symkl": symmetric_kl}.items():
            case = vectors[f"ranking/zlpr_{key}"]
            s, t = (tf.constant(case["inputs"][k]) for k in ("logits", "logits2"))
            with tf.GradientTape() as tape:
                tape.watch(s)
                per_sample = function(s, t)
                value = tf.reduce_mean(per_sample)
            cases.close(per_sample, case["expected"]["per_sample"])
            cases.close(value, case["expected"]["value"])
            cases.close(tape.gradient(value, s), case["expected"]["grad_logits"])

    def test_r_drop(self, vectors):
        case = vectors["ranking/zlpr_rdrop_a4"]
        labels, s = (tf.constant(x) for x in inputs(case))
        t, loss = tf.constant(case["inputs"]["logits2"]), ZLPR(reduction=None)
        with tf.GradientTape() as tape:
            tape.watch(s)
            zlpr = (loss(labels, s) + loss(labels, t)) / 2
            total = zlpr + case["params"]["alpha"] / 4 * symmetric_kl(s, t)
            value = tf.reduce_mean(total)
        cases.close(total, case["expected"]["per_sample"])
        cases.close(tape.gradient(value, s), case["expected"]["grad_logits"])

    @pytest.mark.parametrize("scale", [1.0, 2.0])
    def test_of_probabilities(self, scale):
        s, t = np.random.default_rng(0).normal(0, 2, (2, 3, 4))
        p, q = 1 / (1 + np.exp(-scale * s)), 1 / (1 + np.exp(-scale * t))
        kl = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        cases.close(kl_divergence(s, t, scale), kl.sum(-1), 1e-9)
        both = kl_divergence(s, t, scale) + kl_divergence(t, s, scale)
        cases.close(symmetric_kl(s, t, scale), both, 1e-9)

    def test_large_scores(self):
        s, t = tf.constant([[1e4, -1e4, 1e4]]), tf.constant([[-1e4, -1e4, 1e4 + 1]])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([s, t])
            values = kl_divergence(s, t), symmetric_kl(s, t)
        for value in values:
            assert np.isfinite(value).all()
            for gradient in tape.gradient(value, [s, t]):
                assert np.isfinite(gradient).all()


def direct_hinge(labels, scores, margin, ranked):
    """The sum over pairs as it is written, differentiated by TensorFlow."""
    y = tf.cast(labels, scores.dtype)
    apart = tf.nn.relu(margin + scores[:, None, :] - scores[:, :, None])
    weight = tf.ones_like(scores)
    if ranked:
        larger = scores[:, None, :] > scores[:, :, None]
        weight = 1 + tf.reduce_sum(tf.cast(larger, scores.dtype), axis=-1)
    pairs = (y * weight)[:, :, None] * (1 - y)[:, None, :]
    return tf.reduce_sum(pairs * apart, axis=[1, 2])


@st.composite
def rankings(draw):
    rows, size = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    # Few levels, many of them a margin apart: ties of all kinds.
    level = st.sampled_from([-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 7.25])
    if draw(st.booleans()):
        level = st.floats(-20, 20, width=32, allow_subnormal=False)
    scores = [[draw(level) for _ in range(size)] for _ in range(rows)]
    labels = [[draw(st.booleans()) for _ in range(size)] for _ in range(rows)]
    return np.array(labels), np.array(scores, "float32")


class TestHinges:
    @settings(max_examples=50)
    @given(rankings(), st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.booleans())
    def test_sorted_equals_direct(self, problem, margin, ranked):
        labels, scores = problem
        loss = (WARP if ranked else RankingHinge)(margin, reduction="sum")
        value, gradient = cases.value_and_gradient(loss, labels, scores)
        scores = tf.constant(scores, "float64")
        with tf.GradientTape() as tape:
            tape.watch(scores)
            direct = tf.reduce_sum(direct_hinge(labels, scores, margin, ranked))
        cases.close(value, direct)
        slope = tape.gradient(direct, scores).numpy()
        # In float32 a pair may be at its kink by rounding alone.
        differences = scores[:, None, :] - scores[:, :, None] + margin
        near = np.abs(differences) < 1e-4
        if not np.any(near & (differences.numpy() != 0)):
            cases.close(gradient, slope)

    def test_ranks(self, vectors):
        case = vectors["ranking/ranks"]
        scores = tf.constant(case["inputs"]["logits"])
        cases.close(ranking.rank_weights(scores), case["expected"]["rank"], 0)

    @pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
    def test_ranks_of_ties(self, size):
        scores = np.random.default_rng(size).integers(0, 4, (5, size)).astype("float32")
        expected = 1 + np.sum(scores[:, None, :] > scores[:, :, None], axis=-1)
        cases.close(ranking.rank_weights(tf.constant(scores)), expected, 0)

    @pytest.mark.parametrize("ranked", [False, True])
    @pytest.mark.parametrize("offset", [0.0, 1000.0])
    def test_many_labels(self, ranked, offset):
        random = np.random.default_rng(0)
        scores = random.normal(offset, 2, (2, 1500)).astype("float32")
        labels = random.random((2, 1500)) < 0.1
        loss = (WARP if ranked else RankingHinge)(reduction=None)
        value, gradient = cases.value_and_gradient(loss, labels, scores)
        expected = direct_hinge(labels, tf.constant(scores, "float64"), 1.0, ranked)
        assert np.allclose(value, expected, rtol=1e-5)
        # Pushing all scores up together changes nothing.
        assert np.abs(gradient.sum(-1)).max() <= 1e-5 * np.abs(gradient).sum(-1).max()


class TestSampledPairs:
    labels = 5 * np.arange(12) % 12 < np.array([[0], [1], [3], [6], [11], [12]])
    scores = np.random.default_rng(0).normal(0, 2, labels.shape).astype("float32")

    @pytest.mark.parametrize("max_pairs", [36, 40, 1000])
    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_enough_pairs_are_all_pairs(self, max_pairs, jit_compile):
        value, gradient = cases.value_and_gradient(
            LSEP(max_pairs), self.labels, self.scores, jit_compile=jit_compile
        )
        expected = cases.value_and_gradient(LSEP(), self.labels, self.scores)
        cases.close(value, expected[0], 1e-6)
        cases.close(gradient, expected[1], 1e-6)

    def test_pairs_of_the_oracle(self, vectors, monkeypatch):
        case = vectors["ranking/lsep_sampled"]
        pairs = tf.constant(case["inputs"]["pairs"])
        drawn = pairs[..., 0], pairs[..., 1], tf.ones([6, 3], bool)
        monkeypatch.setattr(ranking, "sample_pairs", lambda *_: drawn)
        labels, scores = inputs(case)
        loss = LSEP(max_pairs=3)
        value, gradient = cases.value_and_gradient(loss, labels, scores)
        cases.close(value, case["expected"]["value"])
        cases.close(gradient, case["expected"]["grad_logits"])

    @pytest.mark.parametrize("max_pairs", [1, 5, 35, 100])
    def test_draws_are_pairs_and_never_the_same(self, max_pairs):
        for seed in range(8):
            first, second, drawn = ranking.sample_pairs(
                self.labels, tf.constant(self.scores), max_pairs, seed
            )
            for row, labels in enumerate(self.labels):
                mine = drawn[row].numpy()
                pairs = list(
                    zip(
                        first[row].numpy()[mine], second[row].numpy()[mine], strict=True
                    )
                )
                total = labels.sum() * (~labels).sum()
                assert len(set(pairs)) == len(pairs) == min(total, max_pairs)
                assert all(labels[i] and not labels[j] for i, j in pairs)

    def test_every_pair_is_as_likely(self):
        labels, scores = self.labels[2:3], tf.constant(self.scores[2:3])
        times = np.zeros((12, 12))
        for seed in range(500):
            first, second, _ = ranking.sample_pairs(labels, scores, 5, seed)
            times[first[0], second[0]] += 1
        share = times[np.outer(labels, ~labels)] / 500
        assert share.shape == (27,) and abs(share.mean() - 5 / 27) < 1e-9
        assert np.abs(share - 5 / 27).max() < 0.09

    def test_is_a_function_of_seed_and_scores(self):
        once, twice, other = (
            float(LSEP(3, seed=seed)(self.labels, self.scores)) for seed in (1, 1, 2)
        )
        assert once == twice != other

    def test_trains_compiled(self):
        for jit_compile in (False, True):
            losses = {"lsep": LSEP(max_pairs=4)}
            steps = cases.fit_step(losses, self.labels, self.scores, jit_compile)
            value, gradient = steps["lsep"]
            assert np.isfinite(value) and np.isfinite(gradient).all()


@settings(max_examples=40)
@given(rankings(), st.sampled_from([0.0, 1.5]), st.randoms(use_true_random=False))
def test_ids_equal_the_multi_hot(problem, threshold, random):
    """In any order, with fillers anywhere and ids that a row repeats."""
    labels, scores = problem
    rows = [[int(i) for i in np.flatnonzero(row)] for row in labels]
    width = max(map(len, rows)) + 2
    for row in rows:
        row += random.choices([*row, -1], k=width - len(row))
        random.shuffle(row)
    # Rows of 0 and 1 as wide as the labels are taken for a multi-hot.
    ids = np.pad(rows, [(0, 0), (0, labels.shape[1])], constant_values=-1)
    for loss in (ZLPR(threshold), LSEP(), BPMLL()):
        expected = cases.value_and_gradient(loss, labels.astype("float32"), scores)
        for y_true in (ids, labels):
            value, gradient = cases.value_and_gradient(loss, y_true, scores)
            cases.close(value, expected[0], 1e-5)
            cases.close(gradient, expected[1], 1e-5)


def test_no_column_of_ids():
    loss, scores = ZLPR(), np.ones((2, 3), "float32")
    value, gradient = cases.value_and_gradient(loss, np.zeros((2, 0), int), scores)
    cases.close(value, np.log1p(3 * np.e))
    assert np.isfinite(gradient).all()


def test_raw_bp_mll_says_nothing_of_rows_without_pairs():
    loss = BPMLL(log_form=False, reduction=None)
    value, gradient = cases.value_and_gradient(
        loss, np.array([[False, False], [True, True]]), np.ones((2, 2), "float32")
    )
    assert not value.any() and not gradient.any()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: ZLPR(label_smoothing=1.5), "label_smoothing.*<= 1"),
        (lambda: RankingHinge(margin=-1), "margin.*>= 0"),
        (lambda: WARP(margin="big"), "margin"),
        (lambda: LSEP(max_pairs=0), "max_pairs.*>= 1"),
        (lambda: LSEP(max_pairs=10, seed=0.5), "seed.*an integer"),
        (lambda: DiceLoss(smooth=0), "smooth"),
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_smoothing_moves_labels_as_keras_does():
    labels, scores = np.array([[1.0, 0.0]]), np.array([[0.3, -0.2]])
    smooth = keras.losses.BinaryCrossentropy(from_logits=True, label_smoothing=0.2)
    moved = keras.losses.BinaryCrossentropy(from_logits=True)
    cases.close(smooth(labels, scores), moved(labels * 0.8 + 0.1, scores), 1e-6)
    expected = ZLPR()(labels * 0.8 + 0.1, scores)
    cases.close(ZLPR(label_smoothing=0.2)(labels, scores), expected, 1e-6)
