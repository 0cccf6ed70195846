import logging
import types

import cases
import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import bat_tf.losses
from bat_tf._internal import targets
from bat_tf.losses import (
    BPMLL,
    LSEP,
    WARP,
    ZLPR,
    BalancedLoss,
    BatchDiceLoss,
    ClassBalanced,
    DiceLoss,
    DistributionBalanced,
    DocumentLoss,
    FocalLoss,
    RankingHinge,
)

BALANCED = ["bce", "fl", "cb", "r-fl", "ntr-fl", "db-0fl", "cb-ntr", "db"]
RANKING = ["rl", "warp", "bp-mll", "lsep"]
NAMES = [*BALANCED, "dl1", "dl2", "zlpr", "tlpr", "soft-zlpr", *RANKING]
HARD = [*RANKING, "ntr-fl", "db-0fl", "cb-ntr", "db"]
COUNTS = [70, 20, 5, 9, 40, 3, 1]


def make(name, /, **settings):
    if name in BALANCED:
        settings = {"class_counts": COUNTS, "num_examples": 100, **settings}
    if name == "tlpr":
        settings = {"threshold": 0.5, **settings}
    if name == "soft-zlpr":  # certain labels must be smoothed
        settings = {"label_smoothing": 0.1, **settings}
    return bat_tf.losses.get(name, **settings)


def batch(rows, seed):
    random = np.random.default_rng(seed)
    labels = (random.random((rows, 7)) < 0.4).astype("float32")
    return labels, random.normal(0, 2, labels.shape).astype("float32")


def padded(labels):
    rows = tf.ragged.constant([np.flatnonzero(row) for row in labels], "int32")
    return rows.to_tensor(-1, shape=[None, labels.shape[1] + 1]).numpy()


def shapes(labels):
    """The same labels in every shape that people have them in."""
    return {
        "floats": labels,
        "float64": labels.astype("float64"),
        "bools": labels > 0,
        "ids": padded(labels),
        "int64 ids": padded(labels).astype("int64"),
        "ragged": tf.ragged.constant([np.flatnonzero(row) for row in labels]),
        "sparse": tf.sparse.from_dense(labels),
        "sparse of integers": tf.sparse.from_dense(labels.astype("int64")),
        "csr": scipy.sparse.csr_matrix(labels),
        "csr of bools": scipy.sparse.csr_array(labels > 0),
    }


@pytest.mark.parametrize("name", NAMES)
class TestProperties(cases.LossCases):
    def make(self, name, /, **settings):
        return make(name, **settings)

    def batch(self, rows, seed):
        return batch(rows, seed)


