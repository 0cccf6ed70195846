"""Between spans of characters and tags of tokens, both ways, in the graph.

A tag belongs to a word and sits on its first token; other tokens of the word have -1.
Two schemes:

* `"plain"`: class 0 is `none`, class k + 1 is kind k. Neighbouring words of one kind
  are one span, so two spans of one kind that touch come back as one.
* `"bio"`: class 0 is `O`, then `B-kind` and `I-kind` for each kind. Every set of spans
  comes back as it was.

Both give a word to a span if they share a character: spans that begin or end inside a
word come back grown to whole words.
"""

import numpy as np
import tensorflow as tf

from bat_tf._internal import chain
from bat_tf._internal.numerics import LARGE_NEGATIVE, at_least_float32
from bat_tf._internal.validation import check_choice, sentence
from bat_tf.text.splitting import first_of_row

SCHEMES = ("plain", "bio")


def tag_names(kinds, scheme="bio"):
    """Names of the classes, in the order of their ids.

    Args:
        kinds: names of the span kinds.
        scheme: `"plain"` or `"bio"`.

    Returns:
        list of str.

    Example:
        >>> tag_names(["brand", "product"], "plain")
        ['none', 'brand', 'product']
        >>> tag_names(["brand"], "bio")
        ['O', 'B-brand', 'I-brand']
    """
    check_choice("scheme", scheme, SCHEMES)
    kinds = list(kinds)
    if not kinds or len(set(kinds)) < len(kinds):
        raise ValueError(sentence("kinds", "a list of different names", kinds))
    if scheme == "plain":
        if "none" in kinds:  # as the class of words without a kind is called
            raise ValueError(sentence("kinds", 'names other than "none"', kinds))
        return ["none", *kinds]
    return ["O", *(f"{place}-{kind}" for kind in kinds for place in "BI")]


def encode_spans(tokens, spans, scheme="bio"):
    """Tags of tokens, out of spans of characters.

    Args:
        tokens: what `TextTokenizer.tokenize` returns.
        spans: dict of `tf.RaggedTensor`, int32 [B, None]: `"starts"` and `"ends"`, in
            characters of the text, and `"kinds"`, from 0. The spans of a text are in
            order, not empty, and do not overlap.
        scheme: `"plain"` or `"bio"`.

    Returns:
        `tf.RaggedTensor`, int32, of the shape of `tokens["token_ids"]`. -1 for tokens
        that are not the first of their word. A word with more than one span has the
        first of them.

    Example:
        >>> from bat_tf.text import TextTokenizer
        >>> tokens = TextTokenizer("words", ["water"]).tokenize(["a blue water bottle"])
        >>> spans = {"starts": [[2, 13]], "ends": [[12, 19]], "kinds": [[1, 1]]}
        >>> spans = {name: tf.ragged.constant(value) for name, value in spans.items()}
        >>> encode_spans(tokens, spans, "bio").to_list()
        [[0, 3, 4, 3]]
        >>> encode_spans(tokens, spans, "plain").to_list()
        [[0, 2, 2, 2]]
    """
    check_choice("scheme", scheme, SCHEMES)
    word_ids = tokens["word_ids"]
    rows = word_ids.value_rowids()
    first, last = _word_edges(word_ids.values, rows)
    rows = rows[first]
    starts = tf.cast(tokens["starts"].values[first], tf.int64)
    ends = tf.cast(tokens["ends"].values[last], tf.int64)
    span_rows = tf.cast(spans["starts"].value_rowids(), tf.int64)
    span_starts = tf.cast(spans["starts"].values, tf.int64)
    span_ends = tf.cast(spans["ends"].values, tf.int64)
    # One line of numbers for all texts: the first span that ends behind a word's start
    # is the only one that can be the word's first.
    stride = 1 + tf.reduce_max(tf.concat([ends, span_ends, [0]], 0))
    starts, ends = rows * stride + starts, rows * stride + ends
    span_starts, span_ends = (
        span_rows * stride + place for place in (span_starts, span_ends)
    )
    span = tf.searchsorted(span_ends, starts, side="right", out_type=tf.int64)
    # Behind the last span lies one that no word reaches.
    span_starts = tf.concat([span_starts, [tf.int64.max]], 0)
    kinds = tf.concat([tf.cast(spans["kinds"].values, tf.int32), [0]], 0)
    inside = tf.gather(span_starts, span) < ends
    begins = first_of_row(tf.where(inside, span, -1))
    tags = _tags(tf.gather(kinds, span), inside, begins, scheme)
    tags = tf.tensor_scatter_nd_update(
        tf.fill(tf.shape(first), -1), tf.where(first), tags
    )
    return word_ids.with_values(tags)


def _tags(kinds, inside, begins, scheme):
    if scheme == "plain":
        return tf.where(inside, kinds + 1, 0)
    return tf.where(inside, 2 * kinds + tf.where(begins, 1, 2), 0)


def best_tags(scores, tokens, scheme="bio", transitions=None):
    """The best tags that can follow each other.

    In `"bio"`, an `I-kind` follows a `B-kind` or an `I-kind` of the same kind alone: of
    all sequences that keep to this, the one with the highest score is found. In
    `"plain"`, every tag can follow every other.

    Args:
        scores: float [B, T, C], logits or log-probabilities of the tags in the order of
            `tag_names`. The score of a sequence is their sum.
        tokens: what `TextTokenizer.pack` returns; the first token of a word counts.
        scheme: `"plain"` or `"bio"`.
        transitions: what a CRF has learnt, see `transition_scores`; None without one.

    Returns:
        int32 [B, T]; what stands at tokens that do not count means nothing.

    Example:
        >>> from bat_tf.text import TextTokenizer
        >>> tokens = TextTokenizer("words", ["water"])(["blue water"])
        >>> scores = np.log([[[0.4, 0.5, 0.1], [0.3, 0.1, 0.6]]])
        >>> best_tags(scores, tokens).numpy().tolist()
        [[1, 2]]
        >>> scores = np.log([[[0.8, 0.1, 0.1], [0.4, 0.1, 0.5]]])
        >>> best_tags(scores, tokens).numpy().tolist()
        [[0, 0]]
    """
    scores = tf.convert_to_tensor(scores)
    follows = transition_scores(scores.shape[-1], scheme, transitions)
    if follows is None:
        return tf.argmax(scores, -1, output_type=tf.int32)
    return chain.best_path(scores, first_of_word(tokens["word_ids"]), follows)


