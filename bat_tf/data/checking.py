"""What is wrong with data, before a model learns it: findings with file and line."""

import dataclasses
import re
from collections import Counter, defaultdict
from itertools import combinations, pairwise

from bat_tf.data.describing import describe
from bat_tf.data.scripts import is_unspaced

# How bad a finding is: it stops training or spoils scores; it may; it is good to know.
LEVELS = ("error", "warning", "note")
# Tokens that a model reads of a text, unless told otherwise.
MAX_LENGTH = 256
_PLACES = 5
_WORD = re.compile(r"\w+|[^\w\s]")
_BETWEEN = re.compile(r"[\s_./-]+")
_DIGITS = re.compile(r"\d")
_SHORTEST = 5  # names that are shorter differ in a letter without being typos


@dataclasses.dataclass(frozen=True)
class Finding:
    """Something in the data that is wrong, or looks so.

    Attributes:
        kind: what it is, in two or three words.
        level: one of `LEVELS`.
        path: the file, or the name of the data set.
        line: of the first place, or None.
        count: how often.
        message: what it is there, in a sentence.
        remedy: what to do.
        more: further places, as (path, line).
    """

    kind: str
    level: str
    path: str
    line: int | None
    count: int
    message: str
    remedy: str
    more: tuple = ()

    def __str__(self):
        where = f"{self.path}, line {self.line}" if self.line else self.path
        return f"{where}: {self.message} {self.remedy}"


@dataclasses.dataclass(frozen=True)
class Check:
    """What `check` found.

    Attributes:
        findings: the `Finding`s, the worst first.
        descriptions: the `Description` of each data set.
        counts: how often each name occurs in each data set, `Counter`s.
    """

    findings: list
    descriptions: list
    counts: list

    @property
    def clean(self):
        """Whether there is nothing worse than a note."""
        return all(finding.level == "note" for finding in self.findings)

    def to_dict(self):
        """The same as values of JSON."""
        return {
            "findings": [dataclasses.asdict(finding) for finding in self.findings],
            "files": [description.to_dict() for description in self.descriptions],
            "counts": [dict(counts.most_common()) for counts in self.counts],
        }


def check(*datasets, max_length=MAX_LENGTH):
    """Looks for what is wrong with data before a model learns from them.

    Read them with `on_error="skip"`, so that faulty rows are findings like others.

    Args:
        *datasets: `TextDataset`s, the one to learn from first.
        max_length: tokens that the model will read of a text.

    Returns:
        A `Check`.

    Example:
        >>> from bat_tf.data import from_rows
        >>> train = from_rows([("A goal", "sport"), ("A goal", "art"), ("Rain", "art")])
        >>> print(check(train).findings[0])
        rows, line 2: 'A goal' has other labels than in line 1 (sport). Correct one of \
them, or leave one out.
    """
    counts = [data.counts() for data in datasets]
    found = []
    for data, counted in zip(datasets, counts, strict=True):
        found += _rows(data)
        found += _texts(data, max_length)
        found += _spans(data) if data.task == "spans" else _labels(data, counted)
    found += _repetitions(datasets)
    found += _typos(datasets, counts)
    found += _between(datasets, counts)
    descriptions = [describe(data) for data in datasets]
    found += _languages(descriptions)
    found.sort(key=lambda finding: LEVELS.index(finding.level))
    return Check(found, descriptions, counts)


def _finding(kind, level, places, message, remedy):
    """A finding of places, (path, line) each, the first of which is in the sentence."""
    (path, line), *more = places
    shown = tuple(more[: _PLACES - 1])
    return Finding(kind, level, path, line, len(places), message, remedy, shown)


def _quoted(text, most=40):
    text = " ".join(text.split())
    return repr(text if len(text) <= most else f"{text[:most]}…")


def _rows(data):
    """What was left out or repaired when the file was read."""
    reasons = defaultdict(list)
    for error in data.skipped:
        kind = "overlapping spans" if "overlap" in error.reason else "faulty row"
        reasons[kind].append(error)
    for kind, errors in reasons.items():
        places = [(error.path, error.line) for error in errors]
        remedy = "Correct it, or leave such rows out: --on-error skip."
        if kind == "overlapping spans":
            remedy = "Keep one of the spans: overlaps=longest keeps the longer one."
        yield _finding(kind, "error", places, errors[0].reason, remedy)
    for notice in data.notices:
        kind = "untidy tags" if "scheme" in notice else "encoding"
        yield Finding(kind, "note", data.name, None, 1, notice, "")


