"""The baseline that a tagger has to beat: look up the keywords of the training set."""

import unicodedata
from collections import Counter, defaultdict

from bat_tf._internal.validation import sentence
from bat_tf.data.dataset import Span

# Full-width letters, digits and punctuation read like their ASCII twins.
_HALF_WIDTH = {code + 0xFEE0: code for code in range(0x21, 0x7F)} | {0x3000: 0x20}

# Scripts that put no blanks between words: a keyword may begin or end anywhere.
_UNSPACED = ("CJK ", "IDEOGRAPHIC ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA")
_UNSPACED += ("THAI ", "LAO ", "KHMER ", "MYANMAR ")


class DictionaryTagger:
    """Marks every occurrence of a keyword that was marked in the training set.

    The longest keyword wins, from left to right. Capitals and full-width forms make no
    difference. Where a script has blanks between words, only whole words match; Han and
    kana match anywhere. A keyword that was marked with several kinds gets the most
    frequent one.

    Attributes:
        keywords: the kind of each keyword, written small and half-width.

    Example:
        >>> from bat_tf.data.dataset import Example, TextDataset
        >>> train = TextDataset([Example("Oak desk", spans=[(4, 8, "product")])])
        >>> tagger = DictionaryTagger().fit(train)
        >>> tagger.tag(["DESK, desktop"])
        [[Span(start=0, end=4, kind='product')]]
    """

    def __init__(self):
        self.keywords = {}
        self._lengths = {}

    def fit(self, dataset):
        """Collects the keywords of a data set in place of those it had.

        Args:
            dataset: a `TextDataset` with spans.

        Returns:
            The tagger itself.
        """
        counts = defaultdict(Counter)
        for example in dataset:
            if example.spans is None:
                raise ValueError(
                    sentence("dataset", "a data set with spans", example.labels)
                )
            folded = _fold(example.text)
            for span in example.spans:
                keyword = folded[span.start : span.end]
                if keyword.strip():
                    counts[keyword][span.kind] += 1
        self.keywords = {
            # Equally frequent kinds: the first in the alphabet, whatever the order.
            keyword: min(kinds, key=lambda kind: (-kinds[kind], kind))
            for keyword, kinds in counts.items()
        }
        lengths = defaultdict(set)
        for keyword in self.keywords:
            lengths[keyword[0]].add(len(keyword))
        self._lengths = {first: sorted(n, reverse=True) for first, n in lengths.items()}
        return self

    def tag(self, texts):
        """Finds the keywords in each text.

        Args:
            texts: a list of strings.

        Returns:
            For each text its `Span`s, sorted, none overlapping another.
        """
        if isinstance(texts, str):
            raise TypeError(
                sentence("texts", "a list of strings", texts, "Write [text] for one.")
            )
        return [self._tag(_fold(text)) for text in texts]

    def _tag(self, text):
        spans, place, end_of_text = [], 0, len(text)
        while place < end_of_text:
            lengths = self._lengths.get(text[place])
            end = lengths and self._match(text, place, lengths)
            if end:
                spans.append(Span(place, end, self.keywords[text[place:end]]))
            place = end or place + 1
        return spans

    def _match(self, text, start, lengths):
        """The end of the longest keyword that begins at `start`, or None."""
        if _inside_word(text, start):
            return None
        for length in lengths:
            end = start + length
            fits = end <= len(text) and not _inside_word(text, end)
            if fits and text[start:end] in self.keywords:
                return end
        return None


def _fold(text):
    """Writes a text small and half-width; every character keeps its place."""
    # İ alone becomes two characters when written small.
    return text.replace("İ", "i").lower().translate(_HALF_WIDTH)


def _inside_word(text, place):
    """Whether the characters on both sides of `place` belong to one word."""
    return 0 < place < len(text) and _spaced(text[place - 1]) and _spaced(text[place])


class _Spaced(dict):
    """Whether a character is part of words that blanks separate; looked up once."""

    def __missing__(self, char):
        word = char.isalnum() or unicodedata.category(char)[0] == "M"
        unspaced = unicodedata.name(char, "").startswith(_UNSPACED)
        self[char] = word and not unspaced
        return self[char]


_spaced = _Spaced().__getitem__
