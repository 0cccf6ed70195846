"""N-grams of a text as numbers: of neighbouring words, and of characters inside words.

A text is read as *letters*: lower-case code points with a 0 in front of each word.
Where no blanks stand between words, every character is a word. An n-gram is known by a
64-bit number made of its letters, so that nothing has to be spelt: not in memory, and
not in a SavedModel.
"""

import numpy as np
import tensorflow as tf

from bat_tf.text.splitting import as_strings, find_words, fold_width, read_characters
from bat_tf.text.vocabulary import as_batch

_BASE = np.int64(1_000_003)
_MIX = np.int64(-7046029254386353131)
LONGEST_WORD = 64  # what stands behind it makes no difference


def read_letters(texts, most=None):
    """The letters of texts.

    Args:
        texts: strings [B], in any form.
        most: letters of a text that are kept, the first ones; None is all.

    Returns:
        RaggedTensor int32 [B, None].

    Example:
        >>> "".join(chr(c or 95) for c in read_letters(["Café, 2 東京"])[0].numpy())
        '_café_,_2_東_京'
    """
    characters = read_characters(as_batch(texts))
    words = find_words(characters, "unicode")
    codes = tf.gather(_lower(characters.distinct), characters.index)
    inside = tf.ragged.range(words.starts, words.ends)
    letters = inside.with_values(tf.gather(codes, inside.values))
    gap = tf.zeros([tf.size(words.starts), 1], tf.int32)
    letters = tf.concat([gap, letters], axis=1)
    splits = tf.gather(letters.row_splits, words.row_splits)
    found = tf.RaggedTensor.from_row_splits(letters.values, splits, validate=False)
    return found if most is None else found[:, :most]


def _lower(codes):
    """The lower case of code points; of those that become several, the first."""
    lower = tf.strings.lower(as_strings(fold_width(codes)), encoding="utf-8")
    lower = tf.strings.unicode_decode(lower, "UTF-8", errors="replace")
    first = lower[:, :1].to_tensor(0, shape=[None, 1])[:, 0]
    return tf.where(first == 0, codes, first)


def ngram_keys(letters, words, characters):
    """The keys of all n-grams, each as often as it occurs.

    Args:
        letters: int32 [B, T], padded with 0.
        words: neighbouring words that make an n-gram at most; 0 for none.
        characters: characters that make one at most, two at least, the blank in front
            of a word and behind it among them; 0 for none.

    Returns:
        A list with (rows, keys), int64 [N] each, for words and for characters, if they
        are asked for.
    """
    letters = tf.pad(tf.cast(letters, tf.int64), [[0, 0], [0, 1]])
    found = []
    if words:
        found.append(_of_words(letters, words))
    if characters:
        found.append(_of_characters(letters, characters))
    return found


def _mixed(keys):
    """Spreads keys out: sums of sums would meet, "b a" and "ab" among them."""
    keys *= _MIX
    return tf.bitwise.bitwise_xor(keys, tf.bitwise.right_shift(keys, np.int64(31)))


def _of_words(letters, most):
    width = tf.shape(letters, tf.int64)[1]
    flat = tf.reshape(letters, [-1])
    begins = (flat == 0) & (tf.roll(flat, -1, 0) != 0)
    places = tf.range(tf.size(flat, tf.int64))
    starts = places[begins]
    number = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    inside = tf.where(flat != 0)[:, 0]
    owner = tf.gather(number, inside)
    place = inside - tf.gather(starts, owner)
    kept = place <= LONGEST_WORD
    inside, owner, place = inside[kept], owner[kept], place[kept]
    powers = np.cumprod(np.full(LONGEST_WORD + 1, _BASE))
    values = tf.gather(flat, inside) * tf.gather(powers, place)
    word = _mixed(tf.math.unsorted_segment_sum(values, owner, tf.size(starts)))
    rows = starts // width
    all_rows, all_keys = [rows], [word]
    keys = word
    for step in range(1, most):
        keys = _mixed(keys[:-1] * _BASE + word[step:])
        first = rows[: tf.size(keys)]
        same = first == rows[step:]
        all_rows.append(first[same])
        all_keys.append(keys[same])
    return tf.concat(all_rows, 0), tf.concat(all_keys, 0)


