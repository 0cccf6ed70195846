"""Texts with their keywords or labels, for eyes, for pipes and for programs."""

import json
import time
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


def coloured_labels(text, labels):
    """The beginning of a text, and below it its labels and their scores."""
    shown = Text(" ".join(text.split())[:160], "dim")
    named = Text("   ")
    for number, (name, score) in enumerate(labels):
        named.append(name, COLOURS[number % len(COLOURS)])
        named.append(f" {score:.2f}  ", "dim")
    return Text("\n").join([shown, named if labels else Text("   no label", "dim")])


def plain_labels(text, labels):
    r"""A line for a file or a pipe: the labels, a tab, the text.

    >>> plain_labels("Oil is up", [("crude", 0.9), ("trade", 0.6)])
    'crude, trade\tOil is up'
    """
    return f"{', '.join(name for name, _ in labels)}\t{' '.join(text.split())}"


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


SPANS = Style(coloured, as_plain, as_json)
LABELS = Style(coloured_labels, plain_labels, json_labels)


class GridProgress:
    """A bar of the epochs of a grid, with what runs now and how long it will take.

    Where there is no terminal, a line every few minutes says the same.

    Args:
        console: a rich `Console`.
        clock: a function that returns seconds.
    """

    LINES_EVERY = 300

    def __init__(self, console, clock=time.monotonic):
        from rich import progress

        self._console, self._clock = console, clock
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            get_time=clock,
            # rich looks half a minute back, and an epoch may take longer than that.
            speed_estimate_period=3600,
        )
        self._task = None
        self._said = 0.0

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *error):
        self._bar.stop()

    def show(self, done, total, running):
        """Draws the state; a function for `run_grid`."""
        names = ", ".join(f"{c.row} ({c.settings.seed})" for c in running)
        if self._task is None:
            # What was there before this call says nothing about its speed.
            self._first, self._begun = done, self._clock()
            self._task = self._bar.add_task("", total=total - done)
            self._done, self._moved = 0, self._begun
        done, total = done - self._first, total - self._first
        self._bar.update(self._task, completed=done, description=f"epochs of {names}")
        if done > self._done:
            self._done, self._moved = done, self._clock()
        if not self._console.is_terminal and done:
            self._say(total, names)

    def _say(self, total, names):
        """A line, if the last one is some time ago."""
        now = self._clock()
        if now - self._said < self.LINES_EVERY:
            return
        self._said = now
        left = (self._moved - self._begun) / self._done * (total - self._done)
        left = max(0.0, left - (now - self._moved)) / 60
        line = f"{self._done} of {total} epochs, about {left:.0f} minutes left: {names}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
