"""What models tell losses by name about their data."""

import keras
import numpy as np
import oracles
import pytest
from label_cases import ENCODER, documents

from bat_tf.data import LabelSpace
from bat_tf.losses import ZLPR, ExpertLoss
from bat_tf.models import ExpertClassifier, LabelClassifier

DATA = documents(48)


@pytest.mark.parametrize("model", [LabelClassifier, ExpertClassifier])
def test_mu_is_found_in_the_training_labels(model):
    expected = pytest.approx(oracles.middle_ratio(DATA.labels))
    settings = {"experts": ["D-1", "A-0"]} if model is ExpertClassifier else {}
    for labels in (None, LabelSpace(["money", "energy", "grain"])):
        built = model.for_data(DATA, labels=labels, **ENCODER, **settings)
        for name in ("db", "r-fl", "db-0fl"):
            built.compile("adam", loss=name)
            loss = getattr(built.loss, "base", built.loss)
            assert loss.rebalance_mu == expected
            assert (loss.rebalance_alpha, loss.rebalance_beta) == (0.1, 10.0)
            assert (loss.ntr_kappa, loss.ntr_scale) == (0.05, 2.0)
    reread = type(built).from_config(built.get_config())
    assert reread.labels.rebalance_mu == expected


@pytest.mark.slow
def test_experts_learn_a_threshold_of_each_text():
    experts = {"experts": ["D-1", "A-0", "D-0"], **ENCODER}
    model = ExpertClassifier.for_data(DATA, learnt_threshold=True, **experts)
    whole = ExpertLoss(ZLPR("learnt"), label_counts=model.labels, mode="collaborative")
    for loss in (ZLPR("learnt"), "tlpr", whole):
        model.compile("adam", loss=loss)
        history = model.fit(DATA, epochs=1, verbose=0).history
        assert np.isfinite(history["loss"]).all()
        assert model.score_threshold == 0.0
    assert model.loss.mode == "collaborative" and whole.base.threshold == "learnt"
    names = {weight.path.split("/")[-1] for weight in model.heads[0].weights}
    assert "label_bias" in names and model.heads[0].label_bias.shape == (4,)
    plain = ExpertClassifier.for_data(DATA, **experts)
    with pytest.raises(ValueError, match="learnt_threshold=True"):
        plain.compile("adam", loss=ZLPR("learnt"))
    with pytest.raises(ValueError, match="learnt_threshold=True"):
        plain.compile("adam", loss=whole)
    with pytest.raises(ValueError, match="`experts` must be with a document expert"):
        ExpertClassifier.for_data(
            DATA, experts=["A-0"], learnt_threshold=True, **ENCODER
        )


def test_the_loss_of_experts_by_name_gets_the_counts():
    model = ExpertClassifier.for_data(DATA, experts=["D-1", "A-0"], **ENCODER)
    model.compile("adam", loss="experts")
    assert model.loss.label_counts == model.labels.counts.tolist()


def test_names_ask_for_what_they_need():
    model = LabelClassifier.for_data(DATA, **ENCODER)
    with pytest.raises(TypeError, match="'tlpr'.* needs the setting 'threshold': a nu"):
        model.compile("adam", loss="tlpr")
    model.compile("adam", loss="soft-zlpr")
    with pytest.raises(
        ValueError, match="probabilities for soft-ZLPR.*label_smoothing"
    ):
        model.fit(DATA, verbose=0)
    soft = np.random.default_rng(0).random((48, 3))
    history = model.fit(DATA.texts, soft, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_integer_rows_of_multi_label_binarizer(jit_compile):
    rows = LabelSpace.fit(DATA.labels).multi_hot(DATA.labels)
    losses = []
    for targets in (list(DATA.labels), rows, rows.astype(int), rows.astype("uint8")):
        keras.utils.set_random_seed(0)
        model = LabelClassifier.for_data(DATA, **ENCODER)
        model.compile("sgd", "db", metrics=["micro_f1"], jit_compile=jit_compile)
        inputs = keras.tree.map_structure(np.array, model.preprocessor(DATA.texts))
        if isinstance(targets, list):
            targets = model.preprocessor(DATA.texts, targets)[1].numpy()
        losses.append(model.evaluate(inputs, targets, verbose=0))
    np.testing.assert_allclose(losses, [losses[0]] * 4, rtol=1e-5)
    wrong = rows.astype(int)
    wrong[0, 1] = 4
    with pytest.raises(ValueError, match='`y` must be 0 or 1.*targets="ids"'):
        model.fit(DATA.texts, wrong, verbose=0)
