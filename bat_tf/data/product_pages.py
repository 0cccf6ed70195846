"""The embedded corpus: product pages written from word lists and templates.

EC-Zh and EC-JP, on which BAT was published, are private. These pages stand in for them
in demos and tests: seeded, made on the spot, with the published statistics. What is
marked is what a page sells: the **product** (its name with material and type, such as
"不鏽鋼保溫杯") and the **brand** that makes it. The same words stay unmarked where they
mean something else: in a category path, in "compatible with …", in a shop's name, in a
list of other goods, or as a colour ("Maple" the brand, "maple syrup brown" the colour).

| language | as in | platforms | none : product : brand | mean length |
|---|---|---|---|---|
| zh, traditional | EC-Zh | 5 | 21.2 : 1.9 : 1 characters | 46.6 characters |
| ja | EC-JP | 11 | 9.57 : 1 : 1.01 characters | 30 characters |
| en | EC-Zh, in words | 5 | 21.2 : 1.9 : 1 words | 46.6 words |

The papers do not say which of their two keyword kinds comes first; here it is the
product. A word of English is a run of letters and digits.

Notation of the templates in `product_words_*.py`: `{brand}` and `{product}` are the
marked keywords, `{other_brand}` and `{other_item}` the same kinds of words unmarked,
`{head}` the bare noun of the page's product; any other `{slot}` is drawn from the list
of that name in the page's category or in SLOTS. `{Slot}` begins with a capital (each
word of a product does), `{SLOT}` is in capitals. A platform's layout is a title and,
around it, elements of which a page takes as many as its length allows.
"""

import functools
import itertools
import random
import re
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

from bat_tf._validation import check_choice, check_number
from bat_tf.data import product_words_en, product_words_ja, product_words_zh
from bat_tf.data.dataset import Example, Span, TextDataset
from bat_tf.data.product_words import Lexicon, items, pick


class _Language(NamedTuple):
    words: ModuleType
    ratio: tuple[float, float, float]  # none : product : brand
    length: float  # on average
    count: Callable[[str], int]  # what ratio and length are counted in


def _count_words(text):
    return len(re.findall(r"\w+", text))


_LANGUAGES = {
    "en": _Language(product_words_en, (21.2, 1.9, 1.0), 46.6, _count_words),
    "zh": _Language(product_words_zh, (21.2, 1.9, 1.0), 46.6, len),
    "ja": _Language(product_words_ja, (9.57, 1.0, 1.01), 30.0, len),
}
_SIZES = {"train": 2400, "valid": 300, "test": 300}
_MARKED = ("product", "brand")

# Slots that tell something about the product: on pages without one they make no sense.
_DESCRIPTIONS = {"feature", "spec", "colour", "gift", "price", "decoy"}

# The share of keywords on held-out pages drawn from words kept out of training.
_HELD_OUT = 0.4

# Letters, digits, punctuation and blanks as an old catalogue prints them.
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}


def product_pages(language, split="train", size=None, seed=0):
    """Product pages with marked products and brands, made from word lists.

    Held-out pages draw two keywords in five from brands, nouns and compounds that no
    training page holds, whatever the seeds; valid and test keep out different ones.

    Args:
        language: `"en"`, `"zh"` (traditional), `"ja"`, or `"all"`: the three in turn.
        split: `"train"`, `"valid"` or `"test"`.
        size: number of pages; None for 2,400 (train) or 300 (valid, test) per language.
            A smaller set is the beginning of a larger one.
        seed: another seed writes other pages with the same words.

    Returns:
        A `TextDataset` of task "spans" with the kinds "brand" and "product". An
        example's `id` is language/split/platform/number.

    Example:
        >>> pages = product_pages("zh", size=100)
        >>> pages.kinds
        ['brand', 'product']
        >>> pages[0].id
        'zh/train/daily/00000'
    """
    pages = written_pages(language, split, size, seed)
    examples = [page.example for page in pages]
    return TextDataset(examples, name=f"product_pages/{language}/{split}")