def _texts(data, max_length):
    """Texts that are empty, or longer than the model reads."""
    empty, long = [], []
    for example in data:
        if not example.text.strip():
            empty.append((data.name, example.line))
        elif len(example.text) > max_length and _tokens(example.text) > max_length:
            long.append((data.name, example.line))
    if empty:
        yield _finding(
            "empty text", "warning", empty, "the text is empty.", "Leave the row out."
        )
    if long:
        share = f"{100 * len(long) / len(data):.1f} % of the texts"
        if data.task == "spans":
            remedy = "Longer ones are read in windows; a larger max_length needs none."
        else:
            remedy = "Shorten texts to what matters, or raise max_length."
        message = f"{share} are longer than the {max_length} tokens that are read."
        level = "note" if data.task == "spans" or len(long) < 0.1 * len(data) else None
        yield _finding("long texts", level or "warning", long, message, remedy)


def _tokens(text):
    """About how many words, signs and characters of unspaced scripts a text has."""
    return sum(len(word) if is_unspaced(word[0]) else 1 for word in _WORD.findall(text))


def _spans(data):
    """Spans whose borders are not those of words."""
    blank, cut, first = [], [], {}
    for example in data:
        text, place = example.text, (data.name, example.line)
        for start, end, _ in example.spans:
            if text[start].isspace() or text[end - 1].isspace():
                first.setdefault("blank", text[start:end])
                blank.append(place)
            if _cuts(text, start) or _cuts(text, end):
                first.setdefault("cut", (text[start:end], _around(text, start, end)))
                cut.append(place)
    if blank:
        message = f"the span {first['blank']!r} begins or ends with a blank."
        remedy = "Move its borders to the words."
        yield _finding("blank in span", "warning", blank, message, remedy)
    if cut:
        span, around = first["cut"]
        message = f"the span {span!r} cuts a word in {around!r}."
        remedy = "Move its borders to the words; models of words mark whole ones."
        yield _finding("cut word", "warning", cut, message, remedy)


def _cuts(text, place):
    """Whether a border stands between two letters of a word, or two digits."""
    if not 0 < place < len(text):
        return False
    before, behind = text[place - 1], text[place]
    if is_unspaced(before) or is_unspaced(behind):
        return False
    both = before.isalpha() and behind.isalpha()
    return both or (before.isdigit() and behind.isdigit())


def _around(text, start, end):
    while start > 0 and text[start - 1].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum():
        end += 1
    return text[start:end][:60]


def _labels(data, counts):
    """Labels that are on all texts or on few."""
    everywhere = [name for name, count in counts.items() if count == len(data) > 1]
    if everywhere:
        place = [(data.name, data[0].line)]
        message = f"every text has the label {everywhere[0]!r}."
        remedy = "There is nothing to learn about it; check the column of the labels."
        yield _finding("constant label", "warning", place, message, remedy)
    once = [name for name, count in counts.items() if count == 1]
    if once and len(counts) > 1:
        lines = _first_lines(data, set(once))
        places = [(data.name, lines[name]) for name in once]
        share = f"{len(once):,} of {len(counts):,} labels have a single text"
        remedy = "Find more texts for them, or merge labels."
        yield _finding(
            "rare label", "note", places, f"{share}, such as {once[0]!r}.", remedy
        )


def _first_lines(data, names):
    """The line on which each of some names occurs first."""
    lines = {}
    for example in data:
        for name in example.labels or [span.kind for span in example.spans or ()]:
            if name in names:
                lines.setdefault(name, example.line)
    return lines


def _repetitions(datasets):
    """Texts that come again: with other targets, in other files, or for nothing."""
    seen, other, same, shared = {}, [], [], defaultdict(list)
    first = {}
    for number, data in enumerate(datasets):
        for example in data:
            key = " ".join(example.text.split()).casefold()
            if not key:
                continue
            target = frozenset(
                example.labels
                if example.spans is None
                else ((example.text[s:e], kind) for s, e, kind in example.spans)
            )
            place = (data.name, example.line)
            if key not in seen:
                seen[key] = (number, target, place, example)
                continue
            before, wanted, where, earlier = seen[key]
            if before != number:
                shared[before, number].append(place)
                first.setdefault((before, number), (example, where))
            elif wanted != target:
                other.append(place)
                first.setdefault("other", (earlier, where, data.task))
            else:
                same.append(place)
                first.setdefault("same", (example, where))
    if other:
        example, (path, line), task = first["other"]
        things = "labels" if task == "labels" else "spans"
        names = example.labels or [span.kind for span in example.spans or ()]
        message = (
            f"{_quoted(example.text)} has other {things} than {_in(line)} "
            f"({', '.join(names[:5]) or 'none'})."
        )
        remedy = "Correct one of them, or leave one out."
        yield _finding("different targets", "warning", other, message, remedy)
    if same:
        example, (path, line) = first["same"]
        message = f"{_quoted(example.text)} is the same as {_in(line)}."
        yield _finding("repeated text", "note", same, message, "Leave repetitions out.")
    for (before, number), places in shared.items():
        example, (path, line) = first[before, number]
        where = f"{path}, line {line}" if line else path
        message = f"{_quoted(example.text)} is also in {where}."
        remedy = "Scores on texts that were learnt are too good: leave them out here."
        if before == 0:
            yield _finding("text in both files", "error", places, message, remedy)
        else:
            yield _finding("text in both files", "warning", places, message, remedy)


