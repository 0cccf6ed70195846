"""Files and named sets → TextDataset."""

import codecs
import difflib
import inspect
import logging
import re
from pathlib import Path

from bat_tf._internal.files import Limits, Source, is_file, text_encoding, unpacked
from bat_tf._internal.validation import DataError, check_choice, sentence
from bat_tf.data.corpora import CORPORA, iter_corpus
from bat_tf.data.dataset import SPLITS, TextDataset
from bat_tf.data.readers import FORMATS
from bat_tf.data.readers.format import (
    MAYBE,
    NO,
    YES,
    AmbiguousFile,
    Reading,
    Sample,
)
from bat_tf.data.readers.tfds import iter_tfds
from bat_tf.data.readers.xmc import xmc_file
from bat_tf.data.samples import SAMPLES, iter_sample

log = logging.getLogger(__name__)
# Lines by which a format is recognised.
_LOOK_AT = 2000


def splits(source):
    """The parts that a named set comes in, "train" first.

    Example:
        >>> splits("product_pages/en")
        ('train', 'valid', 'test')
    """
    return CORPORA[source].splits if source in CORPORA else SPLITS


def read(
    source,
    split=None,
    *,
    format=None,
    encoding=None,
    on_error="raise",
    max_unpacked_mb=None,
    max_line_mb=None,
    **options,
):
    """Reads a file or a named set into a `TextDataset`.

    | source | what it is | options |
    |---|---|---|
    | "train.jsonl", "train.json" | rows of JSON | `readers.jsonl` |
    | "train.conll", .txt, .bio, .bieos … | a token a line | `readers.conll` |
    | "train.csv", "train.tsv" | a table | `readers.tables` |
    | "train.ft" | fastText's `__label__` | `readers.fasttext` |
    | "train_texts.txt", "trn.json" | many labels | `readers.xmc` |
    | a folder, with format="xmc" | such files by `split` | `readers.xmc` |
    | "conll2003", "reuters21578", "goemotions" … | a key of `CORPORA` | `corpora` |
    | "product_pages/en", /zh, /ja, /all | included, with spans | none |
    | "product_shelves/en", /zh, /ja, /all | included, with labels | none |
    | "tfds:name" or "tfds:name/config" | tensorflow-datasets | `readers.tfds` |

    Files may be packed: .gz, .xz, .bz2, or .zip with one file in it; "a.zip/train.csv"
    is one of several. The format is found out by what a file holds and by its name;
    `describe` says how it was read, and `dataset.notices` what is not as usual.

    Args:
        source: a path or one of the names above.
        split: "train", "valid" or "test" of a named set; None is "train". Where a set
            has no valid part, `TextDataset.split` sets one aside.
        format: a key of `FORMATS`; None finds it out.
        encoding: of the file's text, such as "cp1252"; None finds it out.
        on_error: "raise", or "skip" to leave out what is faulty and list it in the data
            set's `skipped`.
        max_unpacked_mb: megabytes that a packed file may unpack to; None for 400 or,
            where that is more, twenty times the file.
        max_line_mb: megabytes of a line or a cell; None for 16.
        **options: of the format or set, see its `iter_…` function.

    Returns:
        A `TextDataset`.

    Raises:
        AmbiguousFile: if it can be read in two ways, with the options for each.
        DataError: file, line and what is wrong there.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "news.jsonl"
        >>> _ = path.write_text('{"text": "A goal", "labels": ["sport"]}')
        >>> read(path).labels
        [('sport',)]
    """
    name, parts = str(source), [split or "train"]
    limits = Limits.of(max_unpacked_mb, max_line_mb)
    if name in SAMPLES:
        reader = known = iter_sample
    elif name in CORPORA:
        reader, known = iter_corpus, CORPORA[name].read
    elif name.startswith("tfds:"):
        reader = known = iter_tfds
    else:
        if format == "xmc" and Path(source).is_dir():
            source, split = xmc_file(source, *parts), None
        name, parts = str(source), []
        _check_file(source, split, format)
    found = Source(source if not parts else name, on_error, limits)
    if not parts:
        given, found.encoding = _encoding(encoding), text_encoding(source, limits)
        if found.encoding != "utf-8":
            found.found["encoding"] = found.encoding
        if given:
            found.encoding = found.found["encoding"] = given
        elif not found.encoding.startswith("utf"):
            found.remarks.append(
                f"{name} is not UTF-8; it is read as {found.encoding}. If letters are "
                "wrong, name its `encoding`."
            )
        format = format or recognise(found)
        found.found["format"] = format
        reader = known = FORMATS[format].read
    _check_options(name, known, options)
    examples = list(reader(found, *parts, **options))
    name = "/".join([name, *parts])
    notices = found.notices()
    dataset = TextDataset(examples, name, found.skipped, notices, found.found)
    if not dataset:
        first = f" The first fault: {found.skipped[0]}" if found.skipped else ""
        raise DataError(source, None, f"holds no examples.{first}")
    for notice in notices:
        log.warning(notice)
    return dataset


