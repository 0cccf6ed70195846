import contextlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import faults
import keras
import numpy as np
import pytest
import scipy.sparse
import tensorflow as tf
import tiny
from faults import cut
from label_cases import documents

import bat_tf
from bat_tf import training
from bat_tf._internal import files
from bat_tf._internal.keras_private import start_at
from bat_tf.training import backup, callbacks

RUN = """
import os, signal, sys
import keras, tiny
from bat_tf import training

assert training.set_threads(8)
training.set_seed(1)

folder, kill_at = sys.argv[1], int(sys.argv[2])

class Kill(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == kill_at and batch == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

data = tiny.dataset(24)
model = tiny.tagger(data, dropout=0.1)
texts = (data.texts, [list(map(list, row)) for row in data.spans])
model.fit(*(texts if sys.argv[3] == "texts" else (data,)),
          validation_data=tiny.dataset(8, "valid"), epochs=4, verbose=2,
          callbacks=[*training.default_callbacks(folder, backup_minutes=0), Kill()])
model.save_weights(folder + "/final.weights.h5")
"""


def run(folder, kill_at=-1, form="data set"):
    here = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{here.parent}"}
    command = [sys.executable, "-c", RUN, str(folder), str(kill_at), form]
    return subprocess.run(command, capture_output=True, text=True, env=env)


