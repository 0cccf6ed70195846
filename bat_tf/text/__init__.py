"""STRINGS → TOKENS with character offsets, inside the graph."""

from bat_tf._internal.lazy import passing_on

__getattr__, __all__ = passing_on(
    __name__,
    alignment="best_tags decode_tags encode_spans tag_names",
    tokenizer="TextTokenizer",
)
