import types

import cases
import keras
import numpy as np
import oracles
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import bat_tf.losses
from bat_tf.losses import CECL, CECLA, PBP, TagLoss

# Name in losses.get → the vector that its defaults must reproduce.
NAMED = {
    "ce": "CE",
    "wce": "WCE",
    "fce": "FCE_g1",
    "fwce": "FWCE_g1",
    "cecl": "CECL",
    "wcecl": "CL_0_1",
    "cecla": "CLA_1_20",
    "pbp": "PBP_0_8",
    "pbpa": "PBPA_0_8",
}
VECTORS = [
    *["CE", "WCE", "FCE_g1", "FCE_g2", "FWCE_g1", "FWCE_g2", "CECL", "FCECL_g1"],
    *["CL_0_s", "CL_0_1", "CL_1_1", "CL_1_20", "CLA_0_1", "CLA_1_1", "CLA_1_20"],
    *["PBP_unweighted", "PBP_0_s", "PBP_0_1", "PBP_0_8", "PBP_1_8"],
    *["PBPA_0_1", "PBPA_0_8"],
]


def public_loss(case, **settings):
    """The public class that stands for a vector, with all its settings spelled out."""
    params = case["params"]
    weighting = params.get("weights") or "none"
    cls = {"pos": TagLoss, "cecl": CECL, "pbp": PBP}[params["kind"]]
    if (cls, weighting) == (CECL, "array"):
        cls = CECLA
    return cls(
        case["inputs"].get("class_counts"),
        weighting=weighting,
        gamma=params["gamma"],
        positive_scale=params.get("lam", 1),
        **settings,
    )


def inputs(case):
    return np.array(case["inputs"]["labels"]), np.float32(case["inputs"]["logits"])


@pytest.mark.parametrize("name", NAMED)
class TestProperties(cases.LossCases):
    def make(self, name, /, **settings):
        return bat_tf.losses.get(name, class_counts=[70, 20, 0, 9], **settings)

    def batch(self, rows, seed):
        random = np.random.default_rng(seed)
        tags = random.integers(-1, 4, (rows, 5))
        return tags, random.normal(0, 2, (rows, 5, 4)).astype("float32")


@pytest.mark.parametrize("size", ["c3", "c5"])
class TestVectors:
    @pytest.mark.parametrize("name", VECTORS)
    def test_value_and_gradient(self, vectors, size, name):
        case = vectors[f"token/{size}/{name}"]
        expected = case["expected"]
        value, gradient = cases.value_and_gradient(public_loss(case), *inputs(case))
        cases.close(value, expected["value"])
        cases.close(gradient, expected["grad_logits"])
        per_token = public_loss(case, reduction=None)(*inputs(case))
        cases.close(per_token, expected["per_token"])

    @pytest.mark.parametrize("name", NAMED)
    def test_by_name(self, vectors, size, name):
        case = vectors[f"token/{size}/{NAMED[name]}"]
        loss = bat_tf.losses.get(
            name.upper(), class_counts=case["inputs"]["class_counts"]
        )
        assert loss.name == name
        cases.close(loss(*inputs(case)), case["expected"]["value"])

    def test_what_the_caller_passes_wins(self, vectors, size):
        case = vectors[f"token/{size}/PBP_0_s"]
        loss = bat_tf.losses.get(
            "pbp",
            class_counts=case["inputs"]["class_counts"],
            weighting="standard",
            positive_scale=1,
        )
        cases.close(loss(*inputs(case)), case["expected"]["value"])


@pytest.mark.parametrize(
    "size, names, jit_compile",
    [
        ("c5", NAMED.values(), True),
        pytest.param("c3", VECTORS, False, marks=pytest.mark.slow),
        pytest.param("c5", VECTORS, False, marks=pytest.mark.slow),
        pytest.param("c3", VECTORS, True, marks=pytest.mark.slow),
        pytest.param("c5", VECTORS, True, marks=pytest.mark.slow),
    ],
)
def test_vectors_inside_fit(vectors, size, names, jit_compile):
    chosen = {name: vectors[f"token/{size}/{name}"] for name in names}
    losses = {name: public_loss(case) for name, case in chosen.items()}
    steps = cases.fit_step(losses, *inputs(chosen["CE"]), jit_compile=jit_compile)
    for name, (value, gradient) in steps.items():
        cases.close(value, chosen[name]["expected"]["value"])
        cases.close(gradient, chosen[name]["expected"]["grad_logits"])


