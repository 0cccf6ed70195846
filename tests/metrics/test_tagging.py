import cases
import keras
import numpy as np
import pytest
import sklearn.metrics
import tensorflow as tf
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import bat_tf.losses
import bat_tf.metrics
from bat_tf.metrics import TokenFScore

NAMES = [
    *["token_macro_f1", "token_macro_f2"],
    *["token_macro_f1_no_none", "token_macro_f2_no_none"],
]


@pytest.mark.parametrize("name", NAMES)
class TestProperties(cases.MetricCases):
    def make(self, name, /, **settings):
        return bat_tf.metrics.get(name, num_classes=3, **settings)

    def batch(self, rows, seed):
        random = np.random.default_rng(seed)
        tags = random.integers(-1, 3, (rows, 7))
        return tags, random.normal(0, 2, (rows, 7, 3)).astype("float32")


@pytest.mark.parametrize("name", NAMES)
def test_vectors(vectors, name):
    case = vectors["metrics/token_macro"]
    y_true, y_pred = (np.array(case["inputs"][key]) for key in ("y_true", "y_pred"))
    _, _, score, *rest = name.split("_")
    expected = case["expected"][f"{score}_{'no_none' if rest else 'all'}"]
    metric = bat_tf.metrics.get(name, num_classes=3)
    metric.update_state(y_true, y_pred)
    cases.close(metric.result(), expected, 1e-6)
    # Scores in the place of tags, which only their order makes.
    metric.reset_state()
    metric.update_state(y_true, tf.one_hot(y_pred, 3) * 5 - 2)
    cases.close(metric.result(), expected, 1e-6)


def test_f1_minus_f2_of_the_paper(vectors):
    case = vectors["metrics/f1_minus_f2"]
    p, r = case["inputs"]["p"], case["inputs"]["r"]
    f1, f2 = (TokenFScore(2, beta=beta, exclude=[0]) for beta in (1, 2))
    for metric in (f1, f2):
        metric.count(
            true_positives=[0, p * r], predicted=[0, r], actual=[0, p]
        )  # precision p, recall r
    cases.close(f1.result() - f2.result(), case["expected"]["direct"], 1e-6)


@settings(max_examples=50, deadline=None)
@example([(0, 1)], 1, "weighted", [0], 1.0, False)  # nothing actual to weigh by
@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 3)), min_size=1),
    st.sampled_from([0.5, 1, 2]),
    st.sampled_from(["macro", "micro", "weighted"]),
    st.sampled_from([[], [0], [1, 3]]),
    st.sampled_from([0.0, 1.0]),
    st.booleans(),
)
def test_equals_scikit_learn(tokens, beta, average, exclude, zero_division, weighted):
    y_true, y_pred = np.array(tokens).T
    assume(np.any(y_true >= 0))  # or scikit-learn refuses
    weight = np.random.default_rng(0).integers(0, 4, len(tokens)) if weighted else None
    metric = TokenFScore(
        4, beta=beta, average=average, exclude=exclude, zero_division=zero_division
    )
    metric.update_state(
        y_true[None], y_pred[None], None if weight is None else weight[None]
    )
    valid = y_true >= 0
    expected = sklearn.metrics.precision_recall_fscore_support(
        y_true[valid],
        y_pred[valid],
        beta=beta,
        labels=[i for i in range(4) if i not in exclude],
        average=average,
        zero_division=zero_division,
        sample_weight=None if weight is None else weight[valid],
    )
    scores = metric.scores()
    cases.close([scores[k] for k in ("precision", "recall", "f_score")], expected[:3])
    assert float(metric.result()) == pytest.approx(scores["f_score"], rel=1e-6)


