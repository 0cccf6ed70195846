"""What the page of a run shows, as plain values: scores, curves, confusions, errors."""

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse

from bat_tf.metrics.intervals import TextCounts
from bat_tf.metrics.report import Score, score_spans
from bat_tf.models.load import load
from bat_tf.runs.run import read_task
from bat_tf.runs.settings import Settings

POINTS = np.round(np.linspace(0.02, 0.98, 49), 2)  # thresholds on the score
MOST_CLASSES, MOST_CONFUSED, MOST_ERRORS = 100, 20, 25
NOTHING = "(nothing)"


def figures(folder, part=None):
    """Asks a run's best model about a part of its data, and counts.

    Args:
        folder: the run's folder.
        part: `"valid"` or `"test"`; None is the test part, where there is one.

    Returns:
        A dict of plain values, see the page that is made of it.
    """
    folder = Path(folder)
    settings, model = Settings.load(folder / "settings.yaml"), load(folder)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    task = read_task(settings)
    part = part or ("test" if task.test is not None else "valid")
    data = getattr(task, part)
    if data is None:
        raise ValueError(f"{folder} has no {part} part to report on.")
    asked = _spans if model.task == "spans" else _labels
    return {
        "folder": folder.name,
        "task": model.task,
        "part": part,
        "data": data.name,
        "texts": len(data),
        "trained_on": len(task.train),
        "settings": settings.to_dict(),
        "loss": report.get("loss", {}),
        "best": report["best"],
        "seconds": report.get("seconds"),
        "values": report[part]["values"] if part in report else {},
        "baseline": report.get("baseline"),
        "history": _history(folder / "history.csv"),
        **asked(model, data),
    }


def _history(path):
    """Each logged value by epoch."""
    if not path.exists():
        return {}
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in (rows[0] if rows else ()) if name != "epoch"]
    return {name: [float(row[name]) for row in rows if row[name]] for name in columns}


def _scores(counts):
    """Micro and macro F1, each with its interval."""
    return {
        f"{average}_f1": [counts.f1(average), *counts.interval(average)]
        for average in ("micro", "macro")
    }


def _class_rows(scores):
    """The rows of a table of classes, the most frequent first."""
    scores = sorted(scores, key=lambda score: (-score.actual, score.name))
    return [
        [one.name, one.precision, one.recall, one.f(), one.predicted, one.actual]
        for one in scores[:MOST_CLASSES]
    ]


def _point(correct, predicted, actual):
    """Precision and recall; None where nothing was predicted."""
    precision = float(correct / predicted) if predicted else None
    return [precision, float(correct / actual) if actual else 0.0]


# === Keywords ===


def _spans(model, data):
    found = model.tag(data.texts)
    gold = [[tuple(span) for span in row] for row in data.spans]
    counts = TextCounts.of_spans(gold, found)
    pairs = [(row, tag) for row, tags in _zip(gold, found) for tag in tags]
    scores = np.array([tag.score for _, tag in pairs])
    hits = np.array([tuple(tag[:3]) in row for row, tag in pairs], bool)
    actual = sum(map(len, gold))
    curve = []
    for threshold in POINTS:
        chosen = scores > threshold
        point = _point((hits & chosen).sum(), chosen.sum(), actual)
        curve.append([float(threshold), *point])
    confused = Counter()
    for row, tags in _zip(gold, found):
        confused.update(_confused_spans(row, [tuple(tag[:3]) for tag in tags]))
    return {
        "scores": _scores(counts),
        "classes": _class_rows(score_spans(gold, found)),
        "curve": curve,
        "chosen": _point(hits.sum(), len(hits), actual),
        "confused": [[*pair, n] for pair, n in confused.most_common(MOST_CONFUSED)],
        "errors": _worst(data.texts, gold, [[t[:3] for t in tags] for tags in found]),
    }


def _zip(*rows):
    return zip(*rows, strict=True)


def _confused_spans(gold, found):
    """(what it was, what was said) of each span that is not right."""
    missed, false = set(gold) - set(found), set(found) - set(gold)
    for span in false:
        over = [g for g in missed if g[0] < span[1] and span[0] < g[1]]
        same = any(g[2] == span[2] for g in over)
        said = f"{span[2]}, other borders" if same else span[2]
        yield (over[0][2] if over else NOTHING, said)
    for span in missed:
        if not any(f[0] < span[1] and span[0] < f[1] for f in false):
            yield (span[2], NOTHING)


# === Labels ===


def _labels(model, data):
    truth = model.labels.csr(data.labels, unknown="skip")
    known = set(model.names)
    strange = Counter(x for row in data.labels for x in row if x not in known)
    has_curve = model.score_scale is not None
    totals, chosen = np.zeros((len(POINTS), 2)), [None] * len(data)
    for rows, logits in model.score_batches(data):
        own = np.asarray(logits > np.asarray(model.cut, "float32"))
        true = truth[rows].toarray() > 0
        for place, row in enumerate(rows):
            chosen[row] = np.flatnonzero(own[place])
        if has_curve:
            above = np.sort(model.probabilities(logits), axis=None)
            hits = np.sort(model.probabilities(logits)[true])
            totals[:, 0] += len(hits) - np.searchsorted(hits, POINTS, side="right")
            totals[:, 1] += len(above) - np.searchsorted(above, POINTS, side="right")
    lengths = [len(row) for row in chosen]
    columns = np.concatenate([*chosen, np.zeros(0, int)]).astype(int)
    pointers = np.concatenate([[0], np.cumsum(lengths)])
    answer = scipy.sparse.csr_array(
        (np.ones(len(columns), "float32"), columns, pointers), truth.shape
    )
    counts = TextCounts.of_labels(truth, answer)
    sums = [
        np.asarray(part.sum(axis=0)).ravel()
        for part in (counts.correct, counts.predicted, counts.actual)
    ]
    names, actual = model.names, truth.sum()
    gold = [list(row) for row in data.labels]
    found = [[names[i] for i in row] for row in chosen]
    confused = Counter(
        (missed, said)
        for row, tags in _zip(gold, found)
        if len(set(tags) - set(row)) < 20
        for said in set(tags) - set(row)
        for missed in set(row) - set(tags)
    )
    return {
        "scores": _scores(counts),
        "classes": _class_rows(_named_scores(names, sums)),
        "curve": [
            [float(threshold), *_point(*total, actual)]
            for threshold, total in zip(POINTS, totals, strict=True)
            if has_curve
        ],
        "chosen": _point(*(part.sum() for part in sums)),
        "confused": [[*pair, n] for pair, n in confused.most_common(MOST_CONFUSED)],
        "errors": _worst(data.texts, gold, found),
        "unknown_labels": strange.most_common(MOST_CONFUSED),
    }


def _named_scores(names, sums):
    columns = [column.astype(int).tolist() for column in sums]
    return [Score(*row) for row in zip(names, *columns, strict=True)]


def _worst(texts, gold, found):
    """The texts with the most that is wrong."""
    wrong = [
        (len(set(map(_key, a)) ^ set(map(_key, b))), row)
        for row, (a, b) in enumerate(_zip(gold, found))
    ]
    worst = sorted((-count, row) for count, row in wrong if count)[:MOST_ERRORS]
    return [
        {
            "text": texts[row],
            "gold": [_plain(x) for x in gold[row]],
            "found": [_plain(x) for x in found[row]],
        }
        for _, row in worst
    ]


def _key(answer):
    return answer if isinstance(answer, str) else tuple(answer)


def _plain(answer):
    return answer if isinstance(answer, str) else list(answer)
