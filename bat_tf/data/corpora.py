"""Real corpora by name, read straight from their archives under BAT_TF_DATA.

None of them is part of the library. A new one is a function that yields examples and a
line in CORPORA.
"""

import contextlib
import io
import json
import os
import random
import re
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bat_tf._validation import DataError, check_choice, check_number
from bat_tf.data.conll import iter_conll
from bat_tf.data.dataset import Example, Span, longest_spans
from bat_tf.data.files import BROKEN, decode, read_lines
from bat_tf.data.labels import unique_names
from bat_tf.data.reuters import iter_reuters, topic_texts

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Corpus:
    """A named corpus: how to read it and where it comes from.

    Args:
        reader: `reader(folder, split, *, on_error, skipped, …)` yields `Example`s; what
            other keyword arguments it has are options of `read`.
        source: where to get the files and what to call them.
        splits: the parts it comes in.
        label_texts: `label_texts(folder)` tells what labels mean whose names are codes.

    Example:
        >>> CORPORA["conll2003"].source.split(":")[0]
        'CoNLL-2003 English news, people, places, organisations'
    """

    reader: Callable
    source: str
    splits: tuple[str, ...] = SPLITS
    label_texts: Callable | None = None


_NO_SUCH_PART = (
    "{} has no other part. Set some aside: rest, valid = train.split(0.1, seed=0)."
)


def iter_corpus(name, split, **options):
    """Yields the examples of a corpus under the folder that BAT_TF_DATA names.

    Args:
        name: a key of `CORPORA`.
        split: "train", "valid" or "test"; some come in two of these parts.
        **options: those of the corpus's reader; the CoNLL ones take `documents` and
            `max_words`.

    Yields:
        `Example`s.

    Raises:
        FileNotFoundError: says which files are missing and where they come from.

    Example:
        >>> import os
        >>> if "BAT_TF_DATA" in os.environ:
        ...     example = next(iter_corpus("conll2003", "train"))
    """
    corpus = CORPORA[check_choice("name", name, CORPORA)]
    remedy = "" if corpus.splits == SPLITS else _NO_SUCH_PART.format(name)
    check_choice("split", split, corpus.splits, remedy)
    with _found(name) as folder:
        yield from corpus.reader(folder, split, **options)


def label_texts(name):
    """What the labels of a corpus mean, in words, where their names are codes.

    Args:
        name: a key of `CORPORA`.

    Returns:
        A dict from names to texts, for `LabelSpace`.

    Raises:
        ValueError: if the corpus says nothing about its labels.

    Example:
        >>> import os
        >>> if "BAT_TF_DATA" in os.environ:
        ...     meaning = label_texts("reuters21578")["bop"]
    """
    known = [name for name, corpus in CORPORA.items() if corpus.label_texts]
    remedy = "The labels of others are called what they mean."
    corpus = CORPORA[check_choice("name", name, known, remedy)]
    with _found(name) as folder:
        return corpus.label_texts(folder)


@contextlib.contextmanager
def _found(name):
    """The folder of a corpus; what is missing in it is said, and where to get it."""
    corpus, root = CORPORA[name], os.environ.get("BAT_TF_DATA")
    folder = Path(root or "BAT_TF_DATA") / name.partition("/")[0]
    try:
        if not root:
            raise FileNotFoundError("the environment variable BAT_TF_DATA is not set.")
        yield folder
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The corpus {name!r} is not part of bat_tf and was not found: {error} "
            f"Get it ({corpus.source}) and put the files into {folder}, where "
            "BAT_TF_DATA names the folder of all corpora."
        ) from None


def _conll2003(
    folder,
    split,
    *,
    documents="sentences",
    max_words=None,
    on_error="raise",
    skipped=None,
):
    part = {"train": "train", "valid": "testa", "test": "testb"}[split]
    return iter_conll(
        folder / f"eng.{part}.gz",
        documents=documents,
        max_words=max_words,
        on_error=on_error,
        skipped=skipped,
    )


_PART = {"train": "train", "valid": "dev", "test": "test"}


