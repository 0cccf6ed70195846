"""One training run: its folder, and how it resumes.

A run's folder holds `settings.yaml` (enough to repeat it), `best.keras`,
`history.csv`, `logs/` for TensorBoard, `backup/` to continue from, and `report.json`;
with a baseline, also `baseline.keras` and `full.keras`, the model as training left it.
"""

import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from bat_tf import training
from bat_tf._internal.files import atomic_write, locked
from bat_tf._internal.validation import sentence
from bat_tf.data import LabelSpace, TextDataset, label_texts, read, splits
from bat_tf.encoders import NoEncoder
from bat_tf.heads import NgramsHead
from bat_tf.models.load import load
from bat_tf.runs import baseline, plan
from bat_tf.runs.build import (
    build,
    earlier_model,
    new_model,
    num_steps,
    warmup_steps,
)
from bat_tf.runs.settings import Settings, differences, flat
from bat_tf.training import distributed

# Texts of a part on which experts are compared.
KL_TEXTS = 1000
# What may differ between the first call of a run and the one that continues it.
MAY_CHANGE = ("budget.epochs", "budget.patience", "budget.backup_minutes")
MAY_CHANGE += ("output", "cluster", "worker", "ship")
# What a run's folder has as soon as there is something to continue.
KEPT = ("backup", "best.keras", "report.json", baseline.FILE)
# The model of the best epoch, before it was blended or left for the linear one.
FULL = "full.keras"
# Notes in a run's folder that it diverged: then the rate may change, too.
DIVERGED = "diverged.txt"


class Task(NamedTuple):
    """What a run is about.

    Attributes:
        labels: `LabelSpace`, counted on the training part; None for spans.
        train: what is learnt from.
        valid: what the best epoch is chosen on.
        test: what is reported on; may be None.
    """

    labels: LabelSpace | None
    train: TextDataset
    valid: TextDataset
    test: TextDataset | None


def run(settings, verbose="auto"):
    """Trains a model as the settings say, or continues where a kill stopped it.

    Of several workers, the first one writes the folder and the report.

    Returns:
        The model of the best epoch and the report that is also in `report.json`; on
        workers but the first, the model of the last epoch and None.
    """
    if not settings.budget.jit_compile:
        training.set_threads(settings.budget.batch_size)
    # Workers find each other before anything else of TensorFlow runs.
    strategy = distributed.strategy(settings.cluster, settings.worker)
    minutes = settings.budget.minutes
    if minutes is not None and strategy.num_replicas_in_sync > 1:
        remedy = "Each of them would plan for itself: say how many `epochs`."
        raise ValueError(
            sentence("budget.minutes", "None for several workers", minutes, remedy)
        )
    folder = Path(settings.output)
    if not distributed.is_chief(strategy):
        task = read_task(settings)
        return _fitted(settings, strategy, task, folder, verbose)[0], None
    folder.mkdir(parents=True, exist_ok=True)
    # Two processes would take turns in writing its checkpoints.
    with locked(folder, "run"):
        settings = _note_settings(settings, folder)
        return _reported(settings, strategy, folder, verbose)


def _reported(settings, strategy, folder, verbose, task=None):
    """Trains and reports, see `run`."""
    started, linear = time.perf_counter(), None
    task = task or read_task(settings)
    told = settings.baseline and training.verbosity(verbose)
    if settings.baseline:
        if told:
            print("The linear model, to compare with:")

        def fit(own, task):
            inside = Path(own.output)
            inside.mkdir(parents=True, exist_ok=True)
            own = _note_settings(own, inside)
            return _reported(own, strategy, inside, verbose, task)[0]

        linear, notes = baseline.baseline(settings, task, fit)
        if told:
            print(f"{notes['seconds']:.0f} s. The model:" if linear else notes["none"])
    if settings.budget.minutes is not None:
        settings = _planned(settings, task, started, verbose)
        _write_settings(settings, folder)
        task = task._replace(train=at_most(task.train, settings.data.max_train))
    report = {"settings": settings.to_dict()}
    if settings.model == "svm":
        model = new_model(settings, task.train, task.labels)
        model.fit(task.train, validation_data=task.valid)
        report["best"] = {"epoch": 1}
    else:
        fitted, best, clock = _fitted(settings, strategy, task, folder, verbose)
        report["loss"] = constants(fitted.loss)
        started -= clock.earlier
        model = _finished(settings, task, folder, verbose, linear)
        report["best"] = {best.monitor: best.best, "epoch": best.epoch}
        steps = num_steps(settings, task.train)
        report["warmup_steps"] = warmup_steps(settings, steps)
        report["epoch_seconds"] = clock.median
    report["fit_seconds"] = round(time.perf_counter() - started, 1)
    if settings.baseline:
        name, part = ("test", task.test) if task.test else ("valid", task.valid)
        report["baseline"] = {"part": name, **notes}
        if linear is not None:
            report["baseline"] |= baseline.compare(model, linear, part)
            report["linear_share"] = baseline.share(model)
        if linear is not None and settings.ship == "baseline":
            model = linear
            training.save_model(model, folder / "best.keras")
        report["shipped"] = settings.ship
    report["model"] = model.describe()
    report["parameters"] = model.count_params()
    for name, part in (("valid", task.valid), ("test", task.test)):
        if part is not None:
            full = model.evaluate_report(part, **scoring(settings), **settings.report)
            report[name] = full.to_dict()
            if settings.model == "experts" and model.score_scale is not None:
                some = part.take(KL_TEXTS)
                kl = (
                    model.disagreement(some),
                    model.disagreement(some, true_labels=True),
                )
                report[name]["expert_kl"] = round(kl[0], 4)
                report[name]["expert_kl_true"] = round(kl[1], 4)
    report["seconds"] = round(time.perf_counter() - started, 1)
    with atomic_write(folder / "report.json") as file:
        json.dump(report, file, indent=1)
    return model, report


