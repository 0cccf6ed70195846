"""JSONL and JSON files: objects with a text and its spans or labels.

Beside the fields of our own (`text`, `spans`, `labels`) the forms of other tools are
read: doccano, Label Studio, Prodigy, spaCy, and tokens with tags as Hugging Face has
them; `bat_tf.data.readers.shapes` finds out which field is what.
"""

import json
import re
from itertools import islice

from bat_tf._internal.files import decode
from bat_tf._internal.validation import DataError, shown
from bat_tf.data.dataset import Example
from bat_tf.data.readers.format import CERTAIN, NO, YES, Format
from bat_tf.data.readers.shapes import Fields

# Rows by which it is found out what the fields are.
_LOOK_AT = 2000
_OWN = ("spans", "labels", "label")


def iter_jsonl(
    source,
    *,
    text=None,
    labels=None,
    separator=None,
    names=None,
    overlaps="error",
    scheme=None,
    joiner=None,
    strict=False,
):
    """Yields the examples of a JSONL file, one JSON object a line.

    An object is `{"text": "…", "spans": [[start, end, "kind"], …]}` or
    `{"text": "…", "labels": ["name", …]}`, with an `"id"` if you like; what else it
    holds is ignored. One label may also be `"label": "name"`. Spans count characters;
    they may be objects, too: `{"start": 0, "end": 4, "label": "kind"}`. Fields of other
    names are found out. Blank lines are passed over.

    Args:
        source: the `Source`.
        text: the field of the text or of its tokens, or a list of fields, joined by
            line ends.
        labels: the field of the labels, of the spans or of the tokens' tags; or a list
            of fields, a label each.
        separator: what divides the names in a text; "" if it is one name.
        names: names of labels or tags that are numbers, in their order, as a list or a
            file with one a line.
        overlaps: what to do with overlapping spans: "error", or "longest" to keep the
            longer one and list the other in `skipped`.
        scheme: of tags, a key of `SCHEMES`; None finds it out.
        joiner: what to put between tokens; None finds it out.
        strict: whether tags that break the scheme are errors; if False they are
            repaired, and the data set's `notices` say so.
    """
    rows = _Rows(source, lambda: (row for row in source.lines() if row[1].strip()))
    options = {"text": text, "labels": labels, "separator": separator, "names": names}
    options |= {"overlaps": overlaps, "scheme": scheme, "joiner": joiner}
    return rows.examples(**options, strict=strict)


def iter_json(
    source,
    *,
    text=None,
    labels=None,
    separator=None,
    names=None,
    overlaps="error",
    scheme=None,
    joiner=None,
    strict=False,
):
    """Yields the examples of a JSON file that is one list of `iter_jsonl`'s objects.

    A list inside of an object, as in `{"data": […]}`, is found, and columns are taken
    as rows. The line of an error is the one on which the object begins.
    """
    found = list(iter_list(source))
    options = {"text": text, "labels": labels, "separator": separator, "names": names}
    options |= {"overlaps": overlaps, "scheme": scheme, "joiner": joiner}
    return _Rows(source, lambda: found).examples(**options, strict=strict)


def _fits_jsonl(sample):
    lines = sample.filled()
    if not lines or not lines[0].lstrip().startswith("{"):
        return NO
    try:
        row = json.loads(lines[0])
    except (ValueError, RecursionError):
        return YES if sum(line.startswith("{") for line in lines) > 1 else NO
    one = len(lines) == 1 and sample.whole and not sample.name.endswith("l")
    return NO if one and _inner_rows(row) else CERTAIN


def _fits_json(sample):
    start = "".join(sample.filled()[:3]).lstrip()
    if re.match(r"\[\s*([\[{\]]|$)", start):
        return CERTAIN if re.match(r"\[\s*{", start) else YES
    return YES if start.startswith("{") and not _fits_jsonl(sample) else NO


