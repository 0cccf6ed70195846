"""Files and folders: read packed or not, line by line; written as a whole, or not."""

import bz2
import contextlib
import ctypes
import errno
import gzip
import io
import json
import lzma
import os
import re
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bat_tf._internal.encodings import AsUtf8, find_encoding
from bat_tf._internal.validation import DataError, check_choice, check_number, shown

OPENERS = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
ZIP = ".zip"
# What systems and people put into archives beside the data.
_EXTRAS = re.compile(
    r"(^|/)(__MACOSX/|\.(?!\.?/)|(readme|licen[cs]e)[^/]*$)", re.IGNORECASE
)
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
BROKEN = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, zipfile.BadZipFile)
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "zip",
}
# What file systems answer that cannot flush a folder, or lock it.
CANNOT = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EBADF)
# Where a folder's old and new version stand while one takes the other's place.
OLD, NEW = "old", "new"
# No text that people keep packs better than this, so larger files need no option.
_USUAL_RATIO = 20


class Limits(NamedTuple):
    """What a file may cost, so that a small hostile one cannot fill the memory.

    The environment variables BAT_TF_MAX_UNPACKED_MB and BAT_TF_MAX_LINE_MB raise the
    limits for everything that a process reads.

    Args:
        unpacked_mb: megabytes that a packed file may unpack to; one that is large
            itself may unpack to twenty times its size.
        line_mb: megabytes of a line, packed or not.
    """

    unpacked_mb: float
    line_mb: float

    @classmethod
    def of(cls, max_unpacked_mb=None, max_line_mb=None):
        """Limits with the defaults of the environment, or ours, where one is None."""
        return cls(
            _megabytes("max_unpacked_mb", max_unpacked_mb, 400),
            _megabytes("max_line_mb", max_line_mb, 16),
        )

    def unpacked(self, size):
        """How many bytes a packed file of `size` bytes may unpack to."""
        return max(int(self.unpacked_mb * 1e6), _USUAL_RATIO * size)

    def too_large(self, path, size):
        """The error of a file that unpacks to more than `unpacked` of its size."""
        return DataError(
            path,
            None,
            f"unpacks to more than {self.unpacked(size) / 1e6:,.0f} MB, which is all "
            f"that is taken from a file of {size / 1e6:,.1f} MB: it may be built to "
            "fill the memory. If you trust it, raise `max_unpacked_mb`, or the "
            "environment variable BAT_TF_MAX_UNPACKED_MB.",
        )


def _megabytes(argument, value, default):
    """A limit as given, or of the environment, or the default."""
    if value is None:
        argument = f"BAT_TF_{argument.upper()}"
        value = os.environ.get(argument, default)
        with contextlib.suppress(ValueError):
            value = float(value)
    return check_number(argument, value, low=0)


class _Bounded(io.RawIOBase):
    """An unpacked stream that ends with an error where it becomes too large."""

    def __init__(self, stream, path, limits):
        self._stream, self._path, self._limits = stream, path, limits
        self._size = os.path.getsize(path)
        self._left = limits.unpacked(self._size)

    def readable(self):
        return True

    def readinto(self, buffer):
        part = self._stream.read(len(buffer))
        self._left -= len(part)
        if self._left < 0:
            raise self._limits.too_large(self._path, self._size)
        buffer[: len(part)] = part
        return len(part)

    def close(self):
        self._stream.close()
        super().close()


