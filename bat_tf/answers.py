"""LOGITS → ANSWERS, written once, in the graph, and ANSWERS → Python.

`tag_answers`, `token_answers` and `label_answers` are what every door runs: `model.tag`
and `model.label`, an exported SavedModel and what asks it. `Answering` is what every
model that answers shares, in memory, on disk or behind an address.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bat_tf._internal.validation import check_number, check_texts, sentence
from bat_tf.text import alignment

NO_THRESHOLD = (
    "This model's loss only ranks labels; it has no threshold yet. Fit one with "
    "`model.fit_thresholds(valid)`, or ask for `top_k` labels."
)


# === In the graph ===


def tag_answers(logits, places, kinds, scheme, transitions=None):
    """Logits of tags → keywords, padded to the batch.

    Args:
        logits: [B, T, C].
        places: dict of `starts`, `ends` and `word_ids`, each [B, T], -1 at padding.
        kinds: names of the kinds.
        scheme: `"bio"` or `"plain"`.
        transitions: of a CRF, see `alignment.transition_scores`; None without one.

    Returns:
        dict of `tags` (names), `starts` and `ends` (characters), `scores`
        (probabilities of the kind), each [B, K], and `num_tags` [B].
    """
    best, scores = _decoded(logits, places, scheme, transitions)
    found = alignment.decode_tags(best, scores, places, scheme)
    names = tf.gather(tf.constant(kinds), found["kinds"].flat_values)
    names = found["kinds"].with_flat_values(names)
    return {
        "tags": names.to_tensor(""),
        "starts": found["starts"].to_tensor(0),
        "ends": found["ends"].to_tensor(0),
        "scores": found["scores"].to_tensor(0.0),
        "num_tags": tf.cast(names.row_lengths(), tf.int32),
    }


def token_answers(logits, speaks, mask, tags, scheme, transitions=None):
    """Logits of tags → the tag of each token, where the text is not known.

    Tags are the best sequence that the scheme allows, as in `tag_answers`.

    Args:
        logits: [B, T, C].
        speaks: bool [B, T], which tokens have a tag of their own.
        mask: bool [B, T], which tokens are real.
        tags: names of the tag classes.
        scheme: `"bio"` or `"plain"`.
        transitions: see `tag_answers`.

    Returns:
        dict of `tags` (names such as `B-brand`, "" where a token has none) and
        `scores`, each [B, T], and `num_tags` [B], the tokens of each row.
    """
    # Each token that speaks is a word of its own.
    word_ids = tf.where(speaks, tf.range(tf.shape(mask)[1])[None, :], -1)
    best, scores = _decoded(logits, {"word_ids": word_ids}, scheme, transitions)
    return {
        "tags": tf.where(speaks, tf.gather(tf.constant(tags), best), ""),
        "scores": tf.where(speaks, scores, 0.0),
        "num_tags": tf.reduce_sum(tf.cast(mask, tf.int32), axis=-1),
    }


def _decoded(logits, places, scheme, transitions):
    """The best tags [B, T], and how probable the KIND of each of them is.

    B-brand and I-brand say the same of a keyword, so their probabilities add up.
    """
    best = alignment.best_tags(logits, places, scheme, transitions)
    probabilities = alignment.tag_probabilities(logits, places, scheme, transitions)
    kind_of = np.arange(probabilities.shape[-1])
    if scheme == "bio":
        kind_of = (kind_of + 1) // 2  # O, B-first, I-first, B-second …
    same_kind = tf.constant(kind_of[:, None] == kind_of, probabilities.dtype)
    per_kind = tf.linalg.matmul(probabilities, same_kind)
    return best, tf.minimum(tf.gather(per_kind, best, batch_dims=2), 1.0)


def label_scores(logits, scale, threshold):
    """Logits as probabilities, σ(scale · (s - threshold)); unchanged without scale."""
    if scale is None:
        return logits
    return tf.sigmoid(scale * (logits - (threshold or 0.0)))


def label_answers(logits, names, cut, scale, score_threshold, top_k, threshold):
    """Logits of labels → the labels of each text, best first, padded to the batch.

    Args:
        logits: [B, L].
        names: of the labels.
        cut: the logits above which labels are chosen: a number or one a label; None if
            none was fitted to a loss that only ranks.
        scale: see `label_scores`.
        score_threshold: see `label_scores`.
        top_k: int32 [B]; the most labels of a text, 0 for no limit.
        threshold: float32 [B], on the score that is returned; NaN for `cut`.

    Returns:
        dict of `labels` (names) and `scores`, each [B, K], and `num_labels` [B].
    """
    scores = label_scores(logits, scale, score_threshold)
    fitted = logits > tf.constant(np.inf if cut is None else cut, logits.dtype)
    own = tf.math.is_nan(threshold)[:, None]
    chosen = tf.where(own, fitted, scores > threshold[:, None])
    count = tf.reduce_sum(tf.cast(chosen, tf.int32), axis=-1)
    count = tf.where(top_k > 0, tf.minimum(count, top_k), count)
    # `top_k` puts what was not chosen last; a batch may have none at all.
    most = tf.reduce_max(tf.concat([count, [0]], 0))
    lowest = tf.fill(tf.shape(logits), logits.dtype.min)
    _, ids = tf.math.top_k(tf.where(chosen, logits, lowest), most)
    given = tf.range(most)[None, :] < count[:, None]
    found = tf.gather(scores, ids, batch_dims=1)
    return {
        "labels": tf.where(given, tf.gather(tf.constant(names), ids), ""),
        "scores": tf.where(given, found, 0.0),
        "num_labels": count,
    }


# === In Python ===


# Of each task, the output that says how many answers a row has.
COUNTS = {"spans": "num_tags", "labels": "num_labels"}


class Tag(NamedTuple):
    """A keyword that a model found: `text` is the caller's `text[start:end]`."""

    start: int
    end: int
    kind: str
    score: float
    text: str


