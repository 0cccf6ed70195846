"""CoNLL files: one token and its tag a line, a blank line after each sentence."""

import re
from collections import Counter
from itertools import chain
from typing import NamedTuple

from bat_tf._internal.files import decode
from bat_tf._internal.validation import DataError, check_choice, check_number
from bat_tf.data.dataset import Example, Span
from bat_tf.data.readers.format import (
    CERTAIN,
    MAYBE,
    NO,
    YES,
    AmbiguousFile,
    Format,
    Reading,
)
from bat_tf.data.readers.tag_schemes import SCHEMES, TagReader, looks_like_tags
from bat_tf.data.scripts import find_joiner, join_tokens

# Lines by which it is found out what the columns are.
_LOOK_AT = 50_000
_NAMED = re.compile(r"(?i)(?:^|\|)(?:name|ner|ne)=([^|]+)")
_HASH = ord("#")
_COMMENT = (b"# ", b"#\t", b"##")
# What a first line that names the columns calls that of the tags.
_HEADERS = frozenset("tag tags ner ner_tag ner_tags label labels ne bio iob".split())


class _Layout(NamedTuple):
    """How a file is written: given by the caller or found out from its beginning."""

    columns: int
    token_column: int
    tag_column: int
    joiner: str


class _Block(NamedTuple):
    """The lines of one sentence; `document` is 0 in files without -DOCSTART-."""

    document: int
    number: int
    lines: list


class _Passage(NamedTuple):
    """A sentence, or neighbouring ones of one document."""

    line: int
    document: int
    first: int
    last: int
    words: int
    text: str
    spans: list


def iter_conll(
    source,
    *,
    token_column=None,
    tag_column=None,
    scheme=None,
    joiner=None,
    kinds=None,
    documents="sentences",
    max_words=None,
    strict=False,
):
    """Yields the sentences of a CoNLL file as `Example`s with spans.

    Columns are divided by tabs or blanks, from the right, so a token may itself be
    blank. Lines that begin with -DOCSTART- begin a document and are no sentence; lines
    such as `# id 7` and a first line that names the columns are passed over.

    Args:
        source: the `Source`. Its beginning is read twice.
        token_column: the column of the token; None for the first one that numbers
            neither tokens nor is the tag.
        tag_column: the column of the tag; None for the last one that holds tags.
        scheme: how tags mark spans, a key of `SCHEMES`; found out if None.
        joiner: what to put between tokens; if None, "" for files in which nearly all
            tokens are single characters, no blank beside Chinese, Japanese, Thai … if
            most tokens are of such a script, else " ". `join_tokens` tells of blank
            tokens.
        kinds: new names for kinds, such as `{"HC": "product"}`; others stay.
        documents: "sentences", or "joined" to make one text of the neighbouring
            sentences of a document, each on a line of its own.
        max_words: how many tokens a joined text has at most, unless a single sentence
            has more; None for whole documents.
        strict: whether tags that break the scheme are errors; if False they are read as
            `tags_to_spans` says, and the data set's `notices` tell how many there are.

    Yields:
        `Example`s whose id is such as "doc 2, sentence 5".
    """
    check_choice("documents", documents, ("sentences", "joined"))
    if scheme is not None:
        check_choice("scheme", scheme, SCHEMES)
    if max_words is not None:
        check_number("max_words", max_words, low=1, integer=True)
    layout, sequences = _find_layout(source, token_column, tag_column, joiner)
    tags = TagReader(source, sequences, scheme, strict)
    source.found |= {
        "token_column": layout.token_column,
        "tag_column": layout.tag_column,
        "scheme": tags.scheme,
        "joiner": layout.joiner,
    }

    def passages():
        for block in _blocks(source):
            with source.at(block.lines[0][0]):
                passage = _read_block(source.path, block, layout, kinds or {}, tags)
                if passage:
                    yield passage

    if documents == "joined":
        found = _join_documents(source.path, passages(), max_words)
    else:
        found = passages()
    for passage in found:
        yield Example(
            passage.text, spans=passage.spans, id=_name(passage), line=passage.line
        )


