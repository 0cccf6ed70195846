"""`bat_tf.train` and `bat-tf train`: from texts to a model, with nothing else said."""

import os
from pathlib import Path

from bat_tf._internal.validation import check_number, sentence
from bat_tf.data import TextDataset, describe, from_rows, read
from bat_tf.encoders import catalogue
from bat_tf.runs import tokens
from bat_tf.runs.recipes import settings_for
from bat_tf.runs.run import run
from bat_tf.runs.settings import Budget, merged, nested, read_yaml
from bat_tf.text import TextTokenizer

MINUTES = 10.0
MANY_LABELS = 1000
NONE = "none"  # the backbone of those who want no pretrained one
SAMPLE = 1000
# Word pieces that a word is cut into: a model that knows its language has few.
MOST_PIECES = 1.4


def train(
    data,
    targets=None,
    *,
    valid=None,
    test=None,
    output=None,
    recipe="auto",
    minutes=None,
    verbose="auto",
    **settings,
):
    """Trains a model on texts, in any form, and leaves a folder with all about it.

    What the texts are for, how they are written and which recipe suits them is found
    out and said. A linear model is made as well: labels are blended with it, and the
    report shows how much better the model is.

    Args:
        data: a file, or rows as `bat_tf.data.from_rows` takes them.
        targets: their labels or spans, where `data` are texts alone.
        valid: file or rows to choose on; None holds out a part of `data`.
        test: file or rows to report on.
        output: folder of the run; None is `runs/` and the name of the file.
        recipe: `"auto"`, a name or a file: see `bat_tf.runs.recipes`; `"none"` leaves
            what is not said as it is in `Settings`.
        minutes: how long it may take; None is 10 for a recipe that is found, unless
            `budget.epochs` is given, and as long as a recipe by name takes.
        verbose: as in Keras' `fit`; 0 says nothing.
        **settings: any others, see `bat_tf.runs.settings.Settings`: nested, or
            `**{"budget.epochs": 3}`.

    Returns:
        The model. `report.json` in the folder says how good it is, and the command
        `bat-tf report` makes a page of it.

    Example:
        >>> rows = [("oil and gas", "energy"), ("rain and wind", "weather")] * 10
        >>> model = train(rows, output="runs/news")  # doctest: +SKIP
        >>> model.label("heavy rain")  # doctest: +SKIP
        [('weather', 0.98)]
    """
    if "epochs" in settings:
        settings["budget.epochs"] = settings.pop("epochs")
    output = Path(output or output_of(data))
    parts = {"train": (data, targets), "valid": (valid, None), "test": (test, None)}
    files = {name: _file(output, name, *part) for name, part in parts.items()}
    files = {f"data.{name}": file for name, file in files.items() if file}
    told = verbose not in (0, "0")
    chosen, said = prepare(recipe, minutes, output=str(output), **files, **settings)
    if told:
        print(said)
    return run(chosen, verbose=verbose)[0]


def prepare(recipe="auto", minutes=None, config=None, task=None, **changes):
    """Settings for texts, and what was found out about them.

    Args:
        recipe: see `train`.
        minutes: see `train`.
        config: a YAML file of settings, which win over the recipe's.
        task: see `bat_tf.runs.recipes.settings_for`.
        **changes: settings that win over both; they name the data.

    Returns:
        (`Settings`, text for people).
    """
    if minutes is not None:
        check_number("minutes", minutes, low=0)
    draft = settings_for(None, config, task, **changes)
    said = []
    several = draft.cluster is not None or "TF_CONFIG" in os.environ
    if recipe == "none" or (recipe == "auto" and (config or draft.data.name)):
        recipe = None  # whoever says so much chooses the rest
    found = recipe == "auto"
    if recipe == "auto" and draft.continue_from:
        recipe, changes = None, _as_before(draft.continue_from, changes)
    if recipe == "auto":
        data = read(draft.data.train, **draft.data.options)
        said.append(str(describe(data)))
        task = _task(task, data)
        wanted = nested(changes).get("encoder", {}).get("backbone")
        recipe, why, own = choose(data, wanted)
        if several:
            own["baseline"] = False
        said.append(f"Recipe {recipe}: {why}")
        changes = merged(own, nested(changes))
    settings = settings_for(recipe, config, task, **changes)
    given = settings_for(None, config, settings.task, **changes).budget
    if minutes is None and given.minutes is None and found and not several:
        usual = settings_for(None, task=settings.task, **{"data.train": "-"}).budget
        minutes = MINUTES if given.epochs == usual.epochs else None
    if minutes is not None:
        settings = settings.changed(**{"budget.minutes": float(minutes)})
    return settings, "\n".join(said)