@pytest.mark.parametrize("name", NAMES)
class TestShapes:
    def test_every_shape_of_labels_costs_the_same(self, name):
        labels, scores = batch(rows=4, seed=0)
        labels[1], labels[2] = 0, 1
        expected, slope = cases.value_and_gradient(make(name), labels, scores)
        for shape, y_true in shapes(labels).items():
            y_pred = tf.constant(scores)
            with tf.GradientTape() as tape:
                tape.watch(y_pred)
                value = make(name)(y_true, y_pred)
            assert float(value) == pytest.approx(float(expected), 1e-5), shape
            cases.close(tape.gradient(value, y_pred), slope, 1e-6)

    def test_masked_labels_are_as_if_they_were_not(self, name):
        labels, scores = batch(rows=4, seed=1)
        mask = np.array([True, False, True, True, False, True, True])
        settings = {"class_counts": np.array(COUNTS)[mask]} if name in BALANCED else {}
        expected = make(name, **settings)(labels[:, mask], scores[:, mask])
        scores[:, ~mask] = [np.nan, 1e4]
        loss = make(name, label_mask=mask)
        for y_true in (labels, padded(labels)):
            value, gradient = cases.value_and_gradient(loss, y_true, scores)
            cases.close(value, expected, 1e-6)
            assert np.isfinite(gradient).all() and not gradient[:, ~mask].any()
        assert cases.round_trip(loss).label_mask == mask.tolist()

    def test_nan_stays_visible(self, name):
        labels, scores = batch(rows=4, seed=2)
        scores[2, 3] = np.nan
        assert np.isnan(make(name)(labels, scores))
        assert np.isnan(make(name)(padded(labels), scores))
        labels, scores = batch(rows=4, seed=2)
        labels[2, 3] = np.nan
        with pytest.raises(ValueError, match="y_true.*Received: nan"):
            make(name)(labels, scores)
        with pytest.raises(tf.errors.InvalidArgumentError, match="for each label"):
            tf.function(make(name))(tf.constant(labels), scores)

    def test_values_that_are_no_labels(self, name):
        labels, scores = batch(rows=3, seed=3)
        for value in (1.5, -0.25) + ((0.5,) if name in HARD else ()):
            labels[1, 2] = value
            with pytest.raises(ValueError, match=rf"y_true.*Received: {value}"):
                make(name)(labels, scores)
            loss = make(name) if name == "dl2" else make(name, reduction=None)
            with pytest.raises(tf.errors.InvalidArgumentError, match="targets=.*ids"):
                tf.function(loss)(tf.constant(labels), scores)
        if name in ("db", "dl2", "zlpr"):
            compiled = tf.function(loss, jit_compile=True)(tf.constant(labels), scores)
            expected = True if name == "dl2" else [False, True, False]
            assert np.array_equal(np.isnan(compiled), expected)

    def test_probabilities_where_the_loss_is_soft(self, name):
        labels, scores = batch(rows=3, seed=4)
        if name not in HARD:
            value, gradient = cases.value_and_gradient(
                make(name), 0.25 + labels / 2, scores
            )
            assert np.isfinite(value) and np.isfinite(gradient).all()

    def test_ids_that_are_no_labels(self, name):
        _, scores = batch(rows=2, seed=5)
        for wrong in ([7, -1], [-2, 1]):
            ids = np.array([[0, 1], wrong])
            with pytest.raises(ValueError, match="ids below 7, or -1"):
                make(name)(ids, scores)
            with pytest.raises(tf.errors.InvalidArgumentError):
                tf.function(make(name))(tf.constant(ids), scores)
        compiled = tf.function(make(name), jit_compile=True)
        assert np.isnan(compiled(tf.constant(ids), scores))

    def test_scale_and_threshold(self, name):
        loss = make(name)
        scale = None if name in RANKING else 2.0 if "lpr" in name else 1.0
        assert loss.probability_scale == scale
        threshold = None if name in RANKING else 0.5 if name == "tlpr" else 0.0
        assert loss.score_threshold == threshold

    def test_probabilities_instead_of_scores(self, name):
        labels, scores = batch(rows=3, seed=6)
        if make(name).probability_scale != 1.0:
            with pytest.raises(ValueError, match="`from_logits` must be True"):
                make(name, from_logits=False)
            return
        loss = make(name, from_logits=False)
        assert cases.round_trip(loss).from_logits is False
        cases.close(loss(labels, 1 / (1 + np.exp(-scores))), make(name)(labels, scores))
        edges = np.array([[0, 1, 0.5, 0, 1, 0, 1]] * 3, "float32")
        value, gradient = cases.value_and_gradient(loss, labels, edges)
        assert np.isfinite(value) and np.isfinite(gradient).all()


