"""The sets of ZLPR's paper, in the shape that their authors publish them.

Each function reads one part of a set from its folder, see `Corpus`. None of the sets
comes in parts, so each row's is drawn, 8 : 1 : 1, by the same draws every time. As in
the paper the parts are therefore not exactly of these shares, and its own draws are not
known. What the paper left out of a set it does not say either: rows are taken as they
are, also those without a label.
"""

import json
import random
import re

from bat_tf._internal.files import OPENERS, decode
from bat_tf._internal.validation import sentence, shown
from bat_tf.data.dataset import Example
from bat_tf.data.readers.jsonl import iter_list, parse_object
from bat_tf.data.readers.tables import iter_csv

EMOTIONS = (
    "admiration amusement anger annoyance approval caring confusion curiosity desire "
    "disappointment disapproval disgust embarrassment excitement fear gratitude grief "
    "joy love nervousness optimism pride realization relief remorse sadness surprise "
    "neutral"
).split()
SUBJECTS = ["Computer Science", "Physics", "Mathematics", "Statistics"]
SUBJECTS += ["Quantitative Biology", "Quantitative Finance"]
INSULTS = "toxic severe_toxic obscene threat insult identity_hate".split()
# Symbols of the International Patent Classification in one string are divided by these.
_BETWEEN_SYMBOLS = re.compile("[,;|、，；]")
# Letters of a subclass, as in G06F 17/30.
_SUBCLASS = 4


def drawn(rows, split):
    """The rows of one part: each is drawn for train, valid or test, 8 : 1 : 1.

    >>> parts = [list(drawn(range(1000), part)) for part in ("train", "valid", "test")]
    >>> [len(part) for part in parts], sorted(sum(parts, [])) == list(range(1000))
    ([810, 86, 104], True)
    """
    random_draws = random.Random(0)
    for row in rows:
        draw = random_draws.random()
        if split == ("train" if draw < 0.8 else "valid" if draw < 0.9 else "test"):
            yield row


def read_toutiao(folder, split):
    """Headlines of Toutiao, a news app, in Chinese; toutiao.txt has one a line.

        id |,| labels, divided by commas |,| headline |,| keywords |,| …

    The set as it is published has 2.9 million headlines and more than 1,000 labels; the
    paper has 659,870 and 142.
    """
    source = _packed_or_not(folder, "toutiao.txt")

    def parse(line):
        fields = decode(line).split("|,|")
        if len(fields) < 4:
            expected = "id|,|labels|,|headline|,|keywords"
            raise ValueError(f"expected {expected}. Received: {shown(fields)}.")
        labels = _once(fields[1].split(","))
        return Example(fields[2].strip(), labels=labels, id=fields[0])

    return _parsed(source, drawn(_lines(source), split), parse)


def read_patents(folder, split, file, *, text, labels, id=None):
    """Patents as JSON, an object a line or a list of them.

    Args:
        folder: the `Source` of the folder.
        split: the part.
        file: the name of the file.
        text: the field of the text.
        labels: the field with a list of symbols of the International Patent
            Classification, or with a string of them divided by commas, semicolons or
            bars. A label is a symbol's subclass, its first four letters and digits.
        id: the field of what to call the patent.
    """
    source = _packed_or_not(folder, file)

    def parse(line):
        row = parse_object(line)
        for name in (text, labels):
            if name not in row:
                has = ", ".join(row) or "none"
                remedy = "Name the fields with `text` and `labels`."
                raise ValueError(f"expected the field {name!r} among {has}. {remedy}")
        symbols = row[labels]
        if isinstance(symbols, str):
            symbols = _BETWEEN_SYMBOLS.split(symbols)
        if not isinstance(symbols, list) or not all(
            isinstance(s, str) for s in symbols
        ):
            raise ValueError(sentence(labels, "a list of symbols", symbols))
        found = _once("".join(s.split()).upper()[:_SUBCLASS] for s in symbols)
        name = None if row.get(id) is None else str(row[id])
        return Example(_text(text, row[text]), labels=found, id=name)

    return _parsed(source, drawn(_objects(source), split), parse)


def read_uspto(folder, split, *, text, labels="Subclass_labels", id="No"):
    """Patents of the USPTO, as USPTO-2M (DeepPatent) has them, in uspto.json.

    Its objects have `Title`, `Abstract`, `Subclass_labels` and `No`. The paper has
    353,701 of its two million patents; which ones, it does not say.
    """
    fields = {"text": text, "labels": labels, "id": id}
    return read_patents(folder, split, "uspto.json", **fields)