class Written(NamedTuple):
    """A page and what its writer knew of it.

    Args:
        example: the page with its spans.
        language: such as "en".
        lists: the word lists of the page's category.
        product: the name of what it sells and the bare noun, or None.
        slots: the names of the slots that were filled on it.
    """

    example: Example
    language: str
    lists: dict
    product: tuple[str, str] | None
    slots: frozenset


def written_pages(language, split, size=None, seed=0, skew=1):
    """Writes the pages of `product_pages`.

    Args:
        language: as in `product_pages`.
        split: as in `product_pages`.
        size: as in `product_pages`.
        seed: as in `product_pages`.
        skew: as in `pick`, of the categories: with 2 most pages are of the first ones.

    Returns:
        An iterator over `Written` pages.

    Example:
        >>> next(written_pages("en", "train", size=1)).lists["path"]
        ['Home > Lighting']
    """
    check_choice("language", language, (*_LANGUAGES, "all"))
    check_choice("split", split, tuple(_SIZES))
    check_number("seed", seed, integer=True)
    languages = tuple(_LANGUAGES) if language == "all" else (language,)
    if size is None:
        size = _SIZES[split] * len(languages)
    check_number("size", size, low=0, integer=True)
    turns = zip(*(_pages(name, split, seed, skew) for name in languages), strict=True)
    return itertools.islice(itertools.chain.from_iterable(turns), size)


class _Target:
    """Steers a growing set of pages towards a ratio of classes and a mean length.

    Chance alone would miss them on a few hundred pages: whether the next page has a
    product, a brand, and how much text, depends on what is missing so far.
    """

    def __init__(self, ratio, length):
        self.length = length
        self.share = {
            kind: part / sum(ratio)
            for kind, part in zip(_MARKED, ratio[1:], strict=True)
        }
        self.missing = dict.fromkeys(_MARKED, 0.0)
        self.missing_length = 0.0

    def kinds(self, dice):
        """Draws the kinds of keywords that the next page shall have."""
        slack = 5 * self.length
        return frozenset(
            kind
            for kind in _MARKED
            if self.missing[kind] > slack * self.share[kind] * (dice.random() - 0.7)
        )

    def next_length(self, dice):
        """Draws the length that the next page shall have."""
        return self.length * (0.5 + dice.random()) + 0.5 * self.missing_length

    def add(self, length, marked):
        """Takes a finished page into account."""
        self.missing_length += self.length - length
        for kind in _MARKED:
            self.missing[kind] += self.share[kind] * length - marked[kind]


class _Platform:
    """The templates of one platform, each with the keywords that it needs."""

    def __init__(self, settings, categories):
        self.categories = items(settings.get("categories", " | ".join(categories)))
        self.full_width = settings.get("full_width", False)
        self.titles = {}
        for title in settings["titles"]:
            self.titles.setdefault(_marked(title), []).append(title)
        layout = settings["layout"]
        self.title_place = layout.index("TITLE")
        self.elements = {
            place: [
                (_marked(template) | _described(template), template)
                for template in ((element,) if isinstance(element, str) else element)
            ]
            for place, element in enumerate(layout)
            if place != self.title_place
        }


@functools.cache
def _split(template):
    """Splits a template into literals (even places) and slot names (odd places)."""
    return tuple(re.split(r"\{(\w+)\}", template))


def _slots(template):
    return frozenset(slot.lower() for slot in _split(template)[1::2])


def _marked(template):
    return _slots(template).intersection(_MARKED)


def _described(template):
    return {"product"} if _slots(template) & _DESCRIPTIONS else set()


@functools.cache
def _lexicon(language):
    return Lexicon(_LANGUAGES[language].words)


