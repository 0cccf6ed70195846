import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import faults
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from faults import cut

import bat_tf
from bat_tf import training

RUN = """
import os, signal, sys
import keras, tiny
from bat_tf import training

assert training.set_threads(8)
training.set_seed(1)

folder, kill_at = sys.argv[1], int(sys.argv[2])

class Kill(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == kill_at and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

data = tiny.dataset(24)
model = tiny.tagger(data, dropout=0.1)
model.fit(data, validation_data=tiny.dataset(8, "valid"), epochs=4, verbose=2,
          callbacks=[*training.default_callbacks(folder), Kill()])
model.save_weights(folder + "/final.weights.h5")
"""


def run(folder, kill_at=-1):
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}
    command = [sys.executable, "-c", RUN, str(folder), str(kill_at)]
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.fault(
    "killed trainer (`kill -9`)",
    "nothing is lost but the epoch it was in: the same command continues at the last "
    "whole one and ends with the same weights",
)
def test_a_killed_run_continues_to_the_same_weights(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole).returncode == 0
    assert run(broken, kill_at=2).returncode == -9
    assert (broken / "best.keras").exists()
    continued = run(broken)
    assert continued.returncode == 0, continued.stderr
    assert "Epoch 3/4" in continued.stdout
    assert "Epoch 2/4" not in continued.stdout
    weights = []
    for folder in (whole, broken):
        model = tiny.tagger(tiny.dataset(24), dropout=0.1)
        model.load_weights(folder / "final.weights.h5")
        weights.append(model.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)
    scores = [
        json.loads((folder / "best.json").read_text()) for folder in (whole, broken)
    ]
    assert scores[0] == scores[1]


