"""Which tokens fit texts, where no pretrained encoder has its own."""

from bat_tf.data.scripts import find_script
from bat_tf.text import TextTokenizer

UNSPACED = ("Han", "Kana", "Thai", "Lao", "Khmer", "Myanmar")
WHITESPACE = {"tokenizer": "words", "split": "whitespace"}
SAMPLE = 1000
# The share of spans with a border inside a word above which tokens are characters.
MOST_CUT = 0.03


def that_fit(data):
    """The settings of `text` for a data set; empty where the usual ones will do.

    Spans decide where there are any: Korean has blanks, but marks parts of words.

    Args:
        data: a `TextDataset` to learn from.
    """
    if data.task == "spans" and data.found.get("joiner") == " ":
        return WHITESPACE
    script = find_script(text[:1000] for text in data.texts[:SAMPLE])
    if script in UNSPACED or _cut_words(data) > MOST_CUT:
        return {"tokenizer": "characters"}
    return {}


def _cut_words(data):
    """The share of spans that begin or end within a word; 0 of labels."""
    rows = [row for row in data if row.spans][:SAMPLE]
    if not rows:
        return 0.0
    tokenizer, texts = TextTokenizer("words"), [row.text for row in rows]
    tokenizer.adapt(texts)
    words = tokenizer.tokenize(texts)
    starts, ends = (map(set, words[side].to_list()) for side in ("starts", "ends"))
    cut = [
        span.start not in first or span.end not in last
        for row, first, last in zip(rows, starts, ends, strict=True)
        for span in row.spans
    ]
    return sum(cut) / len(cut)
