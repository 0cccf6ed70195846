"""CSV and TSV files: a text and its labels a row, with a header or without."""

import contextlib
import csv
import re
from collections import Counter
from itertools import islice

from bat_tf._internal.files import decode
from bat_tf._internal.validation import DataError, sentence
from bat_tf.data.dataset import Example
from bat_tf.data.readers.format import (
    MAYBE,
    NO,
    YES,
    AmbiguousFile,
    Format,
    Reading,
)
from bat_tf.data.readers.shapes import (
    IDS,
    LABELS,
    TEXTS,
    TITLES,
    Fields,
    is_number,
    truth,
)
from bat_tf.data.readers.tag_schemes import TagReader, looks_like_tags
from bat_tf.data.scripts import find_joiner, join_tokens

# Rows by which it is found out what the columns are.
_LOOK_AT = 2000
_KNOWN = frozenset((*TITLES, *TEXTS, *LABELS, *IDS, "word", "token", "sentence #"))
_USUAL = "\t;|,"
# Signs that stand in no text of a table, unless they divide it.
_RARE = (*"^~¦§\x01\x1e\x1f", "_!_", "|,|", "|||", "||", "@@@", "###", "::")
# Stands for a delimiter of several signs.
_ONE = "\x1f"
_GROUPS = re.compile(r"(?i)(sentence|sent|doc|document)[ _]?(#|id|no|number|idx)?")
_WORDS = re.compile(r"(?i)words?|tokens?|form")


def iter_csv(
    source,
    *,
    text=None,
    labels=None,
    separator=None,
    delimiter=None,
    quotes=None,
    header=None,
    names=None,
    overlaps="error",
    scheme=None,
    joiner=None,
    strict=False,
):
    """Yields the rows of a table as `Example`s.

    Columns are found by their usual names where they are not given: `text`, `body` …
    with `title` in front if there is one; `labels`, `label`, `topics` … If no column
    has such a name, columns of zeros and ones are a label each, 1 where a row has it,
    and else the one column that looks like labels is taken. Blank lines are passed
    over.

    Args:
        source: the `Source`.
        text: the column of the text, or a list of columns, joined by line ends.
        labels: the column that holds the names of the labels, or a list of columns of
            zeros and ones whose headers are the names, or of a name each.
        separator: what divides the names inside a cell; None finds it out, "" if a
            cell is one name. A list such as `["a", "b"]` is understood either way.
        delimiter: what divides the columns; None finds it out.
        quotes: whether `"` around a cell protects delimiters and line ends in it; None
            finds it out.
        header: whether the first row names the columns; None finds it out. Without it
            the columns are called "1", "2" …
        names: names of labels that are numbers, in their order, as a list or a file
            with one a line.
        overlaps: of spans: "error", or "longest" to keep the longer one.
        scheme: of a table with a token and a tag a row: a key of `SCHEMES`.
        joiner: what to put between such tokens; None finds it out.
        strict: whether tags that break the scheme are errors.
    """
    if delimiter is not None and (not isinstance(delimiter, str) or not delimiter):
        raise ValueError(sentence("delimiter", "a sign or several", delimiter))
    if separator is not None and not isinstance(separator, str):
        raise ValueError(sentence("separator", "a string or None", separator))
    lines, whole = source.head()
    dialect = _find_dialect(lines, whole, delimiter, quotes)
    delimiter = delimiter or dialect[0] or ","
    quotes = dialect[1] if quotes is None else quotes
    rows = _iter_rows(source, delimiter, quotes)
    first = next(rows, None)
    if first is None:
        return
    line, cells, fault = first
    if fault:
        raise DataError(source.path, line, fault)
    sample = _sample(source, delimiter, quotes, len(cells))
    header = _find_header(source, line, cells, sample) if header is None else header
    named = _header(source.path, line, cells) if header else _numbers(len(cells))
    body = sample if header else [cells, *sample]
    source.found |= {"delimiter": delimiter, "header": header}
    source.found |= {} if quotes else {"quotes": False}
    if not header:
        rows = _behind(first, rows)
    options = {"separator": separator, "names": names, "overlaps": overlaps}
    if text is None and labels is None:
        tokens = _token_columns(named, body)
        if tokens:
            tagging = {"scheme": scheme, "joiner": joiner, "strict": strict}
            yield from _sentences(source, rows, body, tokens, **tagging)
            return
    keys = {name: number for number, name in enumerate(named) if name}
    own = {"text": text, "labels": labels, "header": bool(header)}
    fields = Fields(source, line, keys, body, typed=False, **own, **options)
    for line, cells, fault in rows:
        with source.at(line):
            if fault:
                raise ValueError(fault)
            if len(cells) != len(named):
                raise ValueError(
                    f"expected {len(named)} cells, as many as the header has. "
                    f"Received: {len(cells)}."
                )
            yield fields.example(cells, line)