def recognise(source):
    """Finds the format of a file: by what it holds, and by its name.

    Args:
        source: the `Source`.

    Returns:
        A key of `FORMATS`.

    Raises:
        AmbiguousFile: if several formats fit alike.
    """
    lines, whole = source.head()
    whole = whole and len(lines) <= _LOOK_AT
    sample = Sample(source.name, lines[:_LOOK_AT], whole)
    endings = {key: len(each.ending(sample.name)) for key, each in FORMATS.items()}
    binary = any("\0" in line for line in sample.lines)
    fits = {key: NO if binary else each.fits(sample) for key, each in FORMATS.items()}
    named = max(endings, key=endings.get) if any(endings.values()) else None
    best = max(fits.values())
    if named and (fits[named] or best < YES):
        fits[named] = max(fits[named], MAYBE) + 1
    best = max(fits.values())
    if best == NO:
        if not sample.filled():
            raise DataError(source.path, None, "holds no examples.")
        raise DataError(
            source.path,
            None,
            f"neither its name nor its first lines tell what it holds.{_hint(source)} "
            f"Name its `format`, one of {', '.join(FORMATS)}.",
        )
    chosen = [key for key, fit in fits.items() if fit == best]
    if len(chosen) > 1:
        readings = [
            Reading(f"{key}: {FORMATS[key].recognised}", {"format": key})
            for key in chosen
        ]
        reason = "several formats fit it."
        raise AmbiguousFile(source.path, None, reason, readings)
    return chosen[0]


# What people have instead of such a file, by its first bytes, and what to do.
_OTHERS = {
    b"PAR1": "Parquet: bat_tf.data.from_rows(pandas.read_parquet(path)) reads it",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook: save it as CSV",
    b"PK\x03\x04": "a zip archive, or an Excel workbook: unpack it, or save it as CSV",
    b"%PDF": "a PDF",
    b"<": "XML or HTML: write its texts as JSONL",
}


def _hint(source):
    with unpacked(source.path, source.limits) as file:
        start = file.read(2**12)
    if re.search(rb"(?m)^\S*( \d+:[\d.e-]+)+\s*$", start):
        return " It looks like numbers of features (SVMlight); models here read texts."
    for magic, kind in _OTHERS.items():
        if start.startswith(magic):
            return f" It looks like {kind}."
    return ""


def _encoding(name):
    """The usual name of an encoding, or an error."""
    if name is None:
        return None
    try:
        return codecs.lookup(name).name
    except (LookupError, TypeError):
        raise ValueError(
            sentence("encoding", 'the name of a codec, such as "cp1252"', name)
        ) from None


def _check_file(source, split, format):
    """Raises unless there is such a file, and its format is one of ours."""
    path = Path(source)
    if format is not None:
        check_choice("format", format, FORMATS)
    elif not (path.exists() or is_file(path)):
        names = [*SAMPLES, *CORPORA]
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


def _check_options(name, reader, options):
    parameters = inspect.signature(reader).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise TypeError(
            f"{name} cannot be read with the option {unknown[0]!r}. "
            f"Its options are: {', '.join(known) or 'none'}."
        )