def read_json(path):
    """The object in a JSON file that somebody else wrote."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not JSON: {error}. Copy or download the file again."
        ) from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold a JSON object. Received: {shown(found)}.")
    return found


def check_file(path, remedy=""):
    """Returns `path` as a `Path` if there is such a file, else raises.

    A file inside of a zip archive is one, too: "news.zip/train.csv".
    """
    path = Path(path)
    if _archive_of(path):
        return path
    if path.is_dir():
        reason = f"{path} is a folder; expected a file. {remedy}"
        raise IsADirectoryError(reason.rstrip())
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Check its name and folder.")
    return path


def plain_name(path):
    """Returns the name of a file without the ending of packed ones.

    Example:
        >>> plain_name("news/train.jsonl.gz")
        'train.jsonl'
    """
    path = Path(path)
    return path.stem if path.suffix.lower() in (*OPENERS, ZIP) else path.name


def _archive_of(path):
    """The zip archive that a path leads into, or None."""
    for folder in path.parents:
        if folder.suffix.lower() == ZIP and folder.is_file():
            return folder
    return None


def is_file(path):
    """Whether there is such a file, on the disk or inside of a zip archive."""
    path = Path(path)
    return path.is_file() or bool(_archive_of(path) and zip_member(path))


def zip_member(path):
    """The zip archive of a path and the file in it that is meant, or (None, None).

    Nothing is unpacked to the disk, so a member's name leads nowhere.

    Args:
        path: an archive that holds one file, or a path into one that holds several.

    Raises:
        DataError: with the names of the files, if it is not clear which is meant.
    """
    path = Path(path)
    archive, inner = _archive_of(path), None
    if archive:
        inner = path.relative_to(archive).as_posix()
    elif path.suffix.lower() == ZIP and path.is_file():
        archive = path
    else:
        return None, None
    try:
        with zipfile.ZipFile(archive) as file:
            names = [one.filename for one in file.infolist() if not one.is_dir()]
    except BROKEN as error:
        raise _not_whole(archive, error) from error
    names = [name for name in names if not _EXTRAS.search(name)]
    if inner is None and len(names) == 1:
        inner = names[0]
    if inner not in names:
        first = f'Name one of them: "{archive}/{names[0]}".' if names else ""
        listed = ", ".join(names[:20]) + ", …" * (len(names) > 20)
        raise DataError(archive, None, f"holds the files {listed or '(none)'}. {first}")
    return archive, inner


@contextlib.contextmanager
def unpacked(path, limits=None):
    """Opens a file to read bytes, unpacked on the fly and within limits.

    Args:
        path: the file.
        limits: `Limits`; None for those of the environment.

    Yields:
        A file that can be read from its beginning to its end.

    Raises:
        DataError: if it is damaged, or unpacks to more than the limits allow.
    """
    path = check_file(path)
    opener = OPENERS.get(path.suffix.lower())
    archive, member = zip_member(path)
    try:
        if archive:
            with zipfile.ZipFile(archive) as whole, whole.open(member) as file:
                bounded = _Bounded(file, archive, limits or Limits.of())
                with io.BufferedReader(bounded, 2**18) as file:
                    yield file
        elif opener is None:
            with open(path, "rb") as file:
                yield file
        else:
            bounded = _Bounded(opener(path, "rb"), path, limits or Limits.of())
            with io.BufferedReader(bounded, 2**18) as file:
                yield file
    except BROKEN as error:
        raise _not_whole(path, error) from error
    except (RuntimeError, NotImplementedError) as error:
        if archive is None:
            raise
        # It asks for a password, or is packed in a way that Python does not know.
        reason = f"cannot be unpacked ({error}). Unpack it yourself."
        raise DataError(path, None, reason) from error
    except OSError as error:
        if error.errno is None and path.suffix.lower() == ".bz2":  # bz2 says it so
            raise _not_whole(path, error) from error
        raise


def text_encoding(path, limits=None):
    """The encoding of a file's text, see `find_encoding`.

    A packed file must be whole and unpack within the limits for it. This costs little
    beside reading its rows, which would fill the memory before the last of them shows
    that there are too many.
    """
    with unpacked(path, limits) as file:
        return find_encoding(file)


def _not_whole(path, error):
    reason = f"its name ends in {path.suffix}, but it is not a whole file of that"
    return DataError(path, None, f"{reason} kind ({error}).")


def check_zip(path, limits=None, content=None):
    """Raises unless a zip archive, such as a .npz, unpacks within the limits.

    What the archive says of its sizes can be relied on: `zipfile` reads no more.

    Args:
        path: the file.
        limits: `Limits`; None for those of the environment.
        content: the archive's bytes, if it is itself inside of the file.
    """
    limits, size = limits or Limits.of(), os.path.getsize(path)
    with zipfile.ZipFile(io.BytesIO(content) if content else path) as archive:
        total = sum(member.file_size for member in archive.infolist())
    if total > limits.unpacked(size):
        raise limits.too_large(path, size)


def read_lines(path, limits=None, encoding="utf-8"):
    r"""Yields (line number, bytes) of a file, unpacked on the fly and within limits.

    Lines are bytes because one undecodable line must not end the reading of the
    others: pass each to `decode`. Only "\n" and "\r\n" end a line, and a byte order
    mark at the start is dropped.

    Args:
        path: the file; `.gz`, `.xz` and `.bz2` are unpacked.
        limits: `Limits`; None for those of the environment.
        encoding: what the file is written in. The bytes of its lines are UTF-8 all the
            same, but for lines that are not of this encoding.

    Yields:
        pairs of the line's number, counted from 1, and its bytes without the end.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.txt"
        >>> _ = path.write_bytes(b"one\r\ntwo")
        >>> list(read_lines(path))
        [(1, b'one'), (2, b'two')]
    """
    limits, wide = limits or Limits.of(), encoding.startswith(("utf-16", "utf-32"))
    with unpacked(path, limits) as file:
        if wide:  # a line end is no single byte
            file = io.BufferedReader(AsUtf8(file, encoding), 2**18)
        try:
            for number, line in bounded_lines(file, path, limits):
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                line = line.removesuffix(b"\n").removesuffix(b"\r")
                if not wide and encoding != "utf-8":
                    with contextlib.suppress(UnicodeDecodeError):
                        line = line.decode(encoding).encode("utf-8")
                yield number, line
        except UnicodeDecodeError as error:
            raise DataError(path, None, f"is not {encoding} text ({error}).") from None


def bounded_lines(file, name, limits=None):
    """Yields (line number, bytes) of an open file, or an error for an endless line."""
    limits = limits or Limits.of()
    longest = int(limits.line_mb * 1e6)
    for number, line in enumerate(iter(partial(file.readline, longest + 1), b""), 1):
        if len(line) > longest:
            raise DataError(
                name,
                number,
                f"the line is longer than {limits.line_mb:g} MB. If it is meant to be, "
                "raise `max_line_mb`, or the environment variable BAT_TF_MAX_LINE_MB.",
            )
        yield number, line


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


SKIP = 'on_error="skip" (--on-error skip) leaves such rows out.'


class Source:
    """What a reader reads, its limits, and what becomes of its faulty rows.

    Args:
        path: the file, or a folder: `source / name` is the source of a file in it.
        on_error: "raise", or "skip" to leave out a faulty row.
        limits: `Limits`; None for those of the environment.

    Attributes:
        skipped: a `DataError` for each row left out.
        repaired: a `DataError` for each row that was read although it is not tidy.
        remarks: sentences about how it is read.
        encoding: what its text is written in, see `text_encoding`.
        found: what the reader found out about it, by the names of its options.

    Example:
        >>> source = Source("news.txt", on_error="skip")
        >>> for line, row in enumerate(["7", "x"], 1):
        ...     with source.at(line):
        ...         print(int(row))
        7
        >>> [error.line for error in source.skipped]
        [2]
    """

    def __init__(self, path, on_error="raise", limits=None):
        self.path = path
        self.on_error = check_choice("on_error", on_error, ("raise", "skip"))
        self.limits = limits or Limits.of()
        self.skipped, self.repaired, self.remarks = [], [], []
        self.encoding, self.found = "utf-8", {}

    def __truediv__(self, name):
        return self.of(Path(self.path) / name)

    def of(self, path):
        """The same for another file; what is left out comes into the same list."""
        other = Source(path, self.on_error, self.limits)
        other.skipped, other.repaired = self.skipped, self.repaired
        other.remarks = self.remarks
        return other

    @property
    def name(self):
        """The file's name, in small letters, as it would be unpacked."""
        _, member = zip_member(self.path)
        return plain_name(member or self.path).lower()

    def lines(self):
        """See `read_lines`."""
        return read_lines(self.path, self.limits, self.encoding)

    def head(self, size=2**20):
        """The lines with which the file begins, and whether these are all.

        Returns:
            (lines, whole): text without line ends; the last line may be cut.
        """
        wide = self.encoding.startswith(("utf-16", "utf-32"))
        with unpacked(self.path, self.limits) as file:
            if wide:
                file = io.BufferedReader(AsUtf8(file, self.encoding), 2**18)
            try:
                start = file.read(size + 1)
            except UnicodeDecodeError:
                return [], False
        text = start[:size].decode("utf-8" if wide else self.encoding, "replace")
        lines = text.removeprefix("\ufeff").split("\n")
        lines = [line.removesuffix("\r") for line in lines]
        whole = len(start) <= size
        return lines[:-1] if whole and not lines[-1] else lines, whole

    def content(self):
        """The whole text of the file, whose lines may have any length."""
        lines = []
        limits = self.limits._replace(line_mb=2**40)
        for place, line in read_lines(self.path, limits, self.encoding):
            try:
                lines.append(decode(line))
            except ValueError as error:
                raise DataError(self.path, place, str(error)) from None
        return "\n".join(lines)

    @contextlib.contextmanager
    def at(self, line, path=None):
        """Takes a ValueError that the block raises for a fault of this line.

        Args:
            line: its number, counted from 1; None where there are none.
            path: the file, if it is not the one of all rows.
        """
        try:
            yield
        except ValueError as error:
            if not isinstance(error, DataError):
                error = DataError(path or self.path, line, str(error))
            if self.on_error == "raise":
                raise error.offering(SKIP) from None
            self.skipped.append(error)

    def notices(self):
        """What was read otherwise than it is written, in sentences."""
        notices = list(self.remarks)
        if self.repaired:
            count, first = len(self.repaired), self.repaired[0]
            sentences = "sentence has" if count == 1 else "sentences have"
            notices.append(
                f"{count:,} {sentences} tags that do not fit their scheme, repaired as "
                f"seqeval reads them; the first: {first} strict=True refuses them."
            )
        return notices

    def note(self, line, reason, path=None):
        """Lists what was left out of a row that is read all the same."""
        self.skipped.append(DataError(path or self.path, line, reason))