def _planned(settings, task, started, verbose):
    """The settings with as many epochs as their minutes have room for."""
    if settings.model == "svm":
        return settings.changed(**{"budget.minutes": None})
    training.set_seed(settings.budget.seed, not settings.budget.jit_compile)
    speed = plan.rehearse(settings, task)
    left = settings.budget.minutes - (time.perf_counter() - started) / 60
    settings = plan.planned(settings, task, speed, left)
    if training.verbosity(verbose):
        print(plan.in_words(settings, task, speed))
    return settings


def constants(loss):
    """What a loss by name found in the training labels.

    Example:
        >>> from bat_tf.losses import DistributionBalanced
        >>> space = LabelSpace.fit([["sport"], ["news", "sport"], []])
        >>> constants(DistributionBalanced(space))
        {'rebalance_mu': 0.6666666666666666}
    """
    loss = getattr(loss, "base", loss)  # of experts
    balances = getattr(loss, "weighting", None) == "rebalance"
    return {"rebalance_mu": loss.rebalance_mu} if balances else {}


def _fitted(settings, strategy, task, folder, verbose):
    """The model of the last epoch, and the callbacks `SaveBest` and `EpochClock`."""
    budget, clock = settings.budget, training.EpochClock()
    chief = distributed.is_chief(strategy)
    training.set_seed(budget.seed, deterministic=not budget.jit_compile)
    with distributed.lost_workers_named(strategy), strategy.scope():
        model = build(settings, task.train, task.labels)
    callbacks = training.default_callbacks(
        folder,
        settings.scores.monitor,
        budget.patience,
        more=[clock],
        backup_minutes=budget.backup_minutes,
    )
    best, backup = (
        next(one for one in callbacks if isinstance(one, kind))
        for kind in (training.SaveBest, training.Backup)
    )
    if task.test is not None:
        backup.watch(test=task.test)
    if task.labels is not None:
        backup.watch(labels=TextDataset.of_labels(task.labels))
    try:
        model.fit(
            task.train,
            validation_data=task.valid,
            batch_size=budget.batch_size,
            epochs=budget.epochs,
            seed=budget.seed,
            cache_backbone=settings.encoder.cache,
            callbacks=callbacks,
            verbose=verbose,
        )
    except training.DivergedError as error:
        if not chief:
            raise
        raise _with_a_way_on(error, settings, backup) from error
    if chief and best.epoch is None:
        raise training.DivergedError(
            f"`{best.monitor}` was no finite number in any epoch, so none is the best. "
            "Look at history.csv, or choose another score with `scores.monitor`."
        )
    if chief:
        (folder / DIVERGED).unlink(missing_ok=True)
    return model, best, clock


def _with_a_way_on(error, settings, backup):
    """The same error, with what is kept and how to go on; noted in the folder."""
    folder, own = Path(settings.output), settings.optimizer
    name = "learning_rate" if own.name == "adamw" else "schedule_scale"
    option = "--learning-rate " if own.name == "adamw" else f"--set=optimizer.{name}="
    lower = min(getattr(own, name) / 4, getattr(type(own), name))
    lower = f"{option}{lower:g}"
    kept = "Nothing was kept before it; the same command starts anew"
    if backup.states:
        kept = f"The state in {backup.states[0]} is good; the same command goes on"
        kept += " from there"
    sentence = f"{error} {kept}: give it a lower rate, `{lower}`."
    with atomic_write(folder / DIVERGED) as file:
        file.write(sentence + "\n")
    return training.DivergedError(sentence, error.rate)