def test_per_class_table():
    metric = TokenFScore(4)
    metric.update_state([[0, 0, 0, 1, 2, -1]], [[0, 0, 1, 1, 0, 3]])
    table = {key: value.tolist() for key, value in metric.per_class().items()}
    assert table["actual"] == [3, 1, 1, 0]
    assert table["predicted"] == [3, 2, 0, 0]
    assert table["true_positives"] == [2, 1, 0, 0]
    cases.close(table["precision"], [2 / 3, 1 / 2, 0, 0], 1e-6)
    cases.close(table["recall"], [2 / 3, 1, 0, 0], 1e-6)
    cases.close(table["f_score"], [2 / 3, 2 / 3, 0, 0], 1e-6)


def test_state_does_not_grow_with_the_data():
    metric = TokenFScore(5)
    metric.update_state(np.zeros((9, 50), int), np.zeros((9, 50, 5)))
    assert [variable.shape for variable in metric.variables] == [(5,)] * 3


def test_best_f2_is_kept_and_stops_the_training(tmp_path):
    """The paper keeps the epoch with the best macro F2; Keras must know it goes up."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((None,), dtype="int32")
    states = keras.layers.Embedding(9, 8, mask_zero=True)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3)(states))
    names = ["token_macro_f1_no_none", "token_macro_f2"]
    metrics = [bat_tf.metrics.get(name, num_classes=3) for name in names]
    loss = bat_tf.losses.get("ce")
    model.compile(keras.optimizers.Adam(0.1), loss=loss, metrics=metrics)
    tokens = np.array([[1, 2, 3, 4], [5, 6, 7, 0]])
    # Where the mask is False the tag is wrong on purpose.
    tags = np.array([[1, 2, 0, 1], [2, 0, 1, 0]])
    callbacks = [
        keras.callbacks.EarlyStopping("val_token_macro_f2", patience=10),
        keras.callbacks.ModelCheckpoint(
            tmp_path / "{val_token_macro_f2:.2f}.keras",
            monitor="val_token_macro_f2",
            save_best_only=True,
        ),
    ]
    history = model.fit(
        *[tokens, tags],
        validation_data=(tokens, tags),
        epochs=60,
        callbacks=callbacks,
        verbose=0,
    ).history
    scores = history["val_token_macro_f2"]
    assert max(scores) == 1 and len(scores) < 60
    fresh = keras.saving.load_model(tmp_path / "1.00.keras")
    assert fresh.evaluate(tokens, tags, return_dict=True, verbose=0)[names[0]] == 1


class TestSentences:
    def test_number_of_classes_does_not_fit(self):
        with pytest.raises(ValueError, match=r"must have 3 classes.*\(1, 2, 4\)"):
            TokenFScore(3).update_state(np.zeros((1, 2)), np.zeros((1, 2, 4)))

    def test_shapes_do_not_fit(self):
        with pytest.raises(ValueError, match=r"\[B, T, C\] or tags"):
            TokenFScore(3).update_state(np.zeros((1, 2)), np.zeros(2))

    @pytest.mark.parametrize("exclude", [[3], [-1], [0, 1, 2]])
    def test_excluded_classes_must_exist(self, exclude):
        with pytest.raises(ValueError, match="some, not all, of the classes 0 to 2"):
            TokenFScore(3, exclude=exclude)

    def test_unknown_name_and_setting(self):
        with pytest.raises(ValueError, match=r"'token_macro_f1'.*'span_f1'"):
            bat_tf.metrics.get("accuracy")
        with pytest.raises(TypeError, match=r"no setting 'classes'.*num_classes"):
            bat_tf.metrics.get("token_macro_f1", classes=3)

    def test_tags_alone_do_not_tell_how_many_classes_there_are(self):
        with pytest.raises(ValueError, match="`num_classes` must be given"):
            TokenFScore().update_state([[0, 1]], [[0, 1]])

    def test_tag_names_stand_for_their_number(self):
        names = ["none", "brand", "product"]
        metric = bat_tf.metrics.get("token_macro_f1", tag_names=names, scheme="plain")
        assert metric.num_classes == 3
