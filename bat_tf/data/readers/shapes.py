"""Rows with named fields → `Example`s: which field is what, found out from many rows.

Rows of JSON, of a table and of Python go through here.
"""

import ast
import contextlib
import json
import re
from collections import Counter
from numbers import Integral, Real

from bat_tf._internal.validation import DataError, check_choice, sentence, shown
from bat_tf.data.dataset import Example, as_span, longest_spans
from bat_tf.data.readers.format import AmbiguousFile, Reading
from bat_tf.data.readers.separators import Cells
from bat_tf.data.readers.tag_schemes import TagReader, looks_like_tags
from bat_tf.data.scripts import find_joiner, is_unspaced, join_tokens

# Usual names of fields, the likeliest first; capitals make no difference.
TITLES = (
    "title",
    "titles",
    "headline",
    "subject",
    "titel",
    "titre",
    "titulo",
    "标题",
    "題名",
)
TEXTS = ("text", "body", "content", "comment_text", "comment", "sentence", "document")
TEXTS += ("abstract", "description", "review", "review_text", "tweet", "message")
TEXTS += ("question", "utterance", "query", "texte", "texto", "testo", "tekst", "текст")
TEXTS += ("texts", "summary", "summaries", "plot", "overview", "reviewtext", "story")
TEXTS += ("beschreibung", "文本", "内容", "本文", "テキスト", "句子")
LABELS = ("labels", "label", "topics", "topic", "tags", "categories", "category")
LABELS += ("class", "classes", "target", "sentiment", "emotion", "emotions", "intent")
LABELS += ("genres", "genre", "kategorie", "kategorien", "catégorie", "categoria")
LABELS += ("categoría", "étiquette", "etiqueta", "etichetta", "kategoria", "rubrik")
LABELS += (
    "kategori",
    "категория",
    "метка",
    "标签",
    "类别",
    "分类",
    "ラベル",
    "カテゴリ",
)
LABELS += ("terms", "рубрика", "тема", "класс", "тональность")
SPANS = ("spans", "entities", "annotations", "ner", "keywords", "mentions")
TOKENS = ("tokens", "words", "token", "word")
TAGS = ("ner_tags", "tags", "ner", "labels", "word_labels", "bio_tags", "slots", "tag")
IDS = ("id", "uid", "guid", "_id", "index", "idx")
_NUMBERED = re.compile(
    r"(?i)(label|tag|category|topic|class|genre|kategorie)s?[ _.-]?\d+"
)
# What pandas calls the column of row numbers.
_INDEX = re.compile(r"(unnamed: \d+)?", re.IGNORECASE)
_TRUTH = {"0": False, "0.0": False, "false": False, "": False, "no": False}
_TRUTH |= {"1": True, "1.0": True, "true": True, "yes": True, "x": True, "✓": True}
_DATE = re.compile(r"\s*\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}")
_TOO_DEEP = (RecursionError, MemoryError)  # which of them is up to Python
_STARTS = ("start", "start_offset", "begin", "start_char", "start_pos", "offset_start")
_ENDS = ("end", "end_offset", "stop", "end_char", "end_pos", "offset_end")
_KINDS = ("label", "labels", "kind", "type", "tag", "entity", "entity_type", "category")
_KINDS += ("entity_group", "class", "name")
_SURFACES = ("text", "word", "surface", "value", "mention", "name", "entity")
OVERLAPS = ("error", "longest")


def plain(value):
    """A value of NumPy or pandas as one of Python; what is missing is None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and value != value else value


def parse_list(cell):
    """Reads a list as JSON or, since pandas writes lists so, as Python has it."""
    for parse, errors in (
        (json.loads, (ValueError, RecursionError)),
        (ast.literal_eval, (ValueError, TypeError, SyntaxError, *_TOO_DEEP)),
    ):
        with contextlib.suppress(*errors):
            return parse(cell)
    raise ValueError(f'expected a list such as ["a", "b"]. Received: {cell[:60]!r}.')


def is_number(value):
    """Whether a cell of text is a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def _has_unspaced(text):
    return bool(text) and (is_unspaced(text[0]) or is_unspaced(text[-1]))


def _looks_like_list(value):
    return isinstance(value, str) and value[:1] == "[" and value[-1:] == "]"