class Disk:
    """What changes files that were there: each flush, rename and removal, and writes.

    A test puts one in the place of `disk` that lets the process die at any of them.
    """

    def write(self, path, text):
        """Writes a new file."""
        path.write_text(text, encoding="utf-8")

    def flush(self, path):
        """Waits until a file, or the names in a folder, outlive a loss of power."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in CANNOT:
                raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(handle)

    def rename(self, old, new):
        """Moves a file or a folder; a file takes the place of another."""
        os.replace(old, new)

    def exchange(self, one, other):
        """Lets two folders change places at once; False where the system cannot."""
        try:
            rename = ctypes.CDLL(None).renameat2
        except (AttributeError, OSError, TypeError):  # not Linux
            return False
        here, both = -100, ctypes.c_uint(2)  # AT_FDCWD, RENAME_EXCHANGE
        return not rename(here, os.fsencode(one), here, os.fsencode(other), both)

    def remove(self, path):
        """Removes a file or an empty folder."""
        is_folder = path.is_dir() and not path.is_symlink()
        (os.rmdir if is_folder else os.unlink)(path)


disk = Disk()


def put_in_place(unfinished, path):
    """Lets a finished file take the place of another.

    Flush the folder behind it, where an error no longer says that nothing changed.
    """
    disk.flush(unfinished)
    disk.rename(unfinished, path)


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
        put_in_place(unfinished, path)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        kept = "What was there before is unharmed. " if path.exists() else ""
        reason = f"{path} could not be written: {os.strerror(error.errno)}. {kept}"
        raise OSError(error.errno, f"{reason}Free some space, run again.") from error
    finally:
        unfinished.unlink(missing_ok=True)
    disk.flush(path.parent)


@contextlib.contextmanager
def atomic_folder(folder):
    """Makes a folder that takes its place only when it has been written whole.

    Until then, and for good if anything goes wrong, what stood there stays. Where a
    kill leaves the old folder aside, `settled` puts it back.

    Args:
        folder: where it goes; the folder around it is made if need be.

    Yields:
        The path of an empty folder beside it, to write into.
    """
    folder = Path(os.path.realpath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished, aside = _beside(folder, NEW), _beside(folder, OLD)
    with _alone(folder.parent, wait=True):
        _restore(folder)
        for left in (unfinished, aside):  # by a process that died
            remove_tree(left)
        unfinished.mkdir()
        try:
            yield unfinished
            flush_tree(unfinished)
            exchanged = folder.exists() and disk.exchange(unfinished, folder)
            if not exchanged:
                if folder.exists():
                    disk.rename(folder, aside)
                disk.rename(unfinished, folder)
            try:
                disk.flush(folder.parent)
            except OSError:  # taken back, for an error says that nothing was changed
                undo = disk.exchange if exchanged else disk.rename
                undo(folder, unfinished)
                raise
        finally:
            _restore(folder)
            # The folder has its place: what cannot be removed goes next time.
            with contextlib.suppress(OSError):
                remove_tree(unfinished)
                remove_tree(aside)


def settled(folder):
    """Finishes what an `atomic_folder` that died left undone, also inside the folder.

    Returns:
        The path to read: the folder, or, where nothing may be moved, the old one aside.
    """
    folder = Path(folder)
    real = Path(os.path.realpath(folder))  # where a link leads, and "." has no name
    waiting = [real] if _beside(real, OLD).exists() else []
    with contextlib.suppress(OSError):
        asides = real.glob(f".?*.{OLD}")
        waiting += [real / one.name[1 : -len(OLD) - 1] for one in asides]
    for one in waiting:
        # No right to, or another process is at it.
        with contextlib.suppress(OSError), _alone(one.parent, wait=False):
            _restore(one)
    aside = _beside(real, OLD)
    return aside if aside.exists() and not real.exists() else folder


def _beside(folder, which):
    return folder.parent / f".{folder.name}.{which}"


def _restore(folder):
    """Puts the old folder back where the new one did not get."""
    if _beside(folder, OLD).exists() and not folder.exists():
        disk.rename(_beside(folder, OLD), folder)


def flush_tree(folder):
    """Flushes a folder and all that is in it."""
    for path in sorted(folder.rglob("*")):
        disk.flush(path)
    disk.flush(folder)


def remove_tree(folder):
    """Removes a folder and all that is in it, if it is there."""
    if not folder.is_dir() or folder.is_symlink():
        return
    for path in sorted(folder.rglob("*"), reverse=True):
        disk.remove(path)
    disk.remove(folder)


@contextlib.contextmanager
def _alone(folder, wait):
    """Keeps other processes from swapping folders in this one."""
    try:
        import fcntl
    except ImportError:  # on Windows
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise
        except OSError as error:  # network drives may have no locks
            if error.errno not in (*CANNOT, errno.ENOLCK):
                raise
        yield
    finally:
        os.close(handle)


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
