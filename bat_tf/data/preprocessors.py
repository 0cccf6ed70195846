"""STRINGS and what people said about them → what a model reads.

A preprocessor owns everything between a text and a model's inputs: the tokenizer, the
length, the windows, the tag scheme or the labels. It works in two ways:

* `preprocessor(x, y, sample_weight)` takes a batch of strings, also in the graph of a
  `tf.data` pipeline, and returns the batch that a model trains on.
* `encode` tokenises a whole data set once, and `batches` packs it batch by batch, with
  examples of similar length together. This is what `fit` does.
"""

import itertools
import json
from numbers import Number
from pathlib import Path

import keras
import numpy as np
import scipy.sparse
import tensorflow as tf

from bat_tf._internal.files import atomic_write
from bat_tf._internal.targets import check_form, form_of, id_width, read
from bat_tf._internal.validation import (
    check_choice,
    check_number,
    sentence,
    shown,
)
from bat_tf.data import pipeline
from bat_tf.data.dataset import check_spans
from bat_tf.data.labels import LabelSpace
from bat_tf.data.pipeline import LETTERS, TARGETS, WEIGHTS
from bat_tf.data.texts import as_texts
from bat_tf.text import alignment, windows
from bat_tf.text.ngrams import read_letters
from bat_tf.text.tokenizer import TextTokenizer

# Marked texts tokenised at a time.
MARKED = 512
_SINGLE = (str, Number, np.generic)  # a target that is no list


