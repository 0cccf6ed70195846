"""Files of extreme multi-label classification: labels by the thousand, kept sparse.

| documents                            | their labels        | names of labels      |
|--------------------------------------|---------------------|----------------------|
| train_texts.txt, train_raw_texts.txt | train_labels.txt    | are the labels       |
| X.trn.txt                            | Y.trn.npz (SciPy's) | output-items.txt     |
| trn.json, trn.raw.json               | in `target_ind`     | lbl.json or Yf.txt   |

The first is what AttentionXML and LightXML read, the second what PECOS reads, the third
what the Extreme Classification Repository calls raw text. Files of lines may be packed
(.gz, .xz) and are read line by line; a matrix stays sparse.
"""

import functools
import json
import re
from itertools import zip_longest
from pathlib import Path

import scipy.sparse

from bat_tf._validation import DataError, check_choice, sentence, shown
from bat_tf.data.dataset import Example, csr_rows
from bat_tf.data.files import OPENERS, atomic_write, decode, read_lines
from bat_tf.data.labels import unique_names

# How the name of a document file ends, without .gz or .xz and in small letters.
ENDINGS = ("_texts.txt", "x.trn.txt", "x.tst.txt")
ENDINGS += ("trn.json", "tst.json", "trn.raw.json", "tst.raw.json")
_PARTS = {
    "train": ("train", "trn"),
    "valid": ("valid", "val", "dev"),
    "test": ("test", "tst"),
}
_FILES = ("{}_raw_texts.txt", "{}_texts.txt", "X.{}.txt", "{}.json", "{}.raw.json")
_PACKED = ("", *OPENERS)


def iter_xmc(path, *, labels=None, names=None, on_error="raise", skipped=None):
    r"""Yields the documents of an XMC data set with their labels, line by line.

    The name of the file tells which of the forms at the top of `bat_tf.data.xmc` it
    has. In `train_texts.txt` a line is a document, and the same line of
    `train_labels.txt` has its labels, divided by blanks; a blank line there is a
    document without labels. A row of `trn.json` is an object with `title`, `content`,
    `uid` and `target_ind`, the numbers of its labels from 0; its `target_rel` is not
    looked at. Title and content are joined by a line end.

    Numbers of labels become names where there are names. A name that several labels
    share gets the number behind it, as in "jazz (17)". Without names, the numbers are
    the names.

    Args:
        path: the file of the documents.
        labels: the file of the labels, if it does not stand beside `path` under the
            usual name: lines of labels, or a SciPy matrix saved as `.npz`.
        names: the file of the names, one a line (or JSON with a `title`), if it does
            not stand beside `path` under the usual name. Lines of labels are taken for
            names, unless this is given: then they have numbers.
        on_error: "raise", or "skip" to leave out a faulty document.
        skipped: a list that takes a `DataError` for each document left out.

    Yields:
        `Example`s.

    Raises:
        DataError: file, line and what is wrong there. That one file has fewer lines
            than the other is never passed over.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "train_texts.txt").write_text("red shoes\na goal\n")
        >>> _ = (folder / "train_labels.txt").write_text("shop fashion\nsport\n")
        >>> next(iter_xmc(folder / "train_texts.txt"))
        Example(text='red shoes', spans=None, labels=('shop', 'fashion'), id=None)
    """
    check_choice("on_error", on_error, ("raise", "skip"))
    path = Path(path)
    if path.is_dir():
        remedy = 'Read a part of it: read(folder, "train", format="xmc").'
        raise IsADirectoryError(f"{path} is a folder; expected a file. {remedy}")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Check its name and folder.")
    if _plain_name(path).lower().endswith(".json"):
        if labels is not None:
            expected = "None for JSON, whose rows have their labels"
            raise ValueError(sentence("labels", expected, str(labels)))
        names = _find_names(path, names, "lbl.json", "Yf.txt")
        rows = ((place, line) for place, line in read_lines(path) if line.strip())
        parse = functools.partial(_parse_json, names=names)
    else:
        rows, parse = _pairs(path, _find_labels(path, labels), names), _parse_pair
    for place, row in rows:
        try:
            example = parse(row)
            if not example.text.strip():
                remedy = 'on_error="skip" leaves such documents out.'
                raise ValueError(f"the document is empty; {remedy}")
        except ValueError as error:
            if not isinstance(error, DataError):  # that one is of the other file
                error = DataError(path, place, str(error))
            if on_error == "raise":
                raise error from None
            if skipped is not None:
                skipped.append(error)
        else:
            yield example