def _in(line):
    return f"in line {line}" if line else "before"


def _typos(datasets, counts):
    """Names that differ in blanks, capitals or one letter, where one is rare.

    Names that are equal but for one letter have a form in common with a letter left
    out, so that none has to be compared with all others.
    """
    total = sum(counts, Counter())
    forms = defaultdict(list)
    for name in total:
        forms[_form(name)].append(name)
    pairs = {tuple(pair) for names in forms.values() for pair in combinations(names, 2)}
    shorter = defaultdict(list)
    for form, names in forms.items():
        if len(form) >= _SHORTEST and len(form) <= 60:
            name = max(names, key=total.get)
            cut = {form[:n] + form[n + 1 :] for n in range(len(form))}
            for left_out in {form, *cut}:
                shorter[left_out].append((form, name))
    for near in shorter.values():
        if 1 < len(near) <= 10:
            for (one, first), (other, second) in combinations(near, 2):
                if _DIGITS.sub("", one) != _DIGITS.sub("", other) and one != other:
                    pairs.add((first, second))
    found = []
    for pair in pairs:
        often, rare = sorted(pair, key=lambda name: (-total[name], name))
        # Of many names some are words that differ in a letter: a typo is rarer.
        rarer = total[rare] <= max(1, 0.05 * total[often]) and total[often] > 1
        if _form(often) == _form(rare) or rarer:
            found.append((often, rare))
    found.sort(key=lambda pair: (-total[pair[1]], pair))
    rare = {name for _, name in found}
    lines = [_first_lines(data, rare) for data in datasets]
    for often, name in found[:50]:
        places = [
            (data.name, line[name])
            for data, line in zip(datasets, lines, strict=True)
            if name in line
        ]
        message = (
            f"the label {name!r} ({total[name]:,} times) looks like {often!r} "
            f"({total[often]:,} times)."
        )
        remedy = "If they are one, write one name."
        yield _finding("similar names", "warning", places, message, remedy)
    if len(found) > 50:
        (path, line), count = places[0], len(found) - 50
        message = f"{count:,} more pairs of names look alike."
        yield Finding("similar names", "warning", path, line, count, message, remedy)


def _form(name):
    """A name without what people write in one way or another."""
    return _BETWEEN.sub("", name.casefold()) or name


def _between(datasets, counts):
    """What the first data set lacks of the others."""
    if not datasets:
        return
    train, known = datasets[0], counts[0]
    for data, counted in zip(datasets[1:], counts[1:], strict=True):
        if data.task != train.task:
            message = f"has {data.task}, but {train.name} has {train.task}."
            remedy = "A model learns one of them: check the files and their columns."
            yield _finding("other task", "error", [(data.name, None)], message, remedy)
            continue
        unknown = {name for name in counted if name not in known}
        if unknown:
            lines = _first_lines(data, unknown)
            names = sorted(unknown, key=lambda name: (-counted[name], name))
            share = sum(counted[name] for name in unknown) / counted.total()
            message = (
                f"{len(unknown):,} of {len(counted):,} names are not in {train.name}, "
                f"such as {names[0]!r}: {100 * share:.1f} % of all cannot be found."
            )
            remedy = "Put texts with them into it, or expect them to count as missed."
            places = [(data.name, lines[name]) for name in names]
            yield _finding("unknown name", "warning", places, message, remedy)


def _languages(descriptions):
    """Whether files are of different languages."""
    for first, other in pairwise(descriptions):
        known = first.language and other.language
        if (known and first.language != other.language) or first.script != other.script:
            one = first.language or first.script
            message = f"is {other.language or other.script}, but {first.name} is {one}."
            remedy = "Scores tell little where a model meets another language."
            yield Finding(
                "other language", "warning", other.name, None, 1, message, remedy
            )
