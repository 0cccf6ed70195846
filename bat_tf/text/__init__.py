"""Texts to tokens and back."""

from bat_tf.text import windows as windows
from bat_tf.text.alignment import best_tags, decode_tags, encode_spans, tag_names
from bat_tf.text.tokenizer import TextTokenizer

__all__ = ["TextTokenizer", "best_tags", "decode_tags", "encode_spans", "tag_names"]
