"""The words of a text, against a plain loop over its characters."""

import functools
import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf.text.splitting import find_words, read_characters, single_characters

BLANKS = "\u200b\u2060\ufeff"
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "HALFWIDTH KATAKANA", "THAI", "LAO", "KHMER")
SAMPLE = (
    "abzÀéßİσΣжЯ09٣²Ⅷ中文々〇東ひらゾーｱﾞ한국ภาไไกคनमसि،."
    " \t\n\x00\x1f\x85\xa0\u3000\u2028"
    "\u0301\u0327\u3099\ufe0f\u20e3\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e"
    "😀👩👍🏽🏻🇯🇵❤€+-_'’«。！ＡＺ１～\ufffd\U000e0067"
)
TEXTS = st.text(alphabet=st.sampled_from(SAMPLE), max_size=30)


def loop_words(text):
    """The rule of `split="unicode"`, one character after the other."""
    words = []
    base = kind = "blank"  # of the last character that does not attach, of the last one
    for place, letter in enumerate(text):
        before, own = kind, character_kind(letter)
        attaches = own in ("mark", "format")
        base = base if attaches else own
        kind = "letter" if own == "mark" and base == "blank" else base
        if kind == "blank":
            continue
        joins = text[place - 1] == "\u200d" or kind == before in ("letter", "flag")
        if before != "blank" and (attaches or joins):
            words[-1] = (words[-1][0], place + 1)
        else:
            words.append((place, place + 1))
    return words


def character_kind(letter):
    category, name = unicodedata.category(letter), unicodedata.name(letter, "")
    if category[0] == "Z" or category == "Cc" or letter in BLANKS:
        return "blank"
    if category[0] == "M":
        return "mark"
    if category == "Cf" or "\U0001f3fb" <= letter <= "\U0001f3ff":
        return "format"
    if "\U0001f1e6" <= letter <= "\U0001f1ff":
        return "flag"
    if name.startswith(UNSPACED) or "KANA" in name or name.startswith("IDEOGRAPHIC"):
        return "single"
    return "letter" if category[0] in "LN" else "single"


@functools.cache
def places_of(split):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def places(texts):
        characters = read_characters(texts)
        words = find_words(characters, split)
        rows = words.row_splits[1:] - words.row_splits[:-1]
        before = tf.repeat(characters.row_splits[:-1], rows)
        pairs = tf.stack([words.starts - before, words.ends - before], 1)
        return tf.RaggedTensor.from_row_splits(pairs, words.row_splits)

    return places


def words_of(texts, split="unicode"):
    """Start and end of the words of each text, counted in its characters."""
    found = places_of(split)(tf.constant([text.encode() for text in texts])).to_list()
    return [[tuple(word) for word in words] for words in found]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, world!", ["Hello", ",", "world", "!"]),
        (
            "Apple's USB-C 3.5 mm",
            ["Apple", "'", "s", "USB", "-", "C", "3", ".", "5", "mm"],
        ),
        ("cafe\u0301s café", ["cafe\u0301s", "café"]),
        ("東京タワーへ", ["東", "京", "タ", "ワ", "ー", "へ"]),
        ("か\u3099き", ["か\u3099", "き"]),
        ("한국어 단어", ["한국어", "단어"]),
        ("ภาษา", ["ภ", "า", "ษ", "า"]),
        ("नमस्ते", ["नमस्ते"]),
        ("ＡＢＣ　１２", ["ＡＢＣ", "１２"]),
        ("👩\u200d👩\u200d👧👍🏽", ["👩\u200d👩\u200d👧", "👍🏽"]),
        ("❤\ufe0fa1\ufe0f\u20e3", ["❤\ufe0f", "a1\ufe0f\u20e3"]),
        ("x🇯🇵y", ["x", "🇯🇵", "y"]),
        ("a\u200bb\ufeffc\u2060d", ["a", "b", "c", "d"]),
        ("co\u00adop \u200d \u0301e", ["co\u00adop", "\u0301e"]),
        (" \t\n\x00", []),
        ("", []),
    ],
)
def test_words(text, words):
    found = words_of([text])[0]
    assert [text[start:end] for start, end in found] == words


@settings(max_examples=50, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=12))
def test_words_are_those_of_a_plain_loop(texts):
    assert words_of(texts) == [loop_words(text) for text in texts]


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXTS | st.text(max_size=20), min_size=1, max_size=12))
def test_whitespace_words_are_those_of_str_split(texts):
    found = words_of(texts, "whitespace")
    surfaces = [
        [text[start:end] for start, end in words]
        for text, words in zip(texts, found, strict=True)
    ]
    assert surfaces == [text.split() for text in texts]


# Every kind of first byte, and the edges of what may follow it.
UTF8_BYTES = (
    b"\x00A\x80\x8f\x90\x9f\xa0\xbb\xbf\xc0\xc3\xe0\xe2\xed\xef\xf0\xf4\xf5\xff"
)
BROKEN = st.lists(st.sampled_from(UTF8_BYTES), max_size=12).map(bytes)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=12) | BROKEN, min_size=1, max_size=30))
def test_characters_count_as_python_decodes(raw):
    characters = read_characters(tf.constant(raw))
    codes = tf.RaggedTensor.from_row_splits(characters.codes, characters.row_splits)
    expected = [
        [ord(letter) for letter in text.decode("utf-8", "replace")] for text in raw
    ]
    assert codes.to_list() == expected


@pytest.mark.parametrize(
    "raw",
    [
        b"\xed\xa0\x80",  # a surrogate
        b"\xc0\x80",  # an overlong NUL
        b"\xf0\x9f\x98",  # a cut emoji
        b"\xe2\x82\xe2\x82\xac",
        b"\xf4\x90\x80\x80",  # behind the last code point
        b"\xf8\x88\x80\x80\x80",
        b"\xef\xbb\xbfa",  # a byte order mark counts
        b"\xef\xbf\xbf",
        b"a\x00b",
    ],
)
def test_broken_utf8_counts_as_python_decodes(raw):
    pieces = single_characters(read_characters(tf.constant([raw])))
    assert len(pieces.starts) == len(raw.decode("utf-8", "replace"))