JSONL = Format(
    iter_jsonl,
    (".jsonl", ".ndjson", ".jsonlines"),
    _fits_jsonl,
    "each line is a JSON object",
    {
        "spans.jsonl": '{"text": "Zorv lamp", "spans": [[0, 4, "brand"]]}\n'
        '{"text": "a lamp", "spans": []}\n',
        "doccano.jsonl": '{"id": 1, "text": "Zorv lamp", "label": [[0, 4, "brand"]]}\n'
        '{"id": 2, "text": "a lamp", "label": []}\n',
        "prodigy.jsonl": '{"text": "Zorv lamp", "spans": '
        '[{"start": 0, "end": 4, "label": "brand"}]}\n'
        '{"text": "a lamp", "spans": []}\n',
        "tokens.jsonl": '{"tokens": ["Zorv", "lamp"], "ner_tags": ["B-brand", "O"]}\n'
        '{"tokens": ["a", "lamp"], "ner_tags": ["O", "O"]}\n',
        "labels.jsonl": '{"text": "A goal", "labels": ["sport", "news"]}\n'
        '{"text": "A play", "labels": []}\n',
    },
)
JSON = Format(
    iter_json,
    (".json",),
    _fits_json,
    "it begins with `[` and holds a list of objects, or such a list in an object",
    {
        "label_studio.json": '[{"data": {"text": "Zorv lamp"}, "annotations": '
        '[{"result": [{"type": "labels", "value": {"start": 0, "end": 4, '
        '"labels": ["brand"]}}]}]}, {"data": {"text": "a lamp"}, "annotations": '
        '[{"result": []}]}]',
        "rows.json": '[{"text": "A goal", "label": "sport"},\n'
        ' {"text": "A play", "label": "art"}]',
    },
)

_STRANGE_NUMBER = "not JSON that can be read: a number is too long"
_BETWEEN = re.compile(r"\s*[\[,]\s*")


def iter_list(source):
    """Yields (line, bytes) of each element of a JSON list."""
    path, text = source.path, source.content()
    hint = 'For one object a line, pass format="jsonl".'
    try:
        rows = json.loads(text or "[]")
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg}. {hint}"
        raise DataError(path, error.lineno, message) from None
    except ValueError as error:
        raise DataError(path, None, f"{_STRANGE_NUMBER} ({error}).") from None
    except RecursionError:
        raise DataError(path, None, "not JSON: nested too deeply.") from None
    if isinstance(rows, dict):
        inner = _inner_rows(rows)
        if inner is None:
            raise DataError(path, 1, f"expected a JSON list. {hint}")
        for row in inner:
            yield None, json.dumps(row).encode()
        return
    if not isinstance(rows, list):
        raise DataError(path, 1, f"expected a JSON list. {hint}")
    decoder, place, line = json.JSONDecoder(), 0, 1
    for _ in rows:
        start = _BETWEEN.match(text, place).end()
        line += text.count("\n", place, start)
        _, place = decoder.raw_decode(text, start)
        yield line, text[start:place].encode()
        line += text.count("\n", start, place)


def _inner_rows(row):
    """The rows in an object that is no row: a list of objects in it, or its columns."""
    if not isinstance(row, dict):
        return None
    lists = [
        value
        for value in row.values()
        if isinstance(value, list) and value and all(isinstance(v, dict) for v in value)
    ]
    if len(lists) == 1 and not {"text", "tokens", "spans", "entities"} & row.keys():
        return lists[0]
    values = list(row.values())
    if len(values) == 1 and isinstance(values[0], dict):
        return _inner_rows(values[0])
    return columns_as_rows(row)


def columns_as_rows(columns):
    """Rows of columns that are lists, or dicts from row to value; None if they are not.

    Example:
        >>> columns_as_rows({"text": ["a", "b"], "label": ["x", "y"]})
        [{'text': 'a', 'label': 'x'}, {'text': 'b', 'label': 'y'}]
    """
    values = list(columns.values())
    tokens = columns.get("tokens", columns.get("words"))
    if isinstance(tokens, list) and not all(isinstance(row, list) for row in tokens):
        return None  # a row of tokens with their tags
    if len(values) > 1 and all(isinstance(value, dict) for value in values):
        values = [list(value.values()) for value in values]
    if len(values) < 2 or not all(isinstance(value, list) for value in values):
        return None
    if len({len(value) for value in values}) > 1:
        return None
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


class _Rows:
    """The rows of a file of JSON: pairs of a line's number and the bytes of an object.

    Args:
        source: the `Source`.
        rows: a function that returns them, from the first one on.
    """

    def __init__(self, source, rows):
        self._source, self._rows = source, rows

    def examples(self, **options):
        """Yields the examples; the first rows say what the fields are."""
        source = self._source
        sample, first = [], None
        for place, line in islice(self._rows(), _LOOK_AT):
            try:
                row = as_fields(_parse(line))
            except ValueError:
                continue  # said when it is read
            sample.append(row)
            first = first or place
        fields = fields_of(source, first, sample, **options) if sample else None
        for place, line in self._rows():
            with source.at(place):
                row = as_fields(_parse(line))
                if _is_rejected(row):
                    source.note(place, f"left out: its answer is {row['answer']!r}.")
                else:
                    yield example_of(fields, row, place)