def _ecommerce(folder, split, *, on_error="raise", skipped=None):
    kinds = {"HCCX": "product", "HPPX": "brand", "XH": "model", "MISC": "misc"}
    path = folder / f"ecommerce.{_PART[split]}.txt.gz"
    return iter_conll(path, kinds=kinds, on_error=on_error, skipped=skipped)


def _phantom(folder, split, *, on_error="raise", skipped=None):
    # One title of the training part holds a B without its E, hence strict=False.
    return iter_conll(
        folder / f"phantom.ecommerce.{_PART[split]}.bieos.gz",
        kinds={"HC": "product", "HP": "brand"},
        strict=False,
        on_error=on_error,
        skipped=skipped,
    )


def _ja_wikipedia(folder, split, *, on_error="raise", skipped=None):
    """Sentences in an order drawn once (seed 0); 8 : 1 : 1 of them in that order."""
    path = folder / "ner.json.gz"
    try:
        rows = json.loads(b"\n".join(line for _, line in read_lines(path)))
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(path, None, f"not JSON: {error}.") from None
    random.Random(0).shuffle(rows)
    first, last = len(rows) * 8 // 10, len(rows) * 9 // 10
    parts = {"train": rows[:first], "valid": rows[first:last], "test": rows[last:]}
    for row in parts[split]:
        spans = [Span(*entity["span"], entity["type"]) for entity in row["entities"]]
        yield Example(row["text"], spans=spans, id=f"curid {row['curid']}")


def _scienceie(folder, split, *, on_error="raise", skipped=None):
    """Brat stand-off files; of overlapping spans the longest stays."""
    path = folder / "scienceie2017.tar.xz"
    texts, notes = {}, {}
    for name, content in _tar_files(path):
        *_, part, file = name.split("/")
        stem, _, ending = file.rpartition(".")
        if part == _PART[split] and ending in ("txt", "ann"):
            (texts if ending == "txt" else notes)[stem] = content.decode("utf-8")
    for stem in sorted(texts):
        spans = []
        for line in notes.get(stem, "").splitlines():
            match = re.match(r"T\d+\t(\S+) (\d+) .*?(\d+)\t", line)
            if match:  # a span in two pieces is taken as one from end to end
                spans.append(Span(int(match[2]), int(match[3]), match[1]))
        kept, dropped = longest_spans(spans)
        if skipped is not None:
            for span in dropped:
                reason = f"span {tuple(span)} dropped, it overlaps a longer one."
                skipped.append(DataError(f"{path}, {stem}.ann", None, reason))
        yield Example(texts[stem], spans=kept, id=stem)


def _inspec(folder, split, *, on_error="raise", skipped=None):
    """Abstracts in which the uncontrolled keyphrases are marked where they occur.

    Case does not matter, words are matched whole, longer phrases go first.
    """
    part = {"train": "Training", "valid": "Validation", "test": "Test"}[split]
    path, part = folder / "Hulth2003.tar.gz", f"Hulth2003/{part}.zip"
    content = dict(_tar_files(path)).get(part)
    if content is None:
        raise DataError(path, None, f"does not hold {part}.")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            stem, ending = os.path.splitext(name)
            if ending != ".abstr":
                continue
            text = _unwrap(archive.read(name))
            phrases = _unwrap(archive.read(f"{stem}.uncontr")).split(";")
            yield Example(text, spans=_occurrences(text, phrases), id=stem)


def _unwrap(content):
    """Joins lines that were broken for width; the title keeps its own line."""
    text = content.decode("utf-8").strip().replace("\r\n", "\n")
    return re.sub(r"\s*\n\t\s*", " ", text)


def _occurrences(text, phrases):
    found = []
    for phrase in filter(None, map(str.strip, phrases)):
        whole_words = rf"(?<!\w){re.escape(phrase)}(?!\w)"
        for match in re.finditer(whole_words, text, re.IGNORECASE):
            found.append(Span(*match.span(), "keyphrase"))
    return longest_spans(found)[0]


def _reuters(folder, split, *, on_error="raise", skipped=None):
    path = folder / "reuters21578.tar.xz"
    files = ((f"{path}, {name}", content) for name, content in _tar_files(path))
    return iter_reuters(files, split, on_error=on_error, skipped=skipped)


