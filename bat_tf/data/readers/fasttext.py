"""fastText's files: a line is a text with labels, words that begin with __label__."""

from bat_tf._internal.files import decode
from bat_tf._internal.validation import sentence
from bat_tf.data.dataset import Example
from bat_tf.data.readers.format import CERTAIN, NO, Format

PREFIX = "__label__"


def iter_fasttext(source, *, prefix=PREFIX):
    """Yields the examples of a file as fastText reads it; blank lines are passed over.

    Args:
        source: the `Source`.
        prefix: how a word begins that is a label, wherever it stands in the line.
    """
    if not isinstance(prefix, str) or not prefix:
        raise ValueError(sentence("prefix", "how labels begin", prefix))
    for place, line in source.lines():
        if not line.strip():
            continue
        with source.at(place):
            labels, text = _divided(decode(line), prefix)
            yield Example(text, labels=labels, line=place)


def _divided(line, prefix):
    """(labels, text): the text as it is, but for the labels and the blanks at its ends.

    >>> _divided("__label__a __label__b, a  goal", "__label__")
    (['a', 'b,'], 'a  goal')
    """
    labels, rest = [], line.strip()
    while rest.startswith(prefix):
        label, *others = rest.split(None, 1)
        labels.append(label.removeprefix(prefix))
        rest = others[0] if others else ""
    if prefix in rest:
        words = rest.split(" ")
        labels += [w.removeprefix(prefix) for w in words if w.startswith(prefix)]
        rest = " ".join(word for word in words if not word.startswith(prefix))
    return labels, rest


def _fits(sample):
    lines = sample.filled()
    labelled = sum(PREFIX in line.split(None, 1)[0] for line in lines)
    return CERTAIN if labelled and labelled >= 0.8 * len(lines) else NO


FASTTEXT = Format(
    iter_fasttext,
    (".ft", ".fasttext"),
    _fits,
    "lines begin with `__label__`",
    {"labels.ft": "__label__sport __label__news A goal\n__label__art A play\n"},
)
