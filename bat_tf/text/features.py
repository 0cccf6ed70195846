"""What a word looks like, as small integers: its case, its beginning and its end."""

import tensorflow as tf

from bat_tf._internal.validation import check_choice
from bat_tf.text.splitting import as_strings, fold_width

CASES = (
    "padding",
    "lower",  # water
    "title",  # Water
    "upper",  # USB
    "capital",  # A
    "mixed",  # iPhone
    "digits",  # 2024
    "with digits",  # 128GB
    "punctuation",  # no letter, no digit
    "other",  # 水: letters without case
)
# Affixes are hashed; two of them share a number now and then.
_BUCKETS = {1: 512, 2: 2048, 3: 4096, 4: 8192}
_AFFIXES = {
    f"{side}{length}": (side, length)
    for side in ("prefix", "suffix")
    for length in _BUCKETS
}
FEATURES = ("case", *_AFFIXES)


def feature_size(name):
    """How many values a feature has, padding (0) included."""
    check_choice("features", name, FEATURES)
    return len(CASES) if name == "case" else _BUCKETS[_AFFIXES[name][1]] + 1


def word_features(names, characters, words):
    """The features of every word of a batch.

    Args:
        names: names out of `FEATURES`.
        characters: `Characters` of the texts.
        words: `Pieces`, the words.

    Returns:
        dict: name -> int32 [W]; 0 does not occur.
    """
    if not names:
        return {}
    places = tf.ragged.range(words.starts, words.ends)
    codes = tf.gather(fold_width(characters.codes), places.values)
    strings = tf.strings.unicode_encode(places.with_values(codes), "UTF-8")
    strings = tf.strings.lower(strings, encoding="utf-8")
    return {
        name: _cases(characters, places)
        if name == "case"
        else _affixes(strings, *_AFFIXES[name])
        for name in names
    }


def _affixes(words, side, length):
    """The hash bucket, from 1 on, of the first or last characters of each word."""
    start = tf.zeros_like(words, tf.int32)
    if side == "suffix":
        size = tf.strings.length(words, unit="UTF8_CHAR")
        start = tf.maximum(size - length, 0)
    affix = tf.strings.substr(
        words, start, tf.fill(tf.shape(start), length), "UTF8_CHAR"
    )
    bucket = tf.strings.to_hash_bucket_fast(affix, _BUCKETS[length])
    return 1 + tf.cast(bucket, tf.int32)


def _cases(characters, places):
    """The place in `CASES` of each word, words given as places of characters."""
    # The accents of a word must not make a word of letters into one of other things.
    patterns = (r"[\p{Lu}\p{Lt}]", r"\p{Ll}", r"\p{L}", r"\p{Nd}", r"[^\p{M}\p{Cf}]")
    strings = as_strings(fold_width(characters.distinct))
    flags = tf.stack(
        [tf.strings.regex_full_match(strings, pattern) for pattern in patterns], 1
    )
    flags = tf.gather(
        tf.cast(flags, tf.int32), tf.gather(characters.index, places.values)
    )
    counts = tf.math.segment_sum(flags, places.value_rowids())
    upper, lower, letter, digit, visible = tf.unstack(counts, axis=1)
    first = tf.gather(flags[:, 0], places.row_starts()) > 0
    rules = (  # the first that holds
        ((digit > 0) & (digit == visible), "digits"),
        (digit > 0, "with digits"),
        (letter == 0, "punctuation"),
        (upper + lower == 0, "other"),
        ((upper == 1) & (visible == 1), "capital"),
        (upper == 0, "lower"),
        (lower == 0, "upper"),
        (first & (upper == 1), "title"),
    )
    cases = tf.fill(tf.shape(upper), CASES.index("mixed"))
    for holds, case in reversed(rules):
        cases = tf.where(holds, CASES.index(case), cases)
    return cases
