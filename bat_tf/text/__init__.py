"""Texts to tokens and back."""

from bat_tf.text import windows as windows
from bat_tf.text.alignment import decode_tags, encode_spans, tag_names
from bat_tf.text.tokenizer import TextTokenizer

__all__ = ["TextTokenizer", "decode_tags", "encode_spans", "tag_names"]
