import json

import cases
import numpy as np
import pytest
import scipy.sparse
import sklearn.metrics
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from label_cases import as_ids

from bat_tf._internal.validation import as_values
from bat_tf.metrics import LabelFScore
from bat_tf.thresholds import PAPER_GRID, Thresholds, fit_threshold


def f_score(labels, chosen, beta=1.0, average="micro"):
    return sklearn.metrics.fbeta_score(
        labels, chosen, beta=beta, average=average, zero_division=0.0
    )


def random_data(seed, rows=20, width=4, levels=None):
    random = np.random.default_rng(seed)
    labels = random.random((rows, width)) < [0.5, 0.3, 0.2, 0.1][:width]
    labels[0, 0] = True
    scores = labels + random.normal(0, 0.8, labels.shape)
    scores = scores if levels is None else np.round(scores * levels) / levels
    return scores.astype("float32"), labels


def cuts(scores):
    """Every threshold that makes a difference."""
    values = np.unique(scores)
    return np.append(values[0] - 1, values)


def test_grid_of_the_paper(vectors):
    case = vectors["metrics/threshold"]
    scores, labels = (np.array(case["inputs"][key]) for key in ("prob", "y_true"))
    cases.close(PAPER_GRID, case["inputs"]["grid"], 0)
    fitted = fit_threshold(scores, labels.astype(bool), grid="paper")
    assert fitted.values == case["expected"]["threshold"]
    cases.close(fitted.score, case["expected"]["micro_f1"], 1e-8)


@settings(max_examples=25)
@given(
    st.integers(0, 999),
    st.sampled_from([0.5, 1, 2]),
    st.sampled_from(["micro", "macro"]),
    st.sampled_from([None, 1, 4]),
)
def test_one_threshold_is_the_best_of_all(seed, beta, average, levels):
    scores, labels = random_data(seed, levels=levels)
    fitted = fit_threshold(scores, labels, beta=beta, average=average)
    tried = [f_score(labels, scores > cut, beta, average) for cut in cuts(scores)]
    cases.close(fitted.score, max(tried), 1e-9)
    found = f_score(labels, fitted.apply(scores), beta, average)
    cases.close(found, max(tried), 1e-9)


@settings(max_examples=25)
@given(st.integers(0, 999), st.sampled_from([0.5, 1, 2]), st.sampled_from([None, 1, 4]))
def test_each_label_gets_its_best(seed, beta, levels):
    scores, labels = random_data(seed, levels=levels)
    fitted = fit_threshold(scores, labels, per_label=True, beta=beta, min_positives=0)
    chosen = fitted.apply(scores)
    for column in range(4):
        if labels[:, column].any():
            true, values = labels[:, column], scores[:, column]
            tried = [f_score(true, values > c, beta, "binary") for c in cuts(values)]
            found = f_score(true, chosen[:, column], beta, "binary")
            cases.close(found, max(tried), 1e-9)


def test_threshold_by_how_frequent_a_label_is():
    """Scores that are lower by 0.4 a factor e of rarity: the slope is found."""
    random = np.random.default_rng(0)
    counts = np.array([1000, 300, 100, 30, 10, 3])
    labels = random.random((4000, 6)) < np.array([0.4, 0.2, 0.1, 0.05, 0.02, 0.01])
    rarity = np.log(counts / 1000)
    scores = 4 * labels - 2 + random.normal(0, 0.8, labels.shape) + 0.4 * rarity
    one = fit_threshold(scores, labels)
    fitted = fit_threshold(scores, labels, label_counts=counts)
    slope = np.diff(fitted.values) / np.diff(rarity)
    np.testing.assert_allclose(slope, slope[0], rtol=1e-3)
    assert 0.25 <= slope[0] <= 0.55
    assert fitted.score > one.score
    chosen = fitted.apply(scores)
    assert fitted.score == pytest.approx(f_score(labels, chosen))
    assert f_score(labels, chosen, average="macro") > 1.05 * f_score(
        labels, one.apply(scores), average="macro"
    )
    # Labels that validation lacks have one too; so do those without any document.
    absent = fit_threshold(
        np.pad(scores, [(0, 0), (0, 2)], constant_values=-9),
        np.pad(labels, [(0, 0), (0, 2)]),
        label_counts=[*counts, 3, 0],
        per_label=True,
    ).values
    assert absent[-1] < absent[-2] < absent[0]


@given(st.integers(0, 99), st.sampled_from(["micro", "macro"]))
@settings(max_examples=20, deadline=None)
def test_thresholds_by_count_are_never_worse_than_one(seed, average):
    scores, labels = random_data(seed)
    one = fit_threshold(scores, labels, average=average)
    several = fit_threshold(
        scores, labels, average=average, label_counts=[50, 20, 5, 1]
    )
    assert several.score >= one.score - 1e-6