def _fits(sample):
    """Tags with letters in front are certain, kinds alone need blank lines as well."""
    blocks = list(_blocks_of(enumerate(map(str.encode, sample.lines), 1)))
    lines = _lines_of(blocks)
    if not lines:
        return NO
    columns = _usual_columns(lines)
    rows = [row for block in blocks for row in _whole_rows(block, columns)]
    if columns < 2 or not rows or len(rows) + 1 < 0.9 * len(lines):
        return NO
    if any(looks_like_tags(column) for column in _stripped(rows)):
        return CERTAIN if len(blocks) > 1 or len(rows) < 100 else YES
    kinds = Counter(_stripped(rows)[-1])
    few = len(kinds) <= max(2, 0.2 * len(rows)) and not kinds.keys() <= {"0", "1"}
    if len(blocks) > 1 and kinds["O"] > 0.1 * len(rows) and few:
        return YES
    return MAYBE if len(blocks) > 1 and kinds["O"] else NO


def _stripped(rows):
    return [[cell.strip() for cell in column] for column in zip(*rows, strict=True)]


CONLL = Format(
    iter_conll,
    (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bieos", ".bmes", ".conll03"),
    _fits,
    "lines of columns, one of which holds tags such as `O` and `B-PER`",
    {
        "tags.conll": "Zorv NNP B-brand\nlamp NN O\n\na DT O\nlamp NN O\n",
        "numbered.txt": "# sentence 1\n1\tZorv\tS-brand\n2\tlamp\tO\n\n"
        "# sentence 2\n1\tAcme\tB-brand\n2\tCo\tE-brand\n",
        "characters.bmes": "东 B-LOC\n京 E-LOC\n好 O\n\n灯 O\n",
        "words.bio": "東京\tB-LOC\n駅\tI-LOC\nは\tO\n高い\tO\n\n灯\tO\n",
        "kinds.conll": "Zorv brand\nlamp O\n\na O\nlamp O\n",
    },
)


def _blocks(source):
    return _blocks_of(source.lines())


def _blocks_of(all_lines):
    document, number, lines = 0, 0, []
    for place, line in chain(all_lines, [(None, b"")]):
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


def _read_block(path, block, layout, kinds, reader):
    tokens, tags, lines = [], [], []
    columns, token_column, tag_column = layout[:3]
    for place, line in block.lines:
        if line[0] == _HASH and not tokens and _is_comment(line):
            continue
        try:
            fields = _split(decode(line), columns)
            if len(fields) != columns:
                raise ValueError(
                    f"expected {columns} columns, as in most lines. Received: {fields}."
                )
            fields[tag_column] = _tag_of(fields[tag_column])
            if place == 1 and fields[tag_column].strip().lower() in _HEADERS:
                continue
            tags.append(reader.parse(fields[tag_column]))
        except ValueError as error:
            raise DataError(path, place, str(error)) from None
        lines.append(place)
        tokens.append(fields[token_column])
    if not tokens:
        return None
    spans = reader.spans(tags, lines)
    if kinds:
        spans = [span._replace(kind=kinds.get(span.kind, span.kind)) for span in spans]
    text, spans = join_tokens(tokens, spans, layout.joiner)
    number, size = block.number, len(tokens)
    return _Passage(lines[0], block.document, number, number, size, text, spans)


def _find_layout(source, token_column, tag_column, joiner):
    """The `_Layout` of a file, and the tags of its first sentences."""
    blocks, size = [], 0
    for block in _blocks(source):
        blocks.append(block)
        size += len(block.lines)
        if size > _LOOK_AT:
            break
    columns = _count_columns(source, blocks)
    bounds = {"low": -columns, "high": columns - 1, "integer": True}
    if token_column is not None:
        check_number("token_column", token_column, **bounds)
    if tag_column is not None:
        check_number("tag_column", tag_column, **bounds)
    sentences = [list(_whole_rows(block, columns)) for block in blocks]
    rows = [row for sentence in sentences for row in sentence]
    if tag_column is None:
        tag_column = _find_tags(source, rows, columns, token_column)
    if token_column is None:
        token_column = _find_tokens(sentences, columns, tag_column)
    if joiner is None:
        joiner = find_joiner(row[token_column] for row in rows)
    sequences = Counter(
        tuple(row[tag_column].strip() for row in sentence) for sentence in sentences
    )
    if len(sentences) == 1 and len(rows) > _LOOK_AT // 25:
        source.remarks.append(
            f"{source.path} has no blank lines: its {len(rows):,} tokens or more are "
            "read as one sentence. Put one behind each sentence."
        )
    return _Layout(columns, token_column, tag_column, joiner), sequences


def _find_tags(source, rows, columns, token_column):
    """The last column that holds tags; it is not clear of two with the same kinds."""
    kinds = {}
    for column in range(columns):
        cells = [row[column].strip() for row in rows]
        if column != token_column and looks_like_tags(cells):
            kinds[column] = {cell[2:] for cell in cells} - {""}
    if not kinds:
        return columns - 1
    last = max(kinds)
    same = [column for column in kinds if kinds[column] & kinds[last]]
    if len(same) > 1:
        readings = [
            Reading(f"the tags are in column {column + 1}", {"tag_column": column})
            for column in same
        ]
        reason = "several columns hold tags of the same kinds."
        raise AmbiguousFile(source.path, None, reason, readings)
    return last


def _find_tokens(sentences, columns, tag_column):
    """The first column that is neither the tag nor counts the tokens."""
    tag_column %= columns
    for column in range(columns):
        cells = [[row[column].strip() for row in rows] for rows in sentences]
        counts = (
            columns > 2
            and any(cells)
            and all(row in (_counted(row, 0), _counted(row, 1)) for row in cells)
        )
        if column != tag_column and not counts:
            return column
    return 0


def _counted(row, first):
    return [str(number) for number in range(first, first + len(row))]


def _count_columns(source, blocks):
    lines = _lines_of(blocks)[:1000]
    columns = _usual_columns(lines) if lines else 2
    if columns < 2:
        place, line = blocks[0].lines[0]
        try:
            reason = f"expected a token and its tag. Received: {decode(line)[:40]!r}."
        except ValueError as error:
            reason = str(error)
        raise DataError(source.path, place, reason)
    return columns


def _lines_of(blocks):
    """The lines of tokens."""
    lines = (line for block in blocks for _, line in block.lines)
    return [line for line in lines if not _is_comment(line)]


def _usual_columns(lines):
    counts = Counter(
        len(line.split(b"\t" if b"\t" in line else None)) for line in lines
    )
    return counts.most_common(1)[0][0]


def _tag_of(cell):
    """The tag in a cell; CoNLL-U has it among others, as in `name=B-ORG|Gloss=x`."""
    if "=" in cell:
        match = _NAMED.search(cell)
        return match[1] if match else cell
    return cell


def _is_comment(line):
    """Whether a line such as `# id 7` is one about a sentence, and no token."""
    if not line.startswith(_COMMENT):
        return False
    last = line.split()[-1]
    return last != b"O" and not looks_like_tags([last.decode("utf-8", "replace"), "O"])


def _whole_rows(block, columns):
    for place, line in block.lines:
        if _is_comment(line):
            continue
        try:
            fields = _split(decode(line), columns)
        except ValueError:
            continue  # reported when the sentence is read
        if place == 1 and _HEADERS.intersection(map(str.lower, fields)):
            continue
        if len(fields) == columns:
            fields[-1] = _tag_of(fields[-1])
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
        passages[0].line,
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
