"""What surrounds `model.fit`: seeds, callbacks, resuming."""

import builtins
import contextlib
import csv
import json
import os
import sys
import warnings
import zipfile
from pathlib import Path

import keras
import tensorflow as tf

from bat_tf.data.files import atomic_write

SMALL_BATCH = 16


def set_seed(seed, deterministic=True):
    """Seeds Python, NumPy and Keras; two runs on CPU then give equal losses.

    Args:
        seed: a whole number.
        deterministic: also ask TensorFlow for operations whose result does not depend
            on the order in which threads finish. It cannot be taken back in a process,
            and Keras then compiles nothing with XLA, whatever `jit_compile` says.
    """
    keras.utils.set_random_seed(seed)
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def set_threads(batch_size):
    """Shares a CPU's cores out as suits the batches; call it before anything else runs.

    The products of a small batch are too small to share: two at a time, each on half
    of the cores, is faster than one after the other on all of them. Large batches keep
    TensorFlow's own setting, and so does XLA, which knows only the second way.

    Args:
        batch_size: texts in a training step.

    Returns:
        Whether threads were set: not for large batches or on a GPU, and TensorFlow
        takes no setting once it has started.
    """
    if batch_size > SMALL_BATCH or tf.config.list_physical_devices("GPU"):
        return False
    # A share of the cores, where a grid has runs beside this one.
    cores = int(os.environ.get("TF_NUM_INTRAOP_THREADS") or os.cpu_count() or 2)
    try:
        tf.config.threading.set_inter_op_parallelism_threads(2)
        tf.config.threading.set_intra_op_parallelism_threads(max(1, cores // 2))
    except RuntimeError:
        return False
    return True


def verbosity(verbose):
    """Resolves "auto": a bar in a terminal or notebook, else a line an epoch."""
    if verbose != "auto":
        return verbose
    return 1 if sys.stdout.isatty() or hasattr(builtins, "__IPYTHON__") else 2


class EpochCounter(keras.callbacks.Callback):
    """Makes order and dropout functions of the seed and the number of the epoch.

    The input pipeline reads the number from `value`. Keras' backups leave the state of
    random generators out; here they start every epoch at a place of its own, so that a
    resumed run draws what an uninterrupted one would. So does every replica, so that no
    two of them draw alike.
    """

    DRAWS = 1_000_000  # more than an epoch has steps

    def __init__(self):
        super().__init__()
        self.value = tf.Variable(0, dtype=tf.int64, trainable=False)

    def on_train_begin(self, logs=None):
        """Looks up the random generators."""
        states = [
            (variable, variable.numpy().tolist()[0])
            for variable in self.model.non_trainable_variables
            if variable.path.endswith("seed_generator_state")
        ]
        strategy = self.model.distribute_strategy

        def start(place):
            context = tf.distribute.get_replica_context()
            apart = 2**32 // context.num_replicas_in_sync
            number = tf.cast(context.replica_id_in_sync_group, tf.int64)
            for variable, seed in states:
                variable.assign([seed, (place + apart * number) % 2**32])

        self._start = start
        if strategy.num_replicas_in_sync > 1:
            self._start = tf.function(lambda place: strategy.run(start, args=(place,)))

    def on_epoch_begin(self, epoch, logs=None):
        """Tells the pipeline and the random generators which epoch comes next."""
        self.value.assign(epoch)
        self._start(tf.constant(epoch * self.DRAWS, tf.int64))


class SaveBest(keras.callbacks.Callback):
    """Keeps the model of the best epoch in one file, which is always whole.

    The file is written beside its place and moved there, so that neither a kill nor a
    full disk costs the model that was there before. The best score is kept beside it:
    a resumed run goes on where the first one stopped.

    Args:
        path: a `.keras` file.
        monitor: a value of the epoch's logs; the paper picks the best macro F2.
        mode: `"max"` or `"min"`.
    """

    def __init__(self, path, monitor="val_token-macro-f2", mode="max"):
        super().__init__()
        self.path, self.monitor, self.mode = Path(path), monitor, mode
        self.best = None

    @property
    def _score_path(self):
        return self.path.with_suffix(".json")

    def on_epoch_begin(self, epoch, logs=None):
        """Takes up the best score of an earlier part of the same run."""
        if self.best is None and epoch and self.path.exists():
            self.best = self._read_score()

    def _read_score(self):
        try:
            return json.loads(self._score_path.read_text())[self.monitor]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError) as error:
            raise OSError(
                f"{self._score_path} does not hold the best score of "
                f"{self.monitor!r} ({error}). Remove it: the next epoch then counts as "
                "the best so far."
            ) from error

    def on_epoch_end(self, epoch, logs=None):
        """Saves the model if this epoch's score is the best so far."""
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"`monitor` must be one of the values that training logs, "
                f"{sorted(logs or {})}. Received: {self.monitor!r}. Name a metric in "
                "`compile` and give `fit` validation data."
            )
        score = float(logs[self.monitor])
        better = self.best is None or (
            score > self.best if self.mode == "max" else score < self.best
        )
        if better:
            self.best = score
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_model(self.model, self.path)
            with atomic_write(self._score_path) as file:
                json.dump({self.monitor: score, "epoch": epoch + 1}, file)