@pytest.mark.parametrize("name", NAMES)
class TestForm:
    """Which form targets have is said by their shape, or by `targets`."""

    hot, scores = batch(rows=4, seed=7)
    square = np.array([[0, -1], [1, -1], [0, 1]])  # of two labels

    def test_integers_as_wide_as_the_scores_are_a_multi_hot(self, name):
        expected, slope = cases.value_and_gradient(make(name), self.hot, self.scores)
        for dtype in ("int64", "uint8"):
            rows = self.hot.astype(dtype)
            for jit in (False, True) if name in ("db", "zlpr") else (False,):
                value, gradient = cases.value_and_gradient(
                    make(name), rows, self.scores, jit_compile=jit
                )
                cases.close(value, expected, 1e-6)
                cases.close(gradient, slope, 1e-6)

    def test_a_declaration_wins_over_the_shape(self, name):
        counts = {"class_counts": [2, 2]} if name in BALANCED else {}
        scores = np.array([[1.0, -0.5], [0.2, 0.1], [0.3, 0.7]], "float32")
        hot = np.array([[1, 0], [0, 1], [1, 1]])
        expected = make(name, **counts)(hot, scores)
        loss = make(name, targets="ids", **counts)
        for ids in (self.square, self.square.astype("float32")):
            cases.close(loss(ids, scores), expected, 1e-6)
        assert cases.round_trip(loss).targets == "ids"
        with pytest.raises(ValueError, match="0 or 1|probabilities") as error:
            make(name, **counts)(self.square, scores)
        assert 'declared: `targets="ids"`' in str(error.value)
        declared = make(name, targets="multi_hot", **counts)
        cases.close(declared(hot, scores), expected, 1e-6)

    def test_a_width_that_only_the_step_knows(self, name):
        loss = make(name)
        step = tf.function(
            loss,
            [tf.TensorSpec([None, None], "int64"), tf.TensorSpec([None, 7])],
            jit_compile=name in ("fl", "lsep"),
        )
        for y_true in (self.hot.astype("int64"), padded(self.hot).astype("int64")):
            cases.close(step(y_true, self.scores), loss(self.hot, self.scores), 1e-6)
        if name not in ("fl", "lsep"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="label ids below"):
                step(np.full((4, 7), 3), self.scores)

    def test_the_multi_hot_of_other_labels_is_not_taken_for_ids(self, name):
        wide = np.pad(self.hot.astype(int), [(0, 0), (0, 2)])
        with pytest.raises(ValueError, match="none has more.* multi-hot has 7 columns"):
            make(name)(wide, self.scores)
        with pytest.raises(tf.errors.InvalidArgumentError, match="has 7 columns"):
            tf.function(make(name))(tf.constant(wide), self.scores)

    def test_ids_beyond_32_bits_are_no_others(self, name):
        with pytest.raises(ValueError, match="ids below 7.* Received: 4294967296"):
            make(name)(np.full((4, 2), 2**32), self.scores)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("form", ["multi_hot", "ids", "of tokens"])
def test_fit_says_in_its_first_batch_what_cannot_be(form, jit_compile):
    labels, scores = batch(rows=4, seed=7)
    labels = padded(labels) if form == "ids" else labels.astype("int64")
    labels[1, 2] = 7
    if form == "of tokens":
        labels, scores = labels[:, None], scores[:, None]
    model = keras.Sequential([keras.layers.Dense(7)])
    model.compile(loss=ZLPR(), jit_compile=jit_compile)
    says = "A multi-hot has 7 columns" if form == "ids" else "targets=.*ids"
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        model.fit(scores, labels, batch_size=2, verbose=0)


def test_autograph_has_nothing_to_say():
    """Where a step of one's own calls a loss, it reads the source."""
    labels, scores = batch(rows=4, seed=7)
    logger, said = tf.get_logger(), []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    try:
        tf.function(lambda y, s: ZLPR()(y, s))(tf.constant(labels), scores)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert not [text for text in said if "AutoGraph" in text]


def test_xla_takes_no_sparse_targets():
    labels, scores = batch(rows=4, seed=7)
    model = keras.Sequential([keras.layers.Dense(7)])
    model.compile(loss=ZLPR(), jit_compile=True)
    with pytest.raises(ValueError, match="`y_true` must be dense .*jit_compile=False"):
        model.fit(scores, scipy.sparse.csr_matrix(labels), verbose=0)


