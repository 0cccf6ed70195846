"""The states of a run, from which it continues after a kill."""

import io
import json
import re
import time
import warnings
import zipfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal import files
from bat_tf._internal.files import put_in_place
from bat_tf._internal.keras_private import start_at
from bat_tf._internal.validation import check_number
from bat_tf._internal.version import VERSION
from bat_tf.training.fingerprint import Fingerprint
from bat_tf.training.finite import check_finite, learning_rate


class Resumable(keras.callbacks.Callback):
    """A callback that goes on where it was when a run was killed.

    `Backup` keeps what `get_state` returns with the weights of an epoch, and gives it
    to `set_state` when the run continues. Of several callbacks of a class, `key` tells
    which is which.
    """

    @property
    def key(self):
        """The name that the state is kept under."""
        return type(self).__name__

    def get_state(self):
        """What to remember: a dict that JSON can hold."""
        raise NotImplementedError

    def set_state(self, state):
        """Takes up what `get_state` returned behind the last whole epoch."""
        raise NotImplementedError


class Backup(keras.callbacks.Callback):
    """Keeps the last two states of a run, from which the same call continues.

    A state is one file, moved to its place when it is whole: weights, the optimizer's
    state and what callbacks remember. A kill at any moment leaves a state that fits
    together; a file that was damaged later costs the time since the one before.

    A state is kept behind each epoch. Texts, whose order is a function of the seed and
    the epoch, also have one every few minutes: the run goes on behind the same step and
    ends with the same weights. Of texts it keeps a digest too, and goes on with the
    same ones alone.

    It comes behind the callbacks that it keeps.

    Args:
        folder: where the states go; nothing else belongs there.
        callbacks: those that are to continue, too; of them, the `Resumable` ones count.
        minutes: how often a state is kept inside an epoch; None never.
    """

    # In the archive that a .keras file is.
    STATES, RUN, METRICS = "callbacks.json", "run.json", "metrics.npz"
    NAME = re.compile(r"epoch-(\d+)(?:\.step-(\d+))?")

    def __init__(self, folder, callbacks=(), minutes=None):
        super().__init__()
        if minutes is not None:
            check_number("minutes", minutes, low=0)
        self.folder, self.minutes = Path(folder), minutes
        self.kept = [one for one in callbacks if isinstance(one, Resumable)]
        self._data, self._order, self._skipped = {}, None, 0

    def watch(self, order=None, **parts):
        """Notes the digests of texts; the run continues with the same ones alone.

        `fit` of this library's models calls it for what it trains and validates on.

        Args:
            order: what decides the batches of an epoch, by name; with it states are
                kept inside epochs too.
            **parts: what each part is called, and its texts.
        """
        self._order = order or self._order
        self._data |= {name: Fingerprint.of(data) for name, data in parts.items()}

    @property
    def states(self):
        """The files, the latest first."""
        return sorted(self.folder.glob("epoch-*.keras"), reverse=True)

    @property
    def _alone(self):
        """Whether this process goes through an epoch by itself."""
        return self.model.distribute_strategy.num_replicas_in_sync == 1

    # === Going on ===

    def on_train_begin(self, logs=None):
        """Goes back to the latest state that can be read."""
        self._rate, self._skipped, damaged = learning_rate(self.model), 0, []
        self._saved = time.monotonic()
        for path in self.states:
            epoch, step = self.NAME.match(path.name).groups()
            if step and not self._alone:  # workers share out whole epochs
                continue
            # Its variables must exist before they are read; those of a loss scale
            # would be made twice.
            if not self.model.optimizer.built:
                self.model.optimizer.build(self.model.trainable_variables)
            try:
                states, run, metrics = self._read(path)
                self._check(run)
                if step and run["order"] != self._order:
                    raise ValueError(
                        f"{path} is a state inside an epoch whose batches were others: "
                        f"{run['order']} then, {self._order} now. Give `fit` the same, "
                        "or choose another folder."
                    )
                self.model.load_weights(path)
            # Not ValueError: a state of another model is whole.
            except (OSError, KeyError, RuntimeError, zipfile.BadZipFile) as error:
                damaged.append(f"{path} ({error})")
                continue
            if damaged:
                warnings.warn(
                    f"The backup {damaged[0]} is damaged; training goes back to the "
                    f"one before, {path}.",
                    stacklevel=2,
                )
            rate = self.model.optimizer.learning_rate
            # Somebody compiled with another one, which is no schedule.
            if self._rate != run["rate"] and isinstance(rate, keras.Variable):
                rate.assign(self._rate)
            self._continue(int(epoch), states)
            if step:
                self._skip(int(step), metrics, run["generators"])
            return
        if damaged:
            raise OSError(
                f"Training cannot continue: every backup is damaged: "
                f"{'; '.join(damaged)}. Remove the folder {self.folder} to start over; "
                "the best model so far, beside it, is replaced after the first epoch, "
                "so copy it if you want it."
            )

    def _read(self, path):
        """What a state has beside the weights."""
        with zipfile.ZipFile(path) as archive:
            states = json.loads(archive.read(self.STATES))
            run = json.loads(archive.read(self.RUN))
            metrics = np.load(io.BytesIO(archive.read(self.METRICS)))
            return states, run, [metrics[name] for name in metrics.files]

    def _check(self, run):
        """Raises if the data are not those of the run; warns of other versions."""
        then = {name: Fingerprint(*one) for name, one in run["data"].items()}
        other = [
            f"{name}: {found}"
            for name in then.keys() & self._data.keys()
            if (found := self._data[name].difference(then[name]))
        ]
        other += [
            f"{name}: {'not there any more' if name in then else 'new'}"
            for name in then.keys() ^ self._data.keys()
        ]
        if other:
            raise ValueError(
                f"The data are not those that the run in {self.folder} began with. "
                f"{'; '.join(sorted(other))}. Give it the same data, or choose another "
                "folder to train on these."
            )
        changed = [
            f"{name} {run['versions'].get(name)} then, {version} now"
            for name, version in versions().items()
            if run["versions"].get(name) != version
        ]
        if changed:
            warnings.warn(
                f"The run in {self.folder} began with other versions: "
                f"{'; '.join(changed)}. It may come to other weights than it would "
                "have.",
                stacklevel=4,
            )

    def _continue(self, epoch, states):
        """Goes on behind so many epochs."""
        for callback in self.kept:
            if callback.key in states:
                callback.set_state(states[callback.key])
        if self.model.stop_training:
            # `fit` would look at it after another step.
            epoch = max(epoch, self.params["epochs"])
        start_at(self.model, epoch)

    def _skip(self, steps, metrics, seeds):
        """Passes over the steps of the epoch that were done; then all is as it was."""
        model, step, self._skipped = self.model, self.model.train_function, steps

        def passing(iterator):
            for _ in range(model.steps_per_execution):
                next(iterator)
            self._skipped -= model.steps_per_execution
            if self._skipped > 0:
                return {}
            model.train_function = step
            # Metrics make their variables when a step is traced.
            tf.function(model.test_step).get_concrete_function(iterator.element_spec)
            for variable, value in zip(model.metrics_variables, metrics, strict=False):
                variable.assign(value)
            for variable, value in zip(generators(model), seeds, strict=True):
                variable.assign(value)
            return model.get_metrics_result()

        model.train_function = passing

    # === Keeping ===

    def on_epoch_begin(self, epoch, logs=None):
        """Notes the epoch."""
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        """Writes the state behind this step, if the last one is some time ago."""
        if self.minutes is None or self._skipped > 0 or self._order is None:
            return
        if self._alone and time.monotonic() - self._saved >= 60 * self.minutes:
            check_finite(self.model, f" behind step {batch + 1}")
            self._keep(f"epoch-{self._epoch:06}.step-{batch + 1:06}.keras", True)

    def on_epoch_end(self, epoch, logs=None):
        """Writes the state behind this epoch."""
        self._keep(f"epoch-{epoch + 1:06}.keras")

    def _keep(self, name, inside=False):
        """Writes a state, and removes all but the one before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        seeds = [one.numpy().tolist() for one in generators(self.model)]
        run = {
            "data": self._data,
            "order": self._order,
            "versions": versions(),
            "rate": self._rate,
            "generators": seeds,
        }
        metrics = io.BytesIO()
        variables = self.model.metrics_variables if inside else ()
        np.savez(metrics, *(one.numpy() for one in variables))
        states = {callback.key: callback.get_state() for callback in self.kept}
        more = {self.STATES: json.dumps(states), self.RUN: json.dumps(run, default=int)}
        # Not `save_weights`: on a full disk HDF5 ends the process, without a word.
        more[self.METRICS] = metrics.getvalue()
        save_model(self.model, self.folder / name, more)
        for older in self.states[2:]:
            older.unlink()
        self._saved = time.monotonic()


def versions():
    """The versions that decide what a step computes."""
    return {"bat_tf": VERSION, "keras": keras.__version__, "tensorflow": tf.__version__}


def save_model(model, path, more=None):
    """Saves a model to a `.keras` file; the old one stays until the new is whole.

    Args:
        model: a Keras model.
        path: the file.
        more: texts or bytes to put into its archive, too, by name.
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.stem}.unfinished.keras")
    try:
        model.save(unfinished)
        with zipfile.ZipFile(unfinished, "a") as archive:
            for name, text in (more or {}).items():
                archive.writestr(name, text)
        put_in_place(unfinished, path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        kept = "The file that was there before is unharmed. " if path.exists() else ""
        raise OSError(
            f"The model could not be written to {path}: {error}. {kept}"
            "Free some space or choose another folder, then run again."
        ) from error
    files.disk.flush(path.parent)


def generators(model):
    """The states of a model's random generators."""
    return [
        variable
        for variable in model.non_trainable_variables
        if variable.path.endswith("seed_generator_state")
    ]