def read_answers(task, found, texts):
    """The answers of a batch, for Python.

    Args:
        task: `"spans"` or `"labels"`.
        found: dict of what `tag_answers` or `label_answers` returned, as arrays.
        texts: the texts of the batch.

    Returns:
        For each text a list, of `Tag`s or of (name, score).
    """
    found = {name: np.asarray(value) for name, value in found.items()}
    read = _read_tags if task == "spans" else _read_labels
    return [read(found, row, text) for row, text in enumerate(texts)]


def _read_tags(found, row, text):
    columns = (found["starts"], found["ends"], found["tags"], found["scores"])
    count = found[COUNTS["spans"]][row]
    return [
        Tag(int(start), int(end), kind.decode(), float(score), text[start:end])
        for start, end, kind, score in zip(
            *(c[row, :count] for c in columns), strict=True
        )
    ]


def _read_labels(found, row, _):
    count = found[COUNTS["labels"]][row]
    columns = (found["labels"][row, :count], found["scores"][row, :count])
    return [(name.decode(), float(score)) for name, score in zip(*columns, strict=True)]


def check_options(task, top_k=None, threshold=None):
    """The options that were given, checked.

    Args:
        task: `"spans"` or `"labels"`; only labels have options.
        top_k: the most labels of a text, or None.
        threshold: the score that a label must exceed, or None.

    Returns:
        A dict of those that are not None.
    """
    given = {"top_k": top_k, "threshold": threshold}
    given = {name: value for name, value in given.items() if value is not None}
    if given and task == "spans":
        remedy = "They choose among labels; a tagger gives all keywords it finds."
        raise ValueError(sentence(" and ".join(given), "None", given, remedy))
    if top_k is not None:
        check_number("top_k", top_k, low=1, integer=True)
    if threshold is not None and not np.isfinite(check_number("threshold", threshold)):
        raise ValueError(sentence("threshold", "a finite number or None", threshold))
    return given