def test_threads_are_set_for_small_batches_and_in_time_alone():
    code = (
        "import tensorflow as tf; from bat_tf import training\n"
        "threads = tf.config.threading\n"
        "assert not training.set_threads(64)\n"
        "assert threads.get_inter_op_parallelism_threads() == 0\n"
        "assert training.set_threads(8)\n"
        "assert threads.get_inter_op_parallelism_threads() == 2\n"
        "assert threads.get_intra_op_parallelism_threads() >= 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    # A grid gives each of its runs a share of the cores.
    code += "assert threads.get_intra_op_parallelism_threads() == 4\n"
    shared = {**os.environ, "TF_NUM_INTRAOP_THREADS": "8"}
    subprocess.run([sys.executable, "-c", code], check=True, env=shared)
    tf.zeros(1)  # has started now
    assert not training.set_threads(8)


def fit(folder, epochs):
    """The epochs that a run does now, and its weights behind the last."""
    data = tiny.dataset(8)
    model = tiny.tagger(data)
    history = model.fit(
        data,
        validation_data=tiny.dataset(8, "valid"),
        epochs=epochs,
        verbose=0,
        callbacks=training.default_callbacks(folder),
    )
    return history.epoch, model.get_weights()


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    epochs, weights = fit(folder, 3)
    assert epochs == [0, 1, 2]
    return folder, weights


@pytest.fixture
def finished(finished_run, tmp_path):
    """A run of three epochs to break, its weights and its backups, the latest first."""
    folder, weights = finished_run
    shutil.copytree(folder, tmp_path / "run")
    states = sorted((tmp_path / "run" / "backup").iterdir(), reverse=True)
    assert len(states) == 2
    return tmp_path / "run", weights, states


@pytest.mark.fault(
    "truncated checkpoint: the last backup of a run",
    'a warning, "The backup … is damaged; training goes back one epoch, to …", and the '
    "run goes on from there to the same weights",
)
def test_a_damaged_backup_costs_an_epoch(finished, sees):
    folder, weights, states = finished
    cut(states[0])
    with pytest.warns(UserWarning, match=states[0].name) as caught:
        epochs, again = fit(folder, 3)
    sees(str(caught[0].message))
    assert epochs == [2]
    for one, other in zip(weights, again, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.fault(
    "truncated checkpoint: both backups of a run",
    '"Training cannot continue: every backup is damaged: … Remove the folder … to '
    'start over"; the best model stays as it is',
)
def test_without_a_whole_backup_nothing_is_touched(finished, sees):
    folder, _, states = finished
    before = (folder / "best.keras").read_bytes()
    for state in states:
        cut(state)
    with pytest.raises(OSError) as caught:
        fit(folder, 4)
    sees(str(caught.value))
    assert (folder / "best.keras").read_bytes() == before
    for state in states:
        assert str(state) in str(caught.value)
        state.unlink()
    assert fit(folder, 1)[0] == [0]


@pytest.mark.fault(
    "truncated checkpoint: `best.keras`",
    '"… could not be read as a Keras model: … It is incomplete or was written by '
    'something else; copy or save it again."',
)
def test_a_best_model_cut_in_half_is_named(finished, sees):
    cut(finished[0] / "best.keras")
    with pytest.raises(OSError, match=r"best\.keras") as caught:
        bat_tf.load(finished[0])
    sees(str(caught.value))


@pytest.mark.fault(
    "full disk while training",
    'exit code 2: "Error: The model could not be written to … Free some space or '
    'choose another folder, then run again."; the best model stays whole, and with '
    "room again the same command continues",
)
def test_a_full_disk_costs_no_epoch(tmp_path, capsys, monkeypatch, sees):
    tiny.dataset(10).save(tmp_path / "train.jsonl")
    with faults.small_disk(tmp_path / "disk") as disk:
        folder = disk.folder / "run"
        command = ["train", "--train", tmp_path / "train.jsonl", "--output", folder]
        command += [f"--set=encoder_settings.{k}={v}" for k, v in tiny.ENCODER.items()]

        def train(epochs):
            command_now = [*command, "--epochs", epochs]
            return faults.run_command(capsys, monkeypatch, *command_now)

        code, output = train(1)
        assert code == 0, output
        disk.fill(leave=20_000)
        code, output = train(2)
        assert code == 2
        sees(output)
        disk.clear()
        bat_tf.load(folder)
        assert not list(folder.rglob(".*unfinished*"))
        code, output = train(2)
        assert code == 0 and "Epoch 2/2" in output and "Epoch 1/2" not in output


def test_a_full_disk_in_the_logs_is_a_sentence(tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk:
        logs = training._TensorBoard(str(disk.folder / "logs"))
        logs.set_model(tiny.tagger())
        disk.fill(leave=0)
        with pytest.raises(OSError, match="The logs could not be written to .*logs"):
            logs.on_train_begin()
            logs.on_test_begin()
            logs.on_epoch_end(0, {"loss": 1.0})


def test_a_backup_is_of_one_epoch_whenever_the_run_is_killed(tmp_path, monkeypatch):
    """Killed while it writes, a run has the states of the epochs before."""
    model = tiny.tagger()
    backup = training.Backup(tmp_path)
    backup.set_model(model)
    backup.on_epoch_end(0)
    bias = model.get_layer("tag_logits").bias
    bias.assign(np.ones(bias.shape))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training.os, "replace", killed)
        backup.on_epoch_end(1)
    backup.on_train_begin()
    assert model._initial_epoch == 1 and not bias.numpy().any()
    for epoch in range(1, 4):
        backup.on_epoch_end(epoch)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["epoch-000003.keras", "epoch-000004.keras"]


def test_a_best_score_that_cannot_be_read_is_named(tmp_path):
    saver = training.SaveBest(tmp_path / "best.keras", "val_score")
    (tmp_path / "best.keras").touch()
    saver.on_epoch_begin(1)
    assert saver.best is None
    (tmp_path / "best.json").write_text('{"val_sc')
    with pytest.raises(OSError, match=r"best\.json does not hold the best score"):
        saver.on_epoch_begin(1)
    (tmp_path / "best.json").write_text('{"val_score": 0.5, "epoch": 1}')
    saver.on_epoch_begin(1)
    assert saver.best == 0.5


def test_a_model_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    model = tiny.tagger()
    path = tmp_path / "model.keras"
    training.save_model(model, path)
    before = path.read_bytes()

    def full_disk(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model, "save", full_disk)
    with pytest.raises(OSError, match="No space left.*unharmed.*Free some space"):
        training.save_model(model, path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.keras"]


def test_best_model_is_the_one_with_the_best_score(tmp_path):
    saver = training.SaveBest(tmp_path / "best.keras", "val_score")
    model = tiny.tagger()
    saver.set_model(model)
    for epoch, score in enumerate([0.2, 0.5, 0.4]):
        model.get_layer("tag_logits").bias.assign([float(epoch)] * len(model.tags))
        saver.on_epoch_end(epoch, {"val_score": score})
    best = keras.saving.load_model(tmp_path / "best.keras")
    assert best.get_layer("tag_logits").bias.numpy()[0] == 1.0
    note = json.loads((tmp_path / "best.json").read_text())
    assert note == {"val_score": 0.5, "epoch": 2}


def test_a_score_that_is_not_logged_is_named(tmp_path):
    saver = training.SaveBest(tmp_path / "best.keras", "val_f3")
    with pytest.raises(ValueError, match=r"val_loss.*Received: 'val_f3'"):
        saver.on_epoch_end(0, {"val_loss": 1.0})


def test_callbacks_write_logs_and_history(tmp_path):
    model = tiny.tagger()
    model.fit(
        tiny.dataset(8),
        validation_data=tiny.dataset(8, "valid"),
        epochs=1,
        verbose=0,
        callbacks=training.default_callbacks(tmp_path, patience=2),
    )
    names = {entry.name for entry in tmp_path.iterdir()}
    assert {"best.keras", "best.json", "history.csv", "logs", "backup"} <= names
    assert "val_token-macro-f2" in (tmp_path / "history.csv").read_text()


@pytest.mark.parametrize(
    "parts",
    [[1, 2, 9, 9], *(pytest.param(p, marks=pytest.mark.slow) for p in ([9], [2, 9]))],
)
def test_patience_outlives_a_kill(tmp_path, parts):
    """However often it is cut off, a run that gets no better has three epochs."""
    for epochs in parts:
        model = tiny.tagger()
        model.compile(keras.optimizers.SGD(0.0), "ce", ["token-macro-f2"])
        model.fit(
            tiny.dataset(8),
            validation_data=tiny.dataset(8, "valid"),
            epochs=epochs,
            verbose=0,
            callbacks=training.default_callbacks(tmp_path, patience=2),
        )
    rows = (tmp_path / "history.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["0", "1", "2"]


def test_verbosity_is_quiet_without_a_terminal():
    assert training.verbosity("auto") == 2
    assert training.verbosity(1) == 1