def xmc_file(folder, split):
    """Returns the document file of one part of an XMC data set; raw text goes first.

    Args:
        folder: a folder with files as the top of `bat_tf.data.xmc` names them.
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
            f"{', '.join(usual)}, also with .gz or .xz."
        )
    return found


def convert_xmc(
    source,
    target,
    split=None,
    *,
    labels=None,
    names=None,
    on_error="raise",
    skipped=None,
):
    r"""Writes an XMC data set as JSONL, a document at a time.

    The target appears when it is complete; until then an older one stays as it was.

    Args:
        source: a file of documents or, with `split`, the folder that has it.
        target: the file to write, such as "train.jsonl.gz".
        split: "train", "valid" or "test" of a folder; None is "train".
        labels: see `iter_xmc`.
        names: see `iter_xmc`.
        on_error: see `iter_xmc`.
        skipped: see `iter_xmc`.

    Returns:
        The number of documents written.

    Example:
        >>> import pathlib, tempfile
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "train_texts.txt").write_text("red shoes\na goal\n")
        >>> _ = (folder / "train_labels.txt").write_text("shop fashion\nsport\n")
        >>> convert_xmc(folder, folder / "train.jsonl")
        2
    """
    source = Path(source)
    if source.is_dir():
        source = xmc_file(source, split or "train")
    elif split is not None:
        raise ValueError(f"`split` must be None for a file. Received: {split!r}.")
    examples = iter_xmc(
        source, labels=labels, names=names, on_error=on_error, skipped=skipped
    )
    count = 0
    with atomic_write(target) as file:
        for example in examples:
            row = {"text": example.text, "labels": example.labels}
            if example.id is not None:
                row["id"] = example.id
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
        if not count:
            raise DataError(source, None, "holds no documents.")
    return count


def _pairs(path, labels, names):
    """Yields (line, (text, labels)) of two files that go together line by line.

    Labels that cannot be read are an error in their place.
    """
    if labels.suffix == ".npz":
        names = _find_names(path, names, "output-items.txt")
        others = _npz_rows(labels, names)
    else:
        others = _label_rows(labels, None if names is None else _read_names(names))
    for line, (text, found) in enumerate(zip_longest(read_lines(path), others), 1):
        if text is None or found is None:
            shorter, longer = (path, labels) if text is None else (labels, path)
            reason = f"the file ends here, but {longer.name} goes on"
            remedy = "Each document has a line of labels, if only a blank one."
            raise DataError(shorter, line - 1, f"{reason}. {remedy}")
        yield line, (text[1], found)


def _label_rows(path, names):
    for place, line in read_lines(path):
        try:
            found = decode(line).split()
            yield found if names is None else _numbered(found, names)
        except ValueError as error:
            yield DataError(path, place, str(error))


def _parse_pair(row):
    text, labels = row
    if isinstance(labels, DataError):
        raise labels
    return Example(decode(text), labels=labels)


def _parse_json(line, names):
    row = _parse_object(line)
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
    return Example(text, labels=_numbered(numbers, names), id=identity)


def _parse_object(line):
    try:
        row = json.loads(decode(line))
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg} at character {error.pos + 1}."
        raise ValueError(message) from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply.") from None
    if not isinstance(row, dict):
        raise ValueError(f"expected a JSON object. Received: {shown(row, 60)}.")
    return row


def _numbered(numbers, names):
    """The names of labels given by number; without names, the numbers as they are."""
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


def _npz_rows(path, names):
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Check its name and folder.")
    try:
        matrix = scipy.sparse.load_npz(path)
        if matrix.format in ("csr", "csc", "bsr"):
            # Columns that do not exist would be read from beyond the matrix.
            matrix.check_format(full_check=True)
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
    name = _plain_name(path)
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


def _find_names(path, names, *usual):
    """The names of the labels, in their order, or None if there is no file of them."""
    found = _first_file(path.parent, usual) if names is None else names
    return None if found is None else _read_names(found)


def _read_names(path):
    names = []
    for place, line in read_lines(path):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError:
            text = line.decode("latin-1")  # as AmazonCat has them
        if _plain_name(Path(path)).lower().endswith(".json"):
            try:
                text = str(_parse_object(line).get("title") or "")
            except ValueError as error:
                raise DataError(path, place, str(error)) from None
        names.append(" ".join(text.split()))
    return unique_names(names, range(len(names)))


def _first_file(folder, names):
    places = (folder / (name + packed) for name in names for packed in _PACKED)
    return next((place for place in places if place.is_file()), None)


def _plain_name(path):
    """The name of a file without the ending of packed ones."""
    return path.stem if path.suffix.lower() in OPENERS else path.name
