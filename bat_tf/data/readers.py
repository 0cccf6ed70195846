"""Files and named sets → TextDataset. A new format is a function named in FORMATS."""

import difflib
import inspect
import json
import operator
import re
from pathlib import Path

from bat_tf._validation import DataError, check_choice, shown
from bat_tf.data.conll import iter_conll
from bat_tf.data.corpora import CORPORA, SPLITS, iter_corpus
from bat_tf.data.dataset import Example, TextDataset, as_span, longest_spans
from bat_tf.data.files import OPENERS, decode, read_lines
from bat_tf.data.tables import iter_csv, iter_tsv
from bat_tf.data.tfds import iter_tfds
from bat_tf.data.xmc import ENDINGS, iter_xmc, xmc_file


def iter_jsonl(path, *, overlaps="error", on_error="raise", skipped=None):
    """Yields the examples of a JSONL file, one JSON object a line.

    An object is `{"text": "…", "spans": [[start, end, "kind"], …]}` or
    `{"text": "…", "labels": ["name", …]}`, with an `"id"` if you like; what else it
    holds is ignored. One label may also be `"label": "name"`. Spans count characters.
    Blank lines are passed over.

    Args:
        path: the file; `.gz` and `.xz` are unpacked on the fly.
        overlaps: what to do with overlapping spans: "error", or "longest" to keep the
            longer one and list the other in `skipped`.
        on_error: "raise", or "skip" to leave out a faulty row.
        skipped: a list that takes a `DataError` for everything left out.

    Yields:
        `Example`s.

    Raises:
        DataError: file, line and what is wrong there.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "news.jsonl"
        >>> _ = path.write_text('{"text": "A goal", "labels": ["sport"]}')
        >>> next(iter_jsonl(path))
        Example(text='A goal', spans=None, labels=('sport',), id=None)
    """
    rows = _JsonRows(path, overlaps, on_error, skipped)
    for place, line in read_lines(path):
        if line.strip():
            yield from rows.read(place, line)


def iter_json(path, *, overlaps="error", on_error="raise", skipped=None):
    """Yields the examples of a JSON file that is one list of `iter_jsonl`'s objects.

    The arguments are those of `iter_jsonl`; the line of an error is the one on which
    the object begins.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "news.json"
        >>> _ = path.write_text('[{"text": "A goal", "labels": ["sport"]}]')
        >>> next(iter_json(path)).text
        'A goal'
    """
    rows = _JsonRows(path, overlaps, on_error, skipped)
    for place, source in _iter_list(path):
        yield from rows.read(place, source.encode())


_STRANGE_NUMBER = "not JSON that can be read: a number is too long"
_BETWEEN = re.compile(r"\s*[\[,]\s*")


def _iter_list(path):
    """Yields (line, source) of each element of a JSON list."""
    text = _read_text(path)
    hint = 'For one object a line, pass format="jsonl".'
    try:
        rows = json.loads(text or "[]")
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg}. {hint}"
        raise DataError(path, error.lineno, message) from None
    except ValueError as error:
        raise DataError(path, None, f"{_STRANGE_NUMBER} ({error}).") from None
    except RecursionError:
        raise DataError(path, None, "not JSON: nested too deeply.") from None
    if not isinstance(rows, list):
        raise DataError(path, 1, f"expected a JSON list. {hint}")
    decoder, place, line = json.JSONDecoder(), 0, 1
    for _ in rows:
        start = _BETWEEN.match(text, place).end()
        line += text.count("\n", place, start)
        _, place = decoder.raw_decode(text, start)
        yield line, text[start:place]
        line += text.count("\n", start, place)


def _read_text(path):
    lines = []
    for place, line in read_lines(path):
        try:
            lines.append(decode(line))
        except ValueError as error:
            raise DataError(path, place, str(error)) from None
    return "\n".join(lines)


class _JsonRows:
    """Makes examples of the JSON objects of one file, or errors that name the line."""

    def __init__(self, path, overlaps, on_error, skipped):
        check_choice("overlaps", overlaps, ("error", "longest"))
        check_choice("on_error", on_error, ("raise", "skip"))
        self.path, self.overlaps, self.on_error = path, overlaps, on_error
        self.skipped = [] if skipped is None else skipped
        self.task = None

    def read(self, place, source):
        """Yields the example of one row, or nothing if the row is to be skipped."""
        try:
            record, dropped = self._parse(source)
            example = Example(**record)
            task = "labels" if example.spans is None else "spans"
            if task != (self.task or task):
                raise ValueError(f"this row has {task}, those before have {self.task}.")
        except ValueError as error:
            error = DataError(self.path, place, str(error))
            if self.on_error == "raise":
                raise error from None
            self.skipped.append(error)
            return
        for span in dropped:
            reason = f"span {tuple(span)} dropped, it overlaps a longer one."
            self.skipped.append(DataError(self.path, place, reason))
        self.task = task
        yield example

    def _parse(self, source):
        try:
            row = json.loads(decode(source))
        except json.JSONDecodeError as error:
            message = f"not JSON: {error.msg} at character {error.pos + 1}."
            raise ValueError(message) from None
        except RecursionError:
            raise ValueError("not JSON that can be read: nested too deeply.") from None
        if not isinstance(row, dict):
            form = 'an object such as {"text": "…", "labels": ["…"]}'
            raise ValueError(f"expected {form}. Received: {shown(row, 60)}.")
        if "text" not in row:
            raise ValueError(f'"text" is missing. Received: {", ".join(row) or "{}"}.')
        record = {key: row[key] for key in ("text", "spans", "labels") if key in row}
        if not record.keys() & {"spans", "labels"} and row.get("label") is not None:
            label = row["label"]
            record["labels"] = label if isinstance(label, list) else [label]
        record["id"] = None if row.get("id") is None else str(row["id"])
        dropped = []
        if self.overlaps == "longest" and isinstance(row.get("spans"), list):
            record["spans"], dropped = longest_spans(map(as_span, row["spans"]))
        return record, dropped