@pytest.mark.parametrize("name", ["CE", "CECL", "PBP"])
def test_extreme_vectors(vectors, name):
    case = vectors[f"token/extreme/{name}"]
    value, gradient = cases.value_and_gradient(
        public_loss(case, reduction=None), *inputs(case)
    )
    cases.close(value, case["expected"]["per_token"])
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("gamma", [0, 1, 2])
def test_gradient_of_probabilities(vectors, gamma):
    case = vectors[f"token/prob_gradient/g{gamma}"]
    loss = CECL(gamma=gamma, from_logits=False, reduction="sum")
    p = np.array(case["inputs"]["p"])
    _, gradient = cases.value_and_gradient(
        loss, np.zeros(len(p), int), np.stack([p, p], -1)
    )
    cases.close(gradient[:, 0], case["expected"]["d_true_class"], 1e-6)
    cases.close(gradient[:, 1], case["expected"]["d_other_class"], 1e-6)


def test_worked_example_of_the_paper(vectors):
    case = vectors["token/worked_example"]
    for row in ("p1", "p2"):
        p, tag = np.array([case["inputs"][row]]), [case["inputs"]["label"]]
        for name, expected in case["expected"][row].items():
            settings = {"weighting": "none", "positive_scale": 1, "dtype": "float64"}
            name, _, base = name.partition("_")
            loss = bat_tf.losses.get(name, from_logits=False, **settings)(tag, p)
            cases.close(loss / (np.log(10) if base else 1), expected, 1e-8)
            same = bat_tf.losses.get(name, **settings)(tag, np.log(p))
            cases.close(same / (np.log(10) if base else 1), expected, 1e-8)


def test_claimed_roots_of_the_gradient(vectors):
    """Below the root a token is pulled towards its class, above it no longer."""
    roots = vectors["claims/bat"]["expected"]["gradient_root_gamma1_natural_log"]
    for scale, root in roots.items():
        loss = CECL(gamma=1, positive_scale=float(scale), from_logits=False)
        signs = []
        for p in (root - 1e-6, root + 1e-6):
            _, gradient = cases.value_and_gradient(loss, [0], np.array([[p, p]]))
            signs.append(np.sign(gradient.sum()))
        assert signs == [-1, 1], scale


def test_probabilities_are_clipped():
    for p, expected in (([0.0, 1.0], -2 * np.log(1e-10)), ([1.0, 0.0], 0.0)):
        loss = CECL(from_logits=False, dtype="float64")
        value, gradient = cases.value_and_gradient(loss, [0], np.array([p]))
        cases.close(value, expected, 1e-6)
        assert np.isfinite(gradient).all()


@st.composite
def problems(draw):
    size, length = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    rows = draw(st.integers(1, 3))
    level = st.floats(-15, 15, width=32, allow_subnormal=False)
    tags = [
        [draw(st.integers(-1, size - 1)) for _ in range(length)] for _ in range(rows)
    ]
    logits = [
        [[draw(level) for _ in range(size)] for _ in range(length)] for _ in range(rows)
    ]
    options = {
        "counts": [draw(st.integers(0, 50)) for _ in range(size - 1)] + [7],
        "weighting": draw(st.sampled_from(["none", "standard", "ee", "array"])),
        "negatives": draw(st.sampled_from(["none", "all", "predicted"])),
        "gamma": draw(st.sampled_from([0, 0.5, 1, 2])),
        "positive_scale": draw(st.sampled_from([1, 8, 20])),
    }
    return tags, logits, options


@settings(max_examples=60, deadline=None)
@given(problems())
def test_equals_the_oracle(problem):
    tags, logits, options = problem
    expected = oracles.mean_token_loss(tags, logits, **options)
    loss = TagLoss(options.pop("counts"), **options)
    value, gradient = cases.value_and_gradient(loss, tags, np.float32(logits))
    cases.close(value, expected)
    assert np.isfinite(gradient).all()
    # Adding a constant to all logits of a token changes nothing.
    assert np.abs(gradient.sum(-1)).max() <= 1e-5 * max(1, np.abs(gradient).max())
    assert np.all(gradient[np.array(tags) == -1] == 0)


