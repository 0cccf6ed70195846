"""How sure a score is: bootstrap over texts."""

import dataclasses

import numpy as np
import scipy.sparse

from bat_tf._internal.validation import check_choice, check_number, sentence

DRAWS = 1000
_BLOCK = 100  # draws at a time: bounds the memory of many texts or labels


def draws(num_texts, count=DRAWS, seed=0):
    """How often each text is drawn, in blocks [b, N] of so many draws together.

    Two models that are scored on the same texts are drawn alike: their scores differ
    by what the models do, and not by which texts are in a draw.
    """
    random, even = np.random.default_rng(seed), np.full(num_texts, 1 / num_texts)
    for first in range(0, count, _BLOCK):
        size = min(_BLOCK, count - first)
        yield random.multinomial(num_texts, even, size=size).astype("float32")


def interval(values, level=0.95):
    """The middle part of drawn values, as (low, high).

    >>> low, high = interval(range(101), level=0.9)
    >>> round(low), round(high)
    (5, 95)
    """
    check_number("level", level, 0, 1)
    return tuple(np.quantile(list(values), [(1 - level) / 2, (1 + level) / 2]).tolist())


@dataclasses.dataclass(frozen=True)
class TextCounts:
    """What a model got right, text by text: F scores, and how sure they are.

    Args:
        correct: sparse [N, L]: of each text, how many answers of each label or kind are
            right.
        predicted: how many there are.
        actual: how many there should be.

    Example:
        >>> gold = [[(0, 4, "brand")], [(2, 5, "product")]]
        >>> found = [[(0, 4, "brand")], [(2, 6, "product")]]
        >>> counts = TextCounts.of_spans(gold, found)
        >>> counts.f1(), counts.interval()
        (0.5, (0.0, 1.0))
    """

    correct: scipy.sparse.csr_array
    predicted: scipy.sparse.csr_array
    actual: scipy.sparse.csr_array

    @classmethod
    def of_spans(cls, gold, found):
        """Counts exact spans (start, end, kind, …).

        Args:
            gold: for each text, the spans it has.
            found: for each text, the spans that a model marked.
        """
        gold, found = (
            [{tuple(s[:3]) for s in row} for row in x] for x in (gold, found)
        )
        if len(gold) != len(found):
            raise ValueError(sentence("found", f"{len(gold)} rows", len(found)))
        both = [a & b for a, b in zip(gold, found, strict=True)]
        kinds = sorted(
            {span[2] for rows in (gold, found) for row in rows for span in row}
        )
        column = {kind: index for index, kind in enumerate(kinds)}

        def counted(rows):
            matrix = scipy.sparse.lil_array((len(rows), max(1, len(kinds))))
            for number, row in enumerate(rows):
                for span in row:
                    matrix[number, column[span[2]]] += 1
            return matrix.tocsr()

        return cls(*(counted(rows) for rows in (both, found, gold)))

    @classmethod
    def of_labels(cls, true, chosen):
        """Counts labels.

        Args:
            true: [N, L], 1 where a text has a label; dense or sparse.
            chosen: [N, L], 1 where a model chose one.
        """
        true, chosen = (
            scipy.sparse.csr_array(x, dtype="float32") for x in (true, chosen)
        )
        return cls(true.multiply(chosen).tocsr(), chosen, true)

    def f1(self, average="micro"):
        """The score on these texts."""
        return float(
            self._f1(np.ones((1, self.actual.shape[0]), "float32"), average)[0]
        )

    def drawn(self, average="micro", count=DRAWS, seed=0):
        """The scores of texts drawn with replacement."""
        blocks = draws(self.actual.shape[0], count, seed)
        return np.concatenate([self._f1(times, average) for times in blocks])

    def interval(self, average="micro", level=0.95):
        """Where the score would be for 95 % of such sets of texts: (low, high)."""
        return interval(self.drawn(average), level)

    def difference(self, other, average="micro", level=0.95):
        """How much better this model is than another on the same texts.

        Returns:
            (difference, low, high).
        """
        apart = self.drawn(average) - other.drawn(average)
        return self.f1(average) - other.f1(average), *interval(apart, level)

    def _f1(self, times, average):
        check_choice("average", average, ("micro", "macro"))
        parts = (self.correct, self.predicted, self.actual)
        if average == "micro":
            parts = [np.asarray(part.sum(axis=1)) for part in parts]
            correct, predicted, actual = (times @ part for part in parts)
        else:
            correct, predicted, actual = (times @ part for part in parts)
        total = predicted + actual
        f1 = np.divide(2 * correct, total, out=np.zeros_like(total), where=total > 0)
        return f1 if average == "micro" else f1.mean(axis=1)