def _as_before(folder, changes):
    """Changes, over the settings of the run that goes on; the data are new."""
    path = Path(folder) / "settings.yaml"
    if not path.is_file():
        remedy = "Beside a .keras file, name `recipe` or `config`."
        raise ValueError(sentence("continue_from", "a run's folder", folder, remedy))
    kept = read_yaml(path)
    for name in ("data", "output", "cluster", "worker", "ship", "continue_from"):
        kept.pop(name, None)
    kept["budget"] |= {"minutes": None, "epochs": Budget().epochs}
    return merged(nested(kept), nested(changes))


def choose(data, backbone=None):
    """The recipe that suits texts.

    Args:
        data: a `TextDataset` to learn from.
        backbone: a pretrained encoder, by name; None takes one that is present and
            knows the language of the texts.

    Returns:
        (name, why, settings that the texts decide).
    """
    about, own = describe(data), {"baseline": True}
    if data.task == "labels" and about.counts["names"] > MANY_LABELS:
        return "extreme", f"there are {about.counts['names']:,} labels.", own
    if backbone == NONE:
        found, why = None, "no pretrained encoder is wanted."
    elif backbone:
        found, why = backbone, f"backbone {backbone} was named."
    else:
        found, why = _fitting(data, about)
    if found:
        own["encoder"] = {"backbone": str(found)}
    else:
        own["text"] = tokens.that_fit(data)
    return f"{'pretrained' if found else 'light'}_{data.task}", why, own


def _fitting(data, about):
    """The backbone that is present and fits texts, or None; and why, in words."""
    language, texts = about.language, data.texts[:SAMPLE]
    unclear = about.script if about.script in ("Latin", "Han") else ""
    names = catalogue.that_fit(language or {"Latin": "en", "Han": "zh"}.get(unclear))
    for name in names:
        folder = catalogue.find(name)
        if folder and (language or _pieces_per_word(folder, texts) < MOST_PIECES):
            why = f"language {language or 'not clear, but its words are known'}; "
            return name, f"{why}backbone {name}."
    why = f"language {language or 'not clear'}; no pretrained encoder for it is here."
    if language and names:
        why += f" `bat-tf backbones get {names[0]}` adds one."
    return None, why


def _pieces_per_word(folder, texts):
    """How many pieces a backbone cuts a word into."""
    pieces = TextTokenizer.from_folder(folder).tokenize(texts)
    words = pieces["word_ids"].to_list()
    return sum(map(len, words)) / max(1, sum(len(set(row)) for row in words))


def _task(task, data):
    if task not in (None, data.task):
        remedy = "Leave it out, or give a file with such targets."
        raise ValueError(sentence("task", repr(data.task), task, remedy))
    return data.task


def output_of(data):
    """The folder of a run on these texts, where none is given."""
    is_path = isinstance(data, (str, Path))
    return str(Path("runs") / (Path(data).name.split(".")[0] if is_path else "model"))


def _file(output, name, rows, targets):
    """The file of a part; rows in memory are written into the run's folder."""
    if rows is None or isinstance(rows, (str, Path)):
        return rows and str(rows)
    data = rows if isinstance(rows, TextDataset) else from_rows(rows, targets)
    path = output / "data" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    data.save(path)
    return str(path)
