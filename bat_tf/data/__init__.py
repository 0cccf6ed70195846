"""FILES → tf.data: examples, label names, readers, and the pipeline to the model."""

from bat_tf.data.checking import Check, Finding, check
from bat_tf.data.corpora import CORPORA, label_texts
from bat_tf.data.dataset import Example, Span, TextDataset
from bat_tf.data.describing import Description, describe
from bat_tf.data.labels import LabelSpace
from bat_tf.data.readers import FORMATS
from bat_tf.data.readers.format import AmbiguousFile
from bat_tf.data.readers.tfds import build_tfds
from bat_tf.data.reading import read, splits
from bat_tf.data.rows import from_rows

__all__ = [
    "CORPORA",
    "FORMATS",
    "AmbiguousFile",
    "Check",
    "Description",
    "Example",
    "Finding",
    "LabelSpace",
    "Span",
    "TextDataset",
    "build_tfds",
    "check",
    "describe",
    "from_rows",
    "label_texts",
    "read",
    "splits",
]
