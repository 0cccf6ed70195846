"""Rows that are in memory → TextDataset: lists, dicts, columns, data frames."""

from bat_tf._internal.files import Source
from bat_tf._internal.validation import DataError, sentence, shown
from bat_tf.data.dataset import TextDataset
from bat_tf.data.readers.jsonl import (
    as_fields,
    columns_as_rows,
    example_of,
    fields_of,
)
from bat_tf.data.readers.shapes import plain

_LOOK_AT = 2000


def from_rows(rows, targets=None, *, name="rows", on_error="raise", **options):
    """Makes a `TextDataset` of rows that are in memory, in any form that people have.

    | rows | |
    |---|---|
    | list of dicts, as rows of JSON | `[{"text": "A goal", "labels": ["sport"]}]` |
    | list of pairs | `[("A goal", "sport")]`, `[("Zorv lamp", [(0, 4, "brand")])]` |
    | two lists | `["A goal"], ["sport"]` |
    | tokens and tags, either way | `[["Zorv", "lamp"]], [["B-brand", "O"]]` |
    | dict of columns | `{"text": […], "label": […]}` |
    | a data frame of pandas | `frame`, with columns as in a table |
    | a data set of Hugging Face | `datasets.load_dataset(…)["train"]` |

    Args:
        rows: see above.
        targets: a label, labels, spans or tags for each row, if rows are texts.
        name: what to call the set in reports.
        on_error: "raise", or "skip" to leave out what is faulty and list it in the data
            set's `skipped`.
        **options: those of `bat_tf.data.read` for JSONL: `text`, `labels`, `names` …

    Raises:
        AmbiguousFile: if the rows can be read in two ways, with the options for each.
        DataError: which row, counted from 1 as lines are, and what is wrong there.

    Example:
        >>> from_rows([("A goal", "sport"), ("A play", ["art", "news"])]).labels
        [('sport',), ('art', 'news')]
        >>> from_rows([["Zorv", "lamp"]], [["B-brand", "O"]])[0].spans
        (Span(start=0, end=4, kind='brand'),)
    """
    if isinstance(rows, TextDataset):
        return rows
    names = _names_of_features(rows, options.get("labels"))
    if names and options.get("names") is None:
        options["names"] = names
    listed = _listed(rows, targets)
    if isinstance(next(iter(listed), None), tuple):
        options.setdefault("separator", "")  # a text is one label here
        listed = map(_as_dict, listed)
    listed = list(listed)
    source = Source(name, on_error)
    source.found["format"] = "rows"
    sample = []
    for row in listed[:_LOOK_AT]:
        if isinstance(row, dict):
            row = {key: plain(value) for key, value in row.items()}
            sample.append(as_fields(row))
    fields = fields_of(source, 1, sample, **_checked(options)) if sample else None
    examples = []
    for number, row in enumerate(listed, 1):
        with source.at(number):
            if not isinstance(row, dict):
                expected = 'a dict such as {"text": "…", "labels": ["…"]}, or a pair'
                raise ValueError(f"expected {expected}. Received: {shown(row, 60)}.")
            examples.append(example_of(fields, as_fields(row), number))
    if not examples:
        first = f" The first fault: {source.skipped[0]}" if source.skipped else ""
        raise DataError(name, None, f"holds no examples.{first}")
    notices = source.notices()
    return TextDataset(examples, name, source.skipped, notices, source.found)


_OPTIONS = ("text", "labels", "separator", "names", "overlaps", "scheme", "joiner")
_OPTIONS += ("strict",)


def _checked(options):
    for name in options:
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise TypeError(
                f"rows have no option {name!r}. Their options are: {known}."
            )
    return options


def _listed(rows, targets):
    """The rows as a list of dicts or pairs."""
    if targets is not None:
        rows, targets = _column(rows), _column(targets)
        if len(rows) != len(targets):
            expected = f"as long as `rows`, {len(rows)} texts"
            raise ValueError(sentence("targets", expected, f"{len(targets)} targets"))
        return list(zip(rows, targets, strict=True))
    if hasattr(rows, "itertuples"):  # pandas
        columns = list(map(str, rows.columns))
        found = rows.itertuples(index=False, name=None)
        return [dict(zip(columns, row, strict=True)) for row in found]
    if isinstance(rows, dict):
        parts = [str(name) for name, part in rows.items() if hasattr(part, "features")]
        if parts:
            remedy = f'Pass one of its parts, as in rows["{parts[0]}"].'
            raise TypeError(sentence("rows", "one data set", parts, remedy))
        columns = {name: _column(column) for name, column in rows.items()}
        found = columns_as_rows(columns)
        if found is None:
            expected = "columns of one length"
            raise ValueError(sentence("rows", expected, shown(rows, 60)))
        return found
    if isinstance(rows, (str, bytes)) or not hasattr(rows, "__iter__"):
        remedy = "`bat_tf.data.read` reads files."
        raise TypeError(sentence("rows", "a list of rows", shown(rows, 60), remedy))
    rows = [tuple(row) if _is_pair(row) else row for row in rows]
    return rows


def _column(values):
    values = plain(values) if not hasattr(values, "to_list") else values.to_list()
    return list(values) if hasattr(values, "__iter__") else [values]


def _is_pair(row):
    return isinstance(row, (list, tuple)) and len(row) == 2


def _as_dict(pair):
    text, target = map(plain, pair)
    if isinstance(text, (list, tuple)):
        return {"tokens": list(text), "tags": target}
    if isinstance(target, dict) and {"entities", "cats"} & target.keys():
        return as_fields([text, target])  # as spaCy has them
    target = list(target) if isinstance(target, (tuple, set)) else target
    return {"text": text, "labels": target}


def _names_of_features(rows, labels):
    """The names that a data set of Hugging Face has for its numbers."""
    features = getattr(rows, "features", None)
    if not hasattr(features, "items"):
        return None
    for key, feature in features.items():
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if names and labels in (None, key):
            return list(names)
    return None
