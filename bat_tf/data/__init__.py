"""FILES → tf.data: examples, label names, readers, and the pipeline to the model."""

from bat_tf.data.conll import iter_conll
from bat_tf.data.corpora import CORPORA, label_texts
from bat_tf.data.dataset import Example, Span, TextDataset
from bat_tf.data.labels import LabelSpace
from bat_tf.data.readers import FORMATS, iter_json, iter_jsonl, read, splits
from bat_tf.data.reuters import iter_reuters
from bat_tf.data.tables import iter_csv, iter_tsv
from bat_tf.data.tfds import build_tfds
from bat_tf.data.xmc import convert_xmc, iter_xmc

__all__ = [
    "CORPORA",
    "FORMATS",
    "Example",
    "LabelSpace",
    "Span",
    "TextDataset",
    "build_tfds",
    "convert_xmc",
    "iter_conll",
    "iter_csv",
    "iter_json",
    "iter_jsonl",
    "iter_reuters",
    "iter_tsv",
    "iter_xmc",
    "label_texts",
    "read",
    "splits",
]
