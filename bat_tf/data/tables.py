"""CSV and TSV files: a header, then a text and its labels a row."""

import ast
import contextlib
import csv
import json
import re

from bat_tf._validation import DataError, check_choice, sentence
from bat_tf.data.dataset import Example
from bat_tf.data.files import decode, read_lines

# Usual names of columns, the likeliest first; capitals make no difference.
_TITLES = ("title", "headline", "subject")
_TEXTS = ("text", "body", "content", "comment_text", "comment", "sentence", "document")
_TEXTS += ("abstract", "description")
_LABELS = ("labels", "label", "topics", "topic", "tags", "categories", "category")
_IDS = ("id", "uid", "guid")
# What pandas calls the column of row numbers.
_INDEX = re.compile(r"(unnamed: \d+)?", re.IGNORECASE)
_TRUTH = {"0": False, "0.0": False, "false": False, "": False}
_TRUTH |= {"1": True, "1.0": True, "true": True}
_TOO_DEEP = (RecursionError, MemoryError)  # which of them is up to Python


def iter_csv(
    path,
    *,
    text=None,
    labels=None,
    separator=None,
    delimiter=",",
    quotes=True,
    on_error="raise",
    skipped=None,
):
    r"""Yields the rows of a table as `Example`s with labels. The first row is a header.

    Columns are found by their usual names where they are not given: `text`, `body` …
    with `title` in front if there is one; `labels`, `label`, `topics` … If no column
    has such a name, every column but the text and the `id` is a label, 1 where a row
    has it and 0 where not. A blank line is passed over.

    Args:
        path: the file; `.gz` and `.xz` are unpacked on the fly.
        text: the column of the text, or a list of columns, joined by line ends.
        labels: the column that holds the names of the labels, or a list of columns of
            zeros and ones whose headers are the names.
        separator: what divides the names inside a cell; None for "|" and ";", "" if a
            cell is one name. A list such as `["a", "b"]` is understood either way.
        delimiter: what divides the columns.
        quotes: whether `"` around a cell protects delimiters and line ends in it.
        on_error: "raise", or "skip" to leave out a faulty row.
        skipped: a list that takes a `DataError` for each row left out.

    Yields:
        `Example`s.

    Raises:
        DataError: file, line on which the row begins, and what is wrong there.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "news.csv"
        >>> _ = path.write_text("title,text,labels\nFinal,A goal,sport|news\n")
        >>> next(iter_csv(path))
        Example(text='Final\nA goal', spans=None, labels=('sport', 'news'), id=None)
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    if not isinstance(delimiter, str) or len(delimiter) != 1:
        raise ValueError(sentence("delimiter", "one character", delimiter))
    if separator is not None and not isinstance(separator, str):
        raise ValueError(sentence("separator", "a string or None", separator))
    columns = None
    for line, cells, fault in _iter_rows(path, delimiter, quotes):
        if columns is None:
            if fault:
                raise DataError(path, line, fault)
            columns = _Columns(path, line, cells, text, labels, separator)
            continue
        try:
            if fault:
                raise ValueError(fault)
            example = columns.example(cells)
        except ValueError as error:
            error = DataError(path, line, str(error))
            if on_error == "raise":
                raise error from None
            if skipped is not None:
                skipped.append(error)
        else:
            yield example


def iter_tsv(
    path,
    *,
    text=None,
    labels=None,
    separator=None,
    quotes=True,
    on_error="raise",
    skipped=None,
):
    r"""Yields the rows of a table whose columns are divided by tabs; see `iter_csv`.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "news.tsv"
        >>> _ = path.write_text("text\tlabel\nA goal\tsport\n")
        >>> next(iter_tsv(path)).labels
        ('sport',)
    """
    return iter_csv(
        path,
        text=text,
        labels=labels,
        separator=separator,
        delimiter="\t",
        quotes=quotes,
        on_error=on_error,
        skipped=skipped,
    )


def _iter_rows(path, delimiter, quotes):
    """Yields (line on which the row begins, cells, what is wrong with it or "")."""
    faults = []

    def lines():
        for _, line in read_lines(path):
            try:
                yield decode(line) + "\n"
            except ValueError as error:
                faults.append(str(error))
                yield line.decode("utf-8", "replace").replace("\0", "") + "\n"

    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    rows = csv.reader(lines(), delimiter=delimiter, quoting=quoting, strict=True)
    while True:
        line, cells = rows.line_num + 1, []
        try:
            with _any_length():
                cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            remedy = "Double the quotes inside a cell, or pass quotes=False."
            faults.append(f"not a row of a table: {error}. {remedy}")
        if cells or faults:
            yield line, cells, " ".join(faults)
            faults.clear()


@contextlib.contextmanager
def _any_length():
    """Lifts csv's limit on the length of a cell, which is one for the whole process."""
    limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


