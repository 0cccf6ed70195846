"""TaggingReport: how good a tagger is, for people to read and for files to keep."""

import dataclasses

import keras
import numpy as np

from bat_tf.metrics.tagging import TokenFScore


@dataclasses.dataclass(frozen=True)
class Score:
    """Counts of one class or kind, and what follows from them."""

    name: str
    correct: int
    predicted: int
    actual: int

    @property
    def precision(self):
        """Share of the predicted that is right; 0 if nothing was predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self):
        """Share of the actual that was found; 0 if there is nothing to find."""
        return self.correct / self.actual if self.actual else 0.0

    def f(self, beta=1.0):
        """F_beta, 0 where it is not defined."""
        wanted = beta**2 * self.actual + self.predicted
        return (1 + beta**2) * self.correct / wanted if wanted else 0.0


def score_spans(actual, predicted):
    """Exact matches of (start, end, kind), by kind.

    Args:
        actual: for each text, the spans it has.
        predicted: for each text, the spans that were found.

    Returns:
        A list of `Score`, sorted by kind.

    >>> gold = [[(0, 4, "brand")], [(2, 5, "product")]]
    >>> found = [[(0, 4, "brand")], [(2, 6, "product")]]
    >>> [(score.name, score.f()) for score in score_spans(gold, found)]
    [('brand', 1.0), ('product', 0.0)]
    """
    counts = {}
    for gold_row, found_row in zip(actual, predicted, strict=True):
        gold, found = (
            {tuple(span[:3]) for span in row} for row in (gold_row, found_row)
        )
        for column, spans in enumerate((gold & found, found, gold)):
            for _, _, kind in spans:
                counts.setdefault(kind, [0, 0, 0])[column] += 1
    return [Score(kind, *counts[kind]) for kind in sorted(counts)]


def micro(scores, name="all"):
    """One score out of many: the counts added up."""
    totals = [
        sum(getattr(score, field) for score in scores)
        for field in ("correct", "predicted", "actual")
    ]
    return Score(name, *totals)


def macro(scores, beta=1.0):
    """Mean F_beta over scores."""
    return sum(score.f(beta) for score in scores) / len(scores) if scores else 0.0


class Printed:
    """Prints what it is for rich as plain text, too."""

    def __str__(self):
        from rich.console import Console

        console = Console(width=88, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get()


@dataclasses.dataclass(frozen=True)
class TaggingReport(Printed):
    """Scores of a tagger on one dataset.

    Args:
        data: name of the dataset.
        num_texts: how many texts it has.
        tokens: a `Score` for each tag class, over tokens; the first class is "no tag".
            Empty for a SavedModel.
        spans: a `Score` for each kind, over exact spans.
    """

    data: str
    num_texts: int
    tokens: list
    spans: list

    @classmethod
    def of(cls, model, dataset, batch_size=64):
        """Runs a tagger over a dataset and counts.

        A SavedModel answers with keywords alone: its report has no token scores.
        """
        tokens = [] if model.exported else _token_scores(model, dataset, batch_size)
        spans = score_spans(
            [example.spans for example in dataset], model.tag(dataset.texts)
        )
        return cls(dataset.name, len(dataset), tokens, spans)

    @property
    def values(self):
        """The headline numbers by name."""
        all_spans, keywords = micro(self.spans), self.tokens[1:]
        values = {
            "span_precision": all_spans.precision,
            "span_recall": all_spans.recall,
            "span_f1": all_spans.f(),
        }
        if self.tokens:
            values["token_macro_f1"] = macro(self.tokens)
            values["token_macro_f2"] = macro(self.tokens, 2)
            values["token_macro_f1_no_none"] = macro(keywords)
            values["token_macro_f2_no_none"] = macro(keywords, 2)
        return values

    def to_dict(self):
        """Everything, ready for JSON."""
        return {**dataclasses.asdict(self), "values": self.values}

    def __rich_console__(self, console, options):
        if self.tokens:
            yield _score_table(f"{self.data}: tokens", "class", self.tokens)
        kinds = [*self.spans, micro(self.spans)]
        yield _score_table(f"{self.data}: keywords", "kind", kinds)
        yield "  ".join(f"{n} {100 * value:.2f}" for n, value in self.values.items())


def _token_scores(model, dataset, batch_size):
    counter = TokenFScore(len(model.tags))
    for inputs, tags in model.batches(dataset, batch_size):
        counter.update_state(tags, model.scored(tags, model(inputs, training=False)))
    columns = [
        np.asarray(keras.ops.convert_to_numpy(column), int).tolist()
        for column in (counter.true_positives, counter.predicted, counter.actual)
    ]
    return [Score(*row) for row in zip(model.tags, *columns, strict=True)]


def _score_table(title, first, scores):
    columns = ("precision", "recall", "F1", "F2", "predicted", "true")
    found = table(title, first, *columns)
    for score in scores:
        shares = (score.precision, score.recall, score.f(), score.f(2))
        found.add_row(
            plain(score.name),
            *(f"{100 * share:.2f}" for share in shares),
            f"{score.predicted:,}",
            f"{score.actual:,}",
        )
    return found


def table(title, first, *columns):
    """An empty table for rich: names to the left, numbers to the right."""
    from rich.table import Table

    found = Table(title=plain(title), title_justify="left", caption_justify="left")
    found.add_column(first)
    for name in columns:
        found.add_column(name, justify="right")
    return found


def plain(text):
    """A name for rich, which would read [..] in it as markup."""
    from rich.markup import escape

    return escape(str(text))
