"""LabelSpace: the names of the labels, their order and how often each occurs."""

import difflib
import json
from collections import Counter
from collections.abc import Mapping

import keras
import numpy as np
import scipy.sparse

from bat_tf._internal.files import atomic_write
from bat_tf._internal.targets import id_width, middle_ratio
from bat_tf._internal.validation import check_choice, check_name, check_number, sentence

# What JSON that holds something else than a space leads to.
_BROKEN = (ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelSpace:
    """The labels of a task: names, ids in a fixed order, and training counts.

    A label's id is its place in `names`. `fit` sorts the names, so the same labels get
    the same ids whatever order the data come in; the constructor keeps the order given,
    for ids that were fixed elsewhere.

    Args:
        names: the label names, none twice.
        counts: how many training examples carry each label, in the order of `names`.
        num_examples: the number of training examples.
        texts: what labels mean, in words, if their names are codes: a mapping from
            names to texts, for all labels or some. Models that begin with what labels
            are called read these instead of the names.
        rebalance_mu: the constant μ of the losses that re-balance labels, see
            `bat_tf.losses.find_mu`.

    Attributes:
        names: tuple of strings.
        texts: tuple of strings aligned with `names`; the name where no text was given.
        counts: int64 array aligned with `names`, or None.
        num_examples: int, or None.
        rebalance_mu: float, or None.

    Example:
        >>> space = LabelSpace.fit([["sport"], ["news", "sport"], []])
        >>> space.names, space.counts.tolist(), space.num_examples
        (('news', 'sport'), [1, 2], 3)
        >>> round(space.rebalance_mu, 4)
        0.6667
        >>> LabelSpace(["bop", "tea"], texts={"bop": "Balance of Payments"}).texts
        ('Balance of Payments', 'tea')
        >>> space.ids(["sport", "news"])
        [1, 0]
    """

    def __init__(
        self, names, counts=None, num_examples=None, texts=None, rebalance_mu=None
    ):
        self.names = tuple(map(check_name, _as_names("names", names)))
        self.texts = self._texts(texts or {})
        self.counts = counts
        self.num_examples = num_examples
        self.rebalance_mu = rebalance_mu
        self._ids = {name: index for index, name in enumerate(self.names)}
        if len(self._ids) < len(self.names):
            twice = sorted(name for name, n in Counter(self.names).items() if n > 1)
            raise ValueError(
                f"`names` must all be different. Received more than once: {twice}."
            )
        if num_examples is not None:
            check_number("num_examples", num_examples, low=0, integer=True)
        if counts is not None:
            self.counts = np.asarray(counts, dtype="int64")
            if self.counts.shape != (len(self.names),) or (self.counts < 0).any():
                expected = f"{len(self.names)} counts >= 0, one for each of `names`"
                remedy = "`LabelSpace.fit(labels)` counts them for you."
                raise ValueError(sentence("counts", expected, counts, remedy))

    @classmethod
    def fit(cls, labels, names=None, *, min_count=0, texts=None):
        """Collects the labels of a data set, sorted by name, and counts them.

        Args:
            labels: an iterable with one iterable of names per example; a name that an
                example repeats counts once.
            names: all names, if some may not occur in `labels`; they get the count 0.
            min_count: leaves out the names that fewer examples carry.
            texts: see the class; those of other labels are passed over.

        Returns:
            A `LabelSpace`.

        Example:
            >>> space = LabelSpace.fit([["sport"]], names=["news", "sport"])
            >>> space.counts.tolist()
            [0, 1]
            >>> LabelSpace.fit([["sport"], ["sport", "art"]], min_count=2).names
            ('sport',)
        """
        check_number("min_count", min_count, low=0, integer=True)
        rows = [tuple(set(_as_names("labels", row))) for row in labels]
        counts = Counter(name for row in rows for name in row)
        space = cls(sorted(counts) if names is None else sorted(names))
        space.ids(counts)  # a label that is not in `names` is an error
        kept = [name for name in space.names if counts[name] >= min_count]
        return cls(kept, texts=texts).counted(rows)

    def counted(self, labels):
        """Returns the same labels, with what a data set says of them: counts and μ.

        Args:
            labels: an iterable with one iterable of names per example; others than
                those of the space are passed over. Counts that the space has stay.

        Example:
            >>> LabelSpace(["sport", "news"]).counted([["sport"], ["art"]]).counts
            array([1, 0])
        """
        labels = list(labels)
        found = self.csr(labels, unknown="skip")
        counts, rows = self.counts, self.num_examples
        if counts is None:
            counts, rows = np.bincount(found.indices, minlength=len(self)), len(labels)
        mu = middle_ratio(*found.nonzero(), counts) if found.nnz else None
        texts = dict(zip(self.names, self.texts, strict=True))
        return type(self)(self.names, counts, rows, texts, mu)

    def _texts(self, texts):
        known = isinstance(texts, Mapping) and set(texts) & set(self.names)
        if not known and texts:
            expected = "a mapping from names of labels to what they mean"
            raise ValueError(sentence("texts", expected, texts))
        found = tuple(texts.get(name, name) for name in self.names)
        return _as_names("texts", found)

    def __len__(self):
        return len(self.names)

    def __contains__(self, name):
        return name in self._ids

    def __eq__(self, other):
        same = isinstance(other, LabelSpace)
        return same and self.get_config() == other.get_config()

    __hash__ = None

    def __repr__(self):
        shown = ", ".join(self.names[:5]) + ", …" * (len(self) > 5)
        return f"<LabelSpace of {len(self)}: {shown}>"

    @property
    def facts(self):
        """What metrics want to know of the labels.

        Example:
            >>> sorted(LabelSpace.fit([["sport"]]).facts.items())
            [('label_counts', [1]), ('num_examples', 1), ('num_labels', 1)]
        """
        return {
            "num_labels": len(self),
            "label_counts": None if self.counts is None else self.counts.tolist(),
            "num_examples": self.num_examples,
        }

    def id_of(self, name):
        """Returns the id of a label.

        Args:
            name: a label name.

        Returns:
            An int, the place of `name` in `names`.

        Raises:
            ValueError: if there is no such label; the sentence names similar ones.

        Example:
            >>> LabelSpace(["news", "sport"]).id_of("sport")
            1
        """
        if name in self._ids:
            return self._ids[name]
        close = difflib.get_close_matches(str(name), self.names, n=3)
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ValueError(
            f"There is no label {name!r} among the {len(self)} known ones.{hint} "
            "Correct the data, or make a new LabelSpace of all of it and train again."
        )

    def ids(self, names):
        """Returns the ids of several labels, in the order given.

        Example:
            >>> LabelSpace(["news", "sport"]).ids(["sport", "news"])
            [1, 0]
        """
        return [self.id_of(name) for name in names]

    def groups(self, boundaries):
        """Returns the ids of frequent, middling and rare labels by training count.

        Args:
            boundaries: two numbers (low, high): at most `low` training examples is the
                tail, at least `high` is the head. S1 has (8, 35) for Reuters and
                (15, 50) for PubMed.

        Returns:
            A dict of "head", "medium" and "tail" to int64 arrays of ids.

        Example:
            >>> space = LabelSpace(["a", "b", "c"], counts=[40, 8, 9])
            >>> {name: ids.tolist() for name, ids in space.groups((8, 35)).items()}
            {'head': [0], 'medium': [2], 'tail': [1]}
        """
        if self.counts is None:
            raise ValueError(
                "groups need the training counts, which this LabelSpace does not have. "
                "`LabelSpace.fit(labels)` counts them for you."
            )
        return label_groups(self.counts, boundaries)

    def csr(self, rows, *, unknown="error"):
        """Returns which example has which label, as a SciPy CSR matrix.

        Args:
            rows: an iterable with one iterable of names per example.
            unknown: what to do with a name that is no label: "error", or "skip" to
                leave it out.

        Returns:
            A float32 matrix [N, L] of zeros and ones, ids sorted in every row.

        Example:
            >>> LabelSpace(["news", "sport"]).csr([["sport"], []]).toarray()
            array([[0., 1.],
                   [0., 0.]], dtype=float32)
        """
        rows = self._id_rows(rows, unknown)
        ends = np.cumsum([0, *map(len, rows)])
        ids = np.fromiter((label for row in rows for label in row), "int32", ends[-1])
        ones = np.ones(len(ids), "float32")
        return scipy.sparse.csr_matrix((ones, ids, ends), (len(rows), len(self)))

    def unknown(self, rows):
        """The names in rows that are no label, and how often each occurs.

        >>> LabelSpace(["a"]).unknown([["a", "b"], ["b"]])
        {'b': 2}
        """
        counts = Counter(name for row in rows for name in row if name not in self)
        return dict(counts.most_common())

    def multi_hot(self, rows, *, unknown="error"):
        """Returns which example has which label, as a dense array; see `csr`.

        Example:
            >>> LabelSpace(["news", "sport"]).multi_hot([["sport"]])
            array([[0., 1.]], dtype=float32)
        """
        return self.csr(rows, unknown=unknown).toarray()

    def padded_ids(self, rows, *, unknown="error"):
        """Returns the label ids of each example, -1 where a row has no more; see `csr`.

        The last column is always -1, and there are never as many columns as labels: no
        loss or metric takes the ids for a multi-hot.

        Returns:
            An int32 array [N, P]. P is above the most labels of a row.

        Example:
            >>> LabelSpace(["news", "sport"]).padded_ids([["sport", "news"], []])
            array([[ 0,  1, -1],
                   [-1, -1, -1]], dtype=int32)
        """
        rows = self._id_rows(rows, unknown)
        width = id_width(max([0, *map(len, rows)]), len(self))
        padded = np.full((len(rows), width), -1, "int32")
        for place, row in enumerate(rows):
            padded[place, : len(row)] = row
        return padded

    def _id_rows(self, rows, unknown):
        """The ids of each row, sorted, none twice."""
        check_choice("unknown", unknown, ("error", "skip"))
        found = []
        for row in rows:
            names = _as_names("rows", row)
            if unknown == "skip":
                names = [name for name in names if name in self]
            found.append(sorted(set(self.ids(names))))
        return found

    def save(self, path):
        """Writes the space as JSON; an older file stays until the new one is whole.

        Args:
            path: the file, such as "labels.json".

        Example:
            >>> import tempfile
            >>> path = tempfile.mkdtemp() + "/labels.json"
            >>> LabelSpace(["news", "sport"]).save(path)
            >>> LabelSpace.load(path).names
            ('news', 'sport')
        """
        with atomic_write(path) as file:
            json.dump(self.get_config(), file, ensure_ascii=False, indent=1)

    @classmethod
    def load(cls, path):
        """Reads a space that `save` wrote.

        Args:
            path: the file.

        Returns:
            A `LabelSpace`.
        """
        try:
            with open(path, encoding="utf-8") as file:
                return cls.from_config(json.load(file))
        except _BROKEN as error:
            raise ValueError(
                f"{path} does not hold a LabelSpace ({error}). "
                "Write it again with `LabelSpace.save`."
            ) from error

    def get_config(self):
        """Returns names, counts, num_examples and texts as plain JSON values."""
        config = {
            "names": list(self.names),
            "counts": None if self.counts is None else self.counts.tolist(),
            "num_examples": self.num_examples,
            "rebalance_mu": self.rebalance_mu,
        }
        if self.texts != self.names:
            config["texts"] = dict(zip(self.names, self.texts, strict=True))
        return config

    @classmethod
    def from_config(cls, config):
        """Makes a space from what `get_config` returned."""
        return cls(**config)


def label_groups(counts, boundaries):
    """Groups labels by training count; see `LabelSpace.groups`.

    Example:
        >>> {name: ids.tolist() for name, ids in label_groups([5, 9], (5, 9)).items()}
        {'head': [1], 'medium': [], 'tail': [0]}
    """
    try:
        low, high = boundaries
        ordered = low < high
    except (TypeError, ValueError):
        ordered = False
    if not ordered:
        expected = "two numbers (low, high) with low < high"
        raise ValueError(sentence("boundaries", expected, boundaries))
    counts = np.asarray(counts)
    head, tail = counts >= high, counts <= low
    members = {"head": head, "medium": ~(head | tail), "tail": tail}
    return {name: np.flatnonzero(those) for name, those in members.items()}


def unique_names(names, ids):
    """Returns names of labels such that none is blank and no two are the same.

    Args:
        names: a name for each label; some may be blank or the same.
        ids: something for each label that no other has.

    Returns:
        A list: the names, with the id behind those that several labels share, and the
        id alone where a name is blank.

    Example:
        >>> unique_names(["jazz", "rock", "jazz", ""], ["p1", "p2", "p3", "p4"])
        ['jazz (p1)', 'rock', 'jazz (p3)', 'p4']
    """
    times, found = Counter(names), []
    for name, identity in zip(names, ids, strict=True):
        if not name or times[name] > 1:
            name = f"{name} ({identity})" if name else str(identity)
            while name in times:
                name = f"{name} ({identity})"
        found.append(name)
    return found


def _as_names(argument, names):
    """Returns names as a tuple; a lone string would be taken for its letters."""
    names = names if isinstance(names, str) else tuple(names)
    if isinstance(names, str) or not all(isinstance(n, str) and n for n in names):
        remedy = 'Write ["news"], not "news".' if isinstance(names, str) else ""
        raise TypeError(sentence(argument, "a list of names", names, remedy))
    return names
