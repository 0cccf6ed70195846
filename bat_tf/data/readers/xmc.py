"""Files of extreme multi-label classification: labels by the thousand, kept sparse.

| documents                            | their labels        | names of labels      |
|--------------------------------------|---------------------|----------------------|
| train_texts.txt, train_raw_texts.txt | train_labels.txt    | are the labels       |
| X.trn.txt                            | Y.trn.npz (SciPy's) | output-items.txt     |
| trn.json, trn.raw.json               | in `target_ind`     | lbl.json or Yf.txt   |

The first is what AttentionXML and LightXML read, the second what PECOS reads, the third
what the Extreme Classification Repository calls raw text. Files of lines may be packed
(.gz, .xz, .bz2) and are read line by line; a matrix stays sparse.
"""

import functools
import re
from itertools import zip_longest
from pathlib import Path

import scipy.sparse

from bat_tf._internal.files import OPENERS, check_file, check_zip, decode, plain_name
from bat_tf._internal.validation import DataError, check_choice, sentence, shown
from bat_tf.data.dataset import Example, csr_rows
from bat_tf.data.labels import unique_names
from bat_tf.data.readers.format import CERTAIN, NO, Format
from bat_tf.data.readers.jsonl import parse_object

_PARTS = {
    "train": ("train", "trn"),
    "valid": ("valid", "val", "dev"),
    "test": ("test", "tst"),
}
_FILES = ("{}_raw_texts.txt", "{}_texts.txt", "X.{}.txt", "{}.json", "{}.raw.json")
_PACKED = ("", *OPENERS)


def iter_xmc(source, *, labels=None, names=None):
    """Yields the documents of an XMC data set with their labels, line by line.

    The name of the file tells which of the forms at the top of this file it has. In
    `train_texts.txt` a line is a document, and the same line of `train_labels.txt` has
    its labels, divided by blanks; a blank line there is a document without labels. A
    row of `trn.json` is an object with `title`, `content`, `uid` and `target_ind`, the
    numbers of its labels from 0; its `target_rel` is not looked at. Title and content
    are joined by a line end.

    Numbers of labels become names where there are names. A name that several labels
    share gets the number behind it, as in "jazz (17)". Without names, the numbers are
    the names.

    Args:
        source: the `Source` of the documents.
        labels: the file of the labels, if it does not stand beside them under the
            usual name: lines of labels, or a SciPy matrix saved as `.npz`.
        names: the file of the names, one a line (or JSON with a `title`), if it does
            not stand beside them under the usual name. Lines of labels are taken for
            names, unless this is given: then they have numbers.

    Raises:
        DataError: also if one file has fewer lines than the other.
    """
    path = check_file(
        source.path, 'Read a part of it: read(folder, "train", format="xmc").'
    )
    if plain_name(path).lower().endswith(".json"):
        if labels is not None:
            expected = "None for JSON, whose rows have their labels"
            raise ValueError(sentence("labels", expected, str(labels)))
        names = _find_names(source, names, "lbl.json", "Yf.txt")
        rows = ((place, line) for place, line in source.lines() if line.strip())
        parse = functools.partial(_parse_json, names=names)
    else:
        labels = source.of(_find_labels(path, labels))
        rows, parse = _pairs(source, labels, names), _parse_pair
    for place, row in rows:
        with source.at(place):
            example = parse(row, place)
            if not example.text.strip():
                remedy = 'on_error="skip" leaves such documents out.'
                raise ValueError(f"the document is empty; {remedy}")
            yield example


_LINES = ("_texts.txt", "x.trn.txt", "x.tst.txt")


def _fits(sample):
    if sample.name.endswith(_LINES):
        return CERTAIN
    first = "".join(sample.filled()[:1])
    return CERTAIN if first.startswith("{") and '"target_ind"' in first else NO


XMC = Format(
    iter_xmc,
    (*_LINES, "trn.json", "tst.json", "trn.raw.json", "tst.raw.json"),
    _fits,
    "its name, or rows of JSON with `target_ind`",
    {
        "train_texts.txt": "A goal in time\nA play\n",
        "train_labels.txt": "sport news\nart\n",
        "trn.json": '{"uid": "1", "title": "A goal", "target_ind": [0]}\n'
        '{"uid": "2", "title": "A play", "target_ind": [1]}\n',
        "lbl.json": '{"title": "sport"}\n{"title": "art"}\n',
    },
)


def xmc_file(folder, split):
    """Returns the document file of one part of an XMC data set; raw text goes first.

    Args:
        folder: a folder with files as the top of `bat_tf.data.readers.xmc` names them.
        split: "train", "valid" or "test".

    Returns:
        A `Path`.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> (folder / "tst.json.gz").touch()
        >>> xmc_file(folder, "test").name
        'tst.json.gz'
    """
    check_choice("split", split, _PARTS)
    usual = [form.format(part) for form in _FILES for part in _PARTS[split]]
    found = _first_file(Path(folder), usual)
    if found is None:
        raise FileNotFoundError(
            f"{folder} holds no documents of the part {split!r}. Expected one of "
            f"{', '.join(usual)}, also with .gz, .xz or .bz2."
        )
    return found