@pytest.mark.parametrize("name", NAMED)
class TestWhatCounts:
    counts = [70, 20, 10]

    def tokens(self, rows=2, length=4):
        random = np.random.default_rng(0)
        tags = random.integers(0, 3, (rows, length))
        return tags, random.normal(0, 2, (rows, length, 3)).astype("float32")

    def test_padding_changes_nothing(self, name):
        loss = bat_tf.losses.get(name, class_counts=self.counts)
        tags, logits = self.tokens()
        value, gradient = cases.value_and_gradient(loss, tags, logits)
        # What a model says about padding may be anything, even NaN.
        for filler in (0.0, 1e4, float("nan")):
            long_tags = np.pad(tags, ((0, 1), (0, 3)), constant_values=-1)
            long_logits = np.pad(
                logits, ((0, 1), (0, 3), (0, 0)), constant_values=filler
            )
            padded, long = cases.value_and_gradient(loss, long_tags, long_logits)
            cases.close(padded, value, 1e-6)
            cases.close(long[:2, :4], gradient, 1e-6)
            assert not long[2:].any() and not long[:, 4:].any()

    def test_keras_mask_is_the_same_as_ignoring(self, name):
        loss = bat_tf.losses.get(name, class_counts=self.counts)
        tags, logits = self.tokens()
        mask = np.array([[True, True, False, False], [True, False, True, True]])
        expected = loss(np.where(mask, tags, -1), logits)
        logits = tf.constant(logits)
        logits._keras_mask = tf.constant(mask)
        cases.close(loss(tags, logits), expected, 1e-6)

    def test_another_ignore_index(self, name):
        loss = bat_tf.losses.get(name, class_counts=self.counts)
        other = bat_tf.losses.get(name, class_counts=self.counts, ignore_index=-100)
        tags, logits = self.tokens()
        tags[0, 1:3] = -1
        cases.close(other(np.where(tags < 0, -100, tags), logits), loss(tags, logits))

    def test_no_valid_token_costs_nothing(self, name):
        for reduction in ("mean", "sum", "mean_with_sample_weight"):
            loss = bat_tf.losses.get(
                name, class_counts=self.counts, reduction=reduction
            )
            _, logits = self.tokens()
            value, gradient = cases.value_and_gradient(
                loss, np.full((2, 4), -1), logits, sample_weight=[1.0, 2.0]
            )
            assert value == 0 and not gradient.any()


@pytest.mark.parametrize(
    ("name", "jit_compile"), cases.with_xla(["wce", "pbp", "cecla"], ["cecla"])
)
def test_counts_of_the_batch(name, jit_compile):
    random = np.random.default_rng(0)
    tags = np.array([[0, 0, 0, 1, -1], [0, 1, 2, -1, -1]])
    logits = random.normal(0, 2, (2, 5, 4)).astype("float32")
    loss = bat_tf.losses.get(name, class_counts="batch")
    told = bat_tf.losses.get(name, class_counts=[4, 2, 1, 0])
    found = cases.value_and_gradient(loss, tags, logits, jit_compile=jit_compile)
    expected = cases.value_and_gradient(told, tags, logits)
    for ours, theirs in zip(found, expected, strict=True):
        cases.close(ours, theirs)
    assert type(loss).from_config(loss.get_config()).class_counts == "batch"
    empty = cases.value_and_gradient(loss, np.full((2, 5), -1), logits)
    assert empty[0] == 0 and not empty[1].any()