def iter_tsv(
    source,
    *,
    text=None,
    labels=None,
    separator=None,
    quotes=None,
    header=None,
    names=None,
    overlaps="error",
    scheme=None,
    joiner=None,
    strict=False,
):
    """Yields the rows of a table whose columns are divided by tabs; see `iter_csv`."""
    columns = {"text": text, "labels": labels, "separator": separator, "names": names}
    columns |= {"scheme": scheme, "joiner": joiner, "strict": strict}
    columns |= {"quotes": quotes, "header": header, "overlaps": overlaps}
    return iter_csv(source, **columns, delimiter="\t")


def _fits(delimiters):
    def fits(sample):
        delimiter, _, certain = _find_dialect(sample.lines, sample.whole)
        if delimiter is None or (delimiter == "\t") != (delimiters == "\t"):
            return NO
        return YES if certain else MAYBE

    return fits


CSV = Format(
    iter_csv,
    (".csv",),
    _fits(","),
    "its rows have the same number of cells, divided by `,` `;` `|` or another sign",
    {
        "labels.csv": 'id,text,labels\n1,A goal,"sport, news"\n2,"A play, old",art\n',
        "flags.csv": "text,sport,art\nA goal,1,0\nA play,0,1\n",
        "columns.csv": "text;label1;label2\nA goal, late;sport;news\nA play;art;\n",
        "lists.csv": "text,labels\nA goal,\"['sport', 'news']\"\nA play,[]\n",
        "bare.csv": '"sport","A goal, in the last minute"\n'
        '"art","A play in two acts"\n"sport","The first goal of ten"\n',
        "words.csv": "Sentence #,Word,POS,Tag\nSentence: 1,Zorv,NNP,B-brand\n"
        ",lamp,NN,O\nSentence: 2,Veloria,NNP,B-brand\n,is,VBZ,O\n",
    },
)
TSV = Format(
    iter_tsv,
    (".tsv", ".tab"),
    _fits("\t"),
    "its rows have the same number of cells, divided by tabs",
    {
        "labels.tsv": "text\ttags\nA goal\tsport news\nA play\tart\nA race\tsport\n",
        "flags.tsv": "A goal in time\t1\t0\nA play in town\t0\t1\n",
    },
)


# === How the file is written ===


def _find_dialect(lines, whole, delimiter=None, quotes=None):
    """Finds (delimiter, quotes, certain) of a table by its first lines.

    The delimiter is None if its rows have no common number of cells.
    """
    lines = [line for line in lines[:_LOOK_AT] if len(line) < 10**5]
    if not whole or len(lines) == _LOOK_AT:
        lines = lines[:-1]
    signs = [delimiter] if delimiter else _candidates(lines)
    best, chosen = None, (None, True, False)
    for rank, sign in enumerate(signs):
        for quoted in (True, False) if quotes is None else (quotes,):
            found = _weigh(lines, sign, quoted)
            if found is None:
                continue
            share, columns, known = found
            # A quote that opens a cell and does not end it is no quote.
            weight = (known > 0, share, quoted, -rank, columns)
            if best is None or weight > best:
                best = weight
                certain = known > 1 or (known and columns == 2)
                chosen = sign, quoted, bool(certain)
    return chosen


def _candidates(lines):
    signs = [sign for sign in _USUAL if any(sign in line for line in lines)]
    first = [line for line in lines[:100] if line.strip()]
    return signs + [sign for sign in _RARE if all(sign in line for line in first)]


def _weigh(lines, sign, quoted):
    """(share of rows with as many cells as most, that number, known names in row 1)."""
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    text = (line.replace("\0", "") + "\n" for line in lines)
    text, sign = _with_one(text, sign)
    rows, wrong = [], 0
    try:
        reader = csv.reader(text, delimiter=sign, quoting=quoting, strict=True)
        while True:
            try:
                row = next(reader)
            except csv.Error:
                wrong += 1
                continue
            if row:
                rows.append(row)
    except (StopIteration, TypeError, ValueError):
        pass
    if not rows:
        return None
    counts = Counter(map(len, rows))
    columns, count = counts.most_common(1)[0]
    known = sum(cell.strip().lower() in _KNOWN for cell in rows[0]) * (len(rows[0]) > 1)
    if known and columns != len(rows[0]) and counts[len(rows[0])] >= 0.5 * count:
        columns, count = len(rows[0]), counts[len(rows[0])]
    share = count / (len(rows) + wrong)
    if columns < 2 or share < (0.5 if known else 0.9):
        return None
    return share, columns, known


def _with_one(lines, delimiter):
    """The same for a delimiter of several signs, which `csv` does not know."""
    if len(delimiter) == 1:
        return lines, delimiter
    return (line.replace(delimiter, _ONE) for line in lines), _ONE


