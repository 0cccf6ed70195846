"""Numbers that stop being finite: found, explained, kept out of every file."""

import math

import faults
import keras
import numpy as np
import pytest
import tiny
from label_cases import documents

import bat_tf
from bat_tf import training
from bat_tf.training import DivergedError


def classifier(rate=0.01, **settings):
    model = bat_tf.LabelClassifier.for_data(documents(16), **tiny.ENCODER)
    model.compile(keras.optimizers.SGD(rate), "zlpr", **settings)
    return model


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_rate_that_is_too_high_is_named(jit_compile):
    model = classifier(1e38, jit_compile=jit_compile)
    with pytest.raises(DivergedError, match="loss is (nan|inf) in epoch 1, step 2"):
        model.fit(documents(16), batch_size=4, verbose=0)


def test_the_cause_follows_from_what_the_loss_did():
    model = classifier(0.1)
    found = training.Finite()
    found.set_model(model)

    def said(*losses):
        found.on_train_begin()
        found.on_epoch_begin(2)
        with pytest.raises(DivergedError) as caught:
            for step, loss in enumerate(losses):
                found.on_train_batch_end(step, {"loss": loss})
        assert f"in epoch 3, step {len(losses)}" in str(caught.value)
        return str(caught.value)

    assert "the cause is the batch: NaN or infinity in the inputs" in said(math.nan)
    assert "grown from 0.5 to 40, so the learning rate is too high, 0.1" in said(
        0.6, 0.5, 40.0, math.inf
    )
    assert "either the learning rate" in said(0.6, 0.5, math.nan)


def test_states_too_large_for_the_cache_are_named():
    backbone = bat_tf.encoders.TransformerEncoder(
        30, d_model=8, d_ff=8, num_heads=2, num_layers=1
    )
    backbone.build(None)
    for weight in backbone.weights:
        weight.assign(1e6 * weight)
    model = bat_tf.LabelClassifier.for_data(
        documents(4), **tiny.ENCODER, backbone=backbone
    )
    model.compile("adam", "zlpr")
    with pytest.raises(ValueError, match="too large for it or no numbers at all"):
        model.fit(documents(4), cache_backbone=True, verbose=0)


def test_several_steps_at_once_are_no_first_step():
    model = classifier(1e38, steps_per_execution=2)
    with pytest.raises(DivergedError, match="step 2. .*either the learning rate"):
        model.fit(documents(16), batch_size=4, verbose=0)


@pytest.mark.fault(
    "training that begins with weights that are NaN, such as a frozen backbone's",
    '"The weights of the model are not finite before the first step: …"',
)
def test_weights_are_looked_at_before_the_first_step(sees):
    model = classifier()
    weight = model.encoder.weights[0]
    weight.assign(weight * math.nan)
    with pytest.raises(DivergedError) as caught:
        model.fit(documents(4), verbose=0)
    sees(str(caught.value))


def test_weights_are_looked_at_behind_the_last_step():
    """The loss of a step is taken before the step is made."""
    model = classifier(math.inf)
    with pytest.raises(DivergedError, match="not finite behind epoch 1: .* more"):
        model.fit(documents(4), batch_size=4, verbose=0)


def test_a_batch_with_nan_in_arrays_is_found_and_nothing_saved(tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones((8, 2), "float32")
    x[5] = np.nan
    keep = training.default_callbacks(tmp_path, "val_loss")
    with pytest.raises(DivergedError, match="epoch 1, step 6"):
        model.fit(
            x,
            np.ones(8),
            batch_size=1,
            shuffle=False,
            verbose=0,
            callbacks=keep,
            validation_data=(x, np.ones(8)),
        )
    assert not (tmp_path / "best.keras").exists()
    assert not (tmp_path / "backup").exists()


@pytest.mark.parametrize(
    ("targets", "weights", "argument"),
    [
        ([["energy"]] * 2, [1.0, math.nan], "sample_weight"),
        (np.array([[0.5, math.nan, 0.0]] * 2), None, "y"),
    ],
)
def test_targets_and_weights_that_are_no_numbers(targets, weights, argument):
    with pytest.raises(
        ValueError, match=f"`{argument}` must be .*(finite|probabilities)"
    ):
        classifier().fit(["oil", "gas"], targets, sample_weight=weights, verbose=0)


def test_a_score_that_is_no_number_is_never_the_best(tmp_path):
    model, path = tiny.tagger(), tmp_path / "best.keras"
    best = training.SaveBest(path, "val_score")
    patience = training.Patience("val_score", 2)
    for callback in (best, patience):
        callback.set_model(model)
        callback.on_train_begin()
    for epoch, score in enumerate([math.nan, 0.2, math.inf, math.nan, 0.1]):
        for callback in (best, patience):
            callback.on_epoch_end(epoch, {"val_score": score})
        assert path.exists() == (epoch > 0)
    assert (best.best, best.epoch, patience.best) == (0.2, 2, 0.2)


@pytest.mark.fault(
    "export of a model whose weights are NaN",
    '"The weights of the model are not finite: … It has learned nothing that can be '
    'used"; an earlier export stays',
)
def test_an_export_refuses_weights_that_are_not_finite(tmp_path, sees):
    model = tiny.tagger(compiled=False)
    model.heads[0].scores.bias.assign([math.nan] * len(model.tags))
    with pytest.raises(DivergedError) as caught:
        model.export(tmp_path / "shop" / "1")
    sees(str(caught.value))
    assert not list(tmp_path.iterdir())


@pytest.mark.fault(
    "`bat-tf train` with a learning rate that is too high",
    'exit code 3: "Error: Training diverged: the loss is … in epoch …, step … The '
    "state in …epoch-000001.keras is good; the same command goes on from there: give "
    'it a lower rate, `--learning-rate …`."; with that rate it does',
)
def test_a_run_that_diverged_goes_on_at_a_lower_rate(
    tmp_path, capsys, monkeypatch, sees
):
    tiny.dataset(12).save(tmp_path / "train.jsonl")
    folder = tmp_path / "run"
    command = ["train", tmp_path / "train.jsonl", "--output", folder]
    command += [f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items()]
    command += ["--recipe", "none"]

    def train(*options):
        return faults.run_command(capsys, monkeypatch, *command, *options)

    assert train("--epochs", 1)[0] == 0
    # Only a run that diverged may go on at another rate.
    code, shown = train("--epochs", 2, "--learning-rate", 0.0001)
    assert code == 2 and "optimizer.learning_rate" in shown
    step = bat_tf.BATTagger.train_step

    def diverging(self, *args):
        return {**step(self, *args), "loss": keras.ops.convert_to_tensor(math.nan)}

    with monkeypatch.context() as patch:
        patch.setattr(bat_tf.BATTagger, "train_step", diverging)
        code, shown = train("--epochs", 2)
    assert code == 3
    sees(shown)
    best = (folder / "best.keras").read_bytes()
    bat_tf.load(folder)
    code, shown = train("--epochs", 2, "--learning-rate", 0.00025)
    assert code == 0 and "Epoch 2/2" in shown and "Epoch 1/2" not in shown
    assert best and not (folder / "diverged.txt").exists()
