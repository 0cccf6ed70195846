"""The one place where error sentences are built.

Every sentence names the argument, what was expected, what came and, where there is
something to do about it, what to do.
"""

import importlib
from pathlib import Path


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
