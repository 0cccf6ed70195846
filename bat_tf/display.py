"""Texts with their keywords, for people's eyes, for pipes and for programs."""

import json

from rich.text import Text

COLOURS = ("bold cyan", "bold magenta", "bold yellow", "bold green", "bold blue")


def coloured(text, tags, kinds=None):
    """A text with its keywords coloured in place and a line of kinds and scores.

    Args:
        text: the text.
        tags: what a tagger found in it.
        kinds: all kinds, so that each keeps its colour from text to text.

    Returns:
        A `rich.text.Text`.
    """
    kinds = list(kinds or sorted({tag.kind for tag in tags}))
    styled, legend = Text(text), Text("   ")
    for tag in tags:
        colour = COLOURS[kinds.index(tag.kind) % len(COLOURS)]
        styled.stylize(f"{colour} underline", tag.start, tag.end)
        legend.append(f"{tag.text} ", colour)
        legend.append(f"{tag.kind} {tag.score:.2f}  ", "dim")
    return Text("\n").join([styled, legend]) if tags else styled


def as_plain(text, tags):
    """A line for a file or a pipe: the keywords in brackets, in place.

    >>> from bat_tf.serving import Tag
    >>> as_plain("Zorv lamp", [Tag(0, 4, "brand", 0.9, "Zorv")])
    '[Zorv](brand) lamp'
    """
    parts, last = [], 0
    for tag in tags:
        parts += [text[last : tag.start], f"[{tag.text}]({tag.kind})"]
        last = tag.end
    return "".join([*parts, text[last:]])


def as_json(text, tags):
    """A line of JSONL: the text and [start, end, kind, score] of each keyword.

    >>> from bat_tf.serving import Tag
    >>> as_json("Zorv lamp", [Tag(0, 4, "brand", 0.9, "Zorv")])
    '{"text": "Zorv lamp", "spans": [[0, 4, "brand", 0.9]]}'
    """
    spans = [[tag.start, tag.end, tag.kind, round(tag.score, 4)] for tag in tags]
    return json.dumps({"text": text, "spans": spans}, ensure_ascii=False)
