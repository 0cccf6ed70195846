"""The one place where error sentences are built.

Every sentence names the argument, what was expected, what came and, where there is
something to do about it, what to do.
"""

import importlib
from pathlib import Path

import numpy as np


class DataError(ValueError):
    """A row of a file is not what the reader expects.

    Args:
        path: the file.
        line: line number, counted from 1; None when the whole file is wrong.
        reason: what is wrong with it, in words.
    """

    def __init__(self, path, line, reason):
        if len(reason) > 700:  # a line of a megabyte is not to be shown as a whole
            reason = f"{reason[:400]} … {reason[-250:]}"
        self.path, self.line, self.reason = str(path), line, reason
        where = f"{self.path}, line {line}" if line else self.path
        super().__init__(f"{where}: {reason}")

    def offering(self, way_out):
        """The same error, saying what else there is to do about it."""
        end = "" if self.reason.endswith((".", "…")) else "."
        return DataError(self.path, self.line, f"{self.reason}{end} {way_out}")


def shown(value, most=200):
    """What a sentence shows of something received, whatever it is.

    Example:
        >>> shown("a" * 9, most=5)
        "'aaaa…"
    """
    try:
        text = repr(value)
    except RecursionError:
        return "something that is nested too deeply"
    return text if len(text) <= most else f"{text[:most]}…"


def sentence(argument, expected, received, remedy=""):
    """Builds the sentence of an argument error."""
    text = f"`{argument}` must be {expected}. Received: {received!r}."
    return f"{text} {remedy}" if remedy else text


def check_choice(argument, value, choices, remedy=""):
    """Returns `value` if it is one of `choices`, else raises with the list of them."""
    if value not in choices:
        expected = "one of " + ", ".join(repr(choice) for choice in choices)
        raise ValueError(sentence(argument, expected, value, remedy))
    return value


def check_number(argument, value, low=None, high=None, integer=False):
    """Returns `value` if it is a number in [low, high], else raises."""
    kind = int if integer else (int, float)
    number = isinstance(value, kind) and not isinstance(value, bool)
    inside = (
        number and (low is None or value >= low) and (high is None or value <= high)
    )
    if not inside:
        bounds = [f">= {low}"] * (low is not None) + [f"<= {high}"] * (high is not None)
        name = "an integer" if integer else "a number"
        expected = " ".join([name, " and ".join(bounds)]).strip()
        raise ValueError(sentence(argument, expected, value))
    return value


def check_counts(
    argument,
    counts,
    length=None,
    remedy="",
    *,
    whole=False,
    of="documents",
    each="label",
):
    """Returns counts, a number >= 0 for each label, as an array, else raises.

    Args:
        argument: its name.
        counts: what came.
        length: how many there must be, if that is known.
        remedy: what to do.
        whole: whether they must be whole numbers, one or more of them above 0.
        of: what was counted.
        each: what it was counted for.
    """
    try:
        values = np.asarray(counts, "float64")
        right = values.ndim == 1 and values.size and (values >= 0).all()
        right = right and np.isfinite(values).all() and length in (None, len(values))
        if right and whole:
            right = values.any() and (values == np.floor(values)).all()
    except (TypeError, ValueError):
        right = False
    if not right:
        number = "one number" if length is None else f"{length} numbers"
        if whole:
            number = "whole numbers" if length is None else f"{length} whole numbers"
            remedy = f"Pass counts, not frequencies. {remedy}"
        expected = f"{number} of training {of} >= 0, one for each {each}"
        expected += ", not all of them 0" * whole
        raise ValueError(sentence(argument, expected, counts, remedy.strip()))
    return np.asarray(counts)


def check_length(argument, values, length, of="labels", remedy=""):
    """Raises unless there is a value for each of the labels that a model scores."""
    if len(values) != length:
        raise ValueError(
            f"`{argument}` must have length {length}, the number of {of} of `y_pred`. "
            f"Received: length {len(values)}. {remedy}".strip()
        )


def as_values(threshold, num_labels=None):
    """Thresholds in any form as a float64 array, () or [L], or a sentence."""
    values = getattr(threshold, "values", threshold)  # of `Thresholds`
    try:
        values = np.asarray(values, "float64")
        right = values.ndim < 2 and values.size > 0 and np.isfinite(values).all()
    except (TypeError, ValueError):
        right = False
    if not right:
        expected = "a finite number, or one for each label"
        raise ValueError(sentence("threshold", expected, threshold))
    if values.ndim and num_labels not in (None, len(values)):
        expected = f"a number, or {num_labels} numbers, one for each label"
        raise ValueError(sentence("threshold", expected, f"{len(values)} numbers"))
    return values


def check_texts(texts):
    """Returns texts as a list of str; bytes are read as UTF-8, as well as they can."""
    if isinstance(texts, (str, bytes)):
        raise TypeError(sentence("texts", "a list of texts", texts))
    found = []
    for number, text in enumerate(texts):
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        if not isinstance(text, str):
            raise TypeError(sentence(f"texts[{number}]", "a str or bytes", text))
        found.append(text)
    return found


def check_text(text, what="the text"):
    """Returns a string that a UTF-8 tensor can hold, else raises."""
    if not isinstance(text, str):
        raise ValueError(f"{what} must be a string. Received: {shown(text)}.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} holds half a character (a lone surrogate) at character "
            f"{error.start}, which no UTF-8 tensor can hold."
        ) from None
    return text


def check_name(name, what="a label"):
    """Returns the name of a label or a kind, else raises.

    Anything goes that every file and tensor gives back as it was: NUL does not, which
    ends a string for NumPy and in C.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} must be a name. Received: {shown(name)}.")
    if "\0" in check_text(name, what):
        raise ValueError(f"{what} must not hold NUL. Received: {shown(name)}.")
    return name


def check_folder(path, files, what):
    """Returns `path` if it is a folder that holds all of `files`, else raises.

    Args:
        path: the folder.
        files: names that must exist inside it.
        what: what the folder is to the user, such as "a BERT-family model".
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is not a folder; expected {what}.")
    missing = [name for name in files if not (path / name).exists()]
    if missing:
        raise FileNotFoundError(
            f"{path} is not complete as {what}: {', '.join(missing)} missing. "
            "Copy or write it again as a whole."
        )
    return path


def import_optional(module, extra, purpose):
    """Imports a package that only some uses need, or says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs the package `{module}`, which is not installed. "
            f'Install it with: pip install "bat-tf[{extra}]"'
        ) from error