class _Columns:
    """Which columns of a table hold what."""

    def __init__(self, path, line, header, text, labels, separator):
        self.header = [name.strip() for name in header]
        self.separator = separator
        self._place = path, line
        self._check_header()
        self.id = self._first(_IDS)
        self.text = self._find_text() if text is None else self._given("text", text)
        self.cell, self.flags = None, []
        if labels is None:
            self.cell = self._first(_LABELS)
            if self.cell is None:
                self.flags = self._find_flags()
        elif isinstance(labels, str):
            (self.cell,) = self._given("labels", labels)
        else:
            self.flags = self._given("labels", labels)

    def example(self, cells):
        """The example of a row, or a ValueError that says why it is none."""
        if len(cells) != len(self.header):
            raise ValueError(
                f"expected {len(self.header)} cells, as many as the header has. "
                f"Received: {len(cells)}."
            )
        text = "\n".join(filter(None, (cells[i].strip() for i in self.text)))
        if self.cell is None:
            labels = [self.header[i] for i in self.flags if self._truth(i, cells[i])]
        else:
            labels = self._names(cells[self.cell].strip())
        identity = None if self.id is None else cells[self.id] or None
        return Example(text, labels=labels, id=identity)

    def _truth(self, column, cell):
        value = _TRUTH.get(cell.strip().lower())
        if value is None:
            remedy = "If the column is no label, name those that are: `labels`."
            name = f"the cell of {self.header[column]!r}"
            raise ValueError(
                f"{name} must be 0 or 1. Received: {cell[:40]!r}. {remedy}"
            )
        return value

    def _names(self, cell):
        if cell.startswith("[") and cell.endswith("]"):
            return _parse_list(cell)
        if self.separator is None:
            names = re.split("[|;]", cell)
        else:
            names = cell.split(self.separator) if self.separator else [cell]
        return list(filter(None, map(str.strip, names)))

    def _check_header(self):
        named = [name for name in self.header if name]
        twice = sorted({name for name in named if named.count(name) > 1})
        if not named or twice:
            wrong = f"names columns twice: {twice}" if twice else "is blank"
            raise DataError(*self._place, f"the header {wrong}.")

    def _first(self, names):
        lower = [name.lower() for name in self.header]
        return next((lower.index(name) for name in names if name in lower), None)

    def _given(self, argument, names):
        names = [names] if isinstance(names, str) else list(names)
        for name in names or [None]:
            if name not in self.header:
                expected = f"columns of {self._place[0]}: {', '.join(self.header)}"
                raise ValueError(sentence(argument, expected, name))
        return [self.header.index(name) for name in names]

    def _find_text(self):
        found = [self._first(_TITLES), self._first(_TEXTS)]
        found = [column for column in found if column is not None]
        if not found:
            self._fail("text", "text, title")
        return found

    def _find_flags(self):
        other = {*self.text, self.id}
        flags = [
            column
            for column, name in enumerate(self.header)
            if column not in other and not _INDEX.fullmatch(name)
        ]
        if not flags:
            self._fail("labels", "labels, label")
        return flags

    def _fail(self, argument, usual):
        raise DataError(
            *self._place,
            f"no column of the header holds the {argument} (usual names: {usual} …). "
            f"Name it with `{argument}`, or check `delimiter`. "
            f"Received: {', '.join(self.header)[:200]}.",
        )


def _parse_list(cell):
    """Reads a list as JSON or, since pandas writes lists so, as Python has it."""
    for parse, errors in (
        (json.loads, (ValueError, RecursionError)),
        (ast.literal_eval, (ValueError, TypeError, SyntaxError, *_TOO_DEEP)),
    ):
        with contextlib.suppress(*errors):
            return parse(cell)
    raise ValueError(f'expected a list such as ["a", "b"]. Received: {cell[:60]!r}.')
