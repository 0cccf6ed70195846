"""Rows of a file: bytes in, (id, text) or the reason against it out."""

import hashlib
import itertools
import json
import sys
from pathlib import Path

from bat_tf._internal.files import OPENERS, bounded_lines, decode, read_lines
from bat_tf._internal.validation import DataError


def has_json_rows(path):
    """Whether a file's name says that its rows are JSON, packed or not.

    Example:
        >>> has_json_rows("pages.jsonl.gz"), has_json_rows("pages.txt")
        (True, False)
    """
    path = Path(path)
    inner = path.with_suffix("") if path.suffix.lower() in OPENERS else path
    return inner.suffix.lower() in (".jsonl", ".json")


def read_row(number, line, json_rows=False):
    r"""Reads one line: its id (by default its number) and its text.

    Args:
        number: of the line.
        line: its bytes.
        json_rows: whether it is `{"text": …}`, with or without an "id", or plain text.

    Returns:
        A pair of id and text, or None for a blank line between JSON rows.

    Raises:
        ValueError: with the reason, if the line is not such a row.

    Example:
        >>> read_row(7, b"a lamp")
        (7, 'a lamp')
        >>> read_row(7, b'{"id": "p1", "text": "a lamp"}', json_rows=True)
        ('p1', 'a lamp')
        >>> read_row(7, b'{"title": "a lamp"}', json_rows=True)
        Traceback (most recent call last):
        ...
        ValueError: expected {"text": …}, found '{"title": "a lamp"}'
    """
    text = decode(line)
    if not json_rows:
        return number, text
    if not text.strip():
        return None
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON ({error})") from None
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise ValueError(f'expected {{"text": …}}, found {text[:60]!r}')
    found = row.get("id", number), row["text"]
    try:
        json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair, which is no text") from None
    return found


def digest_of(lines):
    """SHA-256 of lines, as (number, bytes)."""
    digest = hashlib.sha256()
    for _, line in lines:
        digest.update(line + b"\n")
    return digest.hexdigest()


def read_shards(path, shard_rows):
    """Yields the lines of each shard of a file, as lists of (line number, bytes)."""
    lines = read_lines(path)
    while shard := list(itertools.islice(lines, shard_rows)):
        yield shard


class ShardReader:
    """Reads one shard of a file after the other, without holding the others.

    A packed file can only be read from its beginning, so the reader stays where the
    last shard ended. Asking for shards in rising order reads the file once.

    Args:
        path: the file.
        shard_rows: lines of a shard.
    """

    def __init__(self, path, shard_rows):
        self._path, self._shard_rows = path, shard_rows
        self._lines, self._next = None, 0

    def read(self, shard):
        """The (line number, bytes) of a shard, counted from 0."""
        if self._lines is None or shard < self._next:
            self._lines, self._next = read_lines(self._path), 0
        skipped = (shard - self._next) * self._shard_rows
        self._next = shard + 1
        return list(itertools.islice(self._lines, skipped, skipped + self._shard_rows))


def read_texts(path=None):
    """Yields the texts of a file, or of standard input, and stops at a bad row.

    Args:
        path: the file; its name says what its rows are. None reads lines of text from
            standard input.
    """
    json_rows = path is not None and has_json_rows(path)
    if path:
        lines = read_lines(path)
    else:
        lines = bounded_lines(sys.stdin.buffer, "standard input")
    for number, line in lines:
        # A stray byte in a text is no reason to stop.
        line = line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
        try:
            row = read_row(number, line.encode(), json_rows)
        except ValueError as error:
            raise DataError(path or "standard input", number, str(error)) from error
        if row:
            yield row[1]


def count_rows(path):
    """How many lines a file has; None for a pipe, which can be read only once."""
    return sum(1 for _ in read_lines(path)) if Path(path).is_file() else None


def ask_in_chunks(ask, texts, size):
    """Yields (text, answer) for any number of texts, holding `size` of them.

    Example:
        >>> list(ask_in_chunks(lambda texts: map(len, texts), ["a", "lamp"], 1))
        [('a', 1), ('lamp', 4)]
    """
    texts = iter(texts)
    while chunk := list(itertools.islice(texts, size)):
        yield from zip(chunk, ask(chunk), strict=True)


def json_with_id(row_id, line):
    """Puts an id in front of a line of JSONL.

    Example:
        >>> json_with_id("p1", '{"text": "a lamp"}')
        '{"id": "p1", "text": "a lamp"}'
    """
    return f'{{"id": {json.dumps(row_id, ensure_ascii=False)}, {line[1:]}'