def _pairs(source, labels, names):
    """Yields (line, (text, labels)) of two files that go together line by line.

    Labels that cannot be read are an error in their place.
    """
    if labels.path.suffix == ".npz":
        names = _find_names(source, names, "output-items.txt")
        others = _npz_rows(labels, names)
    else:
        names = None if names is None else _read_names(source.of(Path(names)))
        others = _label_rows(labels, names)
    for line, (text, found) in enumerate(zip_longest(source.lines(), others), 1):
        if text is None or found is None:
            both = (source, labels) if text is None else (labels, source)
            shorter, longer = (Path(one.path) for one in both)
            reason = f"the file ends here, but {longer.name} goes on"
            remedy = "Each document has a line of labels, if only a blank one."
            raise DataError(shorter, line - 1, f"{reason}. {remedy}")
        yield line, (text[1], found)


def _label_rows(source, names):
    for place, line in source.lines():
        try:
            found = decode(line).split()
            yield found if names is None else names_of(found, names)
        except ValueError as error:
            yield DataError(source.path, place, str(error))


def _parse_pair(row, place):
    text, labels = row
    if isinstance(labels, DataError):
        raise labels
    return Example(decode(text), labels=labels, line=place)


def _parse_json(line, place, names):
    row = parse_object(line)
    numbers = row.get("target_ind")
    if not isinstance(numbers, list):
        remedy = 'For other rows of JSON, pass format="jsonl" or format="json".'
        raise ValueError(
            f'expected a list of numbers as "target_ind". Received: {shown(numbers)}. '
            + remedy
        )
    parts = [row.get("title") or "", row.get("content") or ""]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"title and content must be texts. Received: {shown(parts)}.")
    text = "\n".join(part.strip() for part in parts if part.strip())
    identity = None if row.get("uid") is None else str(row["uid"])
    labels = names_of(numbers, names)
    return Example(text, labels=labels, id=identity, line=place)


def names_of(numbers, names):
    """Returns the names of labels given by number; without names, the numbers."""
    found = []
    for number in numbers:
        whole = isinstance(number, int) and not isinstance(number, bool)
        whole |= isinstance(number, str) and number.isdecimal()
        if not whole or not 0 <= int(number) < (len(names) if names else 2**31):
            last = f" to {len(names) - 1}" if names else ""
            expected = f"numbers of labels, from 0{last}"
            raise ValueError(f"expected {expected}. Received: {shown(number)}.")
        found.append(names[int(number)] if names else str(int(number)))
    return found


def _npz_rows(source, names):
    path = check_file(source.path)
    try:
        check_zip(path, source.limits)
        matrix = scipy.sparse.load_npz(path)
        if matrix.format in ("csr", "csc", "bsr"):
            # Columns that do not exist would be read from beyond the matrix.
            matrix.check_format(full_check=True)
        if 8 * matrix.shape[0] > source.limits.unpacked(path.stat().st_size):
            raise ValueError(f"it says that it has {matrix.shape[0]:,} rows")
        matrix = matrix.tocsr()
    except DataError:
        raise
    # What is damaged raises errors of zip files, of NumPy and of SciPy, of any kind.
    except Exception as error:
        reason = f"is not a SciPy matrix saved with `save_npz` ({error})."
        raise DataError(path, None, reason) from error
    if names is None:
        numbers = csr_rows(matrix, range(matrix.shape[1]))
        return ([str(number) for number in row] for row in numbers)
    if len(names) != matrix.shape[1]:
        columns = f"has {matrix.shape[1]:,} columns, but there are {len(names):,} names"
        raise DataError(path, None, f"{columns}. Each label has one of both.")
    return csr_rows(matrix, names)


def _find_labels(path, labels):
    """The file of labels that belongs to a file of documents."""
    if labels is not None:
        return Path(labels)
    name = plain_name(path)
    usual = re.sub(r"(_raw)?_texts\.txt$", "_labels.txt", name)
    usual = re.sub(r"^X(\.\w+)\.txt$", r"Y\1.npz", usual)
    found = None if usual == name else _first_file(path.parent, [usual])
    if found is None:
        missing = "" if usual == name else f": there is no {usual} beside it"
        raise FileNotFoundError(
            f"The labels of {path} were not found{missing}. Name their file with "
            '`labels`; if this is another kind of file, pass its `format`, as "conll".'
        )
    return found


def _find_names(source, names, *usual):
    """The names of the labels, in their order, or None if there is no file of them."""
    folder = Path(source.path).parent
    found = _first_file(folder, usual) if names is None else Path(names)
    return None if found is None else _read_names(source.of(found))


def _read_names(source):
    path, names = source.path, []
    for place, line in source.lines():
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("latin-1")  # as AmazonCat has them
        if plain_name(path).lower().endswith(".json"):
            try:
                text = str(parse_object(line).get("title") or "")
            except ValueError as error:
                raise DataError(path, place, str(error)) from None
        names.append(" ".join(text.split()))
    return unique_names(names, range(len(names)))


def _first_file(folder, names):
    places = (folder / (name + packed) for name in names for packed in _PACKED)
    return next((place for place in places if place.is_file()), None)
