"""Spans of characters and tags of tokens, both ways."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf.text import TextTokenizer, best_tags, decode_tags, encode_spans, tag_names

WORDS = [
    "water",
    "Café",
    "e\u0301x",
    "東",
    "京",
    "，",
    "🇯🇵",
    "👍🏽",
    "iPhones",
    "-",
    "한국",
]
KINDS = ["brand", "product", "colour"]


@functools.cache
def tokenizer_of(kind):
    tokenizer = TextTokenizer(kind, vocabulary_size=60)
    tokenizer.adapt(["waterproof phones water Café 東京 iphone 한국"])
    return tokenizer


def ragged(rows, dtype=tf.int32):
    return tf.ragged.constant(rows, dtype, ragged_rank=1)


def as_tensors(spans):
    """Lists of (start, end, kind) -> the dict that `encode_spans` takes."""
    return {
        key: ragged([[span[place] for span in row] for row in spans])
        for place, key in enumerate(("starts", "ends", "kinds"))
    }


def as_lists(found):
    columns = (found[key].to_list() for key in ("starts", "ends", "kinds"))
    return [list(zip(*row, strict=True)) for row in zip(*columns, strict=True)]


@functools.cache
def round_trip(kind, scheme):
    tokenizer = tokenizer_of(kind)

    def there_and_back(texts, starts, ends, kinds):
        tokens = tokenizer.tokenize(texts)
        spans = {"starts": starts, "ends": ends, "kinds": kinds}
        tags = encode_spans(tokens, spans, scheme)
        packed = tokenizer.pack(tokens)
        # As a model would say it: a tag for every cell, padding and pieces included.
        dense = tokenizer.pack({"token_ids": tokens["token_ids"], "starts": tags})
        return tags, decode_tags(
            tf.maximum(dense["starts"], 0),
            tf.ones_like(dense["starts"]),
            packed,
            scheme,
        )

    row = tf.RaggedTensorSpec([None, None], tf.int32, 1)
    return tf.function(
        there_and_back,
        autograph=False,
        input_signature=[tf.TensorSpec([None], tf.string), row, row, row],
    )


@st.composite
def marked_texts(draw):
    """A text of whole words, and spans that begin and end with words."""
    text, places = "", []
    for word in draw(st.lists(st.sampled_from(WORDS), max_size=12)):
        text += " " if len(word) > 1 or len(text) % 3 else ""
        places.append((len(text), len(text) + len(word)))
        text += word + (" " if len(word) > 1 else "")
    spans, place = [], 0
    while place < len(places):
        length, kind = draw(st.tuples(st.integers(1, 4), st.integers(-1, 2)))
        last = min(place + length, len(places)) - 1
        if kind >= 0:
            spans.append((places[place][0], places[last][1], kind))
        place = last + 1
    return text, spans


def joined(text, spans):
    """What "plain" cannot tell apart: touching spans of one kind are one."""
    merged = []
    for start, end, kind in spans:
        between = text[merged[-1][1] : start] if merged else "x"
        if merged and merged[-1][2] == kind and not between.strip():
            merged[-1] = (merged[-1][0], end, kind)
        else:
            merged.append((start, end, kind))
    return merged


@pytest.mark.parametrize(
    ("kind", "scheme"), [("words", "bio"), ("words", "plain"), ("wordpiece", "bio")]
)
@settings(max_examples=12, deadline=None)
@given(examples=st.lists(marked_texts(), min_size=1, max_size=8))
def test_spans_come_back(kind, scheme, examples):
    texts, spans = zip(*examples, strict=True)
    _, found = round_trip(kind, scheme)(
        tf.constant([text.encode() for text in texts]), *as_tensors(spans).values()
    )
    expected = [
        joined(text, row) if scheme == "plain" else row
        for text, row in zip(texts, spans, strict=True)
    ]
    assert as_lists(found) == expected


@pytest.mark.parametrize("scheme", ["bio", "plain"])
@settings(max_examples=12, deadline=None)
@given(examples=st.lists(marked_texts(), min_size=1, max_size=5), data=st.data())
def test_any_character_span_comes_back_with_characters(scheme, examples, data):
    spans = []
    for text, _ in examples:
        cuts = data.draw(st.sets(st.integers(0, len(text)), max_size=6).map(sorted))
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        spans.append([(a, b, place % 3) for place, (a, b) in enumerate(pairs)])
    texts = [text for text, _ in examples]
    _, found = round_trip("characters", scheme)(
        tf.constant([text.encode() for text in texts]), *as_tensors(spans).values()
    )
    assert as_lists(found) == spans


def test_accents_at_the_end_of_a_word_come_back():
    text, spans = "cafe\u0301 か\u3099", [[(0, 5, 0), (6, 8, 1)]]
    _, found = round_trip("words", "bio")(
        tf.constant([text.encode()]), *as_tensors(spans).values()
    )
    assert as_lists(found) == spans


def encode(text, spans, scheme="bio", kind="words"):
    tokens = tokenizer_of(kind).tokenize([text])
    return encode_spans(tokens, as_tensors([spans]), scheme).to_list()[0]


def test_tags_of_words():
    text = "one blue water, red"
    spans = [(4, 14, 1), (14, 15, 1), (16, 19, 0)]
    assert encode(text, spans) == [0, 3, 4, 3, 1]
    assert encode(text, spans, "plain") == [0, 2, 2, 2, 1]


def test_a_word_belongs_to_a_span_that_it_shares_a_character_with():
    assert encode("iPhones here", [(0, 6, 0)]) == [1, 0]
    assert encode("iPhones here", [(6, 9, 0)]) == [1, 2]
    assert encode("iPhones here", [(7, 8, 0)]) == [0, 0]  # the blank is no word
    assert encode("iPhones here", [(0, 2, 1), (2, 7, 0), (8, 12, 0)]) == [3, 1]


def test_only_the_first_piece_of_a_word_has_a_tag():
    tokens = tokenizer_of("wordpiece").tokenize(["waters 東"])
    words = tokens["word_ids"].to_list()[0]
    tags = encode("waters 東", [(0, 8, 0)], kind="wordpiece")
    assert words.count(0) > 1
    assert tags == [1] + [-1] * (words.count(0) - 1) + [2]


def test_no_spans_and_no_tokens():
    tokens = tokenizer_of("words").tokenize(["a b", "", "c"])
    none = as_tensors([[], [], []])
    assert encode_spans(tokens, none, "bio").to_list() == [[0, 0], [], [0]]
    nothing = tokenizer_of("words").tokenize(["", ""])
    assert encode_spans(nothing, as_tensors([[], []]), "bio").to_list() == [[], []]
    packed = tokenizer_of("words").pack(nothing)
    found = decode_tags(tf.ones([2, 1]), tf.ones([2, 1]), packed, "plain")
    assert as_lists(found) == [[], []]


def decode(tags, scheme, scores=None, texts=("a b c d e",)):
    tokens = tokenizer_of("words")(list(texts))
    scores = np.ones(np.shape(tags)) if scores is None else scores
    return decode_tags(tags, scores, tokens, scheme)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ([2, 2, 0, 0, 2], [(0, 3, 0), (8, 9, 0)]),  # I without B opens
        ([1, 4, 4, 2, 0], [(0, 1, 0), (2, 5, 1), (6, 7, 0)]),  # I of another kind too
        ([1, 1, 2, 1, 0], [(0, 1, 0), (2, 5, 0), (6, 7, 0)]),
        ([3, 4, 3, 0, 4], [(0, 3, 1), (4, 5, 1), (8, 9, 1)]),
        ([-1, 0, 1, -1, 2], [(4, 5, 0), (8, 9, 0)]),
    ],
)
def test_bio_repairs(tags, spans):
    assert as_lists(decode([tags], "bio")) == [spans]


def test_spans_do_not_run_over_the_end_of_a_text():
    found = decode([[0, 1], [2, 0]], "bio", texts=["a b", "c d"])
    assert as_lists(found) == [[(2, 3, 0)], [(0, 1, 0)]]
    found = decode([[0, 1], [1, 0]], "plain", texts=["a b", "c d"])
    assert as_lists(found) == [[(2, 3, 0)], [(0, 1, 0)]]


def test_scores_are_means_over_words():
    scores = [[0.5, 1.0, 0.25, 0.75, 0.1]]
    found = decode([[1, 1, 0, 2, 2]], "plain", scores)
    np.testing.assert_allclose(found["scores"].to_list(), [[0.75, 0.425]])
    assert found["scores"].dtype == tf.float32


def test_padding_special_tokens_and_later_pieces_are_not_read():
    tokenizer = tokenizer_of("wordpiece")
    tokens = tokenizer(["waters", ""])
    words = tokens["word_ids"].numpy()
    scores = np.where(words == 0, 0.5, 0.9)
    scores[0, 1] = 0.25
    found = decode_tags(np.full(words.shape, 2), scores, tokens, "bio")
    assert as_lists(found) == [[(0, 6, 0)], []]
    assert found["scores"].to_list() == [[0.25], []]


def test_a_long_text_takes_no_longer_than_its_length():
    tokens = tokenizer_of("characters").tokenize(["ab" * 20_000])
    spans = as_tensors([[(place, place + 1, 0) for place in range(0, 40_000, 2)]])
    tags = encode_spans(tokens, spans, "bio")
    assert int(tf.reduce_sum(tags.values)) == 20_000


def test_names():
    assert tag_names(KINDS, "plain") == ["none", *KINDS]
    assert tag_names(["a", "b"]) == ["O", "B-a", "I-a", "B-b", "I-b"]
    with pytest.raises(ValueError, match="`scheme` must be one of 'plain', 'bio'"):
        tag_names(KINDS, "bioes")
    with pytest.raises(ValueError, match="`kinds` must be a list of different names"):
        tag_names(["a", "a"])


def legal(path):
    """Whether every I of a sequence of BIO tags follows a B or an I of its kind."""
    pairs = itertools.pairwise((0, *path))
    return all(b == 0 or b % 2 or (a + 1) // 2 == b // 2 for a, b in pairs)


@pytest.mark.parametrize("seed", range(5))
def test_best_tags_are_the_best_legal_ones(seed):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(5) * 0.5, size=(3, 6)).astype("float32")
    # Row 0: six words; row 1: a word of two tokens; row 2: three words, then padding.
    word_ids = np.array(
        [[0, 1, 2, 3, 4, 5], [-1, 0, 0, 1, 2, -1], [0, 1, 2, -1, -1, -1]]
    )
    gains = np.log(probabilities)
    found = best_tags(gains, {"word_ids": tf.constant(word_ids)}).numpy()
    for row, ids in enumerate(word_ids):
        places = [i for i, n in enumerate(ids) if n >= 0 and n not in ids[:i]]
        own = gains[row, places]

        def gain(path, own=own):
            return own[np.arange(len(path)), path].sum()

        paths = filter(legal, itertools.product(range(5), repeat=len(places)))
        assert found[row, places].tolist() == list(max(paths, key=gain))


@pytest.mark.parametrize("scheme", ["bio", "plain"])
def test_best_tags_of_nothing(scheme):
    nothing = {"word_ids": tf.zeros([2, 0], tf.int32)}
    assert best_tags(tf.zeros([2, 0, 3]), nothing, scheme).shape == (2, 0)