@pytest.mark.parametrize("counts", [[1, 2], [1, 2, 3, -1], [0, 0, 0, 0], [[1] * 4]])
def test_counts_that_are_none(counts):
    with pytest.raises(ValueError, match="`label_counts` must be 4 whole numbers"):
        fit_threshold(*random_data(0), label_counts=counts)


@settings(max_examples=20)
@given(st.integers(0, 999), st.sampled_from(["micro", "macro"]))
def test_grid_is_searched_as_a_loop_would(seed, average):
    scores, labels = random_data(seed)
    grid = np.linspace(-0.5, 1.5, 9)
    fitted = fit_threshold(scores, labels, average=average, grid=grid)
    tried = [f_score(labels, scores > cut, average=average) for cut in grid]
    if fitted.score < max(tried) + 1e-9:  # else one beyond the grid is better
        assert fitted.values == grid[int(np.argmax(np.round(tried, 12)))]
    own = fit_threshold(
        *(scores, labels), per_label=True, grid=grid, min_positives=1, average="macro"
    )
    for column in np.flatnonzero(labels.any(axis=0)):
        true, values = labels[:, column], scores[:, column]
        tried = [f_score(true, values > cut, average="binary") for cut in grid]
        assert own.values[column] == grid[int(np.argmax(np.round(tried, 12)))]


def test_grid_is_widened_where_the_best_is_at_its_border():
    labels = np.array([[True], [True], [False]])
    for scores, expected in (([0.25, 0.2, 0.1], 0.19), ([0.95, 0.9, 0.8], 0.8)):
        scores = np.array(scores)[:, None]
        fitted = fit_threshold(scores, labels, grid="paper")
        assert fitted.score == 1 and fitted.apply(scores).ravel().tolist() == [1, 1, 0]
        assert fitted.values == expected
    # A plateau that ends far beyond the grid.
    scores = np.array([[9.0], [8.0], [7.0]])
    assert fit_threshold(scores, labels, grid="paper").score == 1
    # Not better there: the paper's first maximum stays.
    scores = np.array([[0.9], [0.7], [0.1]])
    assert fit_threshold(scores, labels, grid="paper").values == 0.4


class TestPlace:
    def test_half_way(self):
        scores = [[4.0], [2.0], [1.0]]
        assert fit_threshold(scores, [[1], [1], [0]]).values == 1.5
        assert fit_threshold(scores, [[1], [1], [0]], average="macro").values == 1.5
        own = fit_threshold(scores, [[1], [1], [0]], per_label=True, min_positives=1)
        assert own.values == [1.5]

    @pytest.mark.parametrize("per_label", [False, True])
    def test_between_neighbouring_floats_and_at_the_end(self, per_label):
        low = np.float32(0.3)
        for _ in range(3):
            high = np.nextafter(low, np.float32(1))
            scores = np.array([[high], [low]])
            settings = {"per_label": per_label, "min_positives": 1}
            fitted = fit_threshold(scores, [[1], [0]], **settings)
            assert fitted.apply(scores).ravel().tolist() == [True, False]
            fitted = fit_threshold(scores, [[1], [1]], **settings)
            assert fitted.apply(scores).all()
            assert not fitted.apply([[0.29]]).any()
            low = high

    def test_infinite_scores(self):
        scores = np.array([[np.inf, -np.inf], [-np.inf, 1e300]])
        fitted = fit_threshold(scores, [[0], [1]])
        assert np.isfinite(fitted.values) and fitted.score == 1

    def test_any_monotone_space(self):
        logits, labels = random_data(5, rows=40)
        for kind in ({}, {"per_label": True}, {"average": "macro"}):
            odds = fit_threshold(logits, labels, **kind)
            share = fit_threshold(1 / (1 + np.exp(-logits)), labels, **kind)
            assert (odds.apply(logits) == share.apply(1 / (1 + np.exp(-logits)))).all()
            assert odds.score == share.score


class TestRareLabels:
    def test_fall_back_to_the_threshold_for_all(self):
        scores, labels = random_data(1, rows=60)
        labels[:, 2] = False  # absent
        labels[:, 3] = np.arange(60) < 4  # four documents
        overall = fit_threshold(scores, labels).values
        own = fit_threshold(scores, labels, per_label=True).values
        assert own[2] == own[3] == overall
        assert own[0] != overall and own[1] != overall
        own = fit_threshold(scores, labels, per_label=True, min_positives=0).values
        assert own[2] == overall and own[3] != overall and np.isfinite(own).all()

    def test_own_thresholds_are_better_in_macro_f1(self):
        scores, labels = random_data(3, rows=60)
        scores = scores * [1, 3, 9, 27]
        settings = {"average": "macro", "min_positives": 1}
        overall = fit_threshold(scores, labels, **settings)
        own = fit_threshold(scores, labels, per_label=True, **settings)
        assert own.score > overall.score


