"""The linear model of a text's n-grams: the baseline, and a part of better models."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bat_tf._internal.validation import sentence
from bat_tf.heads.ngrams import NgramsHead
from bat_tf.text.ngrams import read_letters
from bat_tf.thresholds import fit_threshold

COSTS = (0.1, 0.3, 1.0, 3.0)
CHARACTERS = (0, 4)  # none, or n-grams of two to four
SEARCHED = 50  # labels, the commonest, on which the cost is searched
MOST_LETTERS = 20_000  # of a text
MOST_WEIGHTS = 2**25
MOST_TEXTS = 50_000  # that the n-grams are chosen on
MOST_LABELS = 1000  # a machine each


class Trial(NamedTuple):
    """One way to solve it, and what came of it.

    Attributes:
        characters: see `NgramsHead`.
        C: what an error costs against a wide margin.
        micro_f1: of the commonest labels on the validation part, at the threshold that
            is best there.
    """

    characters: int
    C: float
    micro_f1: float


def solve(train, valid, labels, *, words=1, characters=CHARACTERS, costs=COSTS):
    """A head with the weights of one linear support vector machine a label.

    What an error costs is searched on n-grams of words, then those of characters are
    tried at the best cost and below it. The commonest labels decide. Logits are those
    of probabilities: one factor and one shift for all labels, fitted to the validation
    part.

    Args:
        train: a `TextDataset` with labels.
        valid: another, which decides.
        labels: the `LabelSpace`.
        words: see `NgramsHead`.
        characters: lengths of the n-grams of characters to try.
        costs: what an error may cost.

    Returns:
        (an `NgramsHead`, a list with each `Trial`).
    """
    if len(labels) > MOST_LABELS:
        expected = f"at most {MOST_LABELS:,}, since each is solved by itself"
        remedy = "Let the words be learnt: `words=True`, or the expert `S`."
        raise ValueError(sentence("labels", expected, len(labels), remedy))
    truth = labels.csr(train.labels, unknown="skip").tocsc()
    wanted = labels.csr(valid.labels, unknown="skip").tocsc()
    some = np.argsort(-truth.sum(axis=0).A1, kind="stable")[:SEARCHED]
    seen, unseen = letters_of(train.texts), letters_of(valid.texts)
    trials, best = [], None
    for length in characters:
        head = NgramsHead.knowing(
            _some(seen),
            len(labels),
            MOST_WEIGHTS // len(labels),
            words=words,
            characters=length,
            name="ngrams",
        )
        features, others = head.matrix(seen), head.matrix(unseen)
        for cost in costs if best is None else (best[0].C, best[0].C / 3):
            weights, bias = separate(features, truth[:, some], cost)
            scores = (others @ weights.T + bias).astype("float32")
            fitted = fit_threshold(scores, wanted[:, some])
            trials.append(Trial(length, cost, fitted.score))
            if best is None or fitted.score > best[0].micro_f1:
                best = trials[-1], head, features, others
    trial, head, features, others = best
    weights, bias = separate(features, truth, trial.C)
    factor, shift = as_logits(others @ weights.T + bias, wanted)
    head.set_linear(factor * weights, factor * bias + shift)
    return head, trials


def _some(letters):
    """The texts that n-grams are chosen on."""
    total = int(letters.nrows())
    if total <= MOST_TEXTS:
        return letters
    rows = np.random.default_rng(0).permutation(total)[:MOST_TEXTS]
    return tf.gather(letters, np.sort(rows))


def letters_of(texts):
    """The letters of texts, as the model reads them."""
    return read_letters(list(texts), MOST_LETTERS)


def separate(features, targets, C=1.0):
    """The hyperplane of each label, by a linear support vector machine.

    Args:
        features: sparse matrix [N, F].
        targets: sparse matrix [N, L] of 0 and 1.
        C: what an error costs against a wide margin.

    Returns:
        (weights [L, F], bias [L]), float32.
    """
    from sklearn.svm import LinearSVC

    targets = targets.tocsc()
    weights = np.zeros((targets.shape[1], features.shape[1]), "float32")
    bias = np.zeros(targets.shape[1], "float32")

    def solve_one(label):
        target = targets[:, [label]].toarray().ravel()
        if target.min() == target.max():
            # What the machine would find, if it could.
            bias[label] = 2 * target[0] - 1
            return
        machine = LinearSVC(C=C, random_state=0).fit(features, target)
        weights[label], bias[label] = machine.coef_[0], machine.intercept_[0]

    # The solver is C code that lets other threads run.
    with ThreadPoolExecutor() as pool:
        list(pool.map(solve_one, range(targets.shape[1])))
    return weights, bias


def as_logits(scores, truth):
    """The factor and the shift that make logits of decision values (Platt scaling).

    Args:
        scores: [N, L], of texts that the machines had not seen.
        truth: sparse [N, L].
    """
    from sklearn.linear_model import LogisticRegression

    values = np.asarray(scores).reshape(-1, 1)
    scale = LogisticRegression(C=np.inf).fit(values, truth.toarray().ravel() > 0)
    return float(scale.coef_[0, 0]), float(scale.intercept_[0])