def option_inputs(rows, top_k=None, threshold=None):
    """The options as `label_answers` takes them: a number for each row.

    `top_k` alone asks for so many labels whatever their scores are.

    >>> option_inputs(2, top_k=3)
    {'top_k': array([3, 3], dtype=int32),
     'threshold': array([-inf, -inf], dtype=float32)}
    >>> option_inputs(1)
    {'top_k': array([0], dtype=int32), 'threshold': array([nan], dtype=float32)}
    """
    if threshold is None:
        threshold = np.nan if top_k is None else -np.inf
    return {
        "top_k": np.full(rows, top_k or 0, "int32"),
        "threshold": np.full(rows, threshold, "float32"),
    }


def answered(find, task, texts, **options):
    """The answers of a function to a text or several.

    Args:
        find: the function: a list of str, and the options that are given, to pairs of
            (rows, found): places in the list, and what `read_answers` takes of them.
        task: `"spans"` or `"labels"`.
        texts: a str, bytes, or an iterable of them. Bytes are read as UTF-8; what is
            not UTF-8 counts as one replacement character, as in `bytes.decode`.
        **options: of labels, `top_k` and `threshold`; None leaves one out.

    Returns:
        For one text its answer, for several a list of them, see `read_answers`.
    """
    options = check_options(task, **options)
    if isinstance(texts, (str, bytes)):
        return answered(find, task, [texts], **options)[0]
    texts = check_texts(texts)
    answers = [None] * len(texts)
    for rows, found in find(texts, **options):
        own = read_answers(task, found, [texts[row] for row in rows])
        for row, answer in zip(rows, own, strict=True):
            answers[row] = answer
    return answers


def ask(serve, task, texts, batch_size=32, **options):
    """Asks a function of raw strings for the answers to texts, batch by batch.

    Args:
        serve: the function: a string tensor [B], and the options that are given, to the
            dict that `read_answers` takes.
        task: `"spans"` or `"labels"`.
        texts: see `answered`.
        batch_size: texts a call.
        **options: see `answered`.
    """
    check_number("batch_size", batch_size, low=1, integer=True)

    def find(texts, **options):
        # Texts of similar length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            # A lone surrogate has no UTF-8; "?" is one character too: offsets hold.
            batch = [texts[row].encode("utf-8", "replace") for row in rows]
            yield rows, serve(tf.constant(batch), **options)

    return answered(find, task, texts, **options)


class Answering:
    """A model that answers: `task`, `names`, and the functions that ask it.

    Subclasses define `answer`.

    Attributes:
        task: `"spans"` marks keywords, `"labels"` chooses labels.
        names: the kinds of keywords, or the labels.
        exported: whether it only answers, and cannot be trained or scored.
    """

    task = None
    exported = False

    def answer(self, texts, batch_size=32, top_k=None, threshold=None):
        """The answer to a text, or to each text of a list.

        Args:
            texts: a str or a list of them.
            batch_size: texts a step.
            top_k: of labels, give at most so many; alone, the best so many.
            threshold: of labels, those whose score is above it.

        Returns:
            For each text a list, of `Tag`s or of (name, score).
        """
        raise NotImplementedError


class Tagging(Answering):
    """What marks keywords."""

    task = "spans"

    def tag(self, texts, batch_size=32):
        """Finds the keywords of a text, or of each text of a list.

        Long texts are read as a whole, in windows.

        Returns:
            A list of `Tag(start, end, kind, score, text)` for one text, a list of such
            lists for a list of texts. `text[tag.start:tag.end]` is the keyword.
        """
        return self.answer(texts, batch_size)


class Labelling(Answering):
    """What chooses labels."""

    task = "labels"

    def label(self, texts, top_k=None, threshold=None, batch_size=32):
        """Chooses the labels of a text, or of each text of a list.

        It reads the first `max_length` tokens of a text.

        Args:
            texts: a str or a list of them.
            top_k: give the best so many labels instead of those above the threshold;
                with `threshold`, at most so many.
            threshold: give the labels whose score is above it.
            batch_size: texts a step.

        Returns:
            A list of (name, score), best first, for one text; a list of such lists for
            a list of texts. Scores are probabilities, or logits where there are none.
        """
        return self.answer(texts, batch_size, top_k, threshold)