def _finished(settings, task, folder, verbose, linear=None):
    """The model of the best epoch, with what is added when training is over."""
    best, heads = _best(folder), settings.heads
    if linear is not None:
        training.save_model(best, folder / FULL)
    if heads.neighbours:
        kept = scoring(settings)
        best = best.remember(task.train, heads.neighbours, verbose=verbose, **kept)
    # Logits of losses that only rank cannot be weighed against those of another.
    blends = linear is not None and settings.task == "labels"
    if blends and best.score_scale is not None:
        best, _ = best.blended(linear, task.valid, **scoring(settings))
    tunes = settings.task == "labels" and heads.thresholds != "none"
    if tunes:
        best.fit_thresholds(
            task.valid,
            per_label=heads.thresholds == "per_label",
            by_count=heads.thresholds == "by_count",
            **scoring(settings),
        )
    if tunes or blends or heads.neighbours or (folder / FULL).exists():
        training.save_model(best, folder / "best.keras")
    return best


def _best(folder):
    """The model of the best epoch as training left it."""
    best = load(folder)
    later = isinstance(best.encoder, NoEncoder)
    later = later or any(isinstance(head, NgramsHead) for head in best.heads)
    return load(folder / FULL) if later and (folder / FULL).exists() else best


def scoring(settings):
    """What scoring texts takes beside the texts."""
    kept = settings.task == "labels" and isinstance(settings.encoder.cache, str)
    return {"cache_backbone": settings.encoder.cache} if kept else {}


def read_parts(settings):
    """The train, valid and test parts of a run; test may be None."""
    data = settings.data
    if data.name:
        names = data.parts or {name: name for name in splits(data.name)}
        parts = {
            use: read(data.name, split=name, **data.options)
            for use, name in names.items()
        }
    else:
        files = {"train": data.train, "valid": data.valid, "test": data.test}
        parts = {use: read(file, **data.options) for use, file in files.items() if file}
    if "valid" not in parts:
        # Of one fixed seed: runs with different seeds are to be compared.
        parts["train"], parts["valid"] = parts["train"].split(
            data.valid_fraction, seed=0
        )
    if data.min_label_count > 1:
        common = LabelSpace.fit(parts["train"].labels, min_count=data.min_label_count)
        parts = {name: part.keep_labels(common) for name, part in parts.items()}
    train = at_most(parts["train"], data.max_train)
    return train, parts["valid"], parts.get("test")


def at_most(data, count):
    """A data set, or so many of its texts, chosen at random but always the same."""
    if count is None or count >= len(data):
        return data
    rows = np.random.default_rng(0).permutation(len(data))[:count]
    some = (data[row] for row in sorted(rows))
    return TextDataset(some, data.name, data.skipped, found=data.found)


def read_label_texts(settings):
    """What the labels of a run mean, or None if they are called so."""
    data = settings.data
    if not data.label_texts:
        return None
    if data.label_texts is True:
        return label_texts(data.name)
    path = Path(data.label_texts)
    try:
        texts = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from error
    if not isinstance(texts, dict):
        raise ValueError(f"{path} must hold an object: names of labels, and texts.")
    return texts


def read_task(settings):
    """The `Task` of a run."""
    train, valid, test = read_parts(settings)
    if settings.task == "spans":
        return Task(None, train, valid, test)
    if settings.continue_from:
        labels = earlier_model(settings).labels
        unknown = labels.unknown(train.labels)
        if unknown:
            names = ", ".join(map(repr, list(unknown)[:5]))
            remedy = "Train a new model on all texts, or leave these out."
            expected = f"of labels that {settings.continue_from} knows"
            raise ValueError(sentence("data.train", expected, names, remedy))
        return Task(labels, train, valid, test)
    labels = LabelSpace.fit(train.labels, texts=read_label_texts(settings))
    if settings.data.label_examples:
        train = train + TextDataset.of_labels(labels)
    return Task(labels, train, valid, test)


def _note_settings(settings, folder):
    """Writes the settings into the run's folder, or checks that it is the same run.

    Returns:
        The settings; of a run that goes on with as many epochs as were planned for it.
    """
    path = folder / "settings.yaml"
    # A run that failed before its first state has nothing to go on from.
    if path.exists() and any((folder / name).exists() for name in KEPT):
        may, earlier = MAY_CHANGE, Settings.load(path)
        if (folder / DIVERGED).exists():
            may += ("optimizer.learning_rate", "optimizer.schedule_scale")
        if settings.budget.minutes is not None:
            known = flat(earlier.to_dict())
            settings = settings.changed(**{name: known[name] for name in plan.NAMES})
        # Settings that are younger than the run had their defaults in it.
        other = differences(earlier, settings, may)
        if other:
            raise ValueError(
                f"{folder} holds a run with other settings: {'; '.join(other)}. "
                "Choose another folder, or remove this one to start over."
            )
    _write_settings(settings, folder)
    return settings


def _write_settings(settings, folder):
    with atomic_write(folder / "settings.yaml") as file:
        yaml.safe_dump(settings.to_dict(), file, sort_keys=False, allow_unicode=True)