def _of_characters(letters, most):
    total = tf.shape(letters)[1]
    keys, rows = [], []
    key, inside = letters, tf.ones_like(letters, tf.bool)
    for size in range(2, most + 1):
        # Blanks may stand at the ends of an n-gram alone.
        last = letters[:, size - 1 :]
        before = letters[:, size - 2 : total - 1]
        length = tf.maximum(total - size + 1, 0)
        key = key[:, :length] * _BASE + last
        inside = inside[:, :length]
        inside = inside & (before != 0) if size > 2 else inside
        valid = inside if size > 2 else (before != 0) | (last != 0)
        at = tf.where(valid)
        rows.append(at[:, 0])
        # " a" must not be "a" one letter further on.
        keys.append(_mixed(tf.gather_nd(key, at) + size * int(_MIX) % 2**62))
    return tf.concat(rows, 0), tf.concat(keys, 0)


def counted(rows, keys, known):
    """How often each row has each known key.

    Args:
        rows: int64 [N].
        keys: int64 [N].
        known: sorted int64 [V].

    Returns:
        (rows, ids, counts): of each row, the places in `known` that it has, in order.
    """
    place = tf.searchsorted(known, keys, out_type=tf.int64)
    place = tf.minimum(place, tf.size(known, tf.int64) - 1)
    found = tf.gather(known, place) == keys
    size = tf.size(known, tf.int64)
    both = tf.sort(rows[found] * size + place[found])
    both, _, counts = tf.unique_with_counts(both)
    return both // size, both % size, counts


def common_keys(batches, words, characters, min_count, most):
    """The n-grams that occur in enough texts, and in how many.

    Args:
        batches: arrays of letters [B, T].
        words: see `ngram_keys`.
        characters: see `ngram_keys`.
        min_count: texts that an n-gram has to occur in.
        most: n-grams that are kept at most, the commonest.

    Returns:
        (keys, groups, counts): sorted int64 [V]; 1 for characters; texts with it.
    """
    groups = range(bool(words) + bool(characters))

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)])
    def keys_of(letters):
        found = []
        for rows, keys in ngram_keys(letters, words, characters):
            # An n-gram counts once a text.
            texts, place = tf.unique(keys * _BASE + rows)
            seen = tf.math.unsorted_segment_max(keys, place, tf.size(texts))
            found.append(tf.unique_with_counts(seen))
        return [(each.y, each.count) for each in found]

    tallies = [Tally() for _ in groups]
    for batch in batches:
        for tally, (keys, counts) in zip(tallies, keys_of(batch), strict=True):
            tally.add(keys.numpy(), counts.numpy())
    if not words:
        tallies.insert(0, Tally())
    found = [tally.result(min_count) for tally in tallies]
    keys, counts = (np.concatenate(parts) for parts in zip(*found, strict=True))
    groups = np.repeat(np.arange(len(found)), [len(keys) for keys, _ in found])
    kept = np.argsort(-counts, kind="stable")[:most]
    order = kept[np.argsort(keys[kept])]
    return keys[order], groups[order], counts[order]


class Tally:
    """Counts of very many keys, in little memory."""

    def __init__(self):
        self._keys, self._counts = np.zeros(0, "int64"), np.zeros(0, "int64")
        self._new, self._size = [], 0

    def add(self, keys, counts):
        """Counts different keys."""
        self._new.append((keys, counts))
        self._size += len(keys)
        if self._size > 2_000_000:
            self._merge()

    def _merge(self):
        keys = np.concatenate([self._keys, *(keys for keys, _ in self._new)])
        counts = np.concatenate([self._counts, *(counts for _, counts in self._new)])
        self._keys, place = np.unique(keys, return_inverse=True)
        self._counts = np.bincount(place, counts, len(self._keys)).astype("int64")
        self._new, self._size = [], 0

    def result(self, min_count):
        """(keys, counts) of those that are frequent enough."""
        self._merge()
        kept = self._counts >= min_count
        return self._keys[kept], self._counts[kept]
