"""Texts to token ids, mask and character offsets, in the graph."""

import json
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.text.features import FEATURES, feature_size, word_features
from bat_tf.text.splitting import (
    as_strings,
    find_words,
    fold_width,
    read_characters,
    single_characters,
)
from bat_tf.text.vocabulary import (
    Lookup,
    as_batch,
    check_vocabulary,
    count_keys,
    most_frequent,
)
from bat_tf.text.wordpiece import (
    SPECIALS,
    WordPieceModel,
    bert_word_strings,
    group_pieces,
    learn_pieces,
    read_folder,
)

KINDS = ("characters", "words", "wordpiece")
SPLITS = ("unicode", "whitespace")
_ASSET = "vocabulary.json"


@keras.saving.register_keras_serializable(package="bat_tf")
class TextTokenizer(keras.layers.Layer):
    """Turns texts into token ids, padding mask and character offsets, in the graph.

    The offsets count the characters of the caller's string, whatever the tokenizer did
    to it: `text[start:end]` is what the token was read from. Characters count as in
    Python, for invalid UTF-8 as in `bytes.decode("utf-8", "replace")`.

    * `"characters"`: each code point is a token, blanks included.
    * `"words"`: letters and digits stick together, also with the accents, joiners and
      skin tones that follow them. Characters of scripts that put no blank between
      words (Han, kana, Thai, Lao, Khmer, Myanmar) and all punctuation marks and
      symbols are words of their own, so that a tag can begin and end at each of them:
      `USB-C` is three words, `Apple's` is three and `3.5` is three. Flags side by side
      are one word. Whitespace, controls, zero-width space, word joiner and byte order
      mark separate words and are never tokens.
    * `"wordpiece"`: BERT's pieces, equal in ids and offsets to the Hugging Face
      tokenizer, but for a few hundred characters that its Unicode tables are too old
      for, and for special tokens, which are plain text when a text spells them. As
      there, an accent stripped from the end of a word is outside its offsets. `[CLS]`
      and `[SEP]` are put around each text. A piece belongs to the word it begins in.

    Characters and words need core TensorFlow ops alone. Their vocabulary holds folded
    tokens: lowercase (if asked for), full-width ASCII forms as ASCII; nothing else is
    normalised. Id 0 is `[PAD]` and id 1 `[UNK]`. Word pieces need tensorflow-text.

    The layer has no weights and passes no Keras mask on; `padding_mask` is an output.
    It opts out of XLA, which has no strings.

    Args:
        kind: `"characters"`, `"words"` or `"wordpiece"`.
        vocabulary: list of tokens, or None to learn it with `adapt`. For characters and
            words, `[PAD]` and `[UNK]` are put in front of it unless they are there;
            for word pieces it must hold `[PAD]`, `[UNK]`, `[CLS]` and `[SEP]`.
        vocabulary_size: how many tokens `adapt` may learn, special ones included. Word
            pieces always keep every character, even if that makes more.
        min_count: how often a token (of word pieces: a pair of pieces) must occur to be
            learnt.
        lowercase: whether upper and lower case are the same. For word pieces, accents
            go as well, as in uncased BERT models.
        split: what a word is, for words and word pieces: `"unicode"` as above, or
            `"whitespace"`, what `str.split()` gives, for texts that are already
            tokenised and joined with blanks.
        features: names of what else to return about the word of each token: `"case"`,
            `"prefix1"` to `"prefix4"`, `"suffix1"` to `"suffix4"` (hash buckets of the
            first and last characters, lowercased). 0 is padding.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        texts: string [B].

    Returns:
        What `pack` returns.

    Example:
        >>> tokenizer = TextTokenizer("words")
        >>> tokenizer.adapt(["blue water bottle", "water filter"])
        >>> tokenizer.vocabulary
        ['[PAD]', '[UNK]', 'water', 'blue', 'bottle', 'filter']
        >>> tokens = tokenizer(["Water bottle", "cup"])
        >>> tokens["token_ids"].numpy().tolist()
        [[2, 4], [1, 0]]
        >>> tokens["starts"].numpy().tolist(), tokens["ends"].numpy().tolist()
        ([[0, 6], [0, 0]], [[5, 12], [3, 0]])
        >>> tokens["padding_mask"].numpy().tolist()
        [[True, True], [True, False]]
    """

    def __init__(
        self,
        kind="words",
        vocabulary=None,
        *,
        vocabulary_size=30000,
        min_count=1,
        lowercase=True,
        split="unicode",
        features=(),
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kind = check_choice("kind", kind, KINDS)
        self.vocabulary_size = check_number(
            "vocabulary_size", vocabulary_size, low=3, integer=True
        )
        self.min_count = check_number("min_count", min_count, low=1, integer=True)
        self.lowercase = bool(lowercase)
        self.split = check_choice("split", split, SPLITS)
        self.features = tuple(features)
        for name in self.features:
            check_choice("features", name, FEATURES)
        self.supports_jit = False
        self._vocabulary = None
        if vocabulary is not None:
            self._set_vocabulary(vocabulary)

    @classmethod
    def from_folder(cls, path, **kwargs):
        """Makes the word-piece tokenizer of a BERT-family model.

        Args:
            path: folder with `vocab.txt` or `tokenizer.json`, as Hugging Face saves it.
            **kwargs: other arguments of `TextTokenizer`, such as `split`.

        Returns:
            `TextTokenizer`.

        Example:
            >>> import tempfile
            >>> folder = Path(tempfile.mkdtemp())
            >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b"]
            >>> _ = (folder / "vocab.txt").write_text(chr(10).join(pieces))
            >>> TextTokenizer.from_folder(folder)(["ab"])["token_ids"].numpy().tolist()
            [[2, 4, 5, 3]]
        """
        vocabulary, lowercase = read_folder(path)
        return cls("wordpiece", vocabulary, lowercase=lowercase, **kwargs)

    # === Vocabulary ===

    @property
    def vocabulary(self):
        """The tokens in the order of their ids; empty before `adapt`."""
        return [] if self._vocabulary is None else self._vocabulary.tolist()

    @property
    def num_special(self):
        """How many tokens `pack` puts around a text."""
        return 2 if self.kind == "wordpiece" else 0

    @property
    def feature_sizes(self):
        """Feature name -> how many values it has, 0 for padding included."""
        return {name: feature_size(name) for name in self.features}

    def adapt(self, texts):
        """Learns the vocabulary: the most frequent tokens, ties by code points.

        Args:
            texts: iterable of str, or a `tf.data.Dataset` of strings. It is read once
                and never held as a whole.
        """
        counts = count_keys(self._keys, texts)
        if self.kind == "wordpiece":
            learnt = learn_pieces(counts, self.vocabulary_size, self.min_count)
        else:
            learnt = most_frequent(
                counts, self.vocabulary_size - 2, self.min_count, without=SPECIALS[:2]
            )
        self._set_vocabulary(learnt)

    def _keys(self, texts):
        """The keys in a batch of texts, and how often each occurs."""
        characters = read_characters(texts)
        if self.kind == "characters":
            keys = self._fold(as_strings(fold_width(characters.distinct)))
            return keys, tf.math.bincount(characters.index, dtype=tf.int32)
        if self.kind == "words":
            keys = self._word_keys(characters, find_words(characters, self.split))
        else:
            keys = bert_word_strings(characters, self.lowercase)
        keys, _, counts = tf.unique_with_counts(keys)
        return keys, counts

    def _set_vocabulary(self, vocabulary):
        if isinstance(vocabulary, str):
            raise TypeError(sentence("vocabulary", "a list of str", vocabulary))
        vocabulary = list(vocabulary)
        if self.kind != "wordpiece" and tuple(vocabulary[:2]) != SPECIALS[:2]:
            vocabulary = [*SPECIALS[:2], *vocabulary]
        specials = SPECIALS if self.kind == "wordpiece" else SPECIALS[:2]
        check_vocabulary(vocabulary, specials)
        if self.kind == "wordpiece":
            self._pieces = WordPieceModel(vocabulary, self.lowercase)
            self._special_ids = tuple(
                vocabulary.index(token) for token in ("[PAD]", "[CLS]", "[SEP]")
            )
        else:
            # The special tokens are no keys: a text that spells them is not special.
            self._lookup = Lookup(vocabulary[2:], first_id=2, unknown_id=1)
        # An array, since Keras and TensorFlow would track every string of a list.
        self._vocabulary = np.array(vocabulary, dtype=object)

    # === Tokens ===

    def tokenize(self, texts):
        """Cuts texts into tokens, without special tokens and padding.

        Args:
            texts: string [B].

        Returns:
            dict of `tf.RaggedTensor`, int32 [B, None]: `"token_ids"`; `"starts"` and
            `"ends"`, in characters of the text; `"word_ids"`, which word of the text
            the token belongs to; and one entry for each of `features`.

        Example:
            >>> tokenizer = TextTokenizer("characters", vocabulary=["東", "京"])
            >>> tokenizer.tokenize(["東京へ", ""])["token_ids"].to_list()
            [[2, 3, 1], []]
        """
        if self._vocabulary is None:
            raise ValueError(
                f"The tokenizer {self.name!r} has no vocabulary yet. Learn it with "
                "`adapt(texts)`, pass `vocabulary`, or load a saved model."
            )
        characters = read_characters(as_batch(texts))
        ids, pieces, words, owners = self._cut(characters)
        rows = tf.repeat(
            tf.range(tf.size(pieces.row_splits) - 1),
            pieces.row_splits[1:] - pieces.row_splits[:-1],
        )
        before = tf.gather(characters.row_splits, rows)
        values = {
            "token_ids": ids,
            "starts": pieces.starts - before,
            "ends": pieces.ends - before,
            "word_ids": owners - tf.gather(words.row_splits, rows),
        }
        for name, feature in word_features(self.features, characters, words).items():
            values[name] = tf.gather(feature, owners)
        return {
            name: tf.RaggedTensor.from_row_splits(
                tf.cast(value, tf.int32), pieces.row_splits, validate=False
            )
            for name, value in values.items()
        }

    def _cut(self, characters):
        """Ids [P] and places of the tokens, places of the words, word of each token."""
        if self.kind == "wordpiece":
            ids, pieces = self._pieces(characters)
            return ids, pieces, *group_pieces(characters, pieces, self.split)
        if self.kind == "characters":
            keys = self._fold(as_strings(fold_width(characters.distinct)))
            ids = tf.gather(self._lookup(keys), characters.index)
            pieces = single_characters(characters)
        else:
            pieces = find_words(characters, self.split)
            ids = self._lookup(self._word_keys(characters, pieces))
        return ids, pieces, pieces, tf.range(tf.size(pieces.starts, tf.int64))

    def _word_keys(self, characters, words):
        places = tf.ragged.range(words.starts, words.ends)
        codes = tf.gather(fold_width(characters.codes), places.values)
        return self._fold(tf.strings.unicode_encode(places.with_values(codes), "UTF-8"))

    def _fold(self, strings):
        return (
            tf.strings.lower(strings, encoding="utf-8") if self.lowercase else strings
        )

    def pack(self, tokens, length=None):
        """Adds special tokens and pads.

        Args:
            tokens: what `tokenize` (or `windows.split`) returns.
            length: the T to pad to, special tokens included; longer texts are an
                error. None pads to the longest text, and to 1 if all are empty, so
                that no encoder meets a tensor without tokens.

        Returns:
            dict of tensors [B, T]: int32 `"token_ids"` (padding: the id of `[PAD]`),
            bool `"padding_mask"` (True for tokens and special tokens), int32 `"starts"`
            and `"ends"` (0 at padding and special tokens), int32 `"word_ids"` (-1
            there) and the features (0 there).

        Example:
            >>> tokenizer = TextTokenizer("words", vocabulary=["a"])
            >>> packed = tokenizer.pack(tokenizer.tokenize(["a b", "a"]), length=3)
            >>> packed["word_ids"].numpy().tolist()
            [[0, 1, -1], [0, -1, -1]]
        """
        splits = tokens["token_ids"].row_splits
        sizes = splits[1:] - splits[:-1]
        num_columns = self._num_columns(sizes + self.num_special, length)
        # Where to read each cell: its token, or one of the fillers behind all tokens.
        columns = tf.range(num_columns)[tf.newaxis] - self.num_special // 2
        behind = columns - sizes[:, tf.newaxis]
        index = tf.where(behind < 0, splits[:-1, tf.newaxis] + columns, splits[-1])
        if self.num_special:
            index = tf.where(columns < 0, splits[-1] + 1, index)
            index = tf.where(behind == 0, splits[-1] + 2, index)
        packed = {}
        for name, values in tokens.items():
            cells = tf.gather(tf.concat([values.values, self._fillers(name)], 0), index)
            packed[name] = tf.ensure_shape(cells, [None, length])
        packed["padding_mask"] = behind < self.num_special // 2
        return packed

    def _fillers(self, name):
        """What stands at padding, before and behind a text."""
        if name == "token_ids" and self.kind == "wordpiece":
            return self._special_ids
        return [-1 if name == "word_ids" else 0] * 3

    def _num_columns(self, sizes, length):
        longest = tf.reduce_max(tf.concat([sizes, [1]], 0))
        if length is None:
            return longest
        check_number("length", length, low=1, integer=True)
        num_columns = tf.constant(length, tf.int64)
        tf.debugging.assert_less_equal(
            longest,
            num_columns,
            f"`length` must be at least the number of tokens of the longest text. "
            f"Received: {length}. Cut long texts with `bat_tf.text.windows.split`.",
        )
        return num_columns

    # === Keras ===

    def __call__(self, texts, **kwargs):
        """Takes lists of str as well, which Keras layers refuse."""
        if not isinstance(texts, keras.KerasTensor):
            texts = as_batch(texts)
        return super().__call__(texts, **kwargs)

    def call(self, texts):
        """Tokenizes and packs."""
        return self.pack(self.tokenize(texts))

    def compute_output_spec(self, texts):
        """Shapes and types of the outputs."""
        # Known without the vocabulary, which a model under reconstruction lacks.
        shape = (texts.shape[0], None)
        names = ("token_ids", "starts", "ends", "word_ids", *self.features)
        spec = {name: keras.KerasTensor(shape, "int32") for name in names}
        return {**spec, "padding_mask": keras.KerasTensor(shape, "bool")}

    def get_config(self):
        """All arguments but the vocabulary, which is an asset."""
        return {
            **super().get_config(),
            "kind": self.kind,
            "vocabulary_size": self.vocabulary_size,
            "min_count": self.min_count,
            "lowercase": self.lowercase,
            "split": self.split,
            "features": list(self.features),
        }

    def save_assets(self, dir_path):
        """Writes the vocabulary, which may hold any character, as JSON."""
        path = Path(dir_path) / _ASSET
        path.write_text(json.dumps(self.vocabulary), encoding="utf-8")

    def load_assets(self, dir_path):
        """Reads what `save_assets` wrote."""
        vocabulary = json.loads((Path(dir_path) / _ASSET).read_text(encoding="utf-8"))
        if vocabulary:
            self._set_vocabulary(vocabulary)