def test_a_declaration_must_fit():
    with pytest.raises(ValueError, match="`targets` must be one of None, 'ids'"):
        ZLPR(targets="names")
    ragged = tf.ragged.constant([[1], [0]])
    with pytest.raises(ValueError, match="`targets` must be None or 'ids'"):
        ZLPR(targets="multi_hot")(ragged, np.zeros((2, 7)))
    with pytest.raises(ValueError, match="7 labels.*Label ids are integers"):
        ZLPR()(np.array([[1.0, 2.0]]), np.zeros((1, 7)))


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_fit_takes_multi_hot_and_ids(jit_compile):
    labels, scores = batch(rows=4, seed=0)
    losses = {name: make(name) for name in ["db", "dl1", "zlpr", "warp"]}
    # Keras leaves integers as they are.
    hot, ids = (
        cases.fit_step(losses, y_true, scores, jit_compile)
        for y_true in (labels, padded(labels))
    )
    for name, loss in losses.items():
        expected = cases.value_and_gradient(loss, labels, scores)
        for value, gradient in (hot[name], ids[name]):
            cases.close(value, expected[0])
            cases.close(gradient, expected[1])


@pytest.mark.parametrize("shape", ["ragged", "sparse"])
def test_fit_takes_ragged_and_sparse_datasets(shape):
    labels, scores = batch(rows=6, seed=1)
    model = keras.Sequential([keras.layers.Dense(7, use_bias=False)])
    model.compile(loss=ZLPR(), jit_compile=False)
    y_true = shapes(labels)[shape]
    data = tf.data.Dataset.from_tensor_slices((scores, y_true)).batch(6)
    history = model.fit(data, epochs=1, verbose=0).history
    assert np.isfinite(history["loss"][0])
    expected = float(ZLPR()(labels, model(scores)))
    assert model.evaluate(data, verbose=0) == pytest.approx(expected, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy, name",
    [
        *[("mixed_float16", "db"), ("mixed_float16", "warp")],
        *[("mixed_bfloat16", "zlpr"), ("mixed_bfloat16", "dl2")],
    ],
)
def test_model_trains_and_reloads_in_mixed_precision(tmp_path, policy, name):
    keras.utils.set_random_seed(0)
    labels, features = batch(rows=16, seed=2)
    # The last layer is left in low precision on purpose: the loss must not care.
    model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(7, dtype=policy)])
    loss = make(name)
    model.compile(keras.optimizers.Adam(0.05), loss, jit_compile=True)
    history = model.fit(features, labels, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    expected = model.evaluate(features, labels, verbose=0)
    model.save(tmp_path / "model.keras")
    fresh = keras.saving.load_model(tmp_path / "model.keras")
    assert type(fresh.loss) is type(loss)
    assert fresh.loss.get_config() == loss.get_config()
    assert fresh.evaluate(features, labels, verbose=0) == pytest.approx(expected)


class TestReduction:
    labels, scores = batch(rows=4, seed=3)

    def reduce(self, reduction, weight=None):
        return np.asarray(ZLPR(reduction=reduction)(self.labels, self.scores, weight))

    @pytest.mark.parametrize("weight", [None, 2.0, [1.0, 2.0, 0.0, 5.0]])
    def test_reductions(self, weight):
        each = self.reduce(None) * (1 if weight is None else weight)
        if isinstance(weight, list):
            column = np.array(weight)[:, None]
            cases.close(self.reduce("sum", column), self.reduce("sum", weight), 1e-6)
        cases.close(self.reduce("none", weight), each)
        cases.close(self.reduce("sum", weight), each.sum())
        for mean in ("mean", "sum_over_batch_size"):
            cases.close(self.reduce(mean, weight), each.mean())
        if isinstance(weight, list):
            weighted = self.reduce("mean_with_sample_weight", weight)
            cases.close(weighted, each.sum() / np.sum(weight))

    # What dl2 sums up is of the whole batch already.
    @pytest.mark.parametrize(("name", "shares"), [("zlpr", 1), ("dl2", 2)])
    def test_means_are_shared_among_replicas(self, monkeypatch, name, shares):
        mean, total = (make(name, reduction=kind) for kind in ("mean", "sum"))
        alone = [float(loss(self.labels, self.scores)) for loss in (mean, total)]
        strategy = types.SimpleNamespace(num_replicas_in_sync=2)
        monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)
        cases.close(mean(self.labels, self.scores), alone[0] / 2)
        cases.close(total(self.labels, self.scores), alone[1] / shares)


