"""Real corpora by name, read straight from their archives under BAT_TF_DATA.

None of them is part of the library. A new one is a function that yields examples and a
line in CORPORA.
"""

import io
import json
import os
import random
import re
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bat_tf._internal.files import Source, check_file, check_zip, decode, unpacked
from bat_tf._internal.validation import DataError, check_choice, check_number
from bat_tf.data.dataset import SPLITS, Example, Span, longest_spans
from bat_tf.data.labels import unique_names
from bat_tf.data.readers import zlpr
from bat_tf.data.readers.conll import iter_conll
from bat_tf.data.readers.reuters import iter_reuters, topic_texts
from bat_tf.data.readers.shapes import dropped_span
from bat_tf.data.readers.xmc import names_of


@dataclass(frozen=True)
class Corpus:
    """A named corpus: how to read it and where it comes from.

    Args:
        read: `read(folder, split, *, …)` yields the `Example`s of one part; `folder` is
            a `Source`, the keyword arguments are options of `bat_tf.data.read`.
        origin: where to get the files and what to call them.
        splits: the parts it comes in.
        label_texts: `label_texts(folder)` tells what labels mean whose names are codes.
    """

    read: Callable
    origin: str
    splits: tuple[str, ...] = SPLITS
    label_texts: Callable | None = None


_NO_SUCH_PART = (
    "{} has no other part. Set some aside: rest, valid = train.split(0.1, seed=0)."
)


def iter_corpus(source, split, **options):
    """Yields the examples of a corpus under the folder that BAT_TF_DATA names.

    Args:
        source: the `Source`, a key of `CORPORA`.
        split: "train", "valid" or "test"; some come in two of these parts.
        **options: those of the corpus's reader.

    Raises:
        FileNotFoundError: says which files are missing and where they come from.
    """
    corpus, name = CORPORA[source.path], source.path
    remedy = "" if corpus.splits == SPLITS else _NO_SUCH_PART.format(name)
    check_choice("split", split, corpus.splits, remedy)
    with _found(source) as folder:
        yield from corpus.read(folder, split, **options)


def label_texts(name):
    """What the labels of a corpus mean, in words, where their names are codes.

    Args:
        name: a key of `CORPORA`.

    Returns:
        A dict from names to texts, for `LabelSpace`.

    Example:
        >>> import os
        >>> if "BAT_TF_DATA" in os.environ:
        ...     meaning = label_texts("reuters21578")["bop"]
    """
    known = [name for name, corpus in CORPORA.items() if corpus.label_texts]
    remedy = "The labels of others are called what they mean."
    corpus = CORPORA[check_choice("name", name, known, remedy)]
    with _found(Source(name)) as folder:
        return corpus.label_texts(folder)


@contextmanager
def _found(source):
    """The folder of a corpus; what is missing in it is said, and where to get it."""
    name, root = source.path, os.environ.get("BAT_TF_DATA")
    folder = Path(root or "BAT_TF_DATA") / name.partition("/")[0]
    try:
        if not root:
            raise FileNotFoundError("the environment variable BAT_TF_DATA is not set.")
        yield source.of(folder)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The corpus {name!r} is not part of bat_tf and was not found: {error} "
            f"Get it ({CORPORA[name].origin}) and put the files into {folder}, where "
            "BAT_TF_DATA names the folder of all corpora."
        ) from None


def _conll2003(folder, split, *, documents="sentences", max_words=None):
    part = {"train": "train", "valid": "testa", "test": "testb"}[split]
    source = folder / f"eng.{part}.gz"
    return iter_conll(source, documents=documents, max_words=max_words)


_PART = {"train": "train", "valid": "dev", "test": "test"}


def _ecommerce(folder, split):
    kinds = {"HCCX": "product", "HPPX": "brand", "XH": "model", "MISC": "misc"}
    return iter_conll(folder / f"ecommerce.{_PART[split]}.txt.gz", kinds=kinds)


def _phantom(folder, split):
    source = folder / f"phantom.ecommerce.{_PART[split]}.bieos.gz"
    kinds = {"HC": "product", "HP": "brand"}
    return iter_conll(source, kinds=kinds)


