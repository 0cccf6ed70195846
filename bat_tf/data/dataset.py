"""Texts with what people said about them: spans inside a text, or labels on it."""

import json
import random
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Integral
from typing import NamedTuple

import scipy.sparse

from bat_tf._internal.files import atomic_write
from bat_tf._internal.validation import (
    check_name,
    check_number,
    check_text,
    sentence,
    shown,
)

# The parts that a named set comes in.
SPLITS = ("train", "valid", "test")


class Span(NamedTuple):
    """A stretch of a text: `text[start:end]` is of some kind.

    Args:
        start: its first character, counted from 0.
        end: the character after its last one.
        kind: what it is, such as "brand".

    Example:
        >>> span = Span(0, 5, "brand")
        >>> "Canon EOS"[span.start : span.end]
        'Canon'
    """

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Example:
    """One text with its spans or its labels, checked.

    Args:
        text: the text.
        spans: (start, end, kind) of each marked stretch, in any order, none overlapping
            another; `()` if there are none. Kept sorted.
        labels: names of the document's labels; `()` if it has none.
        id: where the text comes from, for people.
        line: on which it begins in its file; two examples may be equal all the same.

    Raises:
        ValueError: if neither or both of `spans` and `labels` are given, or if they do
            not fit the text.

    Example:
        >>> example = Example("Canon EOS camera", spans=[(10, 16, "product")])
        >>> example.spans
        (Span(start=10, end=16, kind='product'),)
    """

    text: str
    spans: tuple[Span, ...] | None = None
    labels: tuple[str, ...] | None = None
    id: str | None = None
    line: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self):
        check_text(self.text)
        if (self.spans is None) == (self.labels is None):
            both = "neither" if self.spans is None else "both"
            raise ValueError(
                f"an example has either spans or labels; this one has {both}. "
                'Where there are none, write "spans": [] or "labels": [].'
            )
        if self.spans is not None:
            vars(self)["spans"] = check_spans(self.text, self.spans)
        else:
            labels = _as_list("labels", self.labels)
            for name in labels:
                check_name(name)
            vars(self)["labels"] = tuple(dict.fromkeys(labels))


def _as_list(argument, values):
    if not isinstance(values, list | tuple):
        raise ValueError(f"{argument} must be a list. Received: {shown(values)}.")
    return values


def as_span(value):
    """Returns a (start, end, kind) sequence as a Span, or says why it is none.

    Args:
        value: a list or tuple of two whole numbers and a name.

    Returns:
        A `Span`.

    Example:
        >>> as_span([0, 5, "brand"])
        Span(start=0, end=5, kind='brand')
    """
    if not isinstance(value, list | tuple) or len(value) != 3:
        raise ValueError(
            f'a span must be [start, end, "kind"]. Received: {shown(value)}.'
        )
    start, end, kind = value
    if not (type(start) is type(end) is int) and any(
        isinstance(n, bool) or not isinstance(n, Integral) for n in (start, end)
    ):
        raise ValueError(
            f"start and end of a span must be whole numbers. Received: {shown(value)}."
        )
    return Span(int(start), int(end), check_name(kind, "the kind of a span"))


def check_spans(text, spans):
    """Spans of a text as a sorted tuple of `Span`s, or a sentence about a wrong one."""
    spans, previous = tuple(sorted(map(as_span, _as_list("spans", spans)))), None
    for span in spans:
        if span.start >= span.end:
            raise ValueError(f"span {tuple(span)} ends before it has begun.")
        if span.start < 0 or span.end > len(text):
            raise ValueError(
                f"span {tuple(span)} is outside the text, which has {len(text)} "
                "characters. Spans count characters, not bytes or words."
            )
        if previous and span.start < previous.end:
            raise ValueError(
                f"spans {tuple(previous)} and {tuple(span)} overlap. Keep one of them, "
                'or let the reader do so with overlaps="longest".'
            )
        previous = span
    return spans


def csr_rows(matrix, names):
    """Yields the names of the columns that each row of a sparse matrix has.

    Args:
        matrix: a SciPy sparse matrix [N, L].
        names: the names of its L columns.

    Yields:
        A list of names for each row.

    Example:
        >>> import scipy.sparse
        >>> list(csr_rows(scipy.sparse.csr_matrix([[0, 1], [0, 0]]), ["a", "b"]))
        [['b'], []]
    """
    matrix = matrix.tocsr()
    ends, columns = matrix.indptr.tolist(), matrix.indices
    for first, last in pairwise(ends):
        present = columns[first:last][matrix.data[first:last] != 0]
        yield [names[column] for column in present.tolist()]


