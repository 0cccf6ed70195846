"""How a data set was read: what it is, where its texts come from, three examples."""

import dataclasses

from bat_tf._internal.validation import shown
from bat_tf.data.dataset import TextDataset
from bat_tf.data.reading import read
from bat_tf.data.scripts import find_language, find_script

_SHOWN = 3
_NAMES = {"\t": "tab", " ": "blank", "": "nothing", "<>": "< and >", "|;": "| or ;"}


@dataclasses.dataclass(frozen=True)
class Description:
    """What was found out about a data set; as a text, "Read as: …".

    Attributes:
        name: the file or the named set.
        task: "spans" or "labels".
        format: a key of `FORMATS`, "rows", or "" of a named set.
        script: of most letters, such as "Latin".
        language: two letters, or "" if it is not clear.
        encoding: what the file is written in.
        found: columns, separator and so on, by the names of the options of `read`.
        counts: of "texts", of "marked" texts (those with a span or a label), of
            "targets" (spans or labels) and of "names" (kinds or different labels).
        common: the most frequent names with their counts.
        examples: the first ones, those with a span or a label before others.
        notices: what was read otherwise than it is written.
        skipped: how many rows were left out.
    """

    name: str
    task: str
    format: str
    script: str
    language: str
    encoding: str
    found: dict
    counts: dict
    common: list
    examples: list
    notices: list
    skipped: int

    def to_dict(self):
        """The same as values of JSON."""
        return dataclasses.asdict(self)

    def __str__(self):
        things = "spans in texts" if self.task == "spans" else "labels of texts"
        form = {"": "a named set", "rows": "rows"}.get(self.format, self.format)
        lines = [f"Read as: {things} from {form}, {self._written()}"]
        columns = self._columns()
        lines += [columns] if columns else []
        kind = "spans" if self.task == "spans" else "labels"
        counts = self.counts
        common = ", ".join(f"{name} {count:,}" for name, count in self.common)
        more = counts["names"] - len(self.common)
        lines.append(
            f"{counts['texts']:,} texts, {counts['marked']:,} of them with {kind}; "
            f"{counts['targets']:,} {kind}, {counts['names']:,} different: {common}"
            + (f", {more:,} more" if more else "")
        )
        lines += map(_in_a_line, self.examples)
        lines += self.notices
        lines += [f"{self.skipped:,} rows were left out"] if self.skipped else []
        return "\n  ".join(lines)

    def _written(self):
        language = self.language or "language not clear"
        script = f", {self.script} script" if self.script else ""
        return f"{language}{script}, {self.encoding}"

    def _columns(self):
        parts = []
        for name in ("text", "labels", "token_column", "tag_column"):
            if name in self.found:
                value = self.found[name]
                value = ", ".join(value[:8]) if isinstance(value, list) else str(value)
                parts.append(f"{name.replace('_', ' ')}: {value}")
        for name in ("delimiter", "separator", "joiner", "scheme"):
            if name in self.found:
                value = self.found[name]
                parts.append(f"{name}: {_NAMES.get(value, value)}")
        for name, words in (("header", "no header"), ("quotes", "quotes are text")):
            if self.found.get(name) is False:
                parts.append(words)
        return "; ".join(parts)


def _in_a_line(example):
    """An example as it was read, in a line."""
    if example["spans"] is None:
        target = ", ".join(example["labels"]) or "(no labels)"
    else:
        target = ", ".join(
            f"{kind}: {example['text'][start:end]!r}"
            for start, end, kind in example["spans"][:8]
        )
        target = target or "(no spans)"
    return f"{shown(example['text'], 70)} → {target[:200]}"


def describe(source, **options):
    """Says how a file or a data set was read.

    Args:
        source: a `TextDataset`, or anything that `read` takes.
        **options: those of `read`.

    Returns:
        A `Description`; `print` shows it.

    Example:
        >>> from bat_tf.data import from_rows
        >>> print(describe(from_rows([("the lamp is on the table", "home")])))
        Read as: labels of texts from rows, en, Latin script, utf-8
          text: text; labels: labels
          1 texts, 1 of them with labels; 1 labels, 1 different: home 1
          'the lamp is on the table' → home
    """
    data = source if isinstance(source, TextDataset) else read(source, **options)
    counts = data.counts()
    marked = [example for example in data if example.spans or example.labels]
    texts = [example.text for example in data[:1000]]
    found = {key: value for key, value in data.found.items() if key != "format"}
    return Description(
        name=data.name,
        task=data.task,
        format=data.found.get("format", ""),
        script=find_script(text[:1000] for text in texts),
        language=find_language(texts),
        encoding=found.pop("encoding", "utf-8"),
        found=found,
        counts={
            "texts": len(data),
            "marked": len(marked),
            "targets": counts.total(),
            "names": len(counts),
        },
        common=counts.most_common(8),
        examples=[
            {
                "text": one.text,
                "spans": one.spans,
                "labels": one.labels,
                "line": one.line,
            }
            for one in (marked or list(data))[:_SHOWN]
        ],
        notices=data.notices,
        skipped=len(data.skipped),
    )