def test_every_shape_of_labels_is_the_same():
    scores, labels = random_data(4)
    expected = fit_threshold(scores, labels, per_label=True)
    for same in (
        labels.astype("float32"),
        as_ids(labels),
        scipy.sparse.csr_matrix(labels),
        tf.ragged.constant([np.flatnonzero(row).tolist() for row in labels]),
    ):
        assert fit_threshold(tf.constant(scores), same, per_label=True) == expected


def test_large_data_go_in_blocks(monkeypatch):
    scores, labels = random_data(6, rows=50)
    expected = [
        fit_threshold(scores, labels, per_label=per_label, grid=grid)
        for per_label in (False, True)
        for grid in (None, "paper")
    ]
    for room in ("thresholds", "_internal.numerics"):
        monkeypatch.setattr(f"bat_tf.{room}.MOST_SCORES", 60)
    assert expected == [
        fit_threshold(scores, labels, per_label=per_label, grid=grid)
        for per_label in (False, True)
        for grid in (None, "paper")
    ]


class TestThresholds:
    @pytest.mark.parametrize("values", [0.25, [0.1, -2.0, 3.0]])
    def test_serialise(self, values):
        fresh = cases.round_trip(Thresholds(values, score=0.5))
        assert fresh == Thresholds(values, score=0.5) != Thresholds(0.1)
        assert json.loads(json.dumps(fresh.get_config()))["values"] == values

    def test_apply_arrays_and_tensors(self):
        scores = np.array([[0.1, 0.1], [0.2, 0.3]])
        for values in (0.1, [0.1, 0.2]):
            chosen = Thresholds(values).apply(scores)
            assert isinstance(chosen, np.ndarray)
            apply = tf.function(Thresholds(values).apply)
            assert (apply(tf.constant(scores)).numpy() == chosen).all()
        assert Thresholds(0.1).apply(scores).tolist() == [[0, 0], [1, 1]]

    def test_serve_the_metrics(self):
        scores, labels = random_data(7)
        fitted = fit_threshold(scores, labels, per_label=True, min_positives=1)
        metric = LabelFScore(4, threshold=fitted)
        metric.update_state(labels, scores)
        cases.close(metric.result(), fitted.score, 1e-6)
        metric = LabelFScore(4)
        metric.threshold = fitted
        metric.update_state(labels, scores)
        cases.close(metric.result(), fitted.score, 1e-6)

    def test_text(self):
        assert repr(Thresholds(0.5)) == "<Thresholds 0.5>"
        assert repr(Thresholds([1, 2, 3])) == "<Thresholds of 3 labels, from 1 to 3>"


class TestSentences:
    @pytest.mark.parametrize("values", [None, [], [[1.0]], float("nan"), "x"])
    def test_values(self, values):
        with pytest.raises(ValueError, match="`threshold` must be a finite number"):
            Thresholds(values)

    def test_width(self):
        with pytest.raises(ValueError, match="3 numbers.*'2 numbers'"):
            as_values([1, 2], 3)
        with pytest.raises(ValueError, match="3 numbers"):
            Thresholds([1, 2]).apply(np.zeros((1, 3)))

    @pytest.mark.parametrize(
        ("scores", "labels", "message"),
        [
            (np.zeros((0, 3)), np.zeros((0, 3)), r"`scores`.*not empty.*\(0, 3\)"),
            (np.zeros(3), np.zeros((1, 3)), r"`scores`.*\[N, L\].*\(3,\)"),
            ([[0.1, np.nan]], [[1.0, 0.0]], "`scores`.*numbers.*1 times NaN"),
            (np.zeros((2, 3)), np.ones((2, 4)), "`labels`.*3 labels"),
            (np.zeros((2, 3)), [[3], [0]], "label ids below 3.*3"),
            (np.zeros((2, 3)), np.ones((3, 3)), "`labels`.*rows.*2.*3"),
            (np.zeros((2, 3)), np.zeros((2, 3)), "`labels`.*none at all"),
        ],
    )
    def test_data(self, scores, labels, message):
        with pytest.raises(ValueError, match=message):
            fit_threshold(scores, labels)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"grid": "fine"}, "`grid` must be one of 'paper'"),
            ({"grid": [0.5, 0.4]}, "`grid`.*ascending"),
            ({"grid": []}, "`grid`"),
            ({"average": "samples"}, "`average` must be one of 'micro', 'macro'"),
            ({"beta": -1}, "`beta`"),
            ({"min_positives": 1.5}, "`min_positives`"),
        ],
    )
    def test_settings(self, settings, message):
        with pytest.raises(ValueError, match=message):
            fit_threshold([[0.1, 0.9]], [[1]], **settings)
