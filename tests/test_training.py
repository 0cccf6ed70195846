import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from bat_tf import training

RUN = """
import os, signal, sys
import keras, tiny
from bat_tf import training

assert training.set_threads(8)
training.set_seed(1)

folder, kill_at, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

class Kill(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == kill_at and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if limit and epoch == kill_at:
            import resource
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

if limit:
    kill = [Kill()]
    kill[0].on_train_batch_begin = lambda batch, logs=None: None
else:
    kill = [Kill()]
data = tiny.dataset(24)
model = tiny.tagger(data, dropout=0.1)
model.fit(data, validation_data=tiny.dataset(8, "valid"), epochs=4, verbose=2,
          callbacks=training.default_callbacks(folder) + kill)
model.save_weights(folder + "/final.weights.h5")
"""


def run(folder, kill_at=-1, limit=0):
    here = Path(__file__).parent
    env = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}
    command = [sys.executable, "-c", RUN, str(folder), str(kill_at), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, env=env)


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
    tf.zeros(1)  # has started now
    assert not training.set_threads(8)


def test_a_full_disk_costs_nothing_that_was_written(tmp_path):
    """A limit on the size of files stands in for a disk that is full."""
    process = run(tmp_path, kill_at=2, limit=20_000)
    assert process.returncode == 1
    assert "OSError" in process.stderr
    # The best model and the backup of the epochs before are whole.
    keras.saving.load_model(tmp_path / "best.keras")
    assert run(tmp_path).returncode == 0


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


def test_verbosity_is_quiet_without_a_terminal():
    assert training.verbosity("auto") == 2
    assert training.verbosity(1) == 1