@pytest.mark.fault(
    "killed trainer (`kill -9`)",
    "nothing is lost but the minutes since the last state (`budget.backup_minutes`, 10 "
    "unless set): the same command continues behind that step and ends with the same "
    "weights and history",
)
def test_a_killed_run_continues_to_the_same_weights(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert run(whole).returncode == 0
    # Texts and their spans train as the data set that holds them.
    assert run(broken, kill_at=2, form="texts").returncode == -9
    assert (broken / "best.keras").exists()
    names = sorted(path.name for path in (broken / "backup").iterdir())
    assert names == ["epoch-000002.step-000002.keras", "epoch-000002.step-000003.keras"]
    continued = run(broken, form="texts")
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
    histories = [(folder / "history.csv").read_text() for folder in (whole, broken)]
    assert histories[0] == histories[1]
    scores = [states_of(folder)["SaveBest"] for folder in (whole, broken)]
    assert scores[0] == scores[1] and scores[0]["epoch"] in (1, 2, 3, 4)


def states_of(folder):
    """What the latest backup of a run keeps of its callbacks."""
    latest = max((folder / "backup").glob("epoch-*.keras"))
    with zipfile.ZipFile(latest) as archive:
        return json.loads(archive.read(training.Backup.STATES))


@pytest.mark.slow
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


class Stop(keras.callbacks.Callback):
    """Ends a run in the middle of its second epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == 1 and batch == 2:
            raise KeyboardInterrupt


@pytest.mark.slow
def test_a_run_with_cached_states_continues_inside_an_epoch(tmp_path):
    data, weights = documents(24), []
    for folder, stops in (("whole", [()]), ("broken", [[Stop()], ()])):
        for stop in stops:
            keras.utils.set_random_seed(1)
            backbone = bat_tf.encoders.TransformerEncoder(
                30, d_model=8, d_ff=8, num_heads=2, num_layers=1
            )
            model = bat_tf.LabelClassifier.for_data(
                data, **tiny.ENCODER, backbone=backbone, head_dropout=0.5
            )
            model.compile("adam", "zlpr", metrics=["micro_f1"])
            kept = training.Backup(tmp_path / folder, minutes=0)
            with contextlib.suppress(KeyboardInterrupt):
                history = model.fit(
                    data,
                    epochs=2,
                    validation_data=data.take(8),
                    cache_backbone=str(tmp_path / "states"),
                    callbacks=[kept, *stop],
                    verbose=0,
                )
        weights.append([*model.get_weights(), history.history["loss"][-1]])
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


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
    'a warning, "The backup … is damaged; training goes back to the one before, …", '
    "and the run goes on from there to the same weights",
)
def test_a_damaged_backup_costs_an_epoch(finished, sees):
    folder, weights, states = finished
    cut(states[0])
    with pytest.warns(UserWarning, match=states[0].name) as caught:
        epochs, again = fit(folder, 3)
    sees(next(str(w.message) for w in caught if w.category is UserWarning))
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
@pytest.mark.slow
def test_a_full_disk_costs_no_epoch(tmp_path, capsys, monkeypatch, sees):
    tiny.dataset(10).save(tmp_path / "train.jsonl")
    with faults.small_disk(tmp_path / "disk") as disk:
        folder = disk.folder / "run"
        command = ["train", tmp_path / "train.jsonl", "--output", folder]
        command += [f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items()]
        command += ["--recipe", "none"]

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
        logs = callbacks._TensorBoard(str(disk.folder / "logs"))
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
    backup.on_train_begin()
    backup.on_epoch_end(0)
    bias = model.heads[0].scores.bias
    bias.assign(np.ones(bias.shape))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files.disk, "rename", killed)
        backup.on_epoch_end(1)
    backup.on_train_begin()
    assert start_at(model) == 1 and not bias.numpy().any()
    for epoch in range(1, 4):
        backup.on_epoch_end(epoch)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["epoch-000003.keras", "epoch-000004.keras"]


@pytest.mark.slow
def test_the_state_of_a_loss_scale_is_kept(tmp_path):
    """Keras' own, which `mixed_float16` puts around any optimizer."""
    states = []
    for epochs in (1, 1):
        model = tiny.tagger()
        scaled = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.Adam(0.01))
        model.compile(scaled, "ce")
        kept = [training.Backup(tmp_path)]
        model.fit(tiny.dataset(8), epochs=epochs, verbose=0, callbacks=kept)
        states.append([one.numpy() for one in scaled.variables])
    for one, other in zip(*states, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_an_epoch_that_is_done_again_has_one_row(tmp_path, monkeypatch):
    """Killed behind a row of the history, and before the state that has it."""

    def killed(_, new):
        if "epoch-" in new.name:
            raise KeyboardInterrupt

    fit(tmp_path, 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        rename = files.disk.rename
        patch.setattr(
            files.disk, "rename", lambda *names: killed(*names) or rename(*names)
        )
        fit(tmp_path, 2)
    history = tmp_path / "history.csv"
    assert len(history.read_text().splitlines()) == 3
    fit(tmp_path, 3)
    rows = history.read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["epoch", "0", "1", "2"]


def test_a_history_holds_what_epochs_log(tmp_path):
    log = callbacks.History(tmp_path / "new" / "history.csv")
    log.on_epoch_end(0, {"loss": np.float32(0.5)})
    log.on_epoch_end(1, {"loss": 0.25, "val_f": np.ones(2)})
    again = callbacks.History(tmp_path / "new" / "history.csv")
    again.set_state(json.loads(json.dumps(log.get_state())))
    again.on_epoch_end(1, {"loss": 0.125})
    assert again.path.read_text() == "epoch,loss\n0,0.5\n1,0.125\n"


def test_a_state_of_callbacks_is_that_of_its_epoch(tmp_path):
    """Weights and what callbacks remember go back together."""
    model = tiny.tagger()

    def started():
        best = training.SaveBest(tmp_path / "best.keras", "val_score")
        clock, patience = training.EpochClock(), training.Patience("val_score", 2)
        backup = training.Backup(tmp_path / "backup", [best, clock, patience])
        found = [best, clock, patience, backup]
        for callback in found:
            callback.set_params({"epochs": 9})
            callback.set_model(model)
            callback.on_train_begin()
        return found

    model.stop_training = False
    running = started()
    for epoch, score in enumerate([0.5, 0.2]):
        for callback in running:
            callback.on_epoch_begin(epoch)
        for callback in running:
            callback.on_epoch_end(epoch, {"val_score": score})
    best, clock, patience, _ = started()
    assert (best.best, best.epoch) == (0.5, 1)
    assert (patience.best, patience.wait) == (0.5, 1)
    assert len(clock.seconds) == 2 and clock.earlier == sum(clock.seconds)
    assert start_at(model) == 2 and not model.stop_training
    # The same is remembered of the epoch before, if the last one is damaged.
    cut(tmp_path / "backup" / "epoch-000002.keras")
    with pytest.warns(UserWarning, match="goes back to the one before"):
        best, clock, patience, _ = started()
    assert (len(clock.seconds), patience.wait, start_at(model)) == (1, 0, 1)


def test_a_score_of_another_name_is_not_taken_up(tmp_path):
    best = training.SaveBest(tmp_path / "best.keras", "val_score")
    best.set_state({"monitor": "val_other", "best": 0.9, "epoch": 3})
    assert best.best is None
    best.set_state({"monitor": "val_score", "best": 0.5, "epoch": 1})
    assert (best.best, best.epoch) == (0.5, 1)


@pytest.mark.slow
def test_callbacks_of_one_s_own_are_kept(tmp_path):
    class Count(training.Resumable):
        epochs = 0

        def get_state(self):
            return {"epochs": self.epochs}

        def set_state(self, state):
            self.epochs = state["epochs"]

        def on_epoch_end(self, epoch, logs=None):
            self.epochs += 1

    for epochs in (1, 3):
        count, model = Count(), tiny.tagger()
        model.fit(
            tiny.dataset(8),
            validation_data=tiny.dataset(8, "valid"),
            epochs=epochs,
            verbose=0,
            callbacks=training.default_callbacks(tmp_path, more=[count]),
        )
        assert count.epochs == epochs
    assert states_of(tmp_path)["Count"] == {"epochs": 3}


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
        model.heads[0].scores.bias.assign([float(epoch)] * len(model.preprocessor.tags))
        saver.on_epoch_end(epoch, {"val_score": score})
    best = keras.saving.load_model(tmp_path / "best.keras")
    assert best.heads[0].scores.bias.numpy()[0] == 1.0
    assert (saver.best, saver.epoch) == (0.5, 2)


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
    assert {"best.keras", "history.csv", "logs", "backup"} <= names
    assert "val_token_macro_f2" in (tmp_path / "history.csv").read_text()


@pytest.mark.parametrize(
    "parts",
    [[1, 2, 9, 9], *(pytest.param(p, marks=pytest.mark.slow) for p in ([9], [2, 9]))],
)
def test_patience_outlives_a_kill(tmp_path, parts):
    """However often it is cut off, a run that gets no better has three epochs."""
    for epochs in parts:
        model = tiny.tagger()
        model.compile(keras.optimizers.SGD(0.0), "ce", ["token_macro_f2"])
        model.fit(
            tiny.dataset(8),
            validation_data=tiny.dataset(8, "valid"),
            epochs=epochs,
            verbose=0,
            callbacks=training.default_callbacks(tmp_path, patience=2),
        )
    rows = (tmp_path / "history.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["0", "1", "2"]


def test_verbosity_is_quiet_without_a_terminal(monkeypatch):
    assert training.verbosity("auto") == 2
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)  # closed
        assert training.verbosity("auto") == 0
    assert training.verbosity(1) == 1


def test_random_draws_are_a_function_of_the_epoch():
    model = tiny.tagger(dropout=0.5)
    inputs, _ = next(iter(model.batches(tiny.dataset(4), 4)))
    counter = callbacks.EpochCounter()
    counter.set_model(model)
    counter.on_train_begin()
    drawn = []
    for epoch in (3, 4, 3):
        counter.on_epoch_begin(epoch)
        assert counter.value.numpy() == epoch
        drawn.append(np.asarray(model(inputs, training=True)))
    np.testing.assert_array_equal(drawn[0], drawn[2])
    assert np.abs(drawn[0] - drawn[1]).max() > 0


def test_a_state_inside_an_epoch_is_of_its_batches(tmp_path):
    model = tiny.tagger()

    def started(**order):
        kept = training.Backup(tmp_path, minutes=0)
        kept.watch(order, train=tiny.dataset(4))
        kept.set_model(model)
        kept.set_params({"epochs": 9})
        kept.on_train_begin()
        return kept

    kept = started(seed=0, batch_size=2)
    kept.on_epoch_begin(0)
    kept.on_train_batch_end(0)
    assert [path.name for path in kept.states] == ["epoch-000000.step-000001.keras"]
    with pytest.raises(ValueError, match="'batch_size': 2} then, .*'batch_size': 4"):
        started(seed=0, batch_size=4)


@pytest.mark.fault(
    "changed data where a run goes on",
    '"The data are not those that the run in … began with. train: 12 texts then, 8 '
    "now, the first 8 alike; valid: text 3 is another. Give it the same data, or "
    'choose another folder to train on these."',
)
def test_a_run_goes_on_with_the_same_data_alone(tmp_path, sees):
    def fit(train, valid, y=None):
        settings = {"epochs": 2, "verbose": 0, "validation_data": valid}
        keep = training.default_callbacks(tmp_path)
        model.fit(train, y, callbacks=keep, **settings)

    train, valid = tiny.dataset(12), tiny.dataset(4, "valid")
    model = tiny.tagger(train)
    fit(train, valid)
    before = model.get_weights()
    # The same, as people have it otherwise.
    spans = [[list(map(list, row)) for row in part.spans] for part in (train, valid)]
    fit(train.texts, (valid.texts, spans[1]), spans[0])
    changed = bat_tf.TextDataset([*valid[:2], train[0], valid[3]])
    with pytest.raises(ValueError, match="are not those") as caught:
        fit(train[:8], changed)
    sees(str(caught.value))
    with pytest.raises(ValueError, match="valid: not there any more"):
        fit(train, None)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.fault(
    "other versions of TensorFlow, Keras or bat_tf where a run goes on",
    'a warning, "The run in … began with other versions: keras 2.0 then, … now. It may '
    'come to other weights than it would have."',
)
def test_other_versions_are_said(finished, sees, monkeypatch):
    folder = finished[0]
    with monkeypatch.context() as patch:
        patch.setattr(backup, "versions", lambda: {**real(), "keras": "2.0"})
        fit(folder, 4)
    with pytest.warns(UserWarning, match="other versions") as caught:
        fit(folder, 5)
    # Others may come from anything that is thrown away meanwhile.
    (said,) = {str(w.message) for w in caught if "other versions" in str(w.message)}
    sees(said)


real = backup.versions


@pytest.mark.slow
def test_a_rate_that_was_compiled_anew_counts(tmp_path):
    rates = []
    for epochs, rate in ((1, 0.5), (2, 0.5), (3, 0.25)):
        model = tiny.tagger(tiny.dataset(4))
        model.compile(keras.optimizers.SGD(rate), "ce")
        kept = training.Backup(tmp_path)
        if epochs == 1:  # something lowers it on the way
            lower = keras.callbacks.LearningRateScheduler(lambda epoch: 0.125)
            model.fit(tiny.dataset(4), epochs=1, verbose=0, callbacks=[lower, kept])
        else:
            model.fit(tiny.dataset(4), epochs=epochs, verbose=0, callbacks=[kept])
        rates.append(float(model.optimizer.learning_rate))
    assert rates == [0.125, 0.125, 0.25]


@pytest.mark.parametrize(
    ("data", "now", "said"),
    [
        (["a", "b"], ["a", "b"], ""),
        (["a", "b"], ["a", "c"], "text 2 is another"),
        (["a", "b"], ["b", "a"], "text 1 is another"),
        (["a", "b"], ["a"], "2 texts then, 1 now, the first 1 alike"),
        (["a"], ["b", "a"], "1 texts then, 2 now, text 1 is another"),
    ],
)
def test_fingerprints_say_what_differs(data, now, said):
    then, found = (
        training.Fingerprint.of((texts, [["x"]] * len(texts))) for texts in (data, now)
    )
    assert found.difference(then) == said


def test_fingerprints_are_of_targets_and_weights_too():
    texts, hot = ["a", "b"], np.array([[1, 0], [0, 1]])
    found = {
        training.Fingerprint.of((texts, y, weights)).digest
        for y in (hot, 1 - hot, scipy.sparse.csr_matrix(hot), [["x"], ["y"]])
        for weights in (None, [1.0, 2.0], [1.0, 3.0])
    }
    assert len(found) == 12