def _iter_rows(source, delimiter, quotes):
    """Yields (line on which the row begins, cells, what is wrong with it or "")."""
    faults = []

    def lines():
        for _, line in source.lines():
            try:
                yield decode(line) + "\n"
            except ValueError as error:
                faults.append(str(error))
                yield line.decode("utf-8", "replace").replace("\0", "") + "\n"

    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    text, delimiter = _with_one(lines(), delimiter)
    rows = csv.reader(text, delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        line, cells = rows.line_num + 1, []
        try:
            with _cells_of(source.limits):
                cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            remedy = "Double the quotes inside a cell, or pass quotes=False."
            if "field limit" in str(error):
                remedy += " If it is meant to be so long, raise `max_line_mb`."
            faults.append(f"not a row of a table: {error}. {remedy}")
        if cells or faults:
            yield line, cells, " ".join(faults)
            faults.clear()


@contextlib.contextmanager
def _cells_of(limits):
    """Lets a cell be as long as a line; csv has one limit for the whole process."""
    limit = csv.field_size_limit(int(limits.line_mb * 1e6))
    try:
        yield
    finally:
        csv.field_size_limit(limit)


def _behind(first, rows):
    yield first
    yield from rows


# === What the columns are ===


def _sample(source, delimiter, quotes, columns):
    """The first whole rows behind the first one."""
    rows = islice(_iter_rows(source, delimiter, quotes), 1, _LOOK_AT)
    return [cells for _, cells, fault in rows if not fault and len(cells) == columns]


def _numbers(columns):
    return [str(number) for number in range(1, columns + 1)]


def _header(path, line, cells):
    header = [name.strip() for name in cells]
    named = Counter(name for name in header if name)
    twice = sorted(name for name, count in named.items() if count > 1)
    if not named or twice:
        wrong = f"names columns twice: {twice}" if twice else "is blank"
        raise DataError(path, line, f"the header {wrong}.")
    return header


def _find_header(source, line, cells, body):
    """Whether the first row names the columns, judged by the rows behind it."""
    first = [cell.strip() for cell in cells]
    if any(name.lower() in _KNOWN for name in first):
        return True
    if not any(first) or not body or len(first) == 1:
        return True
    for_it = against = 0
    if len(set(filter(None, first))) < len(list(filter(None, first))):
        against += 2
    for cell, column in zip(first, zip(*body, strict=True), strict=True):
        column = [value.strip() for value in column]
        words = sorted(len(value.split()) for value in column)[len(column) // 2]
        if all(truth(value) is not None for value in column) or all(
            map(is_number, filter(None, column))
        ):
            numbers = is_number(cell) or truth(cell) is not None
            against += 2 * bool(numbers and cell)
            for_it += 2 * bool(cell and not numbers)
        elif words > 2:
            against += len(cell.split()) > 3
            for_it += len(cell.split()) < 3 and len(cell) < 0.5 * _median(column)
        elif len(column) >= 2 and cell:
            counts = Counter(column)
            again = len(counts) <= 0.7 * len(column)
            against += 2 * (cell in counts)
            for_it += bool(again and cell not in counts)
    if for_it == against:
        reason = f"the first row may name the columns, or not: {', '.join(first)[:80]}."
        readings = [
            Reading("it names the columns", {"header": True}),
            Reading("it is a row like the others", {"header": False}),
        ]
        raise AmbiguousFile(source.path, line, reason, readings)
    return for_it > against


def _median(column):
    return sorted(map(len, column))[len(column) // 2]


# === A token a row ===


def _token_columns(header, body):
    """(sentence, token, tag) of a table with a token and its tag a row, or None."""
    tags = [
        number
        for number in range(len(header))
        if body and looks_like_tags([row[number].strip() for row in body])
    ]
    words = [n for n, name in enumerate(header) if _WORDS.fullmatch(name.strip())]
    groups = [n for n, name in enumerate(header) if _GROUPS.fullmatch(name.strip())]
    groups = [number for number in groups if number not in (*tags, *words)]
    if not (tags and words and groups):
        return None
    return groups[0], words[0], tags[-1]


def _sentences(source, rows, body, columns, scheme, joiner, strict):
    """Yields the sentences of a table with a token and its tag a row."""
    group, word, tag = columns
    tags = TagReader(source, [tuple(row[tag] for row in body)], scheme, strict)
    if joiner is None:
        joiner = find_joiner(row[word] for row in body)
    source.found |= {"scheme": tags.scheme, "joiner": joiner}
    number, current = None, []
    for line, cells, fault in rows:
        with source.at(line):
            if fault:
                raise ValueError(fault)
            if len(cells) <= max(columns):
                raise ValueError(f"expected a token and its tag. Received: {cells}.")
            parsed = tags.parse(cells[tag])
            found = cells[group].strip() or number  # named once, as spreadsheets do
            if found != number and current:
                yield _sentence(source, number, current, tags, joiner)
                current = []
            number = found
            current.append((line, cells[word], parsed))
    if current:
        yield _sentence(source, number, current, tags, joiner)


def _sentence(source, number, rows, tags, joiner):
    lines, words, parsed = zip(*rows, strict=True)
    spans = tags.spans(parsed, lines)
    text, spans = join_tokens(words, spans, joiner)
    return Example(text, spans=spans, id=number, line=lines[0])