def _is_rejected(row):
    """Whether it is a row of Prodigy that somebody refused or passed over."""
    return "_task_hash" in row and row.get("answer") in ("reject", "ignore")


def fields_of(source, line, sample, **options):
    """The `Fields` of rows that are dicts."""
    keys = dict.fromkeys(key for row in sample for key in row if isinstance(key, str))
    keys = {key: key for key in keys}
    own = {"text", *_OWN} & keys.keys()
    if options.get("text") is None and not own and "tokens" not in keys:
        # Nothing is known by its name: a row without a text says so.
        if not any(isinstance(v, str | list) for row in sample for v in row.values()):
            keys["text"] = "text"
    fields = Fields(source, line, keys, sample, typed=True, **options)
    both = sum({"spans", "labels"} <= row.keys() for row in sample)
    fields.exclusive = 2 * both < len(sample)
    return fields


def example_of(fields, row, place):
    """The example of a row that is a dict, one of many of the same kind."""
    target = fields.target
    if target in _OWN and row.get(target) is None:
        others = [name for name in _OWN if row.get(name) is not None]
        if others:
            task = "labels" if others[0] != "spans" else "spans"
            before = f"those before have {fields.task}"
            raise ValueError(f"this row has {task}, {before}.")
    if fields.exclusive and None not in (row.get("spans"), row.get("labels")):
        return Example(row.get("text"), spans=row["spans"], labels=row["labels"])
    return fields.example(row, place)


def as_fields(row):
    """A row as one dict: a task of Label Studio is one, or a pair as spaCy has them."""
    if isinstance(row, list | tuple):
        if len(row) == 2 and isinstance(row[0], str):
            text, notes = row
            if not isinstance(notes, dict):
                return {"text": text, "labels": notes}
            spans, cats = notes.get("entities"), notes.get("cats")
            found = {"text": text}
            found |= {"spans": spans} if spans is not None else {}
            return found | ({"labels": cats} if cats is not None else {})
        expected = 'an object such as {"text": "…", "labels": ["…"]}'
        raise ValueError(f"expected {expected}. Received: {shown(row, 60)}.")
    data = row.get("data")
    notes = row.get("annotations", row.get("completions"))
    if isinstance(data, dict) and isinstance(notes, list):
        return _of_label_studio(row, data, notes)
    return row


def _of_label_studio(row, data, notes):
    """A task with the first of its annotations that was not taken back."""
    notes = [note for note in notes if isinstance(note, dict)]
    notes = [note for note in notes if not note.get("was_cancelled")]
    results = notes[0].get("result") if notes else []
    spans, labels = [], []
    for one in results if isinstance(results, list) else ():
        value = one.get("value") if isinstance(one, dict) else None
        if not isinstance(value, dict):
            continue
        kinds = value.get("labels") or value.get("hypertextlabels")
        if kinds and "start" in value:
            kind = kinds[0] if isinstance(kinds, list) else kinds
            spans.append({**_without(value, "labels"), "label": kind})
        labels += _list_in(value, "choices")
        for path in _list_in(value, "taxonomy"):
            labels.append("/".join(map(str, path)) if isinstance(path, list) else path)
    texts = {key: one for key, one in data.items() if isinstance(one, str)}
    text = texts.get("text", next(iter(texts.values()), None))
    found = {"text": text, "spans": spans, "labels": labels}
    return found | ({} if row.get("id") is None else {"id": row["id"]})


def _list_in(value, name):
    found = value.get(name)
    return found if isinstance(found, list) else []


def _without(values, name):
    return {key: value for key, value in values.items() if key != name}


def _parse(line):
    return parse_object(
        line, 'an object such as {"text": "…", "labels": ["…"]}', (dict, list)
    )


def parse_object(line, expected="a JSON object", kinds=(dict,)):
    """Returns the JSON object that a line of bytes holds, or says why it is none."""
    try:
        row = json.loads(decode(line))
    except json.JSONDecodeError as error:
        message = f"not JSON: {error.msg} at character {error.pos + 1}."
        raise ValueError(message) from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply.") from None
    if not isinstance(row, kinds):
        raise ValueError(f"expected {expected}. Received: {shown(row, 60)}.")
    return row