class TestSentences:
    @pytest.mark.parametrize("name", NAMES)
    def test_shapes_do_not_fit(self, name):
        loss = make(name)
        with pytest.raises(ValueError, match=r"`y_true` .* 7 labels.*\(2, 5\)"):
            loss(np.zeros((2, 5)), np.zeros((2, 7)))
        with pytest.raises(ValueError, match="as many samples as `y_pred`, 2"):
            loss(np.zeros((1, 7)), np.zeros((2, 7)))
        with pytest.raises(ValueError, match="`y_true` must be of two dimensions"):
            loss(np.zeros(7), np.zeros((1, 7)))
        with pytest.raises(ValueError, match=r"`y_pred` must be scores \[B, L\]"):
            loss(np.zeros((1, 7)), np.zeros((1, 1, 7, 1)))
        with pytest.raises(
            ValueError, match=r"token of `y_pred`, \[1, 2\], on a third"
        ):
            loss(np.zeros((1, 7)), np.zeros((1, 2, 7)))
        square = np.zeros((7, 7))
        with pytest.raises(ValueError, match="`sample_weight` must be one weight per"):
            loss(square, square, np.ones((7, 7)))

    @pytest.mark.parametrize("mask", [[1, 0], [False, False], True, [[True]]])
    def test_bad_masks(self, mask):
        with pytest.raises(ValueError, match="label_mask"):
            ZLPR(label_mask=mask)

    def test_mask_of_another_length(self):
        with pytest.raises(ValueError, match="length 3, .* length 2"):
            ZLPR(label_mask=[True, False])(np.zeros((1, 3)), np.zeros((1, 3)))

    def test_names_that_ask_for_what_they_need(self):
        with pytest.raises(TypeError, match="'tlpr'.*needs the setting 'threshold'"):
            bat_tf.losses.get("tlpr")
        hot, scores = batch(rows=2, seed=0)
        soft = bat_tf.losses.get("soft-zlpr")
        assert cases.round_trip(soft).soft
        for certain in (hot > 0, hot.astype(int), padded(hot)):
            with pytest.raises(ValueError, match="probabilities.*`label_smoothing`"):
                soft(certain, scores)
        cases.close(soft(hot * 0.9 + 0.05, scores), ZLPR()(hot * 0.9 + 0.05, scores))
        smooth = bat_tf.losses.get("soft-zlpr", label_smoothing=0.1)
        cases.close(smooth(padded(hot), scores), soft(hot * 0.9 + 0.05, scores))

    def test_unknown_name_and_setting(self):
        with pytest.raises(ValueError, match=r"'bce', .*'db', 'dl1', .*'lsep'"):
            bat_tf.losses.get("asl")
        with pytest.raises(TypeError, match=r"no setting 'margn'.*label_mask.*margin"):
            bat_tf.losses.get("warp", margn=2)
        with pytest.raises(TypeError, match=r"no setting 'mu'.*rebalance_mu"):
            bat_tf.losses.get("db", mu=2)


def test_classes_behind_the_names():
    classes = {
        **{"bce": BalancedLoss, "fl": FocalLoss, "cb": ClassBalanced},
        **{"r-fl": DistributionBalanced, "db": DistributionBalanced},
        **{"dl1": DiceLoss, "dl2": BatchDiceLoss, "zlpr": ZLPR, "tlpr": ZLPR},
        **{"rl": RankingHinge, "warp": WARP, "bp-mll": BPMLL, "lsep": LSEP},
    }
    for name, cls in classes.items():
        assert type(make(name)) is cls and make(name).name == name
        assert issubclass(cls, DocumentLoss)
    assert type(bat_tf.losses.get("ZLPR")) is ZLPR


@pytest.mark.parametrize("kind", ["complex64", "str"])
def test_targets_that_are_no_real_numbers_are_refused(kind):
    labels = np.ones((2, 7), kind)
    with pytest.raises(ValueError, match="must be integers or real numbers"):
        targets.read(tf.constant(labels), 7)