def read_cnipa(folder, split, *, text, labels="ipc", id="id"):
    """Patents of China's office CNIPA, in cnipa.json.

    Its authors' form is not known to us: objects with `title`, `abstract` and `ipc` are
    assumed, and the options say what the fields are called if not so.
    """
    fields = {"text": text, "labels": labels, "id": id}
    return read_patents(folder, split, "cnipa.json", **fields)


def read_cmu_movies(folder, split, text):
    """Movies of the CMU Movie Summary Corpus with their genres.

    movie.metadata.tsv has nine columns, the first an id, the third the name, the last
    the genres as a JSON object, Freebase id → name; plot_summaries.txt has an id and a
    summary a line. Movies that are in both are read, as in the paper: 42,204.

    Args:
        folder: the `Source` of the folder.
        split: the part.
        text: `"name"` or `"summary"`.
    """
    plots = {}
    source = _packed_or_not(folder, "plot_summaries.txt")
    for place, line in _lines(source):
        with source.at(place):
            movie, tab, plot = decode(line).partition("\t")
            if not tab:
                raise ValueError(
                    f"expected id, tab, summary. Received: {shown(movie)}."
                )
            plots[movie] = plot
    source = _packed_or_not(folder, "movie.metadata.tsv")

    def parse(line):
        fields = decode(line).split("\t")
        if len(fields) != 9:
            raise ValueError(f"expected 9 columns. Received: {len(fields)}.")
        genres = parse_object(fields[8].encode(), "genres as a JSON object").values()
        if not all(isinstance(genre, str) for genre in genres):
            raise ValueError(sentence("genres", "names of genres", list(genres)))
        content = fields[2] if text == "name" else plots[fields[0]]
        return Example(content.strip(), labels=_once(genres), id=fields[0])

    def with_plot():
        for place, line in source.lines():
            if line.partition(b"\t")[0].decode("utf-8", "replace") in plots:
                yield place, line

    return _parsed(source, drawn(with_plot(), split), parse)


def read_raw_goemotions(folder, split):
    """Every rater's annotation of GoEmotions: goemotions_1.csv, _2 and _3.

    A column an emotion, 1 where the rater saw it. The paper has all 211,225 rows.
    """
    names = [f"goemotions_{number}.csv" for number in (1, 2, 3)]
    sources = [_packed_or_not(folder, name) for name in names]
    rows = (iter_csv(source, text="text", labels=EMOTIONS) for source in sources)
    return drawn((row for part in rows for row in part), split)


def read_archive(folder, split, text):
    """Articles of arXiv with six subjects, train.csv of a contest on Kaggle.

    Args:
        folder: the `Source` of the folder.
        split: the part.
        text: `"TITLE"` or `"ABSTRACT"`.
    """
    source = _packed_or_not(folder, "train.csv")
    return drawn(iter_csv(source, text=text, labels=SUBJECTS), split)


def read_toxic(folder, split):
    """Comments of Wikipedia that insult, or not: train.csv of Jigsaw's contest."""
    source = _packed_or_not(folder, "train.csv")
    return drawn(iter_csv(source, text="comment_text", labels=INSULTS), split)


def _packed_or_not(folder, name):
    """The source of a file that may be packed."""
    found = [folder / f"{name}{packed}" for packed in ("", *OPENERS)]
    return next((source for source in found if source.path.is_file()), found[0])


def _objects(source):
    """(line, object) of a file with an object a line, or with a list of them."""
    _, first = next(_lines(source), (None, b""))
    return iter_list(source) if first.lstrip().startswith(b"[") else _lines(source)


def _lines(source):
    """(number, line) of each line that is not blank."""
    return ((place, line) for place, line in source.lines() if line.strip())


def _parsed(source, rows, parse):
    """What `parse` makes of each row; a ValueError names its line."""
    for place, row in rows:
        with source.at(place):
            yield parse(row)


def _once(names):
    """Names without blanks around them, each once."""
    return list(dict.fromkeys(filter(None, map(str.strip, names))))


def _text(name, value):
    if not isinstance(value, str):
        raise ValueError(sentence(name, "a text", json.dumps(value)[:60]))
    return value.strip()