class Backup(keras.callbacks.BackupAndRestore):
    """Keeps the state of the last two epochs, from which the same run continues.

    Unlike Keras' own, weights and the number of their epoch are one file, moved to its
    place when it is whole: a kill at any moment leaves a state that fits together. A
    file that was damaged later costs one epoch, not the run.

    Args:
        folder: where the states go; nothing else belongs there.
    """

    def __init__(self, folder):
        super().__init__(str(folder), delete_checkpoint=False)
        self.folder = Path(folder)

    def _states(self):
        """The files, the latest epoch first."""
        return sorted(self.folder.glob("epoch-*.keras"), reverse=True)

    def on_train_begin(self, logs=None):
        """Goes back to the latest state that can be read."""
        states, damaged = self._states(), []
        if not states:  # but perhaps those of Keras' own
            super().on_train_begin(logs)
        for path in states:
            # Its variables must exist before they are read.
            self.model.optimizer.build(self.model.trainable_variables)
            try:
                self.model.load_weights(path)
            # Not ValueError: a state of another model is whole.
            except (OSError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
                damaged.append(f"{path} ({error})")
                continue
            if damaged:
                warnings.warn(
                    f"The backup {damaged[0]} is damaged; training goes back one "
                    f"epoch, to {path}.",
                    stacklevel=2,
                )
            # As Keras' own callback tells `fit` where to start.
            self.model._initial_epoch = int(path.stem.removeprefix("epoch-"))
            return
        if damaged:
            raise OSError(
                f"Training cannot continue: every backup is damaged: "
                f"{'; '.join(damaged)}. Remove the folder {self.folder} to start over; "
                "the best model so far, beside it, is replaced after the first epoch, "
                "so copy it if you want it."
            )

    def on_epoch_end(self, epoch, logs=None):
        """Writes the state behind this epoch and removes all but the one before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # Not `save_weights`: on a full disk HDF5 ends the process, without a word.
        save_model(self.model, self.folder / f"epoch-{epoch + 1:06}.keras")
        for older in self._states()[2:]:
            older.unlink()


class Patience(keras.callbacks.EarlyStopping):
    """Keras' own, which remembers over a kill how long nothing has got better.

    A run that had stopped is not taken up again. Comes behind `Backup`.

    Args:
        monitor: a score, larger is better.
        patience: epochs without a better one before training stops.
        history: the run's `history.csv`.
    """

    def __init__(self, monitor, patience, history):
        super().__init__(monitor, mode="max", patience=patience)
        self.history = Path(history)

    def on_train_begin(self, logs=None):
        """Goes through the epochs that are done."""
        super().on_train_begin(logs)
        done = self.model._initial_epoch or 0
        for epoch, score in self._scores(done):
            self.on_epoch_end(epoch, {self.monitor: score})
        if self.model.stop_training:
            # Keras would look at it after another step.
            self.model._initial_epoch = max(done, self.params["epochs"])

    def _scores(self, done):
        """(epoch, score) of so many epochs; of one that was made twice, the later."""
        if not done or not self.history.exists():
            return []
        with self.history.open(newline="") as file:
            rows = {int(row["epoch"]): row for row in csv.DictReader(file)}
        return [
            (epoch, float(rows[epoch][self.monitor]))
            for epoch in sorted(rows)
            if epoch < done and rows[epoch].get(self.monitor)
        ]


class _TensorBoard(keras.callbacks.TensorBoard):
    """Keras' own; that the disk is full is said as everywhere else."""

    @contextlib.contextmanager
    def _room(self):
        try:
            yield
        except tf.errors.OpError as error:
            # File and reason, between the name of the operation and its history.
            reason = error.message.split("}} ")[-1].splitlines()[0]
            raise OSError(
                f"The logs could not be written to {reason}. Free some space or choose "
                "another folder, then run again."
            ) from error

    def on_train_begin(self, logs=None):
        with self._room():
            super().on_train_begin(logs)

    def on_test_begin(self, logs=None):
        with self._room():
            super().on_test_begin(logs)

    def on_epoch_end(self, epoch, logs=None):
        with self._room():
            super().on_epoch_end(epoch, logs)


def save_model(model, path):
    """Saves a model to a `.keras` file; the old one stays until the new is whole."""
    path = Path(path)
    unfinished = path.with_name(f".{path.stem}.unfinished.keras")
    try:
        model.save(unfinished)
        os.replace(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        kept = "The file that was there before is unharmed. " if path.exists() else ""
        raise OSError(
            f"The model could not be written to {path}: {error}. {kept}"
            "Free some space or choose another folder, then run again."
        ) from error


def default_callbacks(folder, monitor="val_token-macro-f2", patience=None):
    """The callbacks of an ordinary run: `SaveBest`, `Backup` and Keras' own.

    `folder` receives `best.keras`, `history.csv`, `logs/` for TensorBoard and
    `backup/`, from which the same call continues after a kill.

    Args:
        folder: where the run writes.
        monitor: the score that picks the best epoch, larger is better.
        patience: epochs without a better score after which training stops; None never.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    callbacks = [
        # The backup comes second: an epoch counts as done when its model is saved.
        SaveBest(folder / "best.keras", monitor),
        Backup(folder / "backup"),
        _TensorBoard(str(folder / "logs")),
        keras.callbacks.CSVLogger(str(folder / "history.csv"), append=True),
        keras.callbacks.TerminateOnNaN(),
    ]
    if patience:
        callbacks.append(Patience(monitor, patience, folder / "history.csv"))
    return callbacks
