"""CoNLL files: one token and its tag a line, a blank line after each sentence."""

from collections import Counter
from itertools import chain, islice
from typing import NamedTuple

from bat_tf._validation import DataError, check_choice, check_number
from bat_tf.data.dataset import Example, Span
from bat_tf.data.files import decode, read_lines
from bat_tf.data.tag_schemes import (
    SCHEMES,
    find_fault,
    find_scheme,
    parse_tag,
    tags_to_spans,
)

# Stands for a blank token between blanks, so that splitting there finds it again.
BLANK_WORD = "\ufffd"


def join_tokens(tokens, spans, joiner):
    """Makes a text of tokens, and spans that count tokens into spans of characters.

    Args:
        tokens: the tokens. A blank one keeps its place: as itself (or " ") if the text
            is joined by "", as U+FFFD if it is joined by blanks.
        spans: `Span`s that count tokens.
        joiner: what stands between two tokens.

    Returns:
        (text, spans): a string and `Span`s that count its characters.

    Example:
        >>> join_tokens(["New", "York"], [Span(0, 2, "LOC")], " ")
        ('New York', [Span(start=0, end=8, kind='LOC')])
    """
    if joiner:
        tokens = [token if token.strip() else BLANK_WORD for token in tokens]
    else:
        tokens = [token or " " for token in tokens]
    starts, place = [], 0
    for token in tokens:
        starts.append(place)
        place += len(token) + len(joiner)
    characters = [
        Span(starts[s.start], starts[s.end - 1] + len(tokens[s.end - 1]), s.kind)
        for s in spans
    ]
    return joiner.join(tokens), characters


class _Layout(NamedTuple):
    """How a file is written: given by the caller or found out from the whole of it."""

    columns: int
    token_column: int
    tag_column: int
    scheme: str
    joiner: str


class _Block(NamedTuple):
    """The lines of one sentence; `document` is 0 in files without -DOCSTART-."""

    document: int
    number: int
    lines: list


class _Passage(NamedTuple):
    """A sentence, or neighbouring ones of one document."""

    document: int
    first: int
    last: int
    words: int
    text: str
    spans: list


