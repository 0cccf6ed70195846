"""What surrounds `model.fit`: seeds, callbacks, resuming."""

import builtins
import contextlib
import csv
import math
import os
import statistics
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal.files import atomic_write
from bat_tf.training.backup import Backup, Resumable, generators, save_model
from bat_tf.training.finite import Finite

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
    if sys.stdout is None:  # it is closed
        return 0
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
        states = [(one, one.numpy().tolist()[0]) for one in generators(self.model)]
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


class SaveBest(Resumable):
    """Keeps the model of the best epoch in one file, which is always whole.

    The file is written beside its place and moved there, so that neither a kill nor a
    full disk costs the model that was there before.

    Args:
        path: a `.keras` file.
        monitor: a value of the epoch's logs; macro F2 is what BAT's losses are for.
        mode: `"max"` or `"min"`.

    Attributes:
        best: the best score so far, or None.
        epoch: the epoch that had it, from 1.
    """

    def __init__(self, path, monitor="val_token_macro_f2", mode="max"):
        super().__init__()
        self.path, self.monitor, self.mode = Path(path), monitor, mode
        self.best = self.epoch = None

    def get_state(self):
        """The best score and its epoch."""
        return {"monitor": self.monitor, "best": self.best, "epoch": self.epoch}

    def set_state(self, state):
        """Takes them up, if they are of the same score."""
        if state["monitor"] == self.monitor:
            self.best, self.epoch = state["best"], state["epoch"]

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
        if better and math.isfinite(score):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            save_model(self.model, self.path)
            self.best, self.epoch = score, epoch + 1


class Patience(keras.callbacks.EarlyStopping, Resumable):
    """Keras' own, which remembers over a kill how long nothing has got better.

    A run that had stopped is not taken up again.

    Args:
        monitor: a score, larger is better.
        patience: epochs without a better one before training stops; None never stops.
    """

    def __init__(self, monitor, patience=None):
        patience = math.inf if patience is None else patience
        super().__init__(monitor, mode="max", patience=patience)

    def on_epoch_end(self, epoch, logs=None):
        """As Keras' own; a score that is no number is the lowest."""
        score = (logs or {}).get(self.monitor)
        if score is not None and not math.isfinite(score):
            logs = {**logs, self.monitor: -math.inf}
        super().on_epoch_end(epoch, logs)

    def get_state(self):
        """The best score and the epochs since."""
        best = None if self.best is None else float(self.best)
        return {"monitor": self.monitor, "best": best, "wait": self.wait}

    def set_state(self, state):
        """Takes them up, and stops a run that has waited long enough."""
        if state["monitor"] == self.monitor:
            self.best, self.wait = state["best"], state["wait"]
            if self.wait >= self.patience:
                self.model.stop_training = True


class EpochClock(Resumable):
    """Notes what the epochs of a run take, each with its validation.

    Attributes:
        seconds: the time of each epoch, also of those that other processes ran.
        earlier: seconds of the epochs that other processes ran.
    """

    def __init__(self):
        super().__init__()
        self.seconds, self.earlier = [], 0.0
        self._begun, self._started = 0.0, None  # of the epoch that runs

    def _running(self):
        """The seconds of the epoch that runs."""
        now = time.perf_counter()
        return self._begun + (now - self._started if self._started else 0.0)

    def get_state(self):
        """The seconds of all epochs, and of the one that runs."""
        return {"seconds": self.seconds, "running": round(self._running(), 3)}

    def set_state(self, state):
        """Counts on from those of earlier processes."""
        self.seconds, self._begun = list(state["seconds"]), state.get("running", 0.0)
        self.earlier = sum(self.seconds) + self._begun

    def on_epoch_begin(self, epoch, logs=None):
        """Starts the clock."""
        self._started = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        """Notes the time."""
        self.seconds.append(round(self._running(), 3))
        self._begun, self._started = 0.0, None

    @property
    def median(self):
        """Seconds of an epoch; the first one, which compiles, counts if it is alone."""
        counted = self.seconds[1:] or self.seconds
        return round(statistics.median(counted), 2) if counted else None


class History(Resumable):
    """Writes what each epoch logged into a CSV file, a row each.

    Keras' own appends: a run that was killed behind a row, and before the state that
    has it, would write that row again.

    Args:
        path: the file.
    """

    def __init__(self, path):
        super().__init__()
        self.path, self.rows = Path(path), []

    def get_state(self):
        """The rows so far."""
        return {"rows": self.rows}

    def set_state(self, state):
        """Takes them up; what the file has beyond them goes."""
        self.rows = state["rows"]

    def on_epoch_end(self, epoch, logs=None):
        """Writes the file anew, with this epoch's row."""
        row = {name: np.asarray(value).tolist() for name, value in (logs or {}).items()}
        earlier = [one for one in self.rows if one["epoch"] < epoch]
        self.rows = [*earlier, {"epoch": epoch, **row}]
        names = sorted({name for one in self.rows for name in one} - {"epoch"})
        with atomic_write(self.path) as file:
            writer = csv.DictWriter(file, ["epoch", *names], lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)


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


def default_callbacks(
    folder,
    monitor="val_token_macro_f2",
    patience=None,
    more=(),
    backup_minutes=10,
):
    """The callbacks of an ordinary run: `SaveBest`, `Backup` and Keras' own.

    `folder` receives `best.keras`, `history.csv`, `logs/` for TensorBoard and
    `backup/`, from which the same call continues after a kill.

    Args:
        folder: where the run writes.
        monitor: the score that picks the best epoch, larger is better.
        patience: epochs without a better score after which training stops; None never.
        more: callbacks of your own, in front; the backup keeps the `Resumable` ones.
        backup_minutes: see `Backup`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    callbacks = [
        Finite(),
        *more,
        SaveBest(folder / "best.keras", monitor),
        Patience(monitor, patience),
        _TensorBoard(str(folder / "logs")),
        History(folder / "history.csv"),
    ]
    # The backup comes last: an epoch counts as done when all have done their work.
    return [*callbacks, Backup(folder / "backup", callbacks, backup_minutes)]