class _Page:
    """One page: what it sells, and how it fills the slots of templates."""

    def __init__(self, dice, lexicon, split, category):
        self.dice, self.lexicon = dice, lexicon
        self.split, self.category = split, category
        self.lists = lexicon.categories[category]
        self.used = set()
        product, head = lexicon.product(dice, self._part(), category)
        brand = lexicon.brand(dice, self._part())
        price, was = lexicon.price(dice)
        self.words = {"product": product, "head": head, "brand": brand}
        self.words |= {"price": price, "was": was}

    def _part(self):
        """Draws the part of the lexicon that the next keyword comes from."""
        held_out = self.split != "train" and self.dice.random() < _HELD_OUT
        return self.split if held_out else "train"

    def choose(self, choices):
        """Picks one, if possible one that the page does not have yet."""
        choice = pick(self.dice, choices)
        for _ in range(3):
            if choice in self.used:
                choice = pick(self.dice, choices)
        self.used.add(choice)
        return choice

    def render(self, template):
        """Fills a template; returns its pieces as (text, slot or None)."""
        pieces = []
        for place, part in enumerate(_split(template)):
            if place % 2:
                pieces += _recased(part, self._fill(part.lower()))
            elif part:
                pieces.append((part, None))
        return pieces

    def _fill(self, slot):
        if slot in self.words:
            return [(self.words[slot], slot)]
        if slot in self.lists:
            pieces = self.render(self.choose(self.lists[slot]))
            return [(text, inner or slot) for text, inner in pieces]
        if slot == "other_brand":
            other = self.words["brand"]
            while other == self.words["brand"]:
                other = self.lexicon.brand(self.dice, self._part())
        elif slot == "other_item":
            other, _ = self.lexicon.product(self.dice, self._part(), self.category)
        else:
            letters = [pick(self.dice, "ABCDEGHKLMNPRSTVXZ") for _ in range(2)]
            other = f"{''.join(letters)}-{100 + int(self.dice.random() * 8900)}"
        return [(other, slot)]


def _recased(slot, pieces):
    """Writes what fills a slot as the slot is written: slot, Slot or SLOT."""
    if slot.islower():
        return pieces
    if slot.isupper():
        return [(text.upper(), filled) for text, filled in pieces]
    (text, filled), *others = pieces
    words = text.split(" ") if slot in ("Product", "Other_item") else [text]
    return [(" ".join(word[0].upper() + word[1:] for word in words), filled), *others]


def _pages(language, split, seed, skew):
    """Yields the pages of one language without end, as `Written`."""
    words, ratio, length, count = _LANGUAGES[language]
    lexicon, target = _lexicon(language), _Target(ratio, length)
    dice = random.Random(zlib.crc32(f"{language}/{split}/{seed}".encode()))
    platforms = {
        name: _Platform(settings, lexicon.categories)
        for name, settings in words.PLATFORMS.items()
    }
    for number, name in enumerate(itertools.cycle(platforms)):
        platform = platforms[name]
        page = _Page(dice, lexicon, split, pick(dice, platform.categories, skew))
        pieces = _compose(page, platform, target, count)
        text, spans = _join(pieces)
        marked = dict.fromkeys(_MARKED, 0)
        for span in spans:
            marked[span.kind] += count(text[span.start : span.end])
        target.add(count(text), marked)
        if platform.full_width:
            text = text.translate(_FULL_WIDTH)
        place = f"{language}/{split}/{name}/{number:05d}"
        example = Example(text, spans=spans, id=place)
        slots = frozenset(slot for _, slot in pieces if slot)
        sold = page.words["product"], page.words["head"]
        sold = sold if "product" in slots else None
        yield Written(example, language, page.lists, sold, slots)


def _compose(page, platform, target, count):
    """Writes a title and adds elements at random until the page is long enough."""
    kinds = target.kinds(page.dice)
    wanted = target.next_length(page.dice)

    def size(pieces):
        return count("".join(text for text, _ in pieces))

    title = page.render(page.choose(platform.titles[kinds]))
    written, length = {platform.title_place: title}, size(title)
    for place in sorted(platform.elements, key=lambda _: page.dice.random()):
        fitting = [text for needs, text in platform.elements[place] if needs <= kinds]
        if not fitting:
            continue
        pieces = page.render(page.choose(fitting))
        more = size(pieces)
        if length + more / 2 > wanted:
            break
        written[place] = pieces
        length += more
    return [piece for place in sorted(written) for piece in written[place]]


def _join(pieces):
    """Joins pieces to a text and the spans of the marked ones."""
    text, spans = "", []
    for piece, slot in pieces:
        if slot in _MARKED:
            spans.append(Span(len(text), len(text) + len(piece), slot))
        text += piece
    return text.rstrip(), spans
