"""Texts with their keywords or labels, for eyes, for pipes and for programs."""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

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
        legend.append(f"{one_line(tag.kind)} {tag.score:.2f}  ", "dim")
    return Text("\n").join([styled, legend]) if tags else styled


def one_line(name):
    r"""A name in a line: control characters and line ends as `\n`, `\t` or `\x1b`.

    >>> print(one_line("two\nlines"))
    two\nlines
    """
    return re.sub(
        "[\x00-\x1f\x7f-\x9f\u2028\u2029]",
        lambda found: found[0].encode("unicode_escape").decode(),
        name,
    )


def as_plain(text, tags):
    """A line for a file or a pipe: the keywords in brackets, in place.

    >>> from bat_tf.answers import Tag
    >>> as_plain("Zorv lamp", [Tag(0, 4, "brand", 0.9, "Zorv")])
    '[Zorv](brand) lamp'
    """
    parts, last = [], 0
    for tag in tags:
        parts += [text[last : tag.start], f"[{tag.text}]({one_line(tag.kind)})"]
        last = tag.end
    return "".join([*parts, text[last:]])


def as_json(text, tags):
    """A line of JSONL: the text and [start, end, kind, score] of each keyword.

    >>> from bat_tf.answers import Tag
    >>> as_json("Zorv lamp", [Tag(0, 4, "brand", 0.9, "Zorv")])
    '{"text": "Zorv lamp", "spans": [[0, 4, "brand", 0.9]]}'
    """
    spans = [[tag.start, tag.end, tag.kind, round(tag.score, 4)] for tag in tags]
    return json.dumps({"text": text, "spans": spans}, ensure_ascii=False)


def coloured_labels(text, labels):
    """The beginning of a text, and below it its labels and their scores."""
    shown = Text(" ".join(text.split())[:160], "dim")
    named = Text("   ")
    for number, (name, score) in enumerate(labels):
        named.append(one_line(name), COLOURS[number % len(COLOURS)])
        named.append(f" {score:.2f}  ", "dim")
    return Text("\n").join([shown, named if labels else Text("   no label", "dim")])


def plain_labels(text, labels):
    r"""A line for a file or a pipe: the labels, a tab, the text.

    >>> plain_labels("Oil is up", [("crude", 0.9), ("trade", 0.6)])
    'crude, trade\tOil is up'
    """
    names = ", ".join(one_line(name) for name, _ in labels)
    return f"{names}\t{' '.join(text.split())}"


def json_labels(text, labels):
    """A line of JSONL: the text, its labels and their scores.

    >>> json_labels("Oil is up", [("crude", 0.91)])
    '{"text": "Oil is up", "labels": ["crude"], "scores": [0.91]}'
    """
    names, scores = [name for name, _ in labels], [round(s, 4) for _, s in labels]
    row = {"text": text, "labels": names, "scores": scores}
    return json.dumps(row, ensure_ascii=False)


class Style(NamedTuple):
    """How answers of one kind are shown: functions of a text and what was found."""

    coloured: Callable
    plain: Callable
    json: Callable


STYLES = {
    "spans": Style(coloured, as_plain, as_json),
    "labels": Style(coloured_labels, plain_labels, json_labels),
}
