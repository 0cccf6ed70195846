import cases
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import bat_tf.losses
from bat_tf.data import LabelSpace
from bat_tf.losses import (
    BalancedLoss,
    ClassBalanced,
    DistributionBalanced,
    ExpertLoss,
    FocalLoss,
    find_mu,
)

NAMES = ["bce", "fl", "cb", "r-fl", "ntr-fl", "db-0fl", "cb-ntr", "db"]


def loss_of(case, name, **settings):
    params, inputs = case["params"], case["inputs"]
    if name not in ("bce", "db-0fl"):
        settings["gamma"] = params["gamma"]
    return bat_tf.losses.get(
        name,
        class_counts=inputs["class_freq"],
        num_examples=inputs["train_num"],
        cb_beta=params["cb_beta"],
        rebalance_alpha=params["rb_alpha"],
        rebalance_beta=params["rb_beta"],
        rebalance_mu=params["rb_mu"],
        ntr_kappa=params["kappa"],
        ntr_scale=params["neg_scale"],
        style=params["style"],
        **settings,
    )


def inputs(case, dtype="float32"):
    return tuple(np.array(case["inputs"][key], dtype) for key in ("labels", "logits"))


@pytest.mark.parametrize("style", ["paper", "official"])
@pytest.mark.parametrize("data", ["reuters", "pubmed"])
@pytest.mark.parametrize("name", NAMES)
class TestVectors:
    def test_value_and_gradient(self, vectors, name, data, style):
        case = vectors[f"balanced/{name.upper()}/{data}/{style}"]
        expected = case["expected"]
        loss = loss_of(case, name, constants=data)
        value, gradient = cases.value_and_gradient(loss, *inputs(case))
        cases.close(value, expected["mean"])
        cases.close(gradient, expected["grad_logits_of_mean"])
        summed = loss_of(case, name, constants=data, label_reduction="sum")
        cases.close(summed(*inputs(case)), expected["sum_labels_mean_batch"])
        elements = loss.elements(*map(tf.constant, inputs(case, "float64")))
        cases.close(elements * loss._factor, expected["elements"], 1e-7)

    def test_weight_of_the_whole_can_be_set(self, vectors, name, data, style):
        case = vectors[f"balanced/{name.upper()}/{data}/{style}"]
        weight = case["params"]["loss_weight"]
        loss = loss_of(case, name, global_weight=3 * weight)
        cases.close(loss(*inputs(case)), 3 * case["expected"]["mean"])