def iter_conll(
    path,
    *,
    token_column=0,
    tag_column=-1,
    scheme=None,
    joiner=None,
    kinds=None,
    documents="sentences",
    max_words=None,
    strict=True,
    on_error="raise",
    skipped=None,
):
    r"""Yields the sentences of a CoNLL file as `Example`s with spans.

    Columns are divided by tabs or blanks, from the right, so a token may itself be
    blank. Lines that begin with -DOCSTART- begin a document and are no sentence.

    Args:
        path: the file; `.gz` and `.xz` are unpacked on the fly. It is read twice.
        token_column: the column of the token.
        tag_column: the column of the tag.
        scheme: how tags mark spans, a key of `SCHEMES`; found out from the whole file
            if None.
        joiner: what to put between tokens; if None, "" for files in which nearly all
            tokens are single characters, else " ". `join_tokens` tells of blank tokens.
        kinds: new names for kinds, such as `{"HC": "product"}`; others stay.
        documents: "sentences", or "joined" to make one text of the neighbouring
            sentences of a document, each on a line of its own.
        max_words: how many tokens a joined text has at most, unless a single sentence
            has more; None for whole documents.
        strict: whether tags that break the scheme are errors; if False they are read as
            `tags_to_spans` says.
        on_error: "raise", or "skip" to leave out a faulty sentence.
        skipped: a list that takes a `DataError` for each sentence left out.

    Yields:
        `Example`s whose id is such as "doc 2, sentence 5".

    Raises:
        DataError: file, line and what is wrong there.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "cities.conll"
        >>> _ = path.write_text("to O\nNew B-LOC\nYork I-LOC\n")
        >>> next(iter_conll(path))  # doctest: +NORMALIZE_WHITESPACE
        Example(text='to New York', spans=(Span(start=3, end=11, kind='LOC'),),
                labels=None, id='sentence 1')
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    check_choice("documents", documents, ("sentences", "joined"))
    if scheme is not None:
        scheme = SCHEMES[check_choice("scheme", scheme, SCHEMES)]
    if max_words is not None:
        check_number("max_words", max_words, low=1, integer=True)
    layout = _find_layout(path, token_column, tag_column, scheme, joiner)

    def passages():
        for block in _blocks(path):
            try:
                yield _read_block(path, block, layout, kinds or {}, strict)
            except DataError as error:
                if on_error == "raise":
                    raise
                if skipped is not None:
                    skipped.append(error)

    if documents == "joined":
        found = _join_documents(path, passages(), max_words)
    else:
        found = passages()
    for passage in found:
        yield Example(passage.text, spans=passage.spans, id=_name(passage))


def _blocks(path):
    document, number, lines = 0, 0, []
    for place, line in chain(read_lines(path), [(None, b"")]):
        begins = line.startswith(b"-DOCSTART-")
        if line.strip() and not begins:
            lines.append((place, line))
            continue
        if lines:
            number += 1
            yield _Block(document, number, lines)
            lines = []
        if begins:
            document, number = document + 1, 0


def _split(line, columns):
    """Divides a line from the right; what is left over belongs to the first column."""
    if "\t" in line:
        return line.rsplit("\t", columns - 1)
    fields = line.rsplit(None, columns - 1)
    if len(fields) == columns - 1 and line[:1].isspace():
        return [line[:1], *fields]  # the token is itself a blank
    return [fields[0].lstrip(), *fields[1:]] if fields else [line]


def _read_block(path, block, layout, kinds, strict):
    tokens, tags = [], []
    for place, line in block.lines:
        try:
            fields = _split(decode(line), layout.columns)
            if len(fields) != layout.columns:
                raise ValueError(
                    f"expected {layout.columns} columns, as in most lines. "
                    f"Received: {fields}."
                )
            tags.append(parse_tag(fields[layout.tag_column].strip(), layout.scheme))
        except ValueError as error:
            raise DataError(path, place, str(error)) from None
        tokens.append(fields[layout.token_column])
    fault = find_fault(tags, layout.scheme) if strict else None
    if fault:
        index, reason = fault
        raise DataError(
            path,
            block.lines[index][0],
            f"{reason} The tags are read as {layout.scheme}. Correct the line, name "
            "another `scheme`, or pass strict=False to take the tags as they are.",
        )
    spans = [
        Span(start, end, kinds.get(kind, kind))
        for start, end, kind in tags_to_spans(tags)
    ]
    text, spans = join_tokens(tokens, spans, layout.joiner)
    number = block.number
    return _Passage(block.document, number, number, len(tokens), text, spans)


def _find_layout(path, token_column, tag_column, scheme, joiner):
    columns = _count_columns(path)
    bounds = {"low": -columns, "high": columns - 1, "integer": True}
    check_number("token_column", token_column, **bounds)
    check_number("tag_column", tag_column, **bounds)
    sequences, sizes = Counter(), Counter()
    if scheme is None or joiner is None:
        for block in _blocks(path):
            rows = list(_whole_rows(block, columns))
            sequences[tuple(row[tag_column].strip() for row in rows)] += 1
            sizes.update(len(row[token_column]) for row in rows)
    if joiner is None:
        joiner = "" if sizes[1] > 0.95 * sizes.total() else " "
    scheme = scheme or find_scheme(sequences)
    return _Layout(columns, token_column, tag_column, scheme, joiner)


def _count_columns(path):
    lines = (line for block in _blocks(path) for line in block.lines)
    lines = list(islice(lines, 1000))
    counts = Counter(
        len(line.split(b"\t" if b"\t" in line else None)) for _, line in lines
    )
    columns = counts.most_common(1)[0][0] if lines else 2
    if columns < 2:
        place, line = lines[0]
        try:
            reason = f"expected a token and its tag. Received: {decode(line)[:40]!r}."
        except ValueError as error:
            reason = str(error)
        raise DataError(path, place, reason)
    return columns


def _whole_rows(block, columns):
    for _, line in block.lines:
        try:
            fields = _split(decode(line), columns)
        except ValueError:
            continue  # reported when the sentence is read
        if len(fields) == columns:
            yield fields


def _join_documents(path, passages, max_words):
    gathered = []
    for passage in passages:
        if passage.document == 0:
            raise ValueError(
                f'`documents` must be "sentences" for {path}: no -DOCSTART- line says '
                "where its documents begin."
            )
        words = passage.words + sum(earlier.words for earlier in gathered)
        full = max_words is not None and words > max_words
        if gathered and (full or passage.document != gathered[0].document):
            yield _merge(gathered)
            gathered = []
        gathered.append(passage)
    if gathered:
        yield _merge(gathered)


def _merge(passages):
    spans, place = [], 0
    for passage in passages:
        spans += [Span(s.start + place, s.end + place, s.kind) for s in passage.spans]
        place += len(passage.text) + 1
    return _Passage(
        passages[0].document,
        passages[0].first,
        passages[-1].last,
        sum(passage.words for passage in passages),
        "\n".join(passage.text for passage in passages),
        spans,
    )


def _name(passage):
    number = f"sentence {passage.first}"
    if passage.last > passage.first:
        number = f"sentences {passage.first}-{passage.last}"
    return f"doc {passage.document}, {number}" if passage.document else number