class TestReduction:
    tags = np.array([[0, 1, -1], [2, -1, -1]])
    logits = np.random.default_rng(0).normal(size=(2, 3, 3)).astype("float32")

    def reduce(self, reduction, sample_weight=None):
        loss = CECL(reduction=reduction)
        return np.asarray(loss(self.tags, self.logits, sample_weight))

    @pytest.mark.parametrize(
        "weight, each",
        [
            (None, [1, 1, 1]),
            (2.0, [2, 2, 2]),
            ([2.0, 5.0], [2, 2, 5]),
            ([[2.0], [5.0]], [2, 2, 5]),
            ([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [1, 2, 4]),
        ],
    )
    def test_reductions(self, weight, each):
        per_token = self.reduce(None)[self.tags >= 0]
        total = np.sum(per_token * each)
        cases.close(self.reduce("none", weight)[self.tags >= 0], per_token * each)
        cases.close(self.reduce("sum", weight), total)
        for mean in ("mean", "sum_over_batch_size"):
            cases.close(self.reduce(mean, weight), total / 3)
        weighted = self.reduce("mean_with_sample_weight", weight)
        cases.close(weighted, total / np.sum(each))

    def test_means_are_shared_among_replicas(self, monkeypatch):
        means = ["mean", "sum_over_batch_size", "mean_with_sample_weight"]
        alone = [self.reduce(name) for name in means]
        total = self.reduce("sum")
        strategy = types.SimpleNamespace(num_replicas_in_sync=2)
        monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
        for name, value in zip(means, alone, strict=True):
            cases.close(self.reduce(name), value / 2)
        cases.close(self.reduce("sum"), total)


def test_tags_may_have_a_last_axis_of_one():
    tags, logits = np.array([[0, 1]]), np.ones((1, 2, 3), "float32")
    assert CECL()(tags[..., None], logits) == CECL()(tags, logits)


def test_unknown_tag_is_not_averaged_away():
    assert np.isnan(TagLoss()([[0, 3]], np.zeros((1, 2, 3))))
    assert np.isnan(TagLoss()([[0, -100]], np.zeros((1, 2, 3))))


def test_class_without_tokens_is_finite_when_it_turns_up():
    logits = np.random.default_rng(0).normal(size=(1, 2, 3)).astype("float32")
    for name in NAMED:
        loss = bat_tf.losses.get(name, class_counts=[90, 10, 0])
        value, gradient = cases.value_and_gradient(loss, [[0, 2]], logits)
        assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_model_with_mask_trains_and_reloads_in_mixed_precision(tmp_path, policy):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None,), dtype="int32")
    states = keras.layers.Embedding(9, 8, mask_zero=True, dtype=policy)(inputs)
    # The last layer is left in low precision on purpose: the loss must not care.
    model = keras.Model(inputs, keras.layers.Dense(3, dtype=policy)(states))
    loss = CECLA([70, 20, 10], dtype="bfloat16")
    model.compile(keras.optimizers.Adam(0.1), loss)
    tokens = np.array([[1, 2, 3, 0, 0], [4, 5, 6, 7, 8]])
    tags = tokens % 3
    history = model.fit(tokens, tags, epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]
    # Tokens under the mask do not count, whatever their tag says.
    cut = np.where(tokens > 0, tags, -1)
    expected = float(CECLA([70, 20, 10])(cut, model(tokens)))
    assert model.evaluate(tokens, tags, verbose=0) == pytest.approx(expected, 1e-2)
    model.save(tmp_path / "model.keras")
    fresh = keras.saving.load_model(tmp_path / "model.keras")
    assert fresh.loss.get_config() == loss.get_config()
    assert fresh.evaluate(tokens, tags, verbose=0) == pytest.approx(expected, 1e-2)


class TestSentences:
    def test_counts_are_needed(self):
        with pytest.raises(ValueError, match="given with weighting='array'"):
            bat_tf.losses.get("cecla")

    def test_counts_have_the_wrong_length(self):
        with pytest.raises(
            ValueError, match=r"length 3, the number of classes.*length 2"
        ):
            PBP([5, 5])([[0]], np.zeros((1, 1, 3)))

    def test_shapes_do_not_fit(self):
        with pytest.raises(ValueError, match=r"or one-hot tags of shape \(2, 4, 3\)"):
            TagLoss()(np.zeros((2, 4, 2)), np.zeros((2, 4, 3)))
        with pytest.raises(ValueError, match=r"of shape \(2, 4\)"):
            TagLoss()(np.zeros((2, 5)), np.zeros((2, 4, 3)))
        with pytest.raises(ValueError, match="two or more classes"):
            TagLoss()(np.zeros((2, 4)), np.zeros((2, 4, 1)))

    @pytest.mark.parametrize(
        "setting, value, words",
        [
            ("weighting", "balanced", "'standard', 'ee', 'array'"),
            ("negatives", "some", "'none', 'all', 'predicted'"),
            ("gamma", -1, ">= 0"),
            ("positive_scale", float("nan"), ">= 0"),
            ("ignore_index", 0.5, "an integer"),
            ("reduction", "median", "median"),
        ],
    )
    def test_bad_settings(self, setting, value, words):
        with pytest.raises(ValueError, match=setting) as error:
            TagLoss(**{setting: value})
        assert words in str(error.value)

    def test_unknown_name_and_setting(self):
        with pytest.raises(ValueError, match=r"'ce', 'wce', .*'pbpa'"):
            bat_tf.losses.get("crp")
        with pytest.raises(TypeError, match=r"no setting 'gama'.*gamma.*reduction"):
            bat_tf.losses.get("cecla", class_counts=[1, 2], gama=2)