def _reuters_topics(folder):
    return topic_texts(_tar_files(folder / "reuters21578.tar.xz"))


def _goemotions(folder, split, *, on_error="raise", skipped=None):
    """A line is a text, the numbers of its labels and its id, divided by tabs."""
    names = [decode(line).strip() for _, line in read_lines(folder / "labels.txt")]

    def parse(line):
        fields = line.split("\t")
        if len(fields) != 3:
            raise ValueError(f"expected 3 columns. Received: {fields}.")
        text, numbers, identity = fields
        if not all(
            number.isdecimal() and int(number) < len(names)
            for number in numbers.split(",")
        ):
            expected = f"numbers of labels, from 0 to {len(names) - 1}"
            raise ValueError(f"expected {expected}. Received: {numbers!r}.")
        labels = [names[int(number)] for number in numbers.split(",")]
        return Example(text, labels=labels, id=identity)

    path = folder / f"{_PART[split]}.tsv.gz"
    return _parse_lines(path, read_lines(path), parse, on_error, skipped)


_COOKING_VALID = 3000  # the last lines, as fastText's tutorial has it


def _cooking(folder, split, *, on_error="raise", skipped=None):
    """A line is a question's tags, each after __label__, and its title."""
    path, name = folder / "cooking.stackexchange.tar.gz", "cooking.stackexchange.txt"
    content = dict(_tar_files(path)).get(name)
    if content is None:
        raise DataError(path, None, f"does not hold {name}.")
    lines = list(enumerate(content.removesuffix(b"\n").split(b"\n"), 1))
    first = max(len(lines) - _COOKING_VALID, 0)
    lines = lines[:first] if split == "train" else lines[first:]

    def parse(line):
        match = re.fullmatch(r"((?:__label__\S+\s+)+)(\S.*)", line.strip())
        if not match:
            form = "__label__tag, once or more, and a title"
            raise ValueError(f"expected {form}. Received: {line[:60]!r}.")
        labels = [tag.removeprefix("__label__") for tag in match[1].split()]
        return Example(match[2], labels=labels)

    return _parse_lines(f"{path}, {name}", lines, parse, on_error, skipped)


_YSO_HELD_OUT = 10_000  # titles of the test part, and of the valid part


def _yso_finna(folder, split, *, size=None, on_error="raise", skipped=None):
    """Titles of Finna's catalogue with their subjects in the ontology YSO.

    A line is a title and the ids of its subjects; labels.tsv has their English names.
    A name that several subjects share gets the id behind it, as in "absorption (p1)".

    There is no official split: titles are sorted, so their order is drawn once, by
    `random.Random(13).shuffle`. The first 10,000 are the test part, the next 10,000 the
    valid part, all others the train part. `size` keeps the first so many of a part.

    No subject has more than 339 titles, so frequent ones look sampled: many titles lack
    subjects that they should have, and the head of the distribution is flat.
    """
    if size is not None:
        check_number("size", size, low=1, integer=True)
    names = _yso_names(folder / "labels.tsv.xz")
    path = folder / "titles.tsv.xz"
    lines = list(read_lines(path))
    random.Random(13).shuffle(lines)
    first = {"test": 0, "valid": _YSO_HELD_OUT, "train": 2 * _YSO_HELD_OUT}[split]
    last = len(lines) if split == "train" else first + _YSO_HELD_OUT
    last = last if size is None else min(last, first + size)
    lines = lines[first:last]

    def parse(line):
        fields = line.split("\t")
        if len(fields) != 2:
            raise ValueError(f"expected 2 columns. Received: {fields}.")
        unknown = [subject for subject in fields[1].split() if subject not in names]
        if unknown:
            raise ValueError(f"labels.tsv.xz does not have the id {unknown[0]!r}.")
        return Example(fields[0], labels=[names[key] for key in fields[1].split()])

    return _parse_lines(path, lines, parse, on_error, skipped)


