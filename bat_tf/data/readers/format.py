"""What a reader says of itself, and what is said of a file that reads in two ways."""

from collections.abc import Callable
from typing import NamedTuple

from bat_tf._internal.validation import DataError

# How sure a reader is that a file is one of its own.
NO, MAYBE, YES, CERTAIN = range(4)


class Sample(NamedTuple):
    """The beginning of a file, by which its format is recognised.

    Args:
        name: the file's name in small letters, without .gz and the like.
        lines: its first lines as text, without their ends.
        whole: whether these are all of them.
    """

    name: str
    lines: list[str]
    whole: bool = True

    def filled(self):
        """The lines that are not blank."""
        return [line for line in self.lines if line.strip()]


class Format(NamedTuple):
    """A format of files: its reader, and how its files are recognised.

    Args:
        read: `read(source, *, …)` yields the `Example`s of a `Source`; its keyword
            arguments are options of `bat_tf.data.read`.
        endings: of the names of such files, in small letters and without .gz, .xz,
            .bz2 or .zip; of two formats that fit, the one with the longer ending is
            taken.
        fits: `fits(sample)` says how well the beginning of a file fits, from `NO` to
            `CERTAIN`.
        recognised: by what, in words.
        examples: name of a file → its content, for people and for tests.
    """

    read: Callable
    endings: tuple[str, ...]
    fits: Callable
    recognised: str
    examples: dict[str, str]

    def ending(self, name):
        """The longest of the endings that a name has, or ""."""
        return max((e for e in self.endings if name.endswith(e)), key=len, default="")


class Reading(NamedTuple):
    """One way to read a file.

    Args:
        says: what the file is if it is read so, in words.
        options: of `bat_tf.data.read`, which choose this way.
    """

    says: str
    options: dict

    def __str__(self):
        chosen = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.says}: {chosen}"


class AmbiguousFile(DataError):
    """A file can be read in two ways or more, and nothing in it says which is meant.

    Args:
        path: the file.
        line: a line that shows it; None for the whole file.
        reason: what is not clear.
        readings: the `Reading`s; the options of each choose it.

    Example:
        >>> readings = [Reading("a label", {"separator": ""})]
        >>> readings += [Reading("two labels", {"separator": " "})]
        >>> print(AmbiguousFile("news.csv", 2, "'New York' is not clear.", readings))
        news.csv, line 2: 'New York' is not clear. Choose one of:
          a label: separator=''
          two labels: separator=' '
    """

    def __init__(self, path, line, reason, readings):
        self.readings = list(readings)
        listed = "".join(f"\n  {reading}" for reading in self.readings)
        super().__init__(path, line, f"{reason} Choose one of:{listed}")
