"""The linear model beside a run: what it scores on the same texts, and how far behind.

For labels it is solved, see `bat_tf.models.linear`, and the run's own model is blended
with it. For spans it is the run's model without an encoder: features of tokens, and a
CRF.
"""

import json
import time
from pathlib import Path

import numpy as np
import scipy.sparse

from bat_tf._internal.files import atomic_write
from bat_tf.heads import NgramsHead
from bat_tf.metrics.intervals import TextCounts
from bat_tf.models import LabelClassifier, linear
from bat_tf.models.load import load
from bat_tf.runs import tokens
from bat_tf.runs.settings import Settings
from bat_tf.training import save_model

FILE, NOTES = "baseline.keras", "baseline.json"
SHARE = 0.25  # of the minutes, for the linear model of spans


def baseline(settings, task, fit):
    """The linear model of a run, from its folder or made anew; None if there is none.

    Args:
        settings: `Settings` of the run.
        task: the run's `Task`.
        fit: `fit(settings, task)` trains a tagger and returns it.

    Returns:
        (model, notes for the report), or (None, notes that say why).
    """
    folder = Path(settings.output)
    path, notes = folder / FILE, folder / NOTES
    if path.exists() and notes.exists():
        return load(path), json.loads(notes.read_text(encoding="utf-8"))
    began = time.perf_counter()
    if settings.task == "spans":
        model, about = fit(_for_spans(settings, task.train), task), {}
    elif len(task.labels) > linear.MOST_LABELS:
        most = f"{linear.MOST_LABELS:,}"
        why = f"More than {most} labels: none is solved for each. Compare with Bonsai."
        return None, {"none": why}
    else:
        head, trials = linear.solve(task.train, task.valid, task.labels)
        model = LabelClassifier.linear(head, task.labels)
        model.fit_thresholds(task.valid)
        about = {"ngrams": head.num_ngrams, "trials": [t._asdict() for t in trials]}
    about["seconds"] = round(time.perf_counter() - began, 1)
    save_model(model, path)
    with atomic_write(notes) as file:
        json.dump(about, file, indent=1)
    return model, about


def _for_spans(settings, train):
    """Settings of the linear model that stands beside a tagger."""
    values, minutes = settings.to_dict(), settings.budget.minutes
    text = {name: values["text"][name] for name in ("max_length", "overlap")}
    own = {"tokenizer": settings.text.tokenizer, **settings.text.settings}
    text |= own if own["tokenizer"] else tokens.that_fit(train)
    values |= {
        "text": text,
        "encoder": {"name": "none"},
        "heads": {"crf": True, "sparse": True},
        "loss": {"name": "crf"},
        "optimizer": {},
        "scores": {"monitor": "val_span_f1"},
        "baseline": False,
        "ship": "model",
        "output": str(Path(settings.output) / "baseline"),
    }
    values["budget"] |= {
        "minutes": minutes and SHARE * minutes,
        "epochs": 8,
        "patience": 2,
        "batch_size": 32,
    }
    return Settings.of(**values)


def text_counts(model, data):
    """What a model gets right, text by text: `TextCounts`.

    Labels that the model does not know count as ones that it missed.
    """
    if model.task == "spans":
        gold = [[tuple(span) for span in row] for row in data.spans]
        return TextCounts.of_spans(gold, model.tag(data.texts))
    known = model.labels.csr(data.labels, unknown="skip")
    rows, columns = [], []
    for part, logits in model.score_batches(data):
        places, found = np.nonzero(logits > np.asarray(model.cut, "float32"))
        rows.append(np.asarray(part)[places])
        columns.append(found)
    rows, columns = (np.concatenate([*x, np.zeros(0, int)]) for x in (rows, columns))
    shape = known.shape
    chosen = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape)
    names = set(model.names)
    missed = [[sum(name not in names for name in row)] for row in data.labels]
    if np.any(missed):
        known = scipy.sparse.hstack([known, np.array(missed, "float32")], "csr")
        nothing = scipy.sparse.csr_array((len(missed), 1), dtype="float32")
        chosen = scipy.sparse.hstack([chosen, nothing], "csr")
    return TextCounts.of_labels(known, chosen)


def share(model):
    """How much of a model's answer is its linear part."""
    heads = [head for head in model.heads if isinstance(head, NgramsHead)]
    return heads[0].share if heads else 0.0


def compare(full, linear, data):
    """How a run's model and its linear model do on the same texts.

    Returns:
        A dict: F1 of each with its interval, their difference with its own, and whether
        the full model is better by more than chance.
    """
    ours, theirs = (text_counts(model, data) for model in (full, linear))
    found = {}
    for average in ("micro", "macro"):
        name = f"{average}_f1"
        difference = ours.difference(theirs, average)
        found[name] = {
            "model": [ours.f1(average), *ours.interval(average)],
            "baseline": [theirs.f1(average), *theirs.interval(average)],
            "difference": [*difference],
        }
    found["better"] = found["micro_f1"]["difference"][1] > 0
    return found


def in_words(found):
    """The comparison, in a sentence."""
    score = found["micro_f1"]
    gain, low, high = (100 * value for value in score["difference"])
    ours, theirs = (100 * score[name][0] for name in ("model", "baseline"))
    said = (
        f"Micro F1 {ours:.1f}; the linear model alone {theirs:.1f} "
        f"(difference {gain:+.1f}, from {low:+.1f} to {high:+.1f})."
    )
    if high < 0:
        said += " The linear model is better: `--ship baseline` keeps it."
    elif low <= 0:
        said += " That is no sure gain: `--ship baseline` keeps the linear model."
    return said