def truth(value):
    """Whether a row has a label, from a cell of zeros and ones; None if it is none."""
    if value is None:
        return False
    if isinstance(value, str):
        return _TRUTH.get(value.strip().lower())
    if isinstance(value, Real) and value in (0, 1):
        return bool(value)
    return None


class Fields:
    """What the fields of rows hold, and how an `Example` is made of a row.

    Args:
        source: the `Source`; what is found is put into its `found`.
        line: of the first row, for errors.
        keys: name of a field → its key in a row, which is a dict or a list.
        rows: many rows, by which what is not given is found out.
        typed: whether values have types, as in JSON, or are cells of text.
        header: False if the names of the fields are invented.
        options: as given by the caller, see `OPTIONS`.
    """

    def __init__(self, source, line, keys, rows, *, typed, header=True, **options):
        self.source, self.line, self.keys, self.typed = source, line, keys, typed
        self.header, self.rows = header, rows
        self._called = {key: name for name, key in keys.items()}
        self.names = _listed_names(source, options.get("names"))
        self.overlaps = options.get("overlaps") or "error"
        check_choice("overlaps", self.overlaps, OVERLAPS)
        self.id = self._first(IDS)
        text, labels = options.get("text"), options.get("labels")
        self.target, self.flags, self.tokens, self.texts = None, [], None, []
        self._aligned = None
        self.task = "labels"
        if text is None:
            self.tokens = self._find_tokens(labels)
            if self.tokens is None and labels is None:
                self.tokens, self._aligned = self._find_aligned()
        elif (
            isinstance(text, str)
            and self._kind(self._given("text", text)[0]) == "words"
        ):
            (self.tokens,) = self._given("text", text)
        if self.tokens is None:
            self.texts = (
                self._find_text(labels) if text is None else self._given("text", text)
            )
        self._find_target(labels, text)
        self._prepare(options)
        source.found.update(self._description())

    # === What is what ===

    def _first(self, names):
        lower = {name.lower().strip(): key for name, key in self.keys.items()}
        return next((lower[name] for name in names if name in lower), None)

    def _all(self, names):
        lower = {name.lower().strip(): key for name, key in self.keys.items()}
        return [lower[name] for name in names if name in lower]

    def _name(self, key):
        return self._called[key]

    def _given(self, argument, names):
        names = [names] if isinstance(names, str) else list(names)
        for name in names or [None]:
            if name not in self.keys:
                known = ", ".join(self.keys)
                expected = f"columns of {self.source.path}: {known}"
                raise ValueError(sentence(argument, expected, name))
        return [self.keys[name] for name in names]

    def _values(self, key):
        return [
            value for value in map(plain, self._raw(key)) if value not in (None, "")
        ]

    def _raw(self, key):
        for row in self.rows:
            with contextlib.suppress(KeyError, IndexError):
                yield row[key]

    def _kind(self, key):
        """What the values of a field are."""
        values = self._values(key)[:200]
        if not self.typed:
            values = [_as_list(value.strip()) for value in values]
            if values and all(isinstance(v, str) and is_number(v) for v in values):
                return "number"
        kinds = Counter(map(_kind_of, values))
        if not kinds.keys() - {"empty"}:
            return "empty" if values else "nothing"
        del kinds["empty"]
        if kinds.keys() == {"number", "name"}:
            return "name"
        kind, count = kinds.most_common(1)[0]
        return kind if count > 0.5 * kinds.total() else "mixed"

    def _find_tokens(self, labels):
        """The field of a list of tokens, beside one of as many tags."""
        for key in self._all(TOKENS) if self.typed else ():
            if self._kind(key) == "words" and self._tags_beside(key, labels):
                return key
        return None

    def _find_aligned(self):
        """The text and the field of as many tags, written in one cell."""
        for key in self.keys.values():
            tags = [_as_tags(value) for value in self._values(key)[:200]]
            if len(tags) < 1 or None in tags or not any(len(row) > 1 for row in tags):
                continue
            if not looks_like_tags(tag for row in tags for tag in row):
                continue
            for text in self.keys.values():
                words = [str(value).split() for value in self._values(text)[:200]]
                if text != key and list(map(len, words)) == list(map(len, tags)):
                    return text, key
        return None, None

    def _tags_beside(self, tokens, labels):
        keys = self._all(TAGS) if labels is None else self._given("labels", labels)
        for key in keys:
            pairs = [
                (plain(row.get(tokens)), plain(row.get(key))) for row in self.rows[:200]
            ]
            if key != tokens and all(
                isinstance(one, list)
                and isinstance(other, list)
                and len(one) == len(other)
                for one, other in pairs
            ):
                return key
        return None

    def _find_text(self, labels):
        found = [self._first(TITLES), self._first(TEXTS)]
        found = [key for key in found if key is not None]
        given = [] if labels is None else self._given("labels", labels)
        found = [key for key in found if key not in given]
        known = {*found, *given, self.id, *self._all((*LABELS, *SPANS))}
        running = [key for key in self.keys.values() if key not in known]
        if found and found != self._all(TITLES)[:1]:
            return found
        running = [key for key in running if self._is_running_text(key)]
        if found and not any(self._is_longer(key, found[0]) for key in running):
            return found
        running = found + running
        if len(running) > 1:
            readings = [
                Reading(f"the text is {shown(self._example(key), 50)}", {"text": name})
                for name, key in self.keys.items()
                if key in running
            ]
            both = [self._name(key) for key in running]
            readings.append(Reading("the text is all of them", {"text": both}))
            reason = "several columns look like texts."
            raise AmbiguousFile(self.source.path, self.line, reason, readings)
        if not running:
            self._fail("text", "text, title")
        return running

    def _example(self, key):
        return next(filter(None, self._values(key)), "")

    def _is_longer(self, key, other):
        """Whether a field holds longer texts than another: a story, not its title."""
        one, two = (sum(map(len, map(str, self._values(k)))) for k in (key, other))
        return one > 2 * two

    def _is_running_text(self, key):
        """Whether a field holds texts: long ones, hardly any of them twice."""
        values = self._values(key)
        if not values or not all(isinstance(value, str) for value in values):
            return False
        if sum(map(_looks_like_list, values)) > 0.5 * len(values):
            return False
        if sum(value.startswith(("<http", "http")) for value in values) > 1:
            return False
        lengths = sorted(map(len, values))
        words = sum(len(value.split()) > 2 for value in values)
        return len({*values}) > 0.5 * len(values) and (
            words > 0.5 * len(values)
            or lengths[len(values) // 2] > 30
            or (lengths[len(values) // 2] > 6 and all(map(_has_unspaced, values)))
        )

    def _fail(self, argument, usual):
        kind = "field" if self.typed else "column of the header"
        check = "" if self.typed else ", or check `delimiter`"
        raise DataError(
            self.source.path,
            self.line,
            f"no {kind} holds the {argument} (usual names: {usual} …). "
            f"Name it with `{argument}`{check}. "
            f"Received: {', '.join(self.keys)[:200] or 'none'}.",
        )

    def _find_target(self, labels, text):
        if self.tokens is not None:
            self.target = self._aligned
            if self.target is None:
                self.target = self._tags_beside(self.tokens, labels)
            self.task = "spans"
            if self.target is None:
                raise DataError(
                    self.source.path,
                    self.line,
                    f"no field holds a tag for each of {self._name(self.tokens)!r}. "
                    "Name it with `labels`.",
                )
            return
        if isinstance(labels, str):
            (self.target,) = self._given("labels", labels)
        elif labels is not None:
            self._take_columns(self._given("labels", labels))
            return
        else:
            self._look_for_target()
        if isinstance(self.target, str | int) and (
            self._kind(self.target) == "spans" or self._name(self.target) == "spans"
        ):
            self.task = "spans"

    def _take_columns(self, keys):
        """Several fields: of zeros and ones, or of a name each."""
        values = [truth(value) for key in keys for value in self._values(key)]
        if values and values.count(None) > 0.5 * len(values):
            self.target = keys
        else:
            self.flags = keys

    def _look_for_target(self):
        own = {*self.texts}
        known = [
            key for key in dict.fromkeys(self._all((*SPANS, *LABELS))) if key not in own
        ]
        known = self._usual(known)
        spans = [
            key
            for key in known
            if self._kind(key) == "spans"
            or (
                self.typed and self._name(key) == "spans" and self._kind(key) == "mixed"
            )
        ]
        names = [
            key
            for key in known
            if key not in spans and self._name(key).lower() not in SPANS
        ]
        names = self._without_numbers_of(names)
        if spans and self._kind_conflicts(spans, names):
            names = []
        if len(spans) + len(names) == 1:
            (self.target,) = spans or names
            return
        if len(spans) + len(names) > 1:
            self._ask_which([*spans, *names])
        empty = [key for key in known if self._kind(key) in ("empty", "nothing")]
        if empty:
            self.target = empty[0]
            name = self._name(empty[0]).lower()
            self.task = "spans" if name in SPANS else "labels"
            return
        numbered = [key for name, key in self.keys.items() if _NUMBERED.fullmatch(name)]
        if len(numbered) > 1:
            self._take_columns(numbered)
            return
        self._look_for_columns(own)

    def _usual(self, keys):
        """Leaves out fields that hold nothing, or that only a few of the rows have."""
        counts = {key: sum(v is not None for v in self._raw(key)) for key in keys}
        most = max(counts.values(), default=0)
        keys = [key for key in keys if 2 * counts[key] > most] if self.typed else keys
        # Beside `labels`, `label` is a field that is ignored, as it always was.
        if self.typed and {"labels", "label"} <= {*keys}:
            keys.remove("label")
        return [key for key in keys if self._kind(key) != "nothing"] or keys

    def _kind_conflicts(self, spans, names):
        """Whether fields of names are empty beside those of spans, as in doccano."""
        return all(self._kind(key) in ("empty", "nothing") for key in names)

    def _without_numbers_of(self, keys):
        """Leaves out a field of numbers that stand for the names in another one."""
        named = [key for key in keys if self._kind(key) in ("name", "names", "words")]
        others = [key for key in keys if key not in named]
        beside = [
            key
            for name, key in self.keys.items()
            if re.fullmatch(
                r"(?i)(label|class|category|target)[ _-]?(text|name)s?", name
            )
        ]
        if len(others) == 1 and not named and len(beside) == 1:
            return beside
        return (
            named
            if named
            and others
            and all(self._kind(key) == "number" for key in others)
            and len(named) == 1
            else keys
        )

    def _ask_which(self, keys):
        readings = [
            Reading(
                f"{'spans' if self._kind(key) == 'spans' else 'labels'} such as "
                f"{shown(self._example(key), 40)}",
                {"labels": self._name(key)},
            )
            for key in keys
        ]
        reason = "several columns may hold the labels."
        raise AmbiguousFile(self.source.path, self.line, reason, readings)

    def _look_for_columns(self, own):
        """Columns of zeros and ones, or the one column that looks like labels."""
        rest = [
            key
            for name, key in self.keys.items()
            if key not in own and key != self.id and not _INDEX.fullmatch(name)
        ]
        if not self.header:
            rest = [key for key in rest if not self._numbers_rows(key)]
        if len(rest) > 1:
            rest = [key for key in rest if not self._is_date(key)]
        flags = {key for key in rest if self._all_truth(key)}
        others = [key for key in rest if key not in flags]
        named = [key for key in others if self._kind(key) in ("name", "words", "spans")]
        named = [key for key in named if self._kind(key) != "name"] or named
        named = [key for key in named if not self._is_running_text(key)]
        named = [key for key in named if not self._differs_always(key)]
        if not rest:
            self._fail("labels", "labels, label")
        if flags and not named:
            self.flags = [key for key in rest if key in flags or not self.typed]
        elif len(named) == 1 and not flags:
            (self.target,) = named
        elif not named and len(others) == 1 and self._kind(others[0]) == "number":
            (self.target,) = others
        elif len(named) > 1 or (named and flags):
            readings = [
                Reading(
                    f"labels such as {shown(self._example(key), 40)}",
                    {"labels": self._name(key)},
                )
                for key in named
            ]
            if flags:
                several = [self._name(key) for key in flags]
                says = f"{len(flags)} columns of zeros and ones, a label each"
                readings.append(Reading(says, {"labels": several}))
            reason = "several columns may hold the labels."
            raise AmbiguousFile(self.source.path, self.line, reason, readings)
        else:
            self._fail("labels", "labels, label")

    def _all_truth(self, key):
        values = list(map(plain, self._raw(key)))
        return bool(values) and all(truth(value) is not None for value in values)

    def _numbers_rows(self, key):
        """Whether a column without a name holds numbers or ids of the rows."""
        values = [str(value).strip() for value in self._values(key)]
        if len(values) < 3 or len({*values}) < len(values):
            return False
        pattern = r"[\w-]+" if len(values) >= 20 else r"[\w-]*\d[\w-]*"
        return all(re.fullmatch(pattern, value) for value in values)

    def _differs_always(self, key):
        """Whether nothing in a column comes twice, as in none of labels."""
        values = [str(value) for value in self._values(key)]
        if len(values) < 50 or len({*values}) < len(values):
            return False
        parts = [part for value in values for part in re.split(r"[\s,;|]+", value)]
        return len({*parts}) > 0.9 * len(parts)

    def _is_date(self, key):
        return all(_DATE.match(str(value)) for value in self._values(key))

    # === How it is read ===

    def _prepare(self, options):
        """What dividing cells and reading tags needs beside the keys."""
        self.cells = self.tags = self.inclusive = None
        self.one_hot = False
        separator = options.get("separator")
        if self.tokens is not None:
            self._prepare_tags(options)
        elif self.task == "spans":
            self.inclusive = self._ends_are_inclusive()
        elif self.target is not None and not isinstance(self.target, list):
            values = [v for v in self._values(self.target) if isinstance(v, str)]
            values = [value for value in values if not _looks_like_list(value.strip())]
            self.one_hot = self._is_one_hot()
            column = self._name(self.target) if self.header else ""
            where = self.source.path, self.line, column
            self.cells = Cells(*where, values, separator, self.typed)

    def _is_one_hot(self):
        """Whether lists of numbers have a zero or a one for each of all labels."""
        rows = [value for value in self._values(self.target) if isinstance(value, list)]
        different = {
            number for row in rows for number in row if isinstance(number, Real)
        }
        sizes = set(map(len, rows))
        again = any(row.count(0) > 1 or row.count(1) > 1 for row in rows)
        return different <= {0, 1} and len(sizes) == 1 and again

    def _prepare_tags(self, options):
        sequences, tokens = [], []
        for row in self.rows:
            tags, words = self._tokens_of(row)
            if isinstance(tags, list) and isinstance(words, list):
                sequences.append(tags)
                tokens.append(words)
        if any(isinstance(tag, int) for tags in sequences for tag in tags):
            if self.names is None:
                raise DataError(
                    self.source.path,
                    self.line,
                    f"the tags in {self._name(self.target)!r} are numbers. Name them "
                    'in order, as in names=["O", "B-PER", "I-PER"]; a data set of '
                    "Hugging Face has them in features[…].feature.names.",
                )
        named = []
        for tags in sequences:
            with contextlib.suppress(ValueError):  # said when the row is read
                named.append(tuple(self._tag_names(tags)))
        scheme = options.get("scheme")
        strict = options.get("strict") or False
        self.tags = TagReader(self.source, named, scheme, strict)
        joiner = options.get("joiner")
        words = (word for row in tokens for word in row if isinstance(word, str))
        if joiner is None:
            joiner = " " if self._aligned is not None else find_joiner(words)
        self.joiner = joiner

    def _tokens_of(self, row):
        """The tags and the tokens of a row."""
        get = row.get if isinstance(row, dict) else row.__getitem__
        tags, tokens = plain(get(self.target)), plain(get(self.tokens))
        if self._aligned is not None and isinstance(tokens, str):
            return _as_tags(tags), tokens.split()
        return tags, tokens

    def _tag_names(self, tags):
        for tag in tags:
            if isinstance(tag, int):
                if not self.names or not 0 <= tag < len(self.names):
                    last = len(self.names or ()) - 1
                    expected = f"tags by name, or numbers from 0 to {last}"
                    raise ValueError(f"expected {expected}. Received: {tag}.")
                yield self.names[tag]
            else:
                yield tag if isinstance(tag, str) else shown(tag, 20)

    def _ends_are_inclusive(self):
        """Whether spans end on their last character, as their own words tell."""
        votes = [0, 0]
        for row in self.rows if self.typed else ():
            with contextlib.suppress(ValueError, TypeError):
                text = self._text(row)
                for start, end, _, surface in _iter_spans(row.get(self.target)):
                    if isinstance(surface, str):
                        votes[0] += text[start:end] == surface
                        votes[1] += text[start : end + 1] == surface
        return votes[1] > votes[0]

    def _description(self):
        name = self._name
        found = {}
        if self.tokens is not None:
            found |= {"text": name(self.tokens), "labels": name(self.target)}
            found |= {"scheme": self.tags.scheme, "joiner": self.joiner}
        else:
            texts = [name(key) for key in self.texts]
            found["text"] = texts[0] if len(texts) == 1 else texts
            if self.flags or isinstance(self.target, list):
                found["labels"] = [name(key) for key in self.flags or self.target]
            elif self.target is not None:
                found["labels"] = name(self.target)
        if self.cells is not None and self.cells.separator:
            found["separator"] = self.cells.separator
        if self.inclusive:
            found["ends"] = "inclusive"
        return found

    def _text(self, row):
        if len(self.texts) == 1:
            (key,) = self.texts
            if isinstance(row, dict) and key not in row:
                received = ", ".join(map(str, row)) or "{}"
                raise ValueError(f'"{key}" is missing. Received: {received}.')
            text = row[key]
            return text if self.typed else text.strip()
        parts = [
            row.get(key) if isinstance(row, dict) else row[key] for key in self.texts
        ]
        parts = [part for part in map(plain, parts) if part is not None]
        return "\n".join(filter(None, (str(part).strip() for part in parts)))

    def example(self, row, line=None):
        """The example of a row, or a ValueError that says why it is none."""
        get = row.get if isinstance(row, dict) else row.__getitem__
        identity = None if self.id is None else plain(get(self.id))
        blank = identity is None or (identity == "" and not self.typed)
        identity = None if blank else str(identity)
        if self.tokens is not None:
            text, spans = self._of_tokens(*self._tokens_of(row), line)
            return Example(text, spans=spans, id=identity, line=line)
        text = self._text(row)
        if self.flags:
            found = [name for name in self.flags if self._truth(name, get(name))]
            labels = [self._name_of[key] for key in found]
            return Example(text, labels=labels, id=identity, line=line)
        if isinstance(self.target, list):
            cells = [
                str(value).strip()
                for value in map(plain, map(get, self.target))
                if value is not None
            ]
            return Example(
                text, labels=list(filter(None, cells)), id=identity, line=line
            )
        value = plain(get(self.target))
        if not self.typed:
            value = _as_list(value.strip(), strict=True)
        if self.task == "spans":
            spans = self._spans(text, value, line)
            return Example(text, spans=spans, id=identity, line=line)
        return Example(text, labels=self._labels(value), id=identity, line=line)

    @property
    def _name_of(self):
        if "_names" not in self.__dict__:
            self.__dict__["_names"] = {key: name for name, key in self.keys.items()}
        return self.__dict__["_names"]

    def _truth(self, key, cell):
        value = truth(plain(cell))
        if value is None:
            remedy = "If the column is no label, name those that are: `labels`."
            name = f"the cell of {self._name(key)!r}"
            received = shown(cell, 40)
            raise ValueError(f"{name} must be 0 or 1. Received: {received}. {remedy}")
        return value

    def _labels(self, value):
        if isinstance(value, str):
            names = self.cells.names(value)
            if self.names and all(name.isdecimal() for name in names):
                return _numbered(names, self.names)
            return names
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, Integral) and not isinstance(value, bool):
            return _numbered([value], self.names)
        if isinstance(value, dict):  # spaCy's cats
            return [n for n, x in value.items() if isinstance(x, Real) and x >= 0.5]
        if self.one_hot and isinstance(value, list):
            names = self.names or [str(number) for number in range(len(value))]
            if len(names) != len(value):
                raise ValueError(f"{len(value)} numbers, but {len(names)} names.")
            return [name for name, flag in zip(names, value, strict=True) if flag]
        if (
            isinstance(value, list)
            and value
            and all(isinstance(one, int) and not isinstance(one, bool) for one in value)
        ):
            return _numbered(value, self.names)
        return value

    def _spans(self, text, value, line):
        if value is None:
            return None
        if not isinstance(value, list | tuple | dict):
            raise ValueError(f"spans must be a list. Received: {shown(value)}.")
        spans = []
        for start, end, kind, _ in _iter_spans(value):
            if self.inclusive and isinstance(end, int):
                end += 1
            spans.append(as_span([start, end, kind]))
        if self.overlaps == "longest":
            spans, dropped = longest_spans(spans)
            for span in dropped:
                self.source.note(line, dropped_span(span))
        return spans

    def _of_tokens(self, tags, tokens, line):
        for name, value in ((self.tokens, tokens), (self.target, tags)):
            if not isinstance(value, list):
                raise ValueError(f"{name!r} must be a list. Received: {shown(value)}.")
        if len(tokens) != len(tags):
            raise ValueError(f"{len(tokens)} tokens have {len(tags)} tags.")
        if not all(isinstance(token, str) for token in tokens):
            raise ValueError(f"tokens must be texts. Received: {shown(tokens)}.")
        spans = self.tags.spans(
            list(map(self.tags.parse, self._tag_names(tags))), [line] * len(tags)
        )
        return join_tokens(tokens, spans, self.joiner)


def dropped_span(span):
    """The sentence about a span that `longest_spans` left out."""
    return f"span {tuple(span)} dropped, it overlaps a longer one."


def _numbered(numbers, names):
    """The names of labels that are numbers; without names the numbers are the names."""
    found = []
    for number in map(int, numbers):
        if names is None:
            found.append(str(number))
        elif 0 <= number < len(names):
            found.append(names[number])
        else:
            expected = f"numbers of labels, from 0 to {len(names) - 1}"
            raise ValueError(f"expected {expected}. Received: {number}.")
    return found


def _as_tags(value):
    """Tags in a cell: a list, or a text divided by commas or blanks; None of others."""
    value = plain(value)
    if isinstance(value, str):
        value = _as_list(value.strip())
    if isinstance(value, str):
        value = value.replace(",", " ").split()
    right = isinstance(value, list) and all(isinstance(tag, str) for tag in value)
    return value if right else None


def _listed_names(source, names):
    """Names of numbered labels or tags: a list, or a file with one a line."""
    if names is None:
        return None
    if isinstance(names, str) or hasattr(names, "__fspath__"):
        lines = source.of(names).lines()
        return [line.decode("utf-8", "replace").strip() for _, line in lines]
    return list(names)


def _as_list(cell, strict=False):
    """What a cell of a table holds, if it is a list."""
    if not _looks_like_list(cell):
        return cell
    try:
        return parse_list(cell)
    except ValueError:
        if strict:
            raise
        return cell


def _kind_of(value):
    """What a value is, in a word."""
    if isinstance(value, str):
        return "name"
    if isinstance(value, Real):
        return "number"
    if isinstance(value, dict):
        inner = list(value.values())
        if inner and all(isinstance(one, dict | list) for one in inner):
            return "spans"
        return "spans" if not inner else "cats"
    if isinstance(value, list | tuple):
        if not value:
            return "empty"
        first = value[0]
        if isinstance(first, dict) or (
            isinstance(first, list | tuple) and len(first) == 3
        ):
            return "spans"
        if all(isinstance(one, str) for one in value):
            return "words"
        return "numbers" if all(isinstance(one, int) for one in value) else "mixed"
    return "mixed"


def _iter_spans(value):
    """(start, end, kind, surface) of spans in any of the forms that files have."""
    if isinstance(value, dict):  # kind → [[start, end], …] or {surface: [[…], …]}
        for kind, inner in value.items():
            surfaces = inner if isinstance(inner, dict) else {None: inner}
            for surface, places in surfaces.items():
                for place in places if isinstance(places, list) else [None]:
                    if not isinstance(place, list | tuple) or len(place) != 2:
                        place = (None, None)
                    yield *place, kind, surface
        return
    for one in value if isinstance(value, list | tuple) else ():
        if isinstance(one, dict):
            yield _of_object(one)
        elif isinstance(one, list | tuple) and len(one) == 3:
            yield *one, None
        else:
            raise ValueError(
                f'a span must be [start, end, "kind"]. Received: {shown(one)}.'
            )


def _of_object(one):
    def first(names):
        return next((one[name] for name in names if name in one), None)

    start, end, kind = first(_STARTS), first(_ENDS), first(_KINDS)
    for pair in ("span", "offsets", "offset", "points", "indices"):
        if start is None and isinstance(one.get(pair), list | tuple):
            start, end = (*one[pair], None, None)[:2]
    if "type" in one and "name" in one:
        kind = one["type"]
    if isinstance(kind, list | tuple) and len(kind) == 1:
        kind = kind[0]
    surface = next(
        (
            one[name]
            for name in _SURFACES
            if isinstance(one.get(name), str) and one[name] != kind
        ),
        None,
    )
    return start, end, kind, surface
