"""Tag schemes: the ways in which tags on tokens mark spans (IOB1, IOB2, BIOES, IO)."""

import re
from collections import Counter

from bat_tf._internal.validation import DataError, check_choice
from bat_tf.data.dataset import Span

# What each scheme is called, and what it is here. BMES, BILOU and the like differ from
# BIOES in letters only.
SCHEMES = {
    "IO": "IO",
    "IOB": "IOB1",
    "IOB1": "IOB1",
    "IOB2": "IOB2",
    "BIO": "IOB2",
    **dict.fromkeys(["BIOES", "BIEOS", "IOBES", "BMES", "BMEWO", "BILOU"], "BIOES"),
}
_TAG = re.compile(r"([BIESMLUW])(?:[-_](.+))?")
_SAME_LETTER = str.maketrans("MLUW", "IESS")


def parse_tag(tag, scheme):
    """Splits a tag into the letter B, I, E, S or O and the kind.

    Args:
        tag: such as "B-PER", "S_loc", "O", or "I" alone, whose kind is "keyword".
        scheme: a value of `SCHEMES`; in "IO" the tag is the kind.

    Returns:
        (letter, kind).

    Example:
        >>> parse_tag("M-PER", "BIOES"), parse_tag("PER", "IO")
        (('I', 'PER'), ('I', 'PER'))
    """
    if tag == "O":
        return "O", ""
    if scheme == "IO":
        return "I", tag.removeprefix("I-")
    match = _TAG.fullmatch(tag)
    if not match:
        raise ValueError(
            f"tag {tag!r} is neither O nor a letter and a kind like B-PER."
        )
    return match[1].translate(_SAME_LETTER), match[2] or "keyword"


def tags_to_spans(tags):
    """Finds the spans of a tagged sentence, whatever scheme the tags are in.

    A span begins at B, at S, and at a tag that does not continue the one before; it
    ends after E and S and before the next that does not continue it (as conlleval
    reads tags).

    Args:
        tags: (letter, kind) pairs, as `parse_tag` returns them.

    Returns:
        A list of `Span`s that count tokens.

    Example:
        >>> tags_to_spans([("B", "PER"), ("I", "PER"), ("O", ""), ("S", "LOC")])
        [Span(start=0, end=2, kind='PER'), Span(start=3, end=4, kind='LOC')]
    """
    spans, start, open_kind = [], 0, None
    for index, (letter, kind) in enumerate([*tags, ("O", "")]):
        if letter not in "IE" or kind != open_kind:
            if open_kind is not None:
                spans.append(Span(start, index, open_kind))
            start, open_kind = index, kind or None
        if letter in "ES":
            spans.append(Span(start, index + 1, kind))
            open_kind = None
    return spans


def find_fault(tags, scheme):
    """Returns (index, reason) of the first tag that breaks the scheme, or None.

    Args:
        tags: (letter, kind) pairs, as `parse_tag` returns them.
        scheme: a value of `SCHEMES`.

    Example:
        >>> find_fault([("O", ""), ("I", "PER")], "IOB2")
        (1, 'I-PER continues nothing.')
    """
    before, before_kind = "O", ""
    for index, (letter, kind) in enumerate([*tags, ("O", "")]):
        continues = before in "BI" and kind == before_kind
        if letter in "ES" and scheme != "BIOES":
            return index, f"{letter}-{kind} is no tag of the scheme {scheme}."
        if scheme == "BIOES" and before in "BI" and not (continues and letter in "IE"):
            return (
                index - 1,
                f"{before}-{before_kind} is not closed by E-{before_kind}.",
            )
        if letter in {"IOB2": "I", "BIOES": "IE"}.get(scheme, "") and not continues:
            return index, f"{letter}-{kind} continues nothing."
        before, before_kind = letter, kind
    return None


class TagReader:
    """Reads the tags of sentences, all in one scheme, into spans that count tokens.

    Tags that are merely untidy, such as an I- that continues nothing, are read as
    `tags_to_spans` says, and listed in the source's `repaired`.

    Args:
        source: the `Source`.
        sequences: tuples of tags, many if possible, to find the scheme by.
        scheme: a key of `SCHEMES`; None finds it out.
        strict: whether untidy tags are errors.
    """

    def __init__(self, source, sequences, scheme=None, strict=False):
        if scheme is not None:
            check_choice("scheme", scheme, SCHEMES)
        self._source, self._strict = source, strict
        self.scheme = SCHEMES[scheme] if scheme else find_scheme(sequences)
        self._known = {}

    def parse(self, tag):
        """See `parse_tag`."""
        found = self._known.get(tag)
        if found is None:
            found = self._known[tag] = parse_tag(tag.strip(), self.scheme)
        return found

    def spans(self, parsed, lines):
        """The spans of a sentence.

        Args:
            parsed: its tags, as `parse` returns them.
            lines: the line of each, for what is said about it.
        """
        if self.scheme != "IO":
            fault = find_fault(parsed, self.scheme)
            if fault:
                self._repair(fault[1], lines[fault[0]])
        return tags_to_spans(parsed)

    def _repair(self, reason, line):
        if self._strict:
            raise DataError(
                self._source.path,
                line,
                f"{reason} The tags are read as {self.scheme}. Correct the line, name "
                "another `scheme`, or pass strict=False to take the tags as they are.",
            )
        self._source.repaired.append(DataError(self._source.path, line, reason))


def looks_like_tags(tags):
    """Whether nearly all of many tags are O or have a letter in front of their kind.

    Example:
        >>> looks_like_tags(["O", "B-PER", "O"]), looks_like_tags(["NN", "DT"])
        (True, False)
    """
    counts = Counter(tags)
    total = counts.total() - counts["O"]
    right = sum(
        count
        for tag, count in counts.items()
        if tag != "O" and _TAG.fullmatch(tag) and (len(tag) > 2 or counts["O"])
    )
    return right > 0 and right >= 0.95 * total


def find_scheme(tag_sequences):
    """Finds out the scheme of many tagged sentences: the one that the fewest break.

    Args:
        tag_sequences: iterable of tuples of tags, or a Counter of them.

    Returns:
        "IO", "IOB1", "IOB2" or "BIOES".

    Example:
        >>> find_scheme([("I-PER", "I-PER", "O"), ("I-LOC", "B-LOC")])
        'IOB1'
    """
    sequences = Counter(tag_sequences)
    if not any(_TAG.fullmatch(tag) for tags in sequences for tag in set(tags)):
        return "IO"
    against = dict.fromkeys(("IOB2", "IOB1", "BIOES"), 0)
    for tags, count in sequences.items():
        try:
            pairs = [parse_tag(tag, "BIOES") for tag in tags]
        except ValueError:
            continue
        for scheme in against:
            against[scheme] += count * (find_fault(pairs, scheme) is not None)
        against["IOB1"] += count * _has_needless_b(pairs)
    return min(against, key=against.get)


def _has_needless_b(tags):
    """In IOB1 a B divides neighbours of one kind. More of them are no fault, a hint."""
    pairs = zip([("O", ""), *tags], tags, strict=False)
    return any(tag[0] == "B" and before[1] != tag[1] for before, tag in pairs)
