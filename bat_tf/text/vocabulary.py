"""How texts come in, and how the tokens of a vocabulary are counted and chosen."""

import collections

import numpy as np
import tensorflow as tf

from bat_tf._internal.validation import check_text, sentence


def as_batch(texts):
    """Texts (list, array or tensor) as a string tensor [B]."""
    if isinstance(texts, (list, tuple)):
        texts = [_as_bytes(text) for text in texts]
    expected = "a list, array or tensor of strings"
    try:
        batch = tf.convert_to_tensor(texts, tf.string)
    except (TypeError, ValueError) as error:
        raise TypeError(sentence("texts", expected, texts)) from error
    if batch.shape.rank == 0:
        remedy = "Put a single text into a list."
        raise ValueError(sentence("texts", expected, texts, remedy))
    return tf.reshape(batch, [-1])


def _as_bytes(text):
    # A lone surrogate has no UTF-8; "?" keeps the count of characters.
    return text.encode("utf-8", "replace") if isinstance(text, str) else text


class Lookup:
    """Finds the ids of tokens.

    The tokens are known by 63 bits of their fingerprints, held as constants. Unlike a
    hash table this is no resource, which would have to be tracked and initialised: it
    goes along wherever its graph goes.

    Args:
        tokens: list of str.
        first_id: id of the first token.
        unknown_id: id of what is not among them.
    """

    def __init__(self, tokens, first_id, unknown_id):
        with tf.init_scope():
            fingerprints = _fingerprints(tf.constant(tokens, tf.string)).numpy()
        order = np.argsort(fingerprints)
        self._fingerprints = fingerprints[order]
        self._ids = (first_id + order).astype(np.int32)
        self._unknown_id = unknown_id

    def __call__(self, strings):
        """String [K] -> int32 [K]."""
        wanted = _fingerprints(strings)
        place = tf.searchsorted(self._fingerprints, wanted)
        place = tf.minimum(place, len(self._ids) - 1)
        found = tf.gather(self._fingerprints, place) == wanted
        return tf.where(found, tf.gather(self._ids, place), self._unknown_id)


def _fingerprints(strings):
    return tf.strings.to_hash_bucket_fast(strings, tf.int64.max)


def count_keys(keys_of, texts):
    """Counts keys over any number of texts, which are read once and not held.

    Args:
        keys_of: function of string [B] that returns keys, string [K], and how often
            each occurs, int [K]. Traced once.
        texts: iterable of str, or a `tf.data.Dataset` of strings.

    Returns:
        dict: key -> count.
    """
    counts, num_texts = collections.Counter(), 0
    spec = tf.TensorSpec([None], tf.string)
    keys_of = tf.function(keys_of, autograph=False).get_concrete_function(spec)
    for batch in _batches(texts):
        num_texts += len(batch)
        keys, numbers = keys_of(tf.constant(batch))
        for key, number in zip(keys.numpy(), numbers.numpy(), strict=True):
            counts[key.decode("utf-8")] += int(number)
    if not counts:
        received = f"{num_texts} texts without a token"
        raise ValueError(sentence("texts", "texts with tokens in them", received))
    return counts


def most_frequent(counts, size, min_count, without):
    """The most frequent keys but those in `without`, equal counts by code points."""
    kept = [
        key
        for key, number in counts.items()
        if number >= min_count and key not in without
    ]
    if not kept:
        expected = f"at most {max(counts.values())}, the count of the commonest token"
        raise ValueError(sentence("min_count", expected, min_count))
    return sorted(kept, key=lambda key: (-counts[key], key))[:size]


def check_vocabulary(vocabulary, specials):
    """Raises unless `vocabulary` holds different tokens, all of `specials` and more."""
    strange = [token for token in vocabulary if not isinstance(token, str)]
    if strange:
        raise TypeError(sentence("vocabulary", "a list of str", strange[0]))
    for token in vocabulary:
        check_text(token, "a token of the vocabulary")
    if len(vocabulary) <= len(specials):
        remedy = "Learn one with `adapt(texts)`."
        raise ValueError(sentence("vocabulary", "a list of tokens", vocabulary, remedy))
    missing = [token for token in specials if token not in vocabulary]
    if missing:
        expected = f"a list that holds {', '.join(specials)}"
        received = f"{len(vocabulary)} tokens without {', '.join(missing)}"
        raise ValueError(sentence("vocabulary", expected, received))
    token, number = collections.Counter(vocabulary).most_common(1)[0]
    if number > 1:
        received = f"{token!r} {number} times"
        raise ValueError(sentence("vocabulary", "a list of different tokens", received))


def _batches(texts, num_texts=1024, num_bytes=1_000_000):
    """Lists of texts, full at `num_texts` texts or behind `num_bytes` bytes."""
    batch, size = [], 0
    for text in _each(texts):
        batch.append(text)
        size += len(text)
        if len(batch) == num_texts or size > num_bytes:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _each(texts):
    expected = "an iterable of str, or a tf.data.Dataset of strings"
    if isinstance(texts, (str, bytes)):
        raise TypeError(sentence("texts", expected, texts[:60], "Put it into a list."))
    for text in texts:
        if isinstance(text, (str, bytes)):
            yield _as_bytes(text)
        elif tf.is_tensor(text) and text.dtype == tf.string:
            yield from np.ravel(text.numpy())
        else:
            raise TypeError(sentence("texts", expected, text))