def _yso_names(path):
    """The name of each subject by its id."""
    names = {}
    for place, line in read_lines(path):
        key, _, rest = decode(line).partition("\t")
        name, tab, _ = rest.rpartition("\t")  # one of the names has a tab in it
        if not tab:
            reason = f"expected an id, a name and a count. Received: {line[:60]!r}."
            raise DataError(path, place, reason)
        names[key] = " ".join(name.split())
    return dict(zip(names, unique_names(names.values(), names), strict=True))


def _parse_lines(path, lines, parse, on_error, skipped):
    """Yields what `parse` makes of each line of text; a ValueError names the line."""
    for place, line in lines:
        try:
            yield parse(decode(line))
        except ValueError as error:
            error = DataError(path, place, str(error))
            if on_error == "raise":
                raise error from None
            if skipped is not None:
                skipped.append(error)


def _tar_files(path):
    """Yields (name, bytes) of the files in an archive, without unpacking it to disk."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist.")
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                if member.isfile():
                    yield member.name, archive.extractfile(member).read()
    except (tarfile.TarError, *BROKEN) as error:
        raise DataError(path, None, f"is not a whole tar archive ({error}).") from error


CORPORA = {
    "conll2003": Corpus(
        _conll2003,
        "CoNLL-2003 English news, people, places, organisations: eng.train, eng.testa "
        "and eng.testb, gzipped, from corpus/CoNLL-2003 of github.com/synalp/NER; the "
        "text is Reuters' and needs their agreement",
    ),
    "zh_ecommerce_ner/ecommerce": Corpus(
        _ecommerce,
        "Chinese e-commerce titles of Jie et al. 2019: ecommerce.{train,dev,test}.txt, "
        "gzipped, from data/ecommerce of github.com/allanj/ner_incomplete_annotation",
    ),
    "zh_ecommerce_ner/phantom": Corpus(
        _phantom,
        "Chinese e-commerce titles of Ding et al. 2019: data/ecommerce/*.txt.bieos of "
        "github.com/PhantomGrapes/MultiDigraphNER, gzipped as "
        "phantom.ecommerce.{train,dev,test}.bieos.gz",
    ),
    "ja_wikipedia_ner": Corpus(
        _ja_wikipedia,
        "Japanese Wikipedia sentences with eight kinds of names, CC-BY-SA 3.0: "
        "ner.json, gzipped, from github.com/stockmarkteam/ner-wikipedia-dataset",
    ),
    "scienceie2017": Corpus(
        _scienceie,
        "SemEval-2017 task 10, materials, processes and tasks in papers: the folder "
        "data of github.com/OC-ScienceIE/scienceie17 as scienceie2017.tar.xz",
    ),
    "inspec_keyphrase": Corpus(
        _inspec,
        "Inspec abstracts with keyphrases (Hulth 2003): Hulth2003.tar.gz from "
        "github.com/snkim/AutomaticKeyphraseExtraction",
    ),
    "reuters21578": Corpus(
        _reuters,
        "Reuters-21578, Distribution 1.0, news of 1987 with 90 topics, for research "
        "only: the folder data of github.com/wuodar/reuters_text_classification as "
        "reuters21578.tar.xz",
        ("train", "test"),
        _reuters_topics,
    ),
    "goemotions": Corpus(
        _goemotions,
        "GoEmotions, Reddit comments with 27 emotions and neutral: data/original of "
        "github.com/monologg/GoEmotions-pytorch, labels.txt and {train,dev,test}.tsv, "
        "the latter gzipped",
    ),
    "fasttext_cooking": Corpus(
        _cooking,
        "Titles of cooking.stackexchange with their tags, CC-BY-SA 3.0, as fastText's "
        "tutorial has them: cooking.stackexchange.tar.gz from "
        "github.com/sumanp/text-classification-fastText",
        ("train", "valid"),
    ),
    "yso_finna_en_xmc": Corpus(
        _yso_finna,
        "English titles of Finna with 25,147 subjects of YSO, metadata CC0: the lists "
        "in subjects/yso-finna-en of github.com/NatLibFi/Annif-corpora turned round "
        "into titles.tsv.xz, a title and the ids of its subjects a line, sorted, and "
        "labels.tsv.xz, id, English name and count; no subject has more than 339 "
        "titles, so label sets are probably incomplete, and it is no published "
        "benchmark",
    ),
}
