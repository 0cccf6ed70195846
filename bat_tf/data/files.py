"""Files: packed or not, line by line, written as a whole; folders of one process."""

import contextlib
import errno
import gzip
import lzma
import os
import zlib
from pathlib import Path

from bat_tf._validation import DataError

OPENERS = {".gz": gzip.open, ".xz": lzma.open}
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BROKEN = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}


def read_lines(path):
    r"""Yields (line number, bytes) of a file; `.gz` and `.xz` are unpacked on the fly.

    Lines are bytes because one undecodable line must not end the reading of the
    others: pass each to `decode`. Only "\n" and "\r\n" end a line, and a byte order
    mark at the start is dropped.

    Args:
        path: the file.

    Yields:
        pairs of the line's number, counted from 1, and its bytes without the end.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
        >>> _ = path.write_bytes(b"one\r\ntwo")
        >>> list(read_lines(path))
        [(1, b'one'), (2, b'two')]
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected a file.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Check its name and folder.")
    try:
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                yield number, line.removesuffix(b"\n").removesuffix(b"\r")
    except BROKEN as error:
        reason = f"its name ends in {path.suffix}, but it is not a whole file of that"
        raise DataError(path, None, f"{reason} kind ({error}).") from error


def decode(line):
    r"""Returns the text of one line of bytes, or says why it is not text.

    Args:
        line: bytes.

    Returns:
        A string.

    Example:
        >>> decode("東京".encode())
        '東京'
        >>> decode(b"caf\xe9")
        Traceback (most recent call last):
        ...
        ValueError: not UTF-8 text (byte 0xe9 at position 4). Save it as UTF-8.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        remedy = "Save it as UTF-8."
        for magic, kind in _MAGIC.items():
            if line.startswith(magic):
                remedy = f"It is {kind} data under another name: unpack or rename it."
        byte = f"byte 0x{line[error.start]:02x} at position {error.start + 1}"
        raise ValueError(f"not UTF-8 text ({byte}). {remedy}") from None
    if "\0" in text:
        raise ValueError("holds NUL bytes: it is binary or UTF-16, not UTF-8 text.")
    return text


@contextlib.contextmanager
def atomic_write(path, mode="wt"):
    """Opens a file that takes its place only when it has been written whole.

    Until then, and for good if anything goes wrong, what stood at `path` stays.

    Args:
        path: the file; its folder is made if need be. `.gz` and `.xz` are packed.
        mode: `"wt"`, or `"wb"` for bytes.

    Yields:
        A file opened for writing, text in UTF-8.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> with atomic_write(path) as file:
        ...     _ = file.write("done")
        >>> path.read_text()
        'done'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    opener = OPENERS.get(path.suffix.lower(), open)
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    try:
        with opener(unfinished, mode, **text) as file:
            yield file
        os.replace(unfinished, path)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        kept = "What was there before is unharmed. " if path.exists() else ""
        reason = f"{path} could not be written: {os.strerror(error.errno)}. {kept}"
        raise OSError(error.errno, f"{reason}Free some space, run again.") from error
    finally:
        unfinished.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(folder, what="job"):
    """Keeps a second process out of a folder; the system unlocks it if this one dies.

    Args:
        folder: it must exist; a file `.lock` is left in it.
        what: who is at work in it, for the error.

    Raises:
        RuntimeError: if another process is.
    """
    import fcntl  # not on Windows, where the rest of this file works

    with open(Path(folder) / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sentence = f"Another {what} is at work in {folder}. Wait for it or stop it."
            raise RuntimeError(sentence) from None
        yield
