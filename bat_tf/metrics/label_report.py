"""LabelReport: how good the labels of documents are, for people and for files."""

import dataclasses
from pathlib import Path

import numpy as np
import scipy.sparse

from bat_tf._internal.numerics import row_blocks
from bat_tf._internal.targets import multi_hot
from bat_tf._internal.validation import (
    as_values,
    check_counts,
    import_optional,
    sentence,
)
from bat_tf.metrics.multilabel import SampleF1, SampleJaccard, SubsetAccuracy
from bat_tf.metrics.ranking import (
    LabelRankingAveragePrecision,
    LabelRankingLoss,
    TopK,
)
from bat_tf.metrics.report import Printed, Score, micro, plain, table

# Rows with more false labels tell nothing about which labels are taken for each other.
_MOST_FALSE = 100
RANKS = (1, 3, 5)  # how many of a document's best labels are looked at
_SHOWN_LABELS = 20


@dataclasses.dataclass(frozen=True)
class Group:
    """F scores over some labels or over some documents.

    Args:
        name: such as "tail" or "2 labels and more".
        size: how many labels or documents.
        micro_f1: F1 of the pooled counts.
        macro_f1: mean F1 of the labels.
    """

    name: str
    size: int
    micro_f1: float
    macro_f1: float


@dataclasses.dataclass(frozen=True)
class LabelReport(Printed):
    """Scores of a document classifier on one dataset.

    Args:
        data: name of the dataset.
        num_rows: how many documents it has.
        threshold: a number, one for each label, or None if none was applied.
        values: the headline numbers by name. Without a threshold only
            `average_precision` and `ranking_loss`.
        labels: a `Score` for each label.
        label_counts: training documents per label, or None.
        label_groups: a `Group` for head, medium and tail; empty without counts.
        row_groups: a `Group` for documents with few and with many labels.
        confused: the most confused pairs, as (chosen label, missed label, documents).

    Example:
        >>> from bat_tf.metrics import LabelReport
        >>> report = LabelReport.of_scores(
        ...     [[2.0, -1, 1], [-1, 3, -2]], [[0, 1], [1, -1]], ["a", "b", "c"]
        ... )
        >>> round(report.values["micro_f1"], 4), report.confused
        (0.6667, [('c', 'b', 1)])
    """

    data: str
    num_rows: int
    threshold: float | list | None
    values: dict
    labels: list
    label_counts: list | None
    label_groups: list
    row_groups: list
    confused: list

    @classmethod
    def of_scores(cls, scores, labels, space=None, threshold=0.0, **settings):
        """Compares scores with labels.

        Args:
            scores: `[N, L]`.
            labels: N rows in any shape: a multi-hot `[N, L]`, ids (integers of another
                width, -1 where empty), ragged, or SciPy sparse.
            space: the `LabelSpace`, or a list of names; numbers by default.
            threshold: in the space of the scores; a number, `[L]` numbers,
                `Thresholds`, or None for losses that only rank.
            **settings: of `of_chunks`.

        Returns:
            A `LabelReport`.
        """
        chunks = [(scores, labels)]
        return cls.of_chunks(chunks, space, threshold, **settings)

    @classmethod
    def of_chunks(
        cls,
        chunks,
        space=None,
        threshold=0.0,
        *,
        label_counts=None,
        label_bounds=(8, 35),
        row_bounds=(1,),
        zero_division=0.0,
        num_confused=10,
        metrics=None,
        targets=None,
        unknown=None,
        data="data",
    ):
        """Compares scores with labels chunk by chunk; only one is in memory at a time.

        Args:
            chunks: iterable of (scores, labels), each as in `of_scores`.
            space: as in `of_scores`.
            threshold: as in `of_scores`.
            label_counts: training documents per label; by default those of `space`.
            label_bounds: the tail is labels with up to the first number of training
                documents, the head those with the second number or more. (8, 35) are
                the paper's for Reuters, (15, 50) for PubMed.
            row_bounds: where groups of documents end, by their number of labels: (1,)
                makes one label, and two and more; (9, 14) makes the paper's groups for
                PubMed. Documents without labels are a group of their own.
            zero_division: F1 of a label that neither occurs nor is chosen, in the macro
                means: 0, or 1 for ZLPR's tables.
            num_confused: how many confused pairs to keep; 0 does not look for them.
            metrics: more metrics of scores, a dict of names and Keras metrics; their
                results are among the `values`.
            targets: `"ids"` or `"multi_hot"` says what labels are; with None their
                shape does.
            unknown: labels that documents have and no column stands for, a dict of
                names and how many documents: each of them was missed, which counts in
                the F scores. Ranks do not know them.
            data: name of the dataset.

        Returns:
            A `LabelReport`.
        """
        if label_counts is None:
            label_counts = getattr(space, "counts", None)
        names = None if space is None else [*getattr(space, "names", space)]
        counter = None
        for scores, labels in chunks:
            if counter is None:
                width = np.shape(scores)[-1] if names is None else len(names)
                counter = _Counter(width, threshold, row_bounds, num_confused)
                counter.means |= metrics or {}
                counter.targets = targets
            counter.add(scores, labels)
        if counter is None or not counter.num_rows:
            raise ValueError("There are no documents to report on: no scores came.")
        names = [str(i) for i in range(counter.width)] if names is None else names
        counts = label_counts
        if counts is not None:
            counts = check_counts("label_counts", counts, counter.width)
        decided = threshold is not None
        scores = _label_scores(names, counter.by_label(), range(counter.width))
        if unknown:
            scores += [Score(name, 0, 0, number) for name, number in unknown.items()]
            if counts is not None:
                counts = np.concatenate([counts, np.zeros(len(unknown), counts.dtype)])
        return cls(
            data=data,
            num_rows=counter.num_rows,
            threshold=as_values(threshold).tolist() if decided else None,
            values=counter.values(scores, zero_division),
            labels=scores if decided else [],
            label_counts=None if counts is None else counts.tolist(),
            label_groups=_label_groups(scores, counts, label_bounds, zero_division)
            if decided and counts is not None
            else [],
            row_groups=counter.row_groups(names, zero_division) if decided else [],
            confused=counter.confused(names),
        )

    def to_dict(self):
        """Everything, ready for JSON."""
        return dataclasses.asdict(self)

    def plot(self, path):
        """Draws the F1 of each label against its frequency, and writes the picture.

        Labels that these documents lack have no F1 to speak of, and are left out.

        Args:
            path: the file; its ending says which format.

        Returns:
            The path.
        """
        figure = import_optional("matplotlib.figure", "plots", "LabelReport.plot")
        if not self.labels:
            raise ValueError(
                "Without a threshold no labels are chosen, and there is no F1 to draw. "
                "Pass `threshold` to `LabelReport.of_scores`."
            )
        trained = self.label_counts is not None
        actual = np.array([score.actual for score in self.labels])
        x = np.array(self.label_counts) if trained else actual
        y = np.array([100 * score.f() for score in self.labels])
        x, y = x[actual > 0], y[actual > 0]
        picture = figure.Figure(figsize=(7, 4.2), layout="constrained")
        axes = picture.add_subplot()
        axes.scatter(x, y, s=16, alpha=0.5, linewidths=0, label="one label")
        middle, mean = _running_mean(x, y)
        axes.plot(middle, mean, color="black", label="mean of labels as frequent")
        # A logarithmic axis has no place for labels without documents.
        axes.set_xscale("symlog" if (x == 0).any() else "log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel(("training" if trained else "test") + " documents of the label")
        axes.set_ylabel("F1 (%)")
        axes.set_ylim(-3, 103)
        axes.set_title(f"{self.data}: F1 by label frequency", loc="left")
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(path, dpi=150)
        return Path(path)

    def __rich_console__(self, console, options):
        for kind, groups in (
            ("labels", self.label_groups),
            ("documents", self.row_groups),
        ):
            if groups:
                yield _group_table(f"{self.data}: groups of {kind}", kind, groups)
        if self.labels:
            yield self._label_table()
        if self.confused:
            yield _confused_table(f"{self.data}: taken for another", self.confused)
        values = [f"{n} {100 * value:.2f}" for n, value in self.values.items()]
        for start in range(0, len(values), 2):
            yield "  ".join(values[start : start + 2])

    def _label_table(self):
        counts = self.label_counts or [score.actual for score in self.labels]
        order = sorted(range(len(counts)), key=lambda i: (-counts[i], i))
        found = table(
            f"{self.data}: labels",
            *["label", "precision", "recall", "F1", "chosen", "true"],
            *["trained on"] * (self.label_counts is not None),
        )
        for index in order[:_SHOWN_LABELS]:
            score = self.labels[index]
            shares = (score.precision, score.recall, score.f())
            numbers = [score.predicted, score.actual]
            if self.label_counts is not None:
                numbers.append(self.label_counts[index])
            found.add_row(
                plain(score.name),
                *(f"{100 * share:.2f}" for share in shares),
                *(f"{number:,}" for number in numbers),
            )
        if len(order) > _SHOWN_LABELS:
            found.caption = (
                f"the {_SHOWN_LABELS} most frequent of {len(order):,}; "
                "all are in to_dict()"
            )
        return found


class _Counter:
    """What is kept of the chunks: counts by label and group of rows, and row means."""

    def __init__(self, width, threshold, row_bounds, num_confused):
        self.width, self.num_rows, self.targets = width, 0, None
        self.threshold = None if threshold is None else as_values(threshold)
        self.row_bounds = tuple(row_bounds)
        if list(self.row_bounds) != sorted({b for b in row_bounds if b >= 1}):
            expected = "numbers of labels from 1 on, in ascending order"
            raise ValueError(sentence("row_bounds", expected, row_bounds))
        self.num_confused = num_confused
        groups = len(self.row_bounds) + 2
        self.counts = np.zeros((groups, 3, width), "int64")
        self.group_sizes = np.zeros(groups, "int64")
        self.pairs = scipy.sparse.csr_array((width, width), dtype="int64")
        self.means = {
            "average_precision": LabelRankingAveragePrecision(),
            "ranking_loss": LabelRankingLoss(),
            **{f"precision_at_{k}": TopK(k) for k in RANKS},
        }
        if threshold is not None:
            cut = as_values(threshold, width)
            self.means = {
                "subset_accuracy": SubsetAccuracy(width, threshold=cut),
                "mlc_f1": SampleF1(width, threshold=cut),
                "jaccard": SampleJaccard(width, threshold=cut),
                **self.means,
            }

    def add(self, scores, labels):
        scores = np.asarray(scores)
        if scores.ndim != 2 or scores.shape[1] != self.width:
            expected = f"of shape [N, {self.width}], a column for each label"
            raise ValueError(sentence("scores", expected, scores.shape))
        if np.isnan(scores).any():
            expected = f"numbers, in rows {self.num_rows:,} and following"
            raise ValueError(sentence("scores", expected, "NaN"))
        true = np.asarray(multi_hot(labels, self.width, self.targets, "labels")) > 0.5
        if len(true) != len(scores):
            expected = f"as many rows as the scores, {len(scores)}"
            raise ValueError(sentence("labels", expected, len(true)))
        if not len(scores):
            return
        self.num_rows += len(scores)
        for rows in row_blocks(scores):
            for metric in self.means.values():
                metric.update_state(true[rows], scores[rows])
            if self.threshold is not None:
                chosen = scores[rows].astype("float32") > self.threshold.astype(
                    "float32"
                )
                self._count(true[rows], chosen)

    def _count(self, true, chosen):
        group = np.searchsorted([0, *self.row_bounds], true.sum(axis=1), side="left")
        for index in np.unique(group):
            rows = group == index
            both = true[rows] & chosen[rows]
            self.group_sizes[index] += rows.sum()
            for column, labels in enumerate((both, chosen[rows], true[rows])):
                self.counts[index, column] += labels.sum(axis=0)
        if self.num_confused:
            false = chosen & ~true
            rows = false.sum(axis=1) <= _MOST_FALSE
            false, missed = (
                scipy.sparse.csr_array(labels[rows], dtype="int64")
                for labels in (false, true & ~chosen)
            )
            self.pairs = self.pairs + false.T @ missed

    def by_label(self):
        return self.counts.sum(axis=0)

    def values(self, scores, zero_division):
        means = {name: float(metric.result()) for name, metric in self.means.items()}
        if self.threshold is None:
            return means
        total = _group("all", scores, zero_division)
        return {"micro_f1": total.micro_f1, "macro_f1": total.macro_f1, **means}

    def row_groups(self, names, zero_division):
        """Groups of documents; macro is over all labels in each, as in the paper."""
        starts = [0, *(bound + 1 for bound in (0, *self.row_bounds))]
        ends = [0, *self.row_bounds, None]
        groups = []
        for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if end == 0 and not self.group_sizes[index]:
                continue
            scores = _label_scores(names, self.counts[index], range(self.width))
            group = _group(_range_name(start, end), scores, zero_division)
            size = int(self.group_sizes[index])
            groups.append(dataclasses.replace(group, size=size))
        return groups

    def confused(self, names):
        pairs = self.pairs.tocoo()
        order = np.lexsort((pairs.col, pairs.row, -pairs.data))[: self.num_confused]
        return [
            (names[pairs.row[i]], names[pairs.col[i]], int(pairs.data[i]))
            for i in order
        ]


def _label_scores(names, counts, ids):
    counts = counts.tolist()
    return [Score(names[i], *(column[i] for column in counts)) for i in ids]


def _group(name, scores, zero_division):
    f1 = [s.f() if s.predicted or s.actual else zero_division for s in scores]
    macro = float(np.mean(f1)) if f1 else 0.0
    return Group(name, len(scores), micro(scores).f(), macro)


def _label_groups(scores, counts, bounds, zero_division):
    low, high = bounds
    if low >= high:
        expected = "two numbers, the largest tail count and the smallest head count"
        raise ValueError(sentence("label_bounds", expected, bounds))
    members = {
        f"head (≥ {high})": counts >= high,
        "medium": (low < counts) & (counts < high),
        f"tail (≤ {low})": counts <= low,
    }
    return [
        _group(name, [scores[i] for i in np.flatnonzero(which)], zero_division)
        for name, which in members.items()
    ]


def _range_name(start, end):
    if end == 0:
        return "no label"
    if end is None:
        return f"{start} labels and more"
    if start == end:
        return f"{start} label" + "s" * (start > 1)
    return f"{start} to {end} labels"


def _running_mean(x, y):
    """Mean of y where x is alike: over windows of neighbours in the order of x."""
    order = np.argsort(x, kind="stable")
    bins = np.array_split(order, max(1, min(10, len(x) // 5)))
    bins = [b for b in bins if len(b)]
    return [np.median(x[b]) for b in bins], [y[b].mean() for b in bins]


def _group_table(title, kind, groups):
    found = table(title, "group", kind, "micro F1", "macro F1")
    for group in groups:
        scores = (group.micro_f1, group.macro_f1)
        found.add_row(
            group.name, f"{group.size:,}", *(f"{100 * score:.2f}" for score in scores)
        )
    return found


def _confused_table(title, pairs):
    found = table(title, "chosen", "but it was", "documents")
    found.columns[1].justify = "left"
    for chosen, missed, count in pairs:
        found.add_row(plain(chosen), plain(missed), f"{count:,}")
    return found