def longest_spans(spans):
    """Leaves out spans until none overlaps: the longer one stays, then the earlier one.

    Args:
        spans: `Span`s in any order.

    Returns:
        (kept, dropped): two lists of `Span`s.

    Example:
        >>> kept, dropped = longest_spans([Span(0, 4, "a"), Span(2, 9, "b")])
        >>> kept
        [Span(start=2, end=9, kind='b')]
    """
    kept, dropped = [], []
    for span in sorted(spans, key=lambda span: (span.start - span.end, span)):
        place = bisect(kept, span)
        clear_left = place == 0 or kept[place - 1].end <= span.start
        clear_right = place == len(kept) or span.end <= kept[place].start
        if clear_left and clear_right:
            kept.insert(place, span)
        else:
            dropped.append(span)
    return kept, dropped


class TextDataset(Sequence):
    """Texts with spans, or texts with labels: a sequence of `Example`s.

    Args:
        examples: iterable of `Example`s, all with spans or all with labels.
        name: what to call it in reports.
        skipped: `DataError`s that say what was left out when it was read.
        notices: sentences about what was read otherwise than it is written.
        found: what was found out about its file, see `bat_tf.data.describe`.

    Attributes:
        task: "spans" or "labels"; None while it is empty.

    Example:
        >>> example = Example("red shoes", spans=[(4, 9, "product")])
        >>> data = TextDataset([example], name="shop")
        >>> data
        <TextDataset 'shop': 1 example, 1 span (product 1)>
        >>> data.kinds
        ['product']
    """

    def __init__(self, examples, name="", skipped=(), notices=(), found=None):
        self._examples = tuple(examples)
        self.name, self.skipped = name, list(skipped)
        self.notices, self.found = list(notices), dict(found or {})
        tasks = {}
        for position, example in enumerate(self._examples):
            if not isinstance(example, Example):
                raise TypeError(sentence("examples", "Example objects", example))
            tasks.setdefault("labels" if example.spans is None else "spans", position)
        if len(tasks) > 1:
            raise ValueError(
                "`examples` must all have spans or all have labels. Received: spans "
                f"at {tasks['spans']}, labels at {tasks['labels']}. Keep two data sets."
            )
        self.task = next(iter(tasks), None)

    @classmethod
    def from_csr(cls, texts, labels, names, name=""):
        """Makes a set of texts whose labels are a sparse matrix; nothing gets dense.

        Args:
            texts: the texts.
            labels: a SciPy sparse matrix [N, L]; a text has the labels whose entries
                are not 0.
            names: the L names, or a `LabelSpace`.
            name: what to call the set in reports.

        Returns:
            A `TextDataset`. `LabelSpace.csr` turns its `labels` into a matrix again.

        Example:
            >>> import scipy.sparse
            >>> labels = scipy.sparse.csr_matrix([[0, 1], [0, 0]])
            >>> TextDataset.from_csr(["a goal", "rain"], labels, ["news", "sport"])
            <TextDataset: 2 examples, 1 label (sport 1)>
        """
        texts, names = list(texts), getattr(names, "names", names)
        names = tuple(names)
        if not scipy.sparse.issparse(labels):
            remedy = "scipy.sparse.csr_matrix(array) makes one of an array."
            kind = type(labels).__name__
            raise TypeError(sentence("labels", "a SciPy sparse matrix", kind, remedy))
        if labels.shape != (len(texts), len(names)):
            shape = f"of shape {(len(texts), len(names))}: texts, names"
            raise ValueError(sentence("labels", shape, labels.shape))
        if len(set(names)) < len(names):
            twice = [name for name, n in Counter(names).most_common(3) if n > 1]
            raise ValueError(sentence("names", "all different", twice))
        rows = zip(texts, csr_rows(labels, names), strict=True)
        return cls((Example(text, labels=row) for text, row in rows), name)

    @classmethod
    def of_labels(cls, labels, name="labels"):
        """Makes a set of the labels themselves: what each is called has that label.

        Beside training texts, it tells a model of labels that few texts have.

        Args:
            labels: a `LabelSpace`; its `texts` are taken.
            name: what to call the set in reports.

        Example:
            >>> from bat_tf.data import LabelSpace
            >>> labels = LabelSpace(["bop"], texts={"bop": "Balance of Payments"})
            >>> TextDataset.of_labels(labels)[0].text
            'Balance of Payments'
        """
        pairs = zip(labels.texts, labels.names, strict=True)
        return cls((Example(text, labels=[label]) for text, label in pairs), name)

    def __len__(self):
        return len(self._examples)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return TextDataset(self._examples[index], self.name, found=self.found)
        return self._examples[index]

    def __add__(self, other):
        if not isinstance(other, TextDataset):
            return NotImplemented
        name = " + ".join(name for name in (self.name, other.name) if name)
        skipped, notices = self.skipped + other.skipped, self.notices + other.notices
        return TextDataset((*self, *other), name, skipped, notices)

    @property
    def texts(self):
        """The texts, in order."""
        return [example.text for example in self]

    @property
    def spans(self):
        """The spans of each text, in order."""
        return [example.spans or () for example in self]

    @property
    def labels(self):
        """The labels of each text, in order; `LabelSpace.fit` takes them."""
        return [example.labels or () for example in self]

    @property
    def kinds(self):
        """The kinds of spans that occur, sorted; none in a set with labels."""
        return sorted({span.kind for spans in self.spans for span in spans})

    def take(self, count):
        """Returns the first `count` examples."""
        return self[: check_number("count", count, low=0, integer=True)]

    def keep_labels(self, names):
        """Returns the examples with those of their labels that are among `names`.

        An example that is left without labels stays: it is one that has none of them.

        Args:
            names: a `LabelSpace`, such as one fitted with `min_count`, or names.

        Example:
            >>> data = TextDataset([Example("a goal", labels=["sport", "derby"])])
            >>> data.keep_labels(["sport"]).labels
            [('sport',)]
        """
        if isinstance(names, str):
            raise TypeError(sentence("names", "a list of names", names))
        names = frozenset(getattr(names, "names", names))

        def keep(example):
            kept = [label for label in example.labels or () if label in names]
            if example.labels is None or len(kept) == len(example.labels):
                return example
            return replace(example, labels=kept)

        kept = map(keep, self)
        return TextDataset(kept, self.name, self.skipped, found=self.found)

    def split(self, fraction, seed):
        """Sets a part aside, chosen at random, the same one for the same seed.

        Texts that occur again stay together, so that no part knows the other's texts.

        Args:
            fraction: the share to set aside, between 0 and 1.
            seed: a whole number.

        Returns:
            (rest, held_out): two data sets in the order of this one, neither empty.

        Example:
            >>> data = TextDataset(Example(word, labels=[]) for word in "abcdefghij")
            >>> [len(part) for part in data.split(0.2, seed=1)]
            [8, 2]
        """
        check_number("fraction", fraction, low=0, high=1)
        if len(self) < 2:
            raise ValueError(f"cannot split {self!r}: it needs two examples at least.")
        size = min(max(round(fraction * len(self)), 1), len(self) - 1)
        held = set(random.Random(seed).sample(range(len(self)), size))
        again = {self[index].text for index in held}
        apart = [example.text in again for example in self]
        if all(apart):  # the same few texts over and over
            apart = [index in held for index in range(len(self))]
        parts = ([], [])
        for example, is_held in zip(self, apart, strict=True):
            parts[is_held].append(example)
        return tuple(TextDataset(part, self.name, found=self.found) for part in parts)

    def save(self, path):
        """Writes the examples as JSONL, packed if its name says so, for `read`.

        The file appears when it is complete; until then an older one stays as it was.

        Args:
            path: the file, such as "train.jsonl".

        Example:
            >>> import tempfile
            >>> data = TextDataset([Example("red shoes", spans=[(4, 9, "product")])])
            >>> data.save(tempfile.mkdtemp() + "/train.jsonl")
        """
        with atomic_write(path) as file:
            for example in self:
                row = {"text": example.text, self.task: getattr(example, self.task)}
                if example.id is not None:
                    row["id"] = example.id
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def counts(self):
        """Returns how often each kind of span, or each label, occurs (a Counter)."""
        if self.task == "labels":
            return Counter(label for labels in self.labels for label in labels)
        return Counter(span.kind for spans in self.spans for span in spans)

    def summary(self):
        """Returns a few lines about the set: how much, how long, which kinds.

        Example:
            >>> data = TextDataset([Example("red shoes", spans=[(4, 9, "product")])])
            >>> print(data.summary())
            TextDataset
              1 example, 9.0 characters on average, 9 at most
              1 span: product 1
        """
        lengths = [len(text) for text in self.texts]
        mean = sum(lengths) / max(len(lengths), 1)
        lines = [
            self.name or "TextDataset",
            f"{_plural(len(self), 'example')}, {mean:.1f} characters on average, "
            f"{max(lengths, default=0):,} at most",
            f"{self._total()}: {self._most_common(10)}",
        ]
        if self.skipped:
            lines.append(f"{len(self.skipped):,} left out, first: {self.skipped[0]}")
        lines += self.notices
        return "\n  ".join(lines)

    def __repr__(self):
        name = f" {self.name!r}" if self.name else ""
        size = _plural(len(self), "example")
        return f"<TextDataset{name}: {size}, {self._total()} ({self._most_common(5)})>"

    def _total(self):
        noun = "label" if self.task == "labels" else "span"
        return _plural(self.counts().total(), noun)

    def _most_common(self, limit):
        counts = self.counts()
        shown = [f"{name} {count:,}" for name, count in counts.most_common(limit)]
        more = [f"{len(counts) - limit:,} more"] * (len(counts) > limit)
        return ", ".join(shown + more) or "none"


def _plural(count, noun):
    return f"{count:,} {noun}{'s' * (count != 1)}"
