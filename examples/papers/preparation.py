"""Product pages as BAT's paper prepares them: cleaned, without stop words, not too long.

Spans move along with the characters they mark. The paper names neither its rules of
cleaning nor its list of stop words; give your own list.

    pages = bat_tf.data.read("pages.jsonl")
    pages = prepared(pages, stop_words=["的", "free shipping"], longest=400)
"""

import dataclasses
import html
import re

from bat_tf import TextDataset

# Comments, scripts and tags, whose quoted values may hold ">"; addresses; characters
# that show nothing.
MARKUP = re.compile(
    r"""(?is)<!--.*?-->|<(script|style)\b.*?</\1\s*>|<![a-z][^<>]*>"""
    r"""|</?([a-z]\w*)(?:(?>(?:=\s*"[^"<]*"|=\s*'[^'<]*'|[^<>])*)>|[^<>]*>)"""
)
# These stand inside of words; all others divide what is before from what is behind.
INLINE = set("a abbr b cite code em font i mark s small span strong sub sup u".split())
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
ADDRESS = re.compile(r"(?i)\bhttps?://[!-;=?-~]+|\bwww\.[!-;=?-~]+")
BLANKS = re.compile(r"\s+")
# No blanks among them: what they divide stays divided.
UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b-\u200f\u202a-\u202e\u2060\ufeff]+"
)
EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def replaced(example, pattern, by):
    """An example with the matches of a pattern replaced; spans move along.

    A span that begins or ends inside a match loses that part; one that has nothing left
    is dropped.

    Args:
        example: an `Example`.
        pattern: a compiled regular expression.
        by: a string, or a function from the match to one.

    >>> from bat_tf.data import Example
    >>> page = Example("a <b>red</b> lamp", spans=[(5, 8, "colour"), (13, 17, "item")])
    >>> found = replaced(page, MARKUP, "")
    >>> found.text, [found.text[s.start : s.end] for s in found.spans]
    ('a red lamp', ['red', 'lamp'])
    """
    parts, edits, last, size = [], [], 0, 0
    for match in pattern.finditer(example.text):
        new = by(match) if callable(by) else by
        parts += [example.text[last : match.start()], new]
        size += match.start() - last
        edits.append((*match.span(), size, size + len(new)))
        size, last = size + len(new), match.end()
    if not edits:
        return example
    text = "".join([*parts, example.text[last:]])
    if example.spans is None:
        return dataclasses.replace(example, text=text)
    moved = (
        (*_moved(edits, span.start, span.end), span.kind) for span in example.spans
    )
    spans = [span for span in moved if span[0] < span[1]]
    return dataclasses.replace(example, text=text, spans=spans)


def _moved(edits, start, end):
    """Where a span lies after edits (old start, old end, new start, new end)."""
    new_start, new_end = start, end
    for old_start, old_end, begin, finish in edits:
        if old_start <= start and old_end >= end:
            # What it marked was replaced as a whole: only an exact match keeps it.
            return (begin, finish) if (old_start, old_end) == (start, end) else (0, 0)
        if old_end <= start:
            new_start = finish + start - old_end
        elif old_start < start:
            new_start = finish
        if old_end <= end:
            new_end = finish + end - old_end
        elif old_start < end:
            new_end = begin
    return new_start, new_end


def clean_page(example):
    """An example without markup, addresses, unseen characters and needless blanks.

    >>> from bat_tf.data import Example
    >>> page = "<p>Brass&nbsp;lamp &amp; shade</p>\\n\\n see https://shop.test/7?a=b"
    >>> clean_page(Example(page, spans=[])).text
    'Brass lamp & shade see'
    """
    example = replaced(example, MARKUP, _blank)
    example = replaced(example, ENTITY, lambda match: html.unescape(match[0]))
    example = replaced(example, ADDRESS, " ")
    example = replaced(example, UNSEEN, "")
    return _trimmed(example)


def _blank(tag):
    return "" if (tag[2] or "").lower() in INLINE else " "


def without_words(example, words):
    """An example without some words; inside a marked keyword they stay.

    A word of Chinese or Japanese is left out wherever it stands, any other one where it
    is a whole word, in small letters or capitals.

    >>> from bat_tf.data import Example
    >>> page = Example("The lamp of the year", spans=[(4, 8, "item")])
    >>> without_words(page, ["the", "of"]).text
    'lamp year'
    """
    words = sorted(filter(None, map(str.strip, _listed(words))), key=len, reverse=True)
    if not words:
        return example
    forms = (
        re.escape(word)
        if EAST_ASIAN.search(word)
        else rf"(?<!\w){re.escape(word)}(?!\w)"
        for word in words
    )
    spans = example.spans or ()

    def left_out(match):
        start, end = match.span()
        inside = any(start < span.end and span.start < end for span in spans)
        return match[0] if inside else ""

    pattern = re.compile("|".join(forms), re.IGNORECASE)
    return _trimmed(replaced(example, pattern, left_out))


def _listed(words):
    if isinstance(words, str):  # it would be taken for its letters
        raise TypeError(f"Stop words must be a list: [{words!r}]. Received: a string.")
    return list(words)


def _trimmed(example):
    """One blank where there are several, none at the ends."""
    example = replaced(example, BLANKS, " ")
    return replaced(example, re.compile(r"\A\s+|\s+\Z"), "")


def no_longer_than(dataset, characters=400):
    """A data set without the texts that are longer; the paper's EC-JP has none over 400.

    >>> from bat_tf.data import Example
    >>> pages = TextDataset(Example("x" * n, spans=[]) for n in (400, 401))
    >>> len(no_longer_than(pages))
    1
    """
    short = (example for example in dataset if len(example.text) <= characters)
    return TextDataset(short, dataset.name, dataset.skipped)


def prepared(dataset, stop_words=(), longest=None):
    """A data set with every page cleaned; pages with nothing left are left out.

    Args:
        dataset: a `TextDataset`.
        stop_words: words to leave out, see `without_words`.
        longest: characters of a cleaned page; longer ones are left out. None keeps all.
    """
    stop_words = _listed(stop_words)
    cleaned = (without_words(clean_page(one), stop_words) for one in dataset)
    found = TextDataset((x for x in cleaned if x.text), dataset.name, dataset.skipped)
    return found if longest is None else no_longer_than(found, longest)
