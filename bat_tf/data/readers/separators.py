"""Cells that hold several names of labels: what divides the names."""

import re
from collections import Counter

from bat_tf.data.readers.format import AmbiguousFile, Reading

# Signs that are in no usual name, so that they divide names wherever they are.
BARS = re.compile("[|;]")
# <python><pandas>, as Stack Exchange has its tags.
_ANGLES = re.compile("(<[^<>]+>)+")
# Names of columns that hold several labels, not one: "labels", "Tags", "categories".
_PLURAL = re.compile(r"(?i)([^sui]s|标签|ラベル|теги|метки)$")
_LINKS = frozenset(
    "& + - / and or of the for in to with un une le la les de du des et ou en y el los "
    "del o a e i di il per und oder der die das für von im mit en of van het и или в "
    "на для с do da os".split()
)
# A name with a digit or the like is a sign, and not a word beside another.
_CODE = re.compile(r"\S*[\d_:/#.-]\S*")
# Separators with what must speak against them, and for them.
_WEIGHED = ((",", r"\s*[,，、]\s*", -3, 1), (" ", r"\s+", -2, 2))


class Cells:
    """Divides cells into names, in the way that all cells of a column together show.

    Args:
        path: the file, for errors.
        line: of the first cell.
        column: the name of the column, as far as there is one.
        cells: texts, many if possible.
        separator: as given by the caller: "" for none, None to find it out.
        typed: whether rows could have held lists instead, as in JSON: a text is then
            likely to be one name.
    """

    def __init__(self, path, line, column, cells, separator=None, typed=False):
        cells = [cell.strip() for cell in cells if cell and cell.strip()]
        self.separator = separator
        if separator is None and cells:
            self.separator = _find(path, line, column, cells, typed)

    def names(self, cell):
        """The names in a cell.

        Example:
            >>> Cells("x.csv", 1, "tags", ["a|b", "b"]).names("a|c")
            ['a', 'c']
        """
        separator = self.separator
        if separator is None:
            parts = [cell]
        elif separator == "<>":
            parts = re.findall("<([^<>]+)>", cell) or [cell]
        elif separator == "|;":
            parts = BARS.split(cell)
        elif separator == " ":
            parts = cell.split()
        elif separator == ",":
            parts = re.split("[,，、]", cell)
        else:
            parts = cell.split(separator) if separator else [cell]
        return list(filter(None, map(str.strip, parts)))


def _find(path, line, column, cells, typed):
    """Returns the separator of many cells, or None for cells of one name each."""
    counts = Counter(cells)
    if all(map(_ANGLES.fullmatch, counts)):
        return "<>"
    if any(map(BARS.search, counts)):
        return "|;"
    for separator, pattern, low, high in _WEIGHED:
        for_it, against = _weigh(counts, pattern, column, typed)
        if for_it is None:
            continue
        if for_it - against >= high:
            return separator
        if for_it - against > low:
            shown = next(cell for cell in counts if re.search(pattern, cell))
            several = [part for part in re.split(pattern, shown) if part]
            raise AmbiguousFile(
                path,
                line,
                f"{shown[:60]!r} may be one label or {len(several)}.",
                [
                    Reading("each cell is one label", {"separator": ""}),
                    Reading(
                        f"labels are divided, here into {several[:5]}",
                        {"separator": separator},
                    ),
                ],
            )
    return None


def _weigh(counts, pattern, column, typed):
    """What speaks for a separator, and what against; (None, 0) if no cell has it."""
    divided = {cell: [p for p in re.split(pattern, cell) if p] for cell in counts}
    several = [cell for cell, parts in divided.items() if len(parts) > 1]
    if not several:
        return None, 0
    cells_of = Counter(part for parts in divided.values() for part in {*parts})
    again = sum(any(cells_of[part] > 1 for part in divided[cell]) for cell in several)
    total = counts.total()
    for_it = against = 0
    # Names that come in many combinations are names; those that never part are one.
    for_it += again >= 0.5 * len(several)
    for_it += len(counts) > 1.5 * len(cells_of) or _turned(divided)
    against += len(cells_of) > 1.2 * len(counts)
    against += again < 0.1 * len(several) and total >= 3 * len(counts)
    if _PLURAL.search(column or ""):
        for_it += 2
    elif column:
        against += 1
    against += typed
    for_it += 2 * (sum(map(bool, map(_CODE.fullmatch, cells_of))) > 0.8 * len(cells_of))
    if pattern == r"\s+":
        words = [part for cell in several for part in divided[cell]]
        linked = any(_LINKS.intersection(map(str.lower, divided[c])) for c in several)
        against += 3 * linked
        # Few cells that come again and again are classes with names of two words.
        against += total >= 10 * len(counts)
        against += sum(word[:1].isupper() for word in words) > 0.5 * len(words)
        for_it += len(several) > 0.3 * len(counts) and len(counts) > 2 * len(cells_of)
    elif re.search(r"(?i)[ ,](and|or|&|und|et|y|e) ", " ".join(several)):
        against += 2
    return for_it, against


def _turned(divided):
    """Whether the same names come in two orders."""
    orders = {}
    for parts in divided.values():
        if len(parts) > 1 and orders.setdefault(frozenset(parts), parts) != parts:
            return True
    return False