class Preprocessor:
    """Strings → model inputs, for one task; see the subclasses.

    Args:
        tokenizer: a `TextTokenizer`.
        max_length: tokens that a model reads at once, special tokens included.
    """

    task = None
    letters = 0  # of a text, beside its tokens

    def __init__(self, tokenizer, max_length=256):
        if not isinstance(tokenizer, TextTokenizer):
            raise TypeError(sentence("tokenizer", "a TextTokenizer", tokenizer))
        self.tokenizer = tokenizer
        self.max_length = check_number("max_length", max_length, low=8, integer=True)

    @property
    def size(self):
        """Tokens of a text that fit beside the special ones."""
        return self.max_length - self.tokenizer.num_special

    def __call__(self, x, y=None, sample_weight=None):
        """Returns inputs, or (inputs, targets), or with weights: what Keras takes.

        Texts are cut to `max_length`.

        Args:
            x: strings: a list, an array or a tensor [B].
            y: targets, see the class.
            sample_weight: a number for each text.
        """
        if tf.executing_eagerly():
            x, y, sample_weight = self._checked(as_texts(x, y, sample_weight))
            x = [text.encode("utf-8", "replace") for text in x]
        rows = self.tokenizer.tokenize(x)
        if y is not None:
            rows[TARGETS] = self._targets_of(rows, self.targets(y))
        rows = {name: self._cut(name, values) for name, values in rows.items()}
        if self.letters:
            rows[LETTERS] = read_letters(x, self.letters)
        if y is None:
            return self.pack(rows)
        inputs, targets = self.pack(rows)
        return keras.utils.pack_x_y_sample_weight(inputs, targets, sample_weight)

    def _checked(self, data):
        """Texts with their targets, or a sentence about those that cannot be."""
        return data

    def _cut(self, name, values):
        return values[:, : self.size] if name != TARGETS else values

    def targets(self, y, unknown="error"):
        """Targets in any form as tensors.

        Args:
            y: see the class.
            unknown: `"error"`, or `"skip"` to leave out names that are not known.
        """
        raise NotImplementedError

    def _targets_of(self, rows, targets):
        """What a batch of tokens is trained on."""
        raise NotImplementedError

    def encode(self, data, training=False):
        """Tokenises a data set once: examples, see `bat_tf.data.pipeline`.

        Args:
            data: a `TextDataset`, or `Texts`.
            training: whether every label must be one that the model knows.
        """
        raise NotImplementedError

    def pack(self, rows, length=None, width=None):
        """Rows of examples as a dense batch: inputs, or (inputs, targets).

        Args:
            rows: a part of what `encode` returned.
            length: tokens to pad to; None pads to the longest text.
            width: labels to pad to; None pads to the most that a text has.
        """
        inputs = pipeline.pack_inputs(rows, self.tokenizer, length)
        if TARGETS not in rows:
            return inputs
        return inputs, self._pack_targets(rows[TARGETS], inputs, width)

    def batches(self, examples, batch_size=32, *, fixed_shapes=False, **settings):
        """The `tf.data.Dataset` of examples.

        Args:
            examples: what `encode` returned.
            batch_size: rows of a batch.
            fixed_shapes: pad every batch to its bucket's length and to `batch_size`
                rows, so that XLA compiles one program a bucket. Added rows count
                nowhere, or, of labels, repeat others: they are for training alone.
            **settings: of `pipeline.batches`.
        """
        training = settings.get("seed") is not None
        fills = fixed_shapes and (training or self.task == "spans")
        lengths = pipeline.lengths_of(examples, self.tokenizer)
        width = self._width(examples)

        def pack(rows, bound):
            if fills:
                rows = self._filled(rows, batch_size)
            part = pipeline.rows_of(examples, rows)
            weights = part.pop(WEIGHTS, None)
            batch = self.pack(part, width=width)
            inputs, targets = batch if isinstance(batch, tuple) else (batch, None)
            if fixed_shapes:
                num_rows = batch_size if fills else tf.size(rows)
                inputs = pipeline.pad_inputs(inputs, num_rows, bound)
                targets, weights = self._pad(targets, weights, num_rows, bound)
            packed = (inputs, targets, weights)
            return tuple(part for part in packed if part is not None)

        return pipeline.batches(lengths, pack, batch_size, **settings)

    def _width(self, examples):
        """What `pack` takes as `width`, the same for all batches."""
        return None

    def _filled(self, rows, batch_size):
        return rows

    def _pad(self, targets, weights, num_rows, length):
        return targets, weights

    # === Saving ===

    def get_config(self):
        """The settings; the vocabulary is an asset of the tokenizer."""
        return {
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "max_length": self.max_length,
        }

    @classmethod
    def from_config(cls, config):
        """Makes a preprocessor, its parts first."""
        parts = {
            name: keras.saving.deserialize_keras_object(value)
            if isinstance(value, dict) and "class_name" in value
            else value
            for name, value in config.items()
        }
        return cls(**parts)

    def save(self, folder):
        """Writes settings and vocabulary into a folder, for `load`."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / "preprocessor.json") as file:
            json.dump(keras.saving.serialize_keras_object(self), file)
        self.tokenizer.save_assets(folder)

    @classmethod
    def load(cls, folder):
        """Reads what `save` wrote."""
        try:
            text = (Path(folder) / "preprocessor.json").read_text(encoding="utf-8")
            preprocessor = keras.saving.deserialize_keras_object(json.loads(text))
            preprocessor.tokenizer.load_assets(folder)
        except FileNotFoundError:
            raise
        except Exception as error:  # Keras has any for a config that is damaged
            raise OSError(
                f"{folder} does not hold a whole preprocessor ({error}). Write it "
                "again with `Preprocessor.save`."
            ) from error
        return preprocessor


@keras.saving.register_keras_serializable(package="bat_tf")
class TagPreprocessor(Preprocessor):
    """Texts and their spans → tokens and their tags.

    Targets `y` are a list of spans `[start, end, kind]` for each text, or a dict of
    RaggedTensors `"starts"`, `"ends"` (characters) and `"kinds"` (names), in order.

    Args:
        tokenizer: a `TextTokenizer`.
        kinds: a `LabelSpace`, or the names, of what is marked.
        scheme: `"bio"` tells neighbours of one kind apart; `"plain"` has one class a
            kind and `"none"`.
        max_length: tokens that a model reads at once.
        overlap: tokens that two windows of a long text share when it is tagged. For
            training, long texts are cut into several examples without overlap.

    Example:
        >>> tokenizer = TextTokenizer("words", ["red", "shoes"])
        >>> preprocessor = TagPreprocessor(tokenizer, ["product"])
        >>> inputs, tags = preprocessor(["red shoes"], [[[4, 9, "product"]]])
        >>> inputs["token_ids"].numpy().tolist(), tags.numpy().tolist()
        ([[2, 3]], [[0, 1]])
    """

    task = "spans"

    def __init__(self, tokenizer, kinds, scheme="bio", max_length=256, overlap=32):
        super().__init__(tokenizer, max_length)
        self.kinds = kinds if isinstance(kinds, LabelSpace) else LabelSpace(kinds)
        self.scheme = check_choice("scheme", scheme, alignment.SCHEMES)
        self.overlap = check_number("overlap", overlap, 0, max_length // 2, True)

    @property
    def tags(self):
        """Names of the tag classes, in the order of the logits."""
        return alignment.tag_names(self.kinds.names, self.scheme)

    def _checked(self, data):
        if data.targets is None:
            return data
        spans = []
        for place, row in enumerate(zip(data.texts, data.targets, strict=True)):
            try:
                spans.append(check_spans(*row))
            except ValueError as error:
                raise ValueError(f"`y[{place}]`: {error}") from None
        return data._replace(targets=spans)

    def targets(self, y, unknown="error"):
        """Spans as a dict of RaggedTensors."""
        if isinstance(y, dict):
            names = tf.constant(self.kinds.names)
            kinds = y["kinds"]
            found = tf.argmax(kinds.flat_values[:, None] == names, axis=1)
            return {**y, "kinds": kinds.with_flat_values(tf.cast(found, tf.int32))}
        rows = list(map(sorted, y))
        splits = np.cumsum([0, *map(len, rows)])
        flat = [span for row in rows for span in row]
        columns = {
            "starts": [span.start for span in flat],
            "ends": [span.end for span in flat],
            "kinds": self.kinds.ids([span.kind for span in flat]),
        }
        return {
            name: tf.RaggedTensor.from_row_splits(tf.constant(values, tf.int32), splits)
            for name, values in columns.items()
        }

    def _targets_of(self, rows, targets):
        return alignment.encode_spans(rows, targets, self.scheme)

    def _cut(self, name, values):
        return values[:, : self.size]  # tags are of tokens, too

    def encode(self, data, training=False):
        """As in the base; long texts become several examples."""
        data, parts = self._checked(as_texts(data)), []
        for rows in pipeline.chunks(data.texts, MARKED):
            part = data.part(rows)
            texts = [text.encode("utf-8", "replace") for text in part.texts]
            tokens = self.tokenizer.tokenize(tf.constant(texts, tf.string))
            if part.targets is not None:
                tokens[TARGETS] = self._targets_of(tokens, self.targets(part.targets))
            examples, book = windows.split(tokens, self.size, overlap=0)
            if part.weights is not None:
                examples[WEIGHTS] = tf.gather(part.weights, book.rows)
            parts.append(examples)
        return pipeline.joined(parts)

    def class_counts(self, examples):
        """How many labelled tokens each class has: the N_j of the token losses."""
        tags = examples[TARGETS].flat_values
        found = tags[tags >= 0].numpy()
        return np.bincount(found, minlength=len(self.tags)).tolist()

    def _pack_targets(self, tags, inputs, width):
        tags = tags.to_tensor(-1)
        # Behind [CLS], where there is one, and in front of [SEP] and padding.
        left = self.tokenizer.num_special // 2
        right = tf.shape(inputs["token_ids"])[1] - tf.shape(tags)[1] - left
        return tf.pad(tags, [[0, 0], [left, right]], constant_values=-1)

    def _pad(self, tags, weights, num_rows, length):
        rows, columns = tf.unstack(tf.shape(tags))
        missing = [[0, num_rows - rows], [0, length - columns]]
        tags = tf.pad(tags, missing, constant_values=-1)
        if weights is not None:
            weights = tf.pad(weights, missing[:1])
        return tags, weights

    def get_config(self):
        return {
            **super().get_config(),
            "kinds": keras.saving.serialize_keras_object(self.kinds),
            "scheme": self.scheme,
            "overlap": self.overlap,
        }


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelPreprocessor(Preprocessor):
    """Texts and their labels → tokens and label ids.

    Targets `y` are, for each text, a list of names (or one name), or numbers: a
    multi-hot [N, L], also sparse, also of probabilities; or label ids, padded with -1.
    The shape of numbers decides: as wide as there are labels is a multi-hot.

    Of a text with more than `max_length` tokens the first ones are kept: the labels
    are of the whole document, and no part of it can be said to carry them.

    Args:
        tokenizer: a `TextTokenizer`.
        labels: a `LabelSpace`, or the names.
        max_length: tokens that a model reads of a text.
        targets: `"ids"` or `"multi_hot"` says what numbers are; with None their shape
            does.
        letters: letters of the whole text that are an input too, for `NgramsHead`; 0
            for none.

    Example:
        >>> tokenizer = TextTokenizer("words", ["a", "goal"])
        >>> preprocessor = LabelPreprocessor(tokenizer, ["news", "sport"])
        >>> inputs, ids = preprocessor(["a goal"], [["sport"]])
        >>> inputs["token_ids"].numpy().tolist(), ids.numpy().tolist()
        ([[2, 3]], [[1, -1, -1]])
    """

    task = "labels"

    def __init__(self, tokenizer, labels, max_length=256, targets=None, letters=0):
        super().__init__(tokenizer, max_length)
        self.labels = labels if isinstance(labels, LabelSpace) else LabelSpace(labels)
        self.form = check_form(targets)
        self.letters = check_number("letters", letters, low=0, integer=True)
        if not len(self.labels):
            raise ValueError("`labels` must name one label at least. Received none.")

    def targets(self, y, unknown="error"):
        """Labels as a RaggedTensor of ids, or as a dense tensor [N, L] of floats."""
        if isinstance(y, tf.RaggedTensor):
            return y.with_flat_values(self._ids(y.flat_values))
        if tf.is_tensor(y):
            if y.dtype == tf.string:
                raise TypeError(
                    sentence(
                        "y",
                        "numbers in the graph of a pipeline: a multi-hot or label ids",
                        y,
                        "`fit` takes a tf.data.Dataset of (text, names) as it is.",
                    )
                )
            return self._numbers(y)
        if scipy.sparse.issparse(y):
            form_of(y, len(self.labels), self.form)  # says so where it cannot be
            return self._ids_of(self._whole(y.tocsr()))
        if hasattr(y, "columns"):  # a table of pandas
            y = self._by_name(y)
        if isinstance(y, np.ndarray):
            return self._numbers(y)
        rows = [[row] if isinstance(row, _SINGLE) else row for row in y]
        try:
            flat = list(itertools.chain.from_iterable(rows))
            names = {isinstance(value, str) for value in flat}
            right = len(names) < 2 and all(isinstance(v, _SINGLE) for v in flat)
        except TypeError:  # None for a row
            right = False
        if not right:
            expected = "names of labels, their ids, or a multi-hot, for each text"
            raise ValueError(sentence("y", expected, shown(y, 80)))
        rows = list(map(list, rows))
        if names != {False}:
            return self._ids_of(self.labels.csr(rows, unknown=unknown))
        sizes = list(map(len, rows))
        if len(set(sizes)) == 1:
            return self._numbers(np.asarray(rows))
        ids = self._ids(np.asarray(flat))
        return tf.RaggedTensor.from_row_lengths(ids, sizes)

    def _by_name(self, table):
        """The multi-hot of a table, whose columns may stand in any order."""
        columns = list(table.columns)
        if set(columns) != set(self.labels.names):
            expected = "a table with a column for each label, called like it"
            raise ValueError(sentence("y", expected, f"the columns {columns}"))
        return table.to_numpy()[:, [columns.index(name) for name in self.labels.names]]

    def _ids(self, values):
        """The label ids [N] of rows of several lengths, checked."""
        if self.form == "multi_hot":
            expected = f"a multi-hot of {len(self.labels)} columns, as declared"
            raise ValueError(sentence("y", expected, "rows of several lengths"))
        return read(values[:, None], len(self.labels), "ids", argument="y").values[:, 0]

    def _numbers(self, values):
        """A table of numbers, checked: a RaggedTensor of ids, or floats [N, L]."""
        if values.dtype == object:
            values = values.astype("float32")
        values = values[:, None] if len(values.shape) == 1 else values
        found = read(values, len(self.labels), self.form, argument="y")
        if found.are_ids:
            known = found.values >= 0
            return tf.RaggedTensor.from_row_lengths(
                found.values[known], tf.reduce_sum(tf.cast(known, tf.int64), axis=1)
            )
        if isinstance(values, np.ndarray) and np.isin(values, (0, 1)).all():
            return self._ids_of(scipy.sparse.csr_matrix(values))
        return tf.cast(found.values, tf.float32)

    def _whole(self, values):
        if values.shape[1:] != (len(self.labels),):
            expected = f"of {len(self.labels)} columns, one for each label"
            raise ValueError(sentence("y", expected, tuple(values.shape)))
        return values

    @staticmethod
    def _ids_of(found):
        return tf.RaggedTensor.from_row_splits(
            tf.constant(found.indices, tf.int32), found.indptr.astype("int64")
        )

    def _targets_of(self, rows, targets):
        return targets

    def encode(self, data, training=False):
        data = as_texts(data)
        # What a head reads that does not learn, training does not need.
        letters = 0 if training else self.letters
        settings = (self.tokenizer, self.max_length, letters)
        examples = pipeline.text_examples(data.texts, *settings)
        if data.targets is not None:
            unknown = "error" if training else "skip"
            examples[TARGETS] = self.targets(data.targets, unknown)
        if data.weights is not None:
            examples[WEIGHTS] = tf.constant(data.weights)
        return examples

    def _width(self, examples):
        targets = examples.get(TARGETS)
        if isinstance(targets, tf.RaggedTensor):
            return id_width(int(targets.bounding_shape(axis=1)), len(self.labels))
        return None

    def _pack_targets(self, targets, inputs, width):
        if not isinstance(targets, tf.RaggedTensor):
            return targets
        if width is None:
            most = tf.cast(targets.bounding_shape(axis=1), tf.int32)
            width = id_width(most, len(self.labels))
        ids = targets.to_tensor(-1)
        # A width that no loss takes for that of a multi-hot.
        return tf.pad(ids, [[0, 0], [0, width - tf.shape(ids)[1]]], constant_values=-1)

    def _filled(self, rows, batch_size):
        return tf.gather(rows, tf.range(batch_size) % tf.size(rows))

    def get_config(self):
        labels = keras.saving.serialize_keras_object(self.labels)
        own = {"labels": labels, "targets": self.form, "letters": self.letters}
        return {**super().get_config(), **own}
