"""Texts as characters and words, with core TensorFlow ops alone.

The characters of a batch lie flat, one text after the other, and every answer is found
for all of them at once. What a character is (a letter? a blank?) is asked once for each
distinct character, as a regular expression, and gathered from there.
"""

from typing import NamedTuple

import tensorflow as tf

# What Python's `str.split()` splits at.
_WHITESPACE = r"[\x{9}-\x{D}\x{1C}-\x{20}\x{85}\p{Z}]"
# Controls, zero-width space, word joiner and byte order mark separate words as well.
_BLANK = r"[\p{Z}\p{Cc}\x{200B}\x{2060}\x{FEFF}]"
# Accents, variation selectors and vowel signs.
_MARK = r"\p{M}"
# Joiners, soft hyphens, tags and skin tones: nothing that stands alone.
_ATTACHED = r"[\p{Cf}\x{1F3FB}-\x{1F3FF}]"
# Scripts that put no blank between words: Han, kana (the Katakana script lacks the
# prolonged sound mark and half-width forms of it), Thai, Lao, Khmer, Myanmar.
_UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\x{30FC}\x{FF70}\x{FF9E}\x{FF9F}"
    r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
)
_LETTER = r"[\p{L}\p{N}]"
_FLAG_HALF = r"[\x{1F1E6}-\x{1F1FF}]"
_ZERO_WIDTH_JOINER = 0x200D

# Kinds of characters. From _LETTERS on, neighbours of one kind are one word.
_BLANKS, _ATTACHING, _SINGLES, _LETTERS, _FLAGS = range(5)


class Characters(NamedTuple):
    """The characters of a batch of texts, laid flat.

    Attributes:
        codes: int32 [N], code points of all texts, one text after the other.
        row_splits: int64 [B + 1], where each text begins and ends in `codes`.
        distinct: int32 [U], the different code points.
        index: int32 [N], where each code point stands in `distinct`.
    """

    codes: tf.Tensor
    row_splits: tf.Tensor
    distinct: tf.Tensor
    index: tf.Tensor


class Pieces(NamedTuple):
    """Stretches of characters (words or parts of words) of a batch, laid flat.

    Attributes:
        starts: int64 [P], place of the first character in `Characters.codes`.
        ends: int64 [P], place behind the last character.
        row_splits: int64 [B + 1], where the pieces of each text begin and end.
    """

    starts: tf.Tensor
    ends: tf.Tensor
    row_splits: tf.Tensor


def read_characters(texts):
    """Decodes UTF-8 as Python's `decode("utf-8", "replace")` does.

    Args:
        texts: string [B].

    Returns:
        `Characters`.
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
    distinct, index = tf.unique(codes.flat_values)
    return Characters(codes.flat_values, codes.row_splits, distinct, index)


def as_strings(codes):
    """Code points int32 [U] -> string [U], one character each."""
    return tf.strings.unicode_encode(codes[:, tf.newaxis], "UTF-8")


def fold_width(codes):
    """Full-width ASCII forms (！ to ～) become the ASCII characters they stand for."""
    full_width = (codes >= 0xFF01) & (codes <= 0xFF5E)
    return tf.where(full_width, codes - 0xFEE0, codes)


def first_of_row(rows):
    """True where a sorted list of row numbers [N] begins a new row."""
    return tf.concat([tf.ones_like(rows[:1], tf.bool), rows[1:] != rows[:-1]], 0)


def single_characters(characters):
    """Every character as a piece of its own, blanks included."""
    places = tf.range(tf.size(characters.codes, tf.int64))
    return Pieces(places, places + 1, characters.row_splits)


def find_words(characters, split):
    """Finds the words of each text.

    Args:
        characters: `Characters`.
        split: "whitespace", where words are what `str.split()` gives, or "unicode":
            letters and digits stick together; a character of a script that puts no
            blank between words, a punctuation mark and a symbol stand alone; accents,
            joiners and skin tones belong to what they follow, and what follows a
            zero-width joiner belongs to it too.

    Returns:
        `Pieces`, one for each word.
    """
    rows = tf.RaggedTensor.from_row_splits(
        characters.codes, characters.row_splits, validate=False
    ).value_rowids()
    first = first_of_row(rows)
    if split == "whitespace":
        blank = tf.strings.regex_full_match(
            as_strings(characters.distinct), _WHITESPACE
        )
        inside = ~tf.gather(blank, characters.index)
        opens = inside & (first | ~_shifted(inside))
    else:
        inside, opens = _unicode_words(characters, first)
    closes = inside & _next(opens | ~inside | first)
    starts = tf.where(opens)[:, 0]
    ends = tf.where(closes)[:, 0] + 1
    row_splits = tf.searchsorted(starts, characters.row_splits, out_type=tf.int64)
    return Pieces(starts, ends, row_splits)


def _unicode_words(characters, first):
    """Which characters are inside a word, and which of them open one."""
    kinds = tf.gather(_kinds(characters.distinct), characters.index)
    mark = tf.gather(_matches(characters.distinct, _MARK), characters.index)
    attaching = kinds == _ATTACHING
    # What attaches is of the kind of what it follows; nothing precedes a first one.
    own = ~attaching | first
    kinds = tf.where(attaching & first, _BLANKS, kinds)
    kinds = tf.gather(kinds[own], tf.cumsum(tf.cast(own, tf.int32)) - 1)
    # A joiner behind a blank is blank; an accent there can be seen, so it is a letter.
    kinds = tf.where(mark & (kinds == _BLANKS), _LETTERS, kinds)
    inside = kinds != _BLANKS
    previous = _shifted(kinds)
    continues = (
        attaching
        | (_shifted(characters.codes) == _ZERO_WIDTH_JOINER)
        | ((kinds == previous) & (kinds >= _LETTERS))
    )
    return inside, inside & (first | (previous == _BLANKS) | ~continues)


def _kinds(codes):
    """The kind of each code point [U] -> int32 [U]."""
    kinds = tf.fill(tf.shape(codes), _SINGLES)
    # The later rule wins: zero-width space is a format character, but a blank first.
    for pattern, kind in (
        (_LETTER, _LETTERS),
        (_UNSPACED, _SINGLES),
        (_FLAG_HALF, _FLAGS),
        (_MARK, _ATTACHING),
        (_ATTACHED, _ATTACHING),
        (_BLANK, _BLANKS),
    ):
        kinds = tf.where(_matches(codes, pattern), kind, kinds)
    return kinds


def _matches(codes, pattern):
    return tf.strings.regex_full_match(as_strings(codes), pattern)


def _shifted(values):
    """Each place gets the value before it; the first keeps its own."""
    return tf.concat([values[:1], values[:-1]], 0)


def _next(flags):
    """Each place gets the flag behind it; behind the last there is True."""
    return tf.concat([flags[1:], tf.ones_like(flags[:1])], 0)
