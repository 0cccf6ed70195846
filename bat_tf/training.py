"""What surrounds `model.fit`: seeds, callbacks, resuming."""

import builtins
import json
import os
import sys
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
    try:
        tf.config.threading.set_inter_op_parallelism_threads(2)
        tf.config.threading.set_intra_op_parallelism_threads(
            max(1, (os.cpu_count() or 2) // 2)
        )
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
    resumed run draws what an uninterrupted one would.
    """

    DRAWS = 1_000_000  # more than an epoch has steps

    def __init__(self):
        super().__init__()
        self.value = tf.Variable(0, dtype=tf.int64, trainable=False)

    def on_epoch_begin(self, epoch, logs=None):
        """Tells the pipeline and the random generators which epoch comes next."""
        self.value.assign(epoch)
        for variable in self.model.non_trainable_variables:
            if variable.path.endswith("seed_generator_state"):
                seed, _ = variable.numpy().tolist()
                variable.assign([seed, epoch * self.DRAWS % 2**32])


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

    def on_train_begin(self, logs=None):
        """Takes up the best score of an earlier part of the same run."""
        resumes = self.path.exists() and self._score_path.exists()
        if resumes and getattr(self.model, "_initial_epoch", None):
            self.best = json.loads(self._score_path.read_text())[self.monitor]

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
    """The callbacks of an ordinary run, all of them Keras' own but `SaveBest`.

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
        keras.callbacks.BackupAndRestore(
            str(folder / "backup"), double_checkpoint=True, delete_checkpoint=False
        ),
        SaveBest(folder / "best.keras", monitor),
        keras.callbacks.TensorBoard(str(folder / "logs")),
        keras.callbacks.CSVLogger(str(folder / "history.csv"), append=True),
        keras.callbacks.TerminateOnNaN(),
    ]
    if patience:
        callbacks.append(
            keras.callbacks.EarlyStopping(monitor, mode="max", patience=patience)
        )
    return callbacks
