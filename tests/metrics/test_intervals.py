"""Bootstrap intervals: against draws that are counted one by one, and what they say."""

import numpy as np
import pytest

from bat_tf.metrics import intervals
from bat_tf.metrics.intervals import TextCounts


def random_labels(rows=60, labels=5, right=0.8, seed=0):
    random = np.random.default_rng(seed)
    true = random.random((rows, labels)) < 0.3
    return true, np.where(random.random(true.shape) < right, true, ~true)


def plain_f1(true, chosen, average):
    """F1 by its definition."""
    both, found, gold = ((true & chosen).sum(0), chosen.sum(0), true.sum(0))
    if average == "micro":
        return 2 * both.sum() / (found.sum() + gold.sum())
    totals = zip(both, found, gold, strict=True)
    return np.mean([2 * b / (f + g) if f + g else 0 for b, f, g in totals])


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_drawn_scores_are_those_of_the_drawn_texts(average):
    true, chosen = random_labels()
    counts = TextCounts.of_labels(true, chosen)
    assert counts.f1(average) == pytest.approx(plain_f1(true, chosen, average))
    drawn, place = counts.drawn(average, count=130, seed=3), 0
    for times in intervals.draws(len(true), 130, seed=3):
        for row in times.astype(int):
            rows = np.repeat(np.arange(len(true)), row)
            expected = plain_f1(true[rows], chosen[rows], average)
            assert drawn[place] == pytest.approx(expected, abs=1e-5)
            place += 1
    assert place == len(drawn) == 130


def test_spans_are_exact():
    gold = [[(0, 4, "a"), (5, 9, "b")], [], [(1, 2, "a")]]
    found = [[(0, 4, "a", 0.9, "text"), (5, 8, "b", 0.8, "tex")], [(0, 1, "c")], []]
    counts = TextCounts.of_spans(gold, found)
    assert counts.f1() == pytest.approx(2 * 1 / (3 + 3))
    assert counts.f1("macro") == pytest.approx(np.mean([2 / 3, 0, 0]))


def test_an_interval_narrows_with_more_texts():
    few, many = (TextCounts.of_labels(*random_labels(rows)) for rows in (50, 5000))
    widths = [high - low for low, high in (few.interval(), many.interval())]
    assert widths[1] < widths[0] / 5
    low, high = many.interval()
    assert low < many.f1() < high


def test_a_difference_is_paired():
    """A model that is better by one label in each text is surely better."""
    true, chosen = random_labels(300, right=0.7)
    better = chosen.copy()
    wrong = [np.flatnonzero(row) for row in true != chosen]
    for row, places in enumerate(wrong):
        better[row, places[:1]] = true[row, places[:1]]
    ours, theirs = (TextCounts.of_labels(true, x) for x in (better, chosen))
    difference, low, high = ours.difference(theirs)
    assert 0 < low < difference < high
    assert ours.interval()[0] < theirs.interval()[1] + difference
    same = ours.difference(ours)
    assert same == (0.0, 0.0, 0.0)


def test_nothing_to_find_and_nothing_found():
    counts = TextCounts.of_spans([[], []], [[], []])
    assert (counts.f1(), counts.f1("macro"), counts.interval()) == (
        0.0,
        0.0,
        (0.0, 0.0),
    )


def test_other_rows_are_a_sentence():
    with pytest.raises(ValueError, match="`found` must be 2 rows"):
        TextCounts.of_spans([[], []], [[]])