def tag_probabilities(scores, tokens, scheme="bio", transitions=None):
    """How probable each tag is: the softmax of its scores, or the marginals of a CRF.

    Args:
        scores: logits [B, T, C].
        tokens: see `best_tags`, as for the rest.
        scheme: `"plain"` or `"bio"`.
        transitions: of a CRF, or None.

    Returns:
        [B, T, C].
    """
    if transitions is None:
        return tf.nn.softmax(scores)
    follows = transition_scores(scores.shape[-1], scheme, transitions)
    return chain.marginals(scores, first_of_word(tokens["word_ids"]), follows)


def transition_scores(num_tags, scheme="bio", transitions=None):
    """How well tags follow each other, as a scheme allows it.

    Args:
        num_tags: C.
        scheme: `"plain"` or `"bio"`.
        transitions: [C + 1, C + 1], what a CRF has learnt of the tag of the column
            behind that of the row; the last row and column are the text's border. None
            is 0 everywhere.

    Returns:
        [C + 1, C + 1], where what is impossible cannot be made up for; None if
        everything is possible and all the same.
    """
    check_choice("scheme", scheme, SCHEMES)
    if scheme == "plain":
        return transitions
    tags = np.arange(num_tags + 1)
    kind = (tags + 1) // 2  # O, B-first, I-first, B-second …
    kind[-1] = 0
    inside = (tags % 2 == 0) & (kind > 0)
    allowed = ~inside[None, :] | (kind[:, None] == kind[None, :])
    learnt = 0.0 if transitions is None else at_least_float32(transitions)
    return tf.where(allowed, learnt, LARGE_NEGATIVE)


def decode_tags(tag_ids, scores, tokens, scheme="bio"):
    """Spans of characters, out of tags of tokens.

    Only the first token of each word counts. In `"bio"`, an `I-kind` that does not
    follow a `B-kind` or `I-kind` opens a span.

    Args:
        tag_ids: int [B, T].
        scores: float [B, T], such as the probability of each tag.
        tokens: what `TextTokenizer.pack` returns.
        scheme: `"plain"` or `"bio"`.

    Returns:
        dict of `tf.RaggedTensor` [B, None], one value for each span: `"kinds"`,
        `"starts"` and `"ends"` int32; `"scores"` float32, the mean over its words.

    Example:
        >>> from bat_tf.text import TextTokenizer
        >>> tokens = TextTokenizer("words", ["water"])(["a blue water bottle"])
        >>> found = decode_tags([[0, 3, 4, 3]], [[0.9, 0.5, 0.7, 0.8]], tokens, "bio")
        >>> found["starts"].to_list(), found["ends"].to_list()
        ([[2, 13]], [[12, 19]])
        >>> found["kinds"].to_list()
        [[1, 1]]
    """
    check_choice("scheme", scheme, SCHEMES)
    word_ids = tf.reshape(tokens["word_ids"], [-1])
    num_rows, num_columns = tf.unstack(tf.shape(tokens["word_ids"], tf.int64))
    rows = tf.repeat(tf.range(num_rows), num_columns)
    first, last = _word_edges(word_ids, rows)

    def of_words(values, dtype, edge):
        return tf.reshape(tf.cast(values, dtype), [-1])[edge]

    rows = rows[first]
    tags = tf.maximum(of_words(tag_ids, tf.int32, first), 0)
    kinds = tags - 1 if scheme == "plain" else (tags + 1) // 2 - 1
    # A span goes on while the kind stays the same, unless a B begins another.
    changes = first_of_row(kinds) | first_of_row(rows)
    if scheme == "bio":
        changes |= tags % 2 == 1
    inside = kinds >= 0
    opens = inside & changes
    closes = inside & tf.concat([changes[1:], tf.ones_like(changes[:1])], 0)
    spans = {
        "kinds": kinds[opens],
        "starts": of_words(tokens["starts"], tf.int32, first)[opens],
        "ends": of_words(tokens["ends"], tf.int32, last)[closes],
        "scores": tf.math.segment_mean(
            of_words(scores, tf.float32, first)[inside],
            tf.cumsum(tf.cast(opens, tf.int32))[inside] - 1,
        ),
    }
    return {
        name: tf.RaggedTensor.from_value_rowids(
            value, rows[opens], num_rows, validate=False
        )
        for name, value in spans.items()
    }


def first_of_word(word_ids):
    """Bool [B, T]: which tokens are the first of their word."""
    before = tf.pad(word_ids[:, :-1], [[0, 0], [1, 0]], constant_values=-1)
    return (word_ids >= 0) & (word_ids != before[:, : tf.shape(word_ids)[1]])


def _word_edges(word_ids, rows):
    """Which tokens [N] are the first and which the last of their word."""
    real = word_ids >= 0
    changes = first_of_row(word_ids) | first_of_row(rows)
    return real & changes, real & tf.concat([changes[1:], tf.ones_like(real[:1])], 0)
