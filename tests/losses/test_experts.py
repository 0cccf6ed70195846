import warnings

import cases
import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf

import bat_tf.losses
from bat_tf.data import LabelSpace
from bat_tf.losses import (
    ZLPR,
    BalancedLoss,
    BatchDiceLoss,
    DocumentLoss,
    ExpertEpochs,
    ExpertLoss,
)
from bat_tf.losses.experts import BASES

COUNTS = [70, 20, 5, 9, 0]


def inputs(case):
    """Labels, logits [B, K, L] and counts of a vector, which has experts first."""
    logits = np.moveaxis(np.float32(case["inputs"]["expert_logits"]), 0, 1)
    return np.float32(case["inputs"]["labels"]), logits, case["inputs"]["train_counts"]


def padded(labels):
    rows = tf.ragged.constant([np.flatnonzero(row) for row in labels], "int32")
    return rows.to_tensor(-1, shape=[None, labels.shape[1] + 1]).numpy()


def batch(rows, seed):
    random = np.random.default_rng(seed)
    labels = (random.random((rows, 5)) < 0.4).astype("float32")
    labels[0] = [0, 1, 0, 0, 1]
    return labels, random.normal(0, 2, (rows, 3, 5)).astype("float32")


def make(base="bce", **settings):
    if base in ("cb-ntr", "ntr-fl", "db", "db-0fl"):
        settings = {"base_settings": {"num_examples": 100}, **settings}
    if base == "tlpr":
        settings = {"base_settings": {"threshold": 0.5}, **settings}
    settings = {"label_counts": COUNTS, "diversity_start_epoch": 0, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a label without documents
        return ExpertLoss(base, **settings)


# name → base, settings
LOSSES = {
    "individual": ("bce", {}),
    "collaborative": ("bce", {"mode": "collaborative"}),
    "without diversity": ("bce", {"diversity": 0}),
    "zlpr": ("zlpr", {"diversity": 0.1}),
    "db": ("db", {"diversity": 0.1}),
}


@pytest.mark.parametrize("name", LOSSES)
class TestProperties(cases.LossCases):
    def make(self, name, /, **settings):
        base, own = LOSSES[name]
        return make(base, **{**own, **settings})

    def batch(self, rows, seed):
        return batch(rows, seed)

    def test_gradient_is_the_slope(self, name):
        # λ is a constant to the gradient, so the whole has another slope.
        whole = self.make
        self.make = lambda name, **settings: whole(name, **settings, diversity=0)
        super().test_gradient_is_the_slope(name)


class TestVectors:
    @pytest.mark.parametrize("mode", ["individual", "collaborative"])
    @pytest.mark.parametrize("as_ids", [False, True])
    def test_modes(self, vectors, mode, as_ids):
        case = vectors[f"experts/{mode}"]
        labels, logits, _ = inputs(case)
        loss = ExpertLoss(mode=mode, diversity=0)
        labels = padded(labels) if as_ids else labels
        value, gradient = cases.value_and_gradient(loss, labels, logits)
        cases.close(value, case["expected"]["value"])
        cases.close(np.moveaxis(gradient, 1, 0), case["expected"]["grad"], 1e-7)

    @pytest.mark.parametrize("as_ids", [False, True])
    def test_diversity_of_a_pair(self, vectors, as_ids):
        case = vectors["experts/diversity_pair01"]
        labels, logits, counts = inputs(case)
        labels = padded(labels) if as_ids else labels
        loss = ExpertLoss(label_counts=counts)

        def diversity(y_true, y_pred, sample_weight):
            return tf.reduce_mean(loss.diversity_losses(y_true, y_pred))

        value, gradient = cases.value_and_gradient(diversity, labels, logits[:, :2])
        expected = case["expected"]
        cases.close(value, expected["value"], 1e-7)
        for expert in (0, 1):
            cases.close(gradient[:, expert], expected[f"grad{expert}"], 1e-7)

    @pytest.mark.parametrize("as_ids", [False, True])
    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_whole_of_three_experts(self, vectors, as_ids, jit_compile):
        case = vectors["experts/total_k3"]
        labels, logits, counts = inputs(case)
        labels = padded(labels) if as_ids else labels
        loss = ExpertLoss(label_counts=counts, epoch=2)
        cases.close(
            np.mean(loss.diversity_losses(labels, logits)),
            case["expected"]["diversity"],
            1e-7,
        )
        value, gradient = cases.value_and_gradient(
            loss, labels, logits, jit_compile=jit_compile
        )
        cases.close(value, case["expected"]["value"])
        cases.close(np.moveaxis(gradient, 1, 0), case["expected"]["grad"], 1e-7)

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_inside_fit(self, vectors, jit_compile):
        case = vectors["experts/total_k3"]
        labels, logits, counts = inputs(case)
        loss = ExpertLoss(label_counts=counts, diversity_start_epoch=0)
        for y_true in (labels, padded(labels)):
            step = cases.fit_step({"experts": loss}, y_true, logits, jit_compile)
            value, gradient = step["experts"]
            cases.close(value, case["expected"]["value"])
            expected = np.moveaxis(case["expected"]["grad"], 0, 1)
            cases.close(gradient, expected, 1e-6)


class TestLabels:
    @pytest.mark.parametrize("base", ["bce", "zlpr", "lsep"])
    def test_every_shape_is_the_same(self, base):
        labels, logits = batch(rows=4, seed=0)
        labels[1] = 0
        loss = make(base, diversity=1.0)
        expected, gradient = cases.value_and_gradient(loss, labels, logits)
        ids = padded(labels)
        for y_true in (
            labels > 0,
            ids,
            ids.astype("int64"),
            np.concatenate([ids, ids], axis=1),  # a label twice is one
        ):
            value, other = cases.value_and_gradient(loss, y_true, logits)
            cases.close(value, expected, 1e-6)
            cases.close(other, gradient, 1e-6)
        ragged = tf.ragged.constant([np.flatnonzero(row) for row in labels])
        for y_true in (
            ragged,
            tf.sparse.from_dense(labels),
            scipy.sparse.csr_array(labels),
        ):
            cases.close(loss(y_true, logits), expected, 1e-6)

    def test_probabilities_as_labels(self):
        labels, logits = batch(rows=3, seed=1)
        loss = make(diversity=1.0)
        half = loss.diversity_losses(labels / 2, logits)
        cases.close(half, loss.diversity_losses(labels, logits) / 2, 1e-7)

    def test_documents_without_labels_have_no_diversity(self):
        logits = batch(rows=2, seed=2)[1]
        for labels in (np.zeros((2, 5)), np.full((2, 3), -1), np.zeros((2, 0), int)):
            assert not np.any(make().diversity_losses(labels, logits))

    def test_ids_need_no_array_of_all_labels(self):
        """In the diversity term only the gathered scores are touched."""
        width = 1000
        loss = ExpertLoss(label_counts=np.ones(width))
        function = tf.function(loss.diversity_losses, autograph=False)
        graph = function.get_concrete_function(
            tf.TensorSpec([4, 3], "int32"), tf.TensorSpec([4, 2, width])
        ).graph
        allowed = {"Placeholder", "Unpack", "Identity", "StridedSlice", "Cast"}
        wide = {
            operation.type
            for operation in graph.get_operations()
            for output in operation.outputs
            if output.shape.rank and output.shape.num_elements() == 4 * width
        }
        assert wide <= allowed

    def test_wrong_ids(self):
        logits = batch(rows=1, seed=3)[1]
        with pytest.raises(ValueError, match="label ids below 5"):
            make()(np.array([[5]]), logits)
        value, _ = cases.value_and_gradient(
            make(), np.array([[5]]), logits, jit_compile=True
        )
        assert np.isnan(value)

    def test_masked_labels_may_be_anything(self):
        labels, logits = batch(rows=3, seed=4)
        mask = [True, True, False, True, True]
        base = BalancedLoss(gamma=0.0, label_mask=mask)
        kept = np.flatnonzero(mask)
        counts = np.array(COUNTS)
        expected = make(diversity=1.0, label_counts=counts[kept])(
            labels[:, kept], logits[:, :, kept]
        )
        logits[:, :, 2] = np.nan
        loss = make(base, diversity=1.0)
        for y_true in (labels, padded(labels)):
            value, gradient = cases.value_and_gradient(loss, y_true, logits)
            cases.close(value, expected)
            assert not gradient[:, :, 2].any()


class TestBase:
    @pytest.mark.parametrize("mode", ["individual", "collaborative"])
    @pytest.mark.parametrize("base", BASES)
    def test_any_loss_of_documents(self, base, mode):
        labels, logits = batch(rows=4, seed=5)
        loss = make(base, mode=mode, diversity=0)
        alone = make(base).base
        if mode == "individual":
            expected = np.mean([alone(labels, logits[:, k]) for k in range(3)])
        else:
            expected = float(alone(labels, logits.mean(1)))
        cases.close(loss(labels, logits), expected)
        fresh = cases.round_trip(make(base, mode=mode))
        diverse = fresh(labels, logits)
        apart = np.mean(make(base).diversity_losses(labels, logits))
        cases.close(diverse, expected + 0.01 * apart)

    def test_as_an_object(self):
        labels, logits = batch(rows=4, seed=6)
        base = ZLPR(label_smoothing=0.1, reduction="sum", dtype="bfloat16")
        loss = make(base, diversity=0)
        exact = ZLPR(label_smoothing=0.1)
        expected = np.mean([exact(labels, logits[:, k]) for k in range(3)])
        cases.close(loss(labels, logits), expected)
        assert loss.probability_scale == 2.0 and loss.score_threshold == 0.0
        assert cases.round_trip(loss).base.label_smoothing == 0.1

    def test_of_the_user(self):
        @keras.saving.register_keras_serializable(package="tests")
        class Hamming(DocumentLoss):
            def sample_losses(self, labels, scores):
                wrong = keras.ops.not_equal(scores > 0, labels > 0.5)
                return keras.ops.mean(keras.ops.cast(wrong, "float32"), axis=-1)

        labels, logits = batch(rows=4, seed=7)
        wrong = (logits > 0) != (labels[:, None] > 0)
        cases.close(make(Hamming(), diversity=0)(labels, logits), wrong.mean())

    def test_probabilities_are_those_of_the_base(self):
        """ZLPR's are σ(2 s), and TLPR's are counted from its threshold."""
        labels, logits = batch(rows=4, seed=8)
        expected = make().diversity_losses(labels, logits)
        zlpr = make("zlpr").diversity_losses(labels, logits / 2)
        cases.close(zlpr, expected, 1e-6)
        tlpr = make("tlpr", base_settings={"threshold": 0.5})
        cases.close(tlpr.diversity_losses(labels, logits / 2 + 0.5), expected, 1e-6)
        learnt = make("tlpr", base_settings={"threshold": "learnt"})
        wide = np.concatenate([logits / 2 + 1.5, np.full((4, 3, 1), 1.5)], axis=-1)
        wide = wide.astype("float32")
        for y_true in (labels, padded(labels)):
            found = learnt.diversity_losses(y_true, wide)
            cases.close(found, expected, 1e-6)
            assert np.isfinite(learnt(y_true, wide))

    def test_batch_dice_has_no_loss_of_a_sample(self):
        labels, logits = batch(rows=4, seed=9)
        each = [BatchDiceLoss()(labels, logits[:, k]) for k in range(3)]
        cases.close(make("dl2", diversity=0)(labels, logits), np.mean(each))

    def test_counts_of_a_label_space(self):
        space = LabelSpace.fit([["a", "b"], ["a"], ["c"]])
        loss = ExpertLoss("db", label_counts=space)
        assert loss.base.class_counts == loss.label_counts == [2, 1, 1]
        assert loss.base.num_examples == 3

    def test_by_name(self):
        loss = bat_tf.losses.get("experts", base="zlpr", label_counts=[1, 2])
        assert type(loss) is ExpertLoss and type(loss.base) is ZLPR
        assert loss.name == "experts" and loss.diversity == 0.01


def test_one_expert_is_the_base():
    labels, logits = batch(rows=4, seed=10)
    value = make(diversity=1.0)(labels, logits[:, :1])
    cases.close(value, BalancedLoss(gamma=0.0)(labels, logits[:, 0]))
    assert not np.any(make().diversity_losses(labels, logits[:, :1]))


def test_diversity_goes_apart_on_rare_and_uncertain_labels():
    loss = make()
    apart, alike = np.zeros((2, 1, 2, 5), "float32")
    apart[0, 0] = 1
    rare, common = (
        float(np.squeeze(loss.diversity_losses(np.array([[label]]), apart)))
        for label in (2, 0)
    )
    assert rare < common < 0 == float(loss.diversity_losses(np.array([[2]]), alike)[0])
    sure = float(loss.diversity_losses(np.array([[2]]), apart + 5)[0])
    assert rare < sure < 0


class TestEpochs:
    def model(self, jit_compile=False, **settings):
        keras.utils.set_random_seed(0)
        scores = keras.layers.Reshape((2, 3))(
            keras.layers.Dense(6, name="dense")(inputs := keras.Input((2,)))
        )
        model = keras.Model(inputs, scores)
        settings = {"diversity": 10.0, "label_counts": [2, 1, 1], **settings}
        # Without learning, the loss changes with the epoch alone.
        optimizer = keras.optimizers.SGD(0.0)
        loss = ExpertLoss(**settings)
        model.compile(optimizer, loss, jit_compile=jit_compile)
        return model

    x = np.random.default_rng(0).normal(size=(4, 2)).astype("float32")
    y = np.array([[0, 1], [2, -1], [1, -1], [0, 2]])

    def fit(self, model, epochs, **settings):
        settings = {"callbacks": [ExpertEpochs()], **settings}
        history = model.fit(self.x, self.y, epochs=epochs, verbose=0, **settings)
        return np.array(history.history["loss"])

    @pytest.mark.parametrize("jit_compile", [False, True])
    def test_starts_inside_a_traced_step(self, jit_compile):
        model = self.model(jit_compile)
        found = self.fit(model, 5)
        assert found[0] == found[1] and found[2] == found[3] == found[4]
        apart = np.mean(model.loss.diversity_losses(self.y, model(self.x)))
        cases.close(found[2] - found[0], 10 * apart)
        assert apart < 0 and model.loss.epoch == 5

    def test_goes_on_after_a_reload(self, tmp_path):
        model = self.model()
        first = self.fit(model, 1)
        model.save(tmp_path / "model.keras")
        fresh = keras.saving.load_model(tmp_path / "model.keras")
        assert fresh.loss.epoch == 1 and fresh.loss.label_counts == [2, 1, 1]
        # Keras counts from 0 again, the loss from 1.
        found = self.fit(fresh, 2)
        assert found[0] == first[0] and found[1] < found[0]
        fresh.save(tmp_path / "model.keras")
        again = keras.saving.load_model(tmp_path / "model.keras")
        cases.close(again.evaluate(self.x, self.y, verbose=0), found[1], 1e-6)

    def test_run_that_starts_in_the_middle(self):
        off = self.fit(self.model(), 1)[0]
        found = self.fit(self.model(), 4, initial_epoch=1)
        assert found[0] == off and found[1] == found[2] < off

    def test_set_by_hand(self):
        model = self.model()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.loss.epoch = 1
            off = self.fit(model, 1, callbacks=[])[0]
            model.loss.epoch = 2
            assert self.fit(model, 1, callbacks=[])[0] < off

    def test_says_so_if_nobody_counts(self):
        with pytest.warns(UserWarning, match="epoch 2, and nobody.*ExpertEpochs"):
            self.fit(self.model(), 1, callbacks=[])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.fit(self.model(), 1)
            self.fit(self.model(diversity_start_epoch=0), 1, callbacks=[])
            self.fit(self.model(diversity=0), 1, callbacks=[])

    def test_other_losses_do_not_mind(self):
        model = self.model()
        model.compile("sgd", "mse")
        model.fit(
            self.x,
            np.zeros((4, 2, 3)),
            callbacks=[ExpertEpochs()],
            verbose=0,
        )

    @pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
    def test_mixed_precision(self, policy):
        keras.config.set_dtype_policy(policy)
        try:
            model = self.model()
        finally:
            keras.config.set_dtype_policy("float32")
        assert model.compute_dtype != "float32"
        found = self.fit(model, 3)
        assert np.isfinite(found).all() and found[2] < found[1]


class TestSentences:
    def test_settings(self):
        counted = {"label_counts": [1, 2]}
        for settings, words in (
            ({}, "`label_counts`.*Received: None.*diversity=0"),
            ({"label_counts": [[1, 2]]}, "`label_counts`.*each label"),
            ({"label_counts": [1, -2]}, "`label_counts`.*>= 0"),
            ({"label_counts": "many"}, "`label_counts`"),
            ({"mode": "both", **counted}, "`mode` must be one of 'individual'"),
            ({"diversity": -1, **counted}, "`diversity`.*>= 0"),
            ({"diversity_start_epoch": 1.5, **counted}, "`diversity_start_epoch`"),
            ({"epoch": -1, **counted}, "`epoch`"),
            ({"base": "pbp", **counted}, "`base` must be one of 'bce'"),
            ({"base": keras.losses.MeanSquaredError(), **counted}, "a DocumentLoss"),
            (
                {"base": BalancedLoss(from_logits=False), **counted},
                "`base`.*Leave the sigmoid out",
            ),
            (
                {"base": ZLPR(), "base_settings": {"threshold": 1}, **counted},
                "`base_settings`.*to the loss itself",
            ),
        ):
            with pytest.raises(ValueError, match=words):
                ExpertLoss(**settings)
        with pytest.raises(TypeError, match="no setting 'temperature'"):
            ExpertLoss("zlpr", base_settings={"temperature": 1}, **counted)

    def test_scores(self):
        loss = ExpertLoss(label_counts=[1, 2])
        labels = np.array([[1.0, 0.0]])
        with pytest.raises(ValueError, match=r"\[B, K, L\].*\(1, 2\).*stack"):
            loss(labels, np.zeros((1, 2), "float32"))
        with pytest.raises(ValueError, match="`label_counts` must have length 3"):
            loss(np.array([[0]]), np.zeros((1, 2, 3), "float32"))
        with pytest.raises(ValueError, match="one for each of 2 labels"):
            loss(np.zeros((1, 3)), np.zeros((1, 2, 2), "float32"))