@pytest.mark.parametrize(
    "jit_compile", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_vectors_inside_fit(vectors, jit_compile):
    chosen = {n: vectors[f"balanced/{n.upper()}/reuters/paper"] for n in NAMES}
    losses = {name: loss_of(case, name) for name, case in chosen.items()}
    steps = cases.fit_step(losses, *inputs(chosen["db"]), jit_compile=jit_compile)
    for name, (value, gradient) in steps.items():
        cases.close(value, chosen[name]["expected"]["mean"])
        cases.close(gradient, chosen[name]["expected"]["grad_logits_of_mean"])


class TestWeights:
    def weights(self, case, **settings):
        """The weight of every element is what it multiplies plain cross entropy by."""
        labels = tf.constant(case["inputs"]["labels"], "float64")
        scores = tf.zeros_like(labels)
        counts = case["inputs"]["class_freq"]
        loss = BalancedLoss(counts, 1000, gamma=0, **settings)
        return loss.elements(labels, scores) / np.log(2)

    @pytest.mark.parametrize("mode", ["by_class", "average_w", "average_n", "min_n"])
    def test_class_balanced(self, vectors, mode):
        case = vectors["balanced/weights"]
        weights = self.weights(case, weighting="cb", cb_mode=mode)
        expected = np.broadcast_to(case["expected"][f"cb_{mode}"], weights.shape)
        cases.close(weights, expected, 1e-8)
        if mode == "by_class":
            wrong = np.array(case["expected"]["cb_seed_typo"])
            assert np.all(np.diff(expected[0]) >= 0) and np.all(np.diff(wrong) <= 0)

    @pytest.mark.parametrize("mu, key", [(0.9, "rhat_mu_0_9"), (0.05, "rhat_mu_0_05")])
    def test_rebalanced(self, vectors, mu, key):
        case = vectors["balanced/weights"]
        weights = self.weights(case, weighting="rebalance", rebalance_mu=mu)
        cases.close(weights, case["expected"][key], 1e-8)

    @pytest.mark.parametrize("mode", ["average_w", "average_n", "min_n"])
    def test_document_without_labels(self, vectors, mode):
        case = vectors["balanced/degenerate_no_positive"]
        weights = self.weights(case, weighting="rebalance")
        cases.close(weights, case["expected"]["rhat"], 1e-8)
        by_class = self.weights(case, weighting="cb")
        cases.close(self.weights(case, weighting="cb", cb_mode=mode), by_class, 1e-8)

    def test_shift(self, vectors):
        case = vectors["balanced/weights"]
        labels = tf.ones([1, 8], "float64")
        loss = BalancedLoss(case["inputs"]["class_freq"], 1000, ntr=True, gamma=0)
        # softplus(-(0 - v)) = log(1 + e^v)
        shift = np.log(np.expm1(loss.elements(labels, tf.zeros_like(labels))[0]))
        cases.close(shift, case["expected"]["v"], 1e-8)

    def test_weights_carry_no_gradient(self):
        loss = DistributionBalanced([9, 1], ntr=False)
        labels = tf.constant([[1.0, 0.5]])
        with tf.GradientTape() as tape:
            tape.watch(labels)
            value = loss(labels, tf.ones([1, 2]))
        assert tape.gradient(value, labels) is None


def focal(u, gamma):
    return (1 / (1 + np.exp(-u))) ** gamma * np.logaddexp(0, u)


@st.composite
def problems(draw):
    size, rows = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    level = st.floats(-30, 30, width=32, allow_subnormal=False)
    unit = st.sampled_from([0.0, 1.0, 0.25, 0.9])
    labels = [[draw(unit) for _ in range(size)] for _ in range(rows)]
    scores = [[draw(level) for _ in range(size)] for _ in range(rows)]
    counts = [draw(st.integers(1, 99)) for _ in range(size)]
    return np.array(labels), np.array(scores), counts


@settings(max_examples=40)
@given(
    problems(),
    st.sampled_from([0, 0.5, 1, 2, 3.5]),
    st.sampled_from(["none", "cb", "rebalance"]),
    st.booleans(),
)
def test_equals_the_formula(problem, gamma, weighting, ntr):
    """Also for probabilities as labels, and with a gradient that is the slope."""
    y, z, counts = problem
    y = np.round(y) if ntr else y
    n = np.array(counts, "float64")
    x, scale = (z - 0.05 * np.log(100 / n - 1), 2) if ntr else (z, 1)
    with np.errstate(divide="ignore"):
        r = (1 / n) / np.sum(y / n, axis=-1, keepdims=True)
    weight = {
        "none": np.ones_like(z),
        "cb": 0.1 / (1 - 0.9**n) * np.ones_like(z),
        "rebalance": 0.1 + 1 / (1 + np.exp(-np.minimum(10 * (r - 0.9), 700))),
    }[weighting]
    terms = y * focal(-x, gamma) + (1 - y) * focal(scale * x, gamma) / scale
    loss = BalancedLoss(counts, 100, weighting=weighting, ntr=ntr, gamma=gamma)
    value, gradient = cases.value_and_gradient(loss, y, z)
    cases.close(value, np.mean(weight * terms))
    ahead, behind = (
        y * focal(-(x + h), gamma) + (1 - y) * focal(scale * (x + h), gamma) / scale
        for h in (1e-5, -1e-5)
    )
    cases.close(gradient, weight * (ahead - behind) / 2e-5 / y.size, 1e-5)


def test_values_of_the_specification():
    y, z = np.array([[1.0, 0.0]]), np.zeros((1, 2), "float32")
    for loss, value, slope in (
        (bat_tf.losses.get("bce", label_reduction="sum"), np.log(2), 0.5),
        (FocalLoss(label_reduction="sum"), 0.173287, 0.298287),
    ):
        total, gradient = cases.value_and_gradient(loss, y, z)
        cases.close(total, 2 * value, 1e-6)
        cases.close(gradient, [[-slope, slope]], 1e-6)


def test_sum_forms_of_zlprs_baselines(vectors):
    for name, settings_ in (("bce_sum", {}), ("focal_sum_g2", {"gamma": 2.0})):
        case = vectors[f"ranking/{name}"]
        loss = bat_tf.losses.get("bce", label_reduction="sum", **settings_)
        value, gradient = cases.value_and_gradient(loss, *inputs(case))
        cases.close(value, case["expected"]["value"])
        cases.close(gradient, case["expected"]["grad_logits"])


class TestCounts:
    space = LabelSpace(["a", "b"], [60, 5], 100)

    def test_label_space_is_the_same_as_its_numbers(self):
        y, z = np.array([[1.0, 0.0]]), np.ones((1, 2))
        loss = DistributionBalanced(self.space)
        assert loss.class_counts == [60, 5] and loss.num_examples == 100
        cases.close(loss(y, z), DistributionBalanced(np.array([60, 5]), 100)(y, z), 0)

    def test_masked_labels_take_their_counts_along(self):
        y, z = np.array([[1.0, 0.0, 1.0]]), np.array([[0.5, 1.0, -1.0]])
        loss = DistributionBalanced([60, 5, 9], 100, label_mask=[True, False, True])
        expected = DistributionBalanced([60, 9], 100)(y[:, [0, 2]], z[:, [0, 2]])
        cases.close(loss(y, z), expected, 1e-7)

    def test_label_without_documents(self):
        with pytest.warns(UserWarning, match=r"0 for 1 of 3 labels \(1\)"):
            loss = DistributionBalanced([60, 0, 5], 100)
        y, z = np.array([[0.0, 1.0, 0.0]]), np.zeros((1, 3), "float32")
        value, gradient = cases.value_and_gradient(loss, y, z)
        assert np.isfinite(value) and np.isfinite(gradient).all()

    def test_label_of_every_document(self):
        loss = DistributionBalanced([100, 5], 100)
        value, gradient = cases.value_and_gradient(
            loss, np.array([[1.0, 0.0]]), np.zeros((1, 2), "float32")
        )
        assert np.isfinite(value) and np.isfinite(gradient).all()

    @pytest.mark.parametrize(
        "counts, number, words",
        [
            ([0, 0], 10, "not all of them 0"),
            ([0.2, 0.8], 10, "Pass counts, not frequencies"),
            ([5, -1], 10, ">= 0"),
            ([[5], [1]], 10, "whole numbers of training documents"),
            (["a"], 10, "whole numbers of training documents"),
            ([50, 1], 10, "at most num_examples=10 .* Received: 50"),
            ([5, 1], 0, "`num_examples` must be an integer >= 1"),
            ([5, 1], None, "`num_examples` must be given with ntr=True"),
            (None, 10, "`class_counts` .* weighting='rebalance' and ntr=True"),
            (LabelSpace(["a"]), None, "a LabelSpace with counts"),
        ],
    )
    def test_sentences(self, counts, number, words):
        with pytest.raises(ValueError, match=words):
            DistributionBalanced(counts, number)

    @pytest.mark.parametrize("cls", [ClassBalanced, DistributionBalanced])
    def test_wrong_length(self, cls):
        with pytest.raises(ValueError, match=r"length 3, the number .* length 2"):
            cls([5, 1], 10)(np.zeros((1, 3)), np.zeros((1, 3)))

    @pytest.mark.parametrize(
        "setting, value, words",
        [
            ("weighting", "ee", "'none', 'cb', 'rebalance'"),
            ("gamma", -1, ">= 0"),
            ("cb_beta", 1, "<= 0.99"),
            ("cb_mode", "max_n", "'min_n'"),
            ("ntr_scale", 0, ">= 1e-06"),
            ("label_reduction", "max", "'mean', 'sum'"),
            ("style", "draft", "'paper', 'official'"),
            ("constants", "imdb", "'reuters', 'pubmed'"),
            ("reduction", "median", "median"),
        ],
    )
    def test_bad_settings(self, setting, value, words):
        with pytest.raises(ValueError, match=setting) as error:
            BalancedLoss(**{setting: value})
        assert words in str(error.value)


class TestMu:
    ids = [[0], [0, 1], [2, 1, 0], []]
    counts = [3, 2, 1]

    def test_by_hand(self):
        # r of the six pairs, from 1/n = 1/3, 1/2, 1.
        r = [1, 0.4, 0.6, 6 / 11, 3 / 11, 2 / 11]
        expected = (np.mean(r) + np.median(r)) / 2
        assert find_mu(self.ids, self.counts) == pytest.approx(expected)

    def test_every_shape_of_labels(self):
        dense = np.zeros((4, 3), "float32")
        for row, ids in enumerate(self.ids):
            dense[row, ids] = 1
        padded = [[0, -1, -1, -1], [0, 1, -1, -1], [2, 1, 0, -1], [-1, -1, -1, -1]]
        expected = find_mu(self.ids, self.counts)
        for labels in (
            dense,
            dense.astype(bool),
            dense.astype(int),
            np.array(padded),
            tf.ragged.constant(self.ids, dtype="int64"),
            tf.sparse.from_dense(dense),
            scipy.sparse.csr_array(dense),
        ):
            assert find_mu(labels, self.counts) == pytest.approx(expected)
        space = LabelSpace(["a", "b", "c"], self.counts, 4)
        assert find_mu(dense, space) == pytest.approx(expected)

    def test_comes_with_the_labels(self):
        names = [[f"l{i}" for i in row] for row in self.ids]
        expected = pytest.approx(find_mu(self.ids, self.counts))
        space = LabelSpace.fit(iter(names))
        assert space.rebalance_mu == expected
        assert cases.round_trip(space).rebalance_mu == expected
        given = LabelSpace(["l2", "l0", "l1"])  # in an order fixed elsewhere
        assert given.counted(iter(names)).rebalance_mu == expected
        for name in ("r-fl", "db-0fl", "db"):
            loss = bat_tf.losses.get(name, class_counts=space)
            assert loss.rebalance_mu == expected
            assert cases.round_trip(loss).rebalance_mu == expected
            experts = ExpertLoss(name, label_counts=space)
            assert experts.base.rebalance_mu == expected
            named = bat_tf.losses.get(name, class_counts=space, constants="pubmed")
            assert named.rebalance_mu == 0.05

    def test_is_asked_for_where_nobody_knows_it(self):
        with pytest.warns(UserWarning, match=r"0.9, which is that of Reuters.*find_mu"):
            assert bat_tf.losses.get("r-fl", class_counts=[3, 2]).rebalance_mu == 0.9
        assert bat_tf.losses.get("cb", class_counts=[3, 2]).rebalance_mu is None

    def test_sentences(self):
        with pytest.raises(ValueError, match="ids below 2"):
            find_mu(self.ids, [3, 2])
        with pytest.raises(ValueError, match="at least one label"):
            find_mu(np.zeros((2, 3)), self.counts)