def _ja_wikipedia(folder, split):
    """Sentences in an order drawn once (seed 0); 8 : 1 : 1 of them in that order."""
    source = folder / "ner.json.gz"
    text = source.content()
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise DataError(source.path, None, f"not JSON: {error}.") from None
    random.Random(0).shuffle(rows)
    first, last = len(rows) * 8 // 10, len(rows) * 9 // 10
    parts = {"train": rows[:first], "valid": rows[first:last], "test": rows[last:]}
    for row in parts[split]:
        with source.at(None):
            spans = [Span(*each["span"], each["type"]) for each in row["entities"]]
            yield Example(row["text"], spans=spans, id=f"curid {row['curid']}")


def _scienceie(folder, split):
    """Brat stand-off files; of overlapping spans the longest stays."""
    source = folder / "scienceie2017.tar.xz"
    texts, notes = {}, {}
    for name, content in _tar_files(source):
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
        place = f"{source.path}, {stem}.ann"
        for span in dropped:
            source.note(None, dropped_span(span), place)
        with source.at(None, place):
            yield Example(texts[stem], spans=kept, id=stem)


def _inspec(folder, split):
    """Abstracts in which the uncontrolled keyphrases are marked where they occur.

    Case does not matter, words are matched whole, longer phrases go first.
    """
    part = {"train": "Training", "valid": "Validation", "test": "Test"}[split]
    source = folder / "Hulth2003.tar.gz"
    content = _tar_file(source, f"Hulth2003/{part}.zip")
    check_zip(source.path, source.limits, content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for name in sorted(archive.namelist()):
            stem, ending = os.path.splitext(name)
            if ending != ".abstr":
                continue
            with source.at(None, f"{source.path}, {name}"):
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


def _reuters(folder, split):
    source = folder / "reuters21578.tar.xz"
    found = _tar_files(source)
    files = ((f"{source.path}, {name}", content) for name, content in found)
    return iter_reuters(source, files, split)


def _reuters_topics(folder):
    return topic_texts(_tar_files(folder / "reuters21578.tar.xz"))


def _goemotions(folder, split):
    """A line is a text, the numbers of its labels and its id, divided by tabs."""
    lines = (folder / "labels.txt").lines()
    names = [decode(line).strip() for _, line in lines]

    def parse(line):
        text, numbers, identity = _columns(line, 3)
        labels = names_of(numbers.split(","), names)
        return Example(text, labels=labels, id=identity)

    source = folder / f"{_PART[split]}.tsv.gz"
    return _parse_lines(source, source.lines(), parse)


_COOKING_VALID = 3000  # the last lines, as fastText's tutorial has it


def _cooking(folder, split):
    """A line is a question's tags, each after __label__, and its title."""
    source, name = folder / "cooking.stackexchange.tar.gz", "cooking.stackexchange.txt"
    content = _tar_file(source, name)
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

    return _parse_lines(source.of(f"{source.path}, {name}"), lines, parse)


_YSO_HELD_OUT = 10_000  # titles of the test part, and of the valid part


def _yso_finna(folder, split, *, size=None):
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
    source = folder / "titles.tsv.xz"
    lines = list(source.lines())
    random.Random(13).shuffle(lines)
    first = {"test": 0, "valid": _YSO_HELD_OUT, "train": 2 * _YSO_HELD_OUT}[split]
    last = len(lines) if split == "train" else first + _YSO_HELD_OUT
    last = last if size is None else min(last, first + size)
    lines = lines[first:last]

    def parse(line):
        title, subjects = _columns(line, 2)
        unknown = [key for key in subjects.split() if key not in names]
        if unknown:
            raise ValueError(f"labels.tsv.xz does not have the id {unknown[0]!r}.")
        return Example(title, labels=[names[key] for key in subjects.split()])

    return _parse_lines(source, lines, parse)


def _yso_names(source):
    """The name of each subject by its id."""
    names = {}
    for place, line in source.lines():
        key, _, rest = decode(line).partition("\t")
        name, tab, _ = rest.rpartition("\t")  # one of the names has a tab in it
        if not tab:
            reason = f"expected an id, a name and a count. Received: {line[:60]!r}."
            raise DataError(source.path, place, reason)
        names[key] = " ".join(name.split())
    return dict(zip(names, unique_names(names.values(), names), strict=True))


def _columns(line, number):
    """The columns of a line, divided by tabs."""
    fields = line.split("\t")
    if len(fields) != number:
        raise ValueError(f"expected {number} columns. Received: {fields}.")
    return fields


def _parse_lines(source, lines, parse):
    """Yields what `parse` makes of each line of text; a ValueError names the line."""
    for place, line in lines:
        with source.at(place):
            yield parse(decode(line))


def _tar_file(source, name):
    """The bytes of one file in an archive."""
    for found, content in _tar_files(source):
        if found == name:
            return content
    raise DataError(source.path, None, f"does not hold {name}.")


def _tar_files(source):
    """Yields (name, bytes) of the files in an archive, without unpacking it to disk.

    Links are passed over, and a name is only a name: it leads nowhere.
    """
    size, total = check_file(source.path).stat().st_size, 0
    with unpacked(source.path, source.limits) as file:
        try:
            with tarfile.open(fileobj=file, mode="r|") as archive:
                for member in archive:
                    total += member.size  # of a sparse file more than is in the archive
                    if total > source.limits.unpacked(size):
                        raise source.limits.too_large(source.path, size)
                    if member.isfile():
                        yield member.name, archive.extractfile(member).read()
        except tarfile.TarError as error:
            reason = f"is not a whole tar archive ({error})."
            raise DataError(source.path, None, reason) from error


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

# The sets of ZLPR's paper: title, abstract and so on are each a set of their own there.
_CNIPA = (
    "patents of China's office CNIPA with their IPC subclasses, as cnipa.json: objects "
    "with title, abstract and ipc are assumed, as no release is known to us"
)
_USPTO = (
    "USPTO-2M of Li et al. 2018, DeepPatent, patents with their IPC subclasses: its "
    "JSON as uspto.json"
)
_MOVIES = (
    "CMU Movie Summary Corpus, CC-BY-SA, movies with their genres: movie.metadata.tsv "
    "and plot_summaries.txt of MovieSummaries.tar.gz, www.cs.cmu.edu/~ark/personas"
)
_ARCHIVE = (
    "Topic Modeling for Research Articles, titles and abstracts of arXiv with six "
    "subjects: train.csv of the contest on Kaggle"
)
CORPORA |= {
    "cnipa/title": Corpus(partial(zlpr.read_cnipa, text="title"), _CNIPA),
    "cnipa/abstract": Corpus(partial(zlpr.read_cnipa, text="abstract"), _CNIPA),
    "toutiao": Corpus(
        zlpr.read_toutiao,
        "headlines of the news app Toutiao with labels of several levels: the data of "
        "github.com/aceimnorstuvwxz/toutiao-multilevel-text-classfication-dataset as "
        "toutiao.txt",
    ),
    "uspto/title": Corpus(partial(zlpr.read_uspto, text="Title"), _USPTO),
    "uspto/abstract": Corpus(partial(zlpr.read_uspto, text="Abstract"), _USPTO),
    "archive/title": Corpus(partial(zlpr.read_archive, text="TITLE"), _ARCHIVE),
    "archive/abstract": Corpus(partial(zlpr.read_archive, text="ABSTRACT"), _ARCHIVE),
    "cmu_movie/name": Corpus(partial(zlpr.read_cmu_movies, text="name"), _MOVIES),
    "cmu_movie/summary": Corpus(partial(zlpr.read_cmu_movies, text="summary"), _MOVIES),
    "goemotions/raw": Corpus(
        zlpr.read_raw_goemotions,
        "GoEmotions, every rater's annotation by itself: data/full_dataset of "
        "github.com/google-research/google-research/tree/master/goemotions, "
        "goemotions_1.csv, goemotions_2.csv and goemotions_3.csv",
    ),
    "toxic": Corpus(
        zlpr.read_toxic,
        "Toxic Comment Classification Challenge of Jigsaw, comments of Wikipedia: "
        "train.csv of the contest on Kaggle",
    ),
}