# How to read each format, and the endings of the names of such files; of two endings
# that fit, the longer one decides.
FORMATS = {
    "jsonl": (iter_jsonl, (".jsonl", ".ndjson")),
    "json": (iter_json, (".json",)),
    "conll": (
        iter_conll,
        (".conll", ".txt", ".bio", ".iob", ".iob2", ".bioes", ".bieos", ".bmes"),
    ),
    "csv": (iter_csv, (".csv",)),
    "tsv": (iter_tsv, (".tsv",)),
    "xmc": (iter_xmc, ENDINGS),
}


def splits(source):
    """The parts that a named set comes in, "train" first.

    Example:
        >>> splits("product_pages/en")
        ('train', 'valid', 'test')
    """
    return CORPORA[source].splits if source in CORPORA else SPLITS


def read(source, split=None, *, format=None, on_error="raise", **options):
    """Reads a file or a named set into a `TextDataset`.

    | source | what it is | options |
    |---|---|---|
    | "train.jsonl", "train.json" (.gz, .xz) | rows of JSON | `iter_jsonl` |
    | "train.conll", .txt, .bio, .bieos … (.gz, .xz) | a token a line | `iter_conll` |
    | "train.csv", "train.tsv" (.gz, .xz) | a table with a header | `iter_csv` |
    | "train_texts.txt", "trn.json" (.gz, .xz) | many labels | `iter_xmc` |
    | a folder, with format="xmc" | such files by `split` | `iter_xmc` |
    | "conll2003", "reuters21578", "goemotions" … | a key of `CORPORA` | `iter_corpus` |
    | "product_pages/en", /zh, /ja, /all | the embedded corpus | `product_pages` |
    | "product_shelves/en", /zh, /ja, /all | the same with labels | `product_shelves` |
    | "tfds:name" or "tfds:name/config" | tensorflow-datasets | `iter_tfds` |

    Args:
        source: a path or one of the names above.
        split: "train", "valid" or "test" of a named set; None is "train". Where a set
            has no valid part, `TextDataset.split` sets one aside.
        format: a key of `FORMATS`, where the file's name does not tell.
        on_error: "raise", or "skip" to leave out what is faulty and list it in the data
            set's `skipped`.
        **options: passed to the reader of the format or set.

    Returns:
        A `TextDataset`.

    Raises:
        DataError: file, line and what is wrong there.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "news.jsonl"
        >>> _ = path.write_text('{"text": "A goal", "labels": ["sport"]}')
        >>> read(path).labels
        [('sport',)]
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    name, skipped = str(source), []
    if name.startswith("product_pages/"):
        from bat_tf.data.product_pages import product_pages

        return product_pages(name.partition("/")[2], split or "train", **options)
    if name.startswith("product_shelves/"):
        from bat_tf.data.product_shelves import product_shelves

        return product_shelves(name.partition("/")[2], split or "train", **options)
    if name.startswith("tfds:"):
        reader, arguments = iter_tfds, [name.removeprefix("tfds:"), split or "train"]
    elif name in CORPORA:
        reader, arguments = iter_corpus, [name, split or "train"]
    else:
        if format == "xmc" and Path(source).is_dir():
            source, split = xmc_file(source, split or "train"), None
            name = str(source)
        reader, arguments = _file_reader(source, split, format), [source]
    known = CORPORA[name].reader if name in CORPORA else reader
    _check_options(name, known, options)
    examples = reader(*arguments, on_error=on_error, skipped=skipped, **options)
    dataset = TextDataset(examples, "/".join([name, *arguments[1:]]), skipped)
    if not dataset:
        first = f" The first fault: {skipped[0]}" if skipped else ""
        raise DataError(source, None, f"holds no examples.{first}")
    return dataset


def _file_reader(source, split, format):
    """Returns the function that reads a file, chosen by `format` or by its name."""
    path = Path(source)
    if format is not None:
        check_choice("format", format, FORMATS)
    elif not path.exists():
        names = [
            *CORPORA,
            *(f"product_pages/{language}" for language in ("en", "zh", "ja", "all")),
            *(f"product_shelves/{language}" for language in ("en", "zh", "ja", "all")),
        ]
        close = difflib.get_close_matches(str(source), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise FileNotFoundError(
            f"{source} is neither a file nor one of the named sets.{hint} The names "
            f"are {', '.join(names)}, and tfds:… for tensorflow-datasets."
        )
    if split is not None:
        raise ValueError(
            f"`split` must be None for a file. Received: {split!r}. "
            "Give each part its own file and read them one by one."
        )
    if format:
        return FORMATS[format][0]
    name = path.stem if path.suffix.lower() in OPENERS else path.name
    fitting = [
        (len(ending), reader)
        for reader, endings in FORMATS.values()
        for ending in endings
        if name.lower().endswith(ending)
    ]
    if fitting:
        return max(fitting, key=operator.itemgetter(0))[1]
    raise ValueError(
        f"`format` must be one of {', '.join(FORMATS)} for {path}: "
        "its name does not tell what it holds."
    )


def _check_options(name, reader, options):
    parameters = inspect.signature(reader).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    known = [option for option in known if option not in ("on_error", "skipped")]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(
            f"{name} cannot be read with the option {unknown[0]!r}. "
            f"Its options are: {', '.join(known) or 'none'}."
        )
