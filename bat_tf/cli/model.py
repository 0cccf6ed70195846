"""Verbs about a model: `evaluate`, `report`, `tune`, `export` and `info`."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from bat_tf._internal.version import VERSION
from bat_tf.cli.terminal import (
    DEFAULT,
    OUTPUT,
    DataPath,
    ModelPath,
    OnError,
    Split,
    TrainedModel,
    Trust,
    console,
    model_path,
    print_values,
    say,
)

PACKAGES = ("tensorflow", "keras", "numpy")


def evaluate(
    input: DataPath,
    model: ModelPath = DEFAULT,
    split: Split = None,
    on_error: OnError = None,
    output: Annotated[
        str | None, typer.Option(*OUTPUT, help="Also write JSON here.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option(help="Of labels: draw F1 by frequency into this file.")
    ] = None,
    trust: Trust = False,
):
    """Score a model on marked or labelled texts."""
    from bat_tf._internal.files import atomic_write

    loaded = _load(model)
    if plot and loaded.task != "labels":
        raise ValueError("`--plot` is for models that label documents.")
    dataset = _texts(model, input, split, on_error)
    report = _evaluation(loaded, dataset)
    console.print(report)
    if loaded.task == "labels" and not loaded.exported:
        unknown = loaded.labels.unknown(dataset.labels)
        names = [f"{name} ({count:,})" for name, count in unknown.items()]
        if names:
            more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
            say(
                f"Labels that the model does not know, each counted as missed: "
                f"{', '.join(names[:10])}{more}"
            )
    if plot:
        say(f"F1 by label frequency: {report.plot(plot)}")
    if output:
        with atomic_write(output) as file:
            json.dump(report.to_dict(), file, ensure_ascii=False, indent=1)


def _texts(model, source, split, on_error):
    """A file, read as those were that the run of a model has learnt from."""
    from bat_tf.data import read
    from bat_tf.runs.settings import Settings

    settings, options = Path(model) / "settings.yaml", {}
    how = {"split": split, "on_error": on_error or "raise"}
    if settings.is_file() and Path(source).is_file():
        options = Settings.load(settings).data.options
    try:
        return read(source, **{**options, **how})
    except TypeError:  # options that a file of another format does not have
        return read(source, **how)


def _evaluation(model, dataset):
    """The report on a model, trained or exported, of either kind."""
    from bat_tf.metrics.report import TaggingReport

    if not model.exported:
        return model.evaluate_report(dataset)
    if model.task == "spans":
        return TaggingReport.of(model, dataset)
    raise ValueError(
        "An exported model names labels but gives no scores of all of them. "
        "Evaluate the .keras file or the run's folder it was exported from."
    )


def report(
    run: Annotated[str, typer.Argument(help="Folder of a run.")],
    output: Annotated[
        str | None, typer.Option(*OUTPUT, help="The page; report.html in the run.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="valid or test; test, if there is one.")
    ] = None,
):
    """Write a page about a run: scores, curves, confusions, the worst errors."""
    from bat_tf.runs.page import write_page

    say(f"Open {write_page(run, output, part)} in a browser.")


def tune(
    model: TrainedModel,
    input: DataPath,
    split: Split = None,
    on_error: OnError = None,
    per_label: Annotated[
        bool, typer.Option(help="A threshold for each label that is not too rare.")
    ] = False,
    by_count: Annotated[
        bool, typer.Option(help="Thresholds by how many training texts a label had.")
    ] = False,
    beta: Annotated[float, typer.Option(help="Weight of recall in F.")] = 1.0,
    trust: Trust = False,
):
    """Fit the thresholds of a label classifier, and save them with it.

    The input is labelled texts that the model did not learn from.
    """
    from bat_tf.training import save_model

    loaded, path = _load(model), Path(model)
    if loaded.exported or loaded.task != "labels":
        raise ValueError(
            f"{model} has no thresholds to fit: give a .keras file or the run of a "
            "label classifier."
        )
    dataset = _texts(model, input, split, on_error)
    before = loaded.evaluate_report(dataset).values
    fitted = loaded.fit_thresholds(
        dataset, per_label=per_label, by_count=by_count, beta=beta
    )
    after = loaded.evaluate_report(dataset).values
    save_model(loaded, path / "best.keras" if path.is_dir() else path)
    say(f"{fitted}, saved in {path}")
    print_values("before", before)
    print_values("after, on the same texts", after)


def export(
    model: TrainedModel,
    output: Annotated[
        str, typer.Option(*OUTPUT, help="Folder of the SavedModel, such as shop/1.")
    ],
    trust: Trust = False,
):
    """Write a SavedModel that takes raw strings, and check it in a fresh process."""
    loaded = _load(model)
    if loaded.exported:
        raise ValueError(f"{model} is exported already; give a .keras file or a run.")
    path = loaded.export(output)
    about = json.loads(_description(path).read_text(encoding="utf-8"))
    say(f"SavedModel in {path}; it answers as the model does.")
    ops = ", ".join(about["ops_beyond_core"]) or "none"
    say(f"Operations beyond core TensorFlow: {ops}")
    say(f"Oldest TF Serving: {about['tf_serving']['oldest'] or 'none is known'}")


def info(model: ModelPath = DEFAULT, trust: Trust = False):
    """Show versions, and what a model is."""
    import tensorflow as tf

    versions = [f"{name} {version(name)}" for name in PACKAGES]
    gpus = f"{len(tf.config.list_physical_devices('GPU'))} GPUs"
    say(", ".join([f"bat_tf {VERSION}", *versions, f"{os.cpu_count()} cores", gpus]))
    path = model_path(model)
    say(str(path))
    about = _description(path)
    if about.is_file():
        console.print_json(about.read_text(encoding="utf-8"))
        return
    loaded = _load(model)
    loaded.summary()
    say(f"{loaded.task}: {', '.join(loaded.names)}")


def _load(model):
    from bat_tf.models.load import load

    return load(model_path(model))


def _description(folder):
    """What an exported model says about itself."""
    return folder / "assets.extra" / "bat_tf.json"
