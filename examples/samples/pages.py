"""Product pages written from word lists and templates.

What is marked is what a page sells: the **product** and the **brand** that makes it.
`bat_tf.data.samples` tells what the pages are for and how they look; the papers do not
say which of their two kinds of keywords comes first, here it is the product.

Notation of the templates in `words_*.py`: `{brand}` and `{product}` are the marked
keywords, `{other_brand}` and `{other_item}` the same kinds of words unmarked, `{head}`
the bare noun of the page's product; any other `{slot}` is drawn from the list of that
name in the page's category or in SLOTS. `{Slot}` begins with a capital (each word of a
product does), `{SLOT}` is in capitals. A platform's layout is a title and, around it,
elements of which a page takes as many as its length allows.
"""

import functools
import itertools
import random
import re
import zlib
from typing import NamedTuple

from bat_tf.data import Example, Span
from examples.samples.lexicon import Lexicon, items, pick

SIZES = {"train": 2400, "valid": 300, "test": 300}
MARKED = ("product", "brand")

# Slots that tell something about the product: on pages without one they make no sense.
DESCRIPTIONS = {"feature", "spec", "colour", "gift", "price", "decoy"}

# The share of keywords on held-out pages drawn from words kept out of training.
HELD_OUT = 0.4

# Letters, digits, punctuation and blanks as an old catalogue prints them.
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)} | {0x20: 0x3000}


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


def write_pages(language, split, size=None, skew=1):
    """Yields `Written` pages; with `skew` 2 most are of the first categories."""
    pages = endless_pages(language, split, skew)
    return itertools.islice(pages, SIZES[split] if size is None else size)


class Target:
    """Steers a growing set of pages towards a ratio of classes and a mean length.

    Chance alone would miss them on a few hundred pages: whether the next page has a
    product, a brand, and how much text, depends on what is missing so far.
    """

    def __init__(self, ratio, length):
        self.length = length
        self.share = {
            kind: part / sum(ratio)
            for kind, part in zip(MARKED, ratio[1:], strict=True)
        }
        self.missing = dict.fromkeys(MARKED, 0.0)
        self.missing_length = 0.0

    def kinds(self, dice):
        """Draws the kinds of keywords that the next page shall have."""
        slack = 5 * self.length
        return frozenset(
            kind
            for kind in MARKED
            if self.missing[kind] > slack * self.share[kind] * (dice.random() - 0.7)
        )

    def next_length(self, dice):
        """Draws the length that the next page shall have."""
        return self.length * (0.5 + dice.random()) + 0.5 * self.missing_length

    def add(self, length, marked):
        """Takes a finished page into account."""
        self.missing_length += self.length - length
        for kind in MARKED:
            self.missing[kind] += self.share[kind] * length - marked[kind]


class Platform:
    """The templates of one platform, each with the keywords that it needs."""

    def __init__(self, settings, categories):
        self.categories = items(settings.get("categories", " | ".join(categories)))
        self.full_width = settings.get("full_width", False)
        self.titles = {}
        for title in settings["titles"]:
            self.titles.setdefault(marked_in(title), []).append(title)
        layout = settings["layout"]
        self.title_place = layout.index("TITLE")
        self.elements = {
            place: [
                (marked_in(template) | product_if_described(template), template)
                for template in ((element,) if isinstance(element, str) else element)
            ]
            for place, element in enumerate(layout)
            if place != self.title_place
        }


@functools.cache
def split_template(template):
    """Splits a template into literals (even places) and slot names (odd places)."""
    return tuple(re.split(r"\{(\w+)\}", template))


def slots_of(template):
    return frozenset(slot.lower() for slot in split_template(template)[1::2])


def marked_in(template):
    return slots_of(template).intersection(MARKED)


def product_if_described(template):
    return {"product"} if slots_of(template) & DESCRIPTIONS else set()


class Page:
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
        held_out = self.split != "train" and self.dice.random() < HELD_OUT
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
        for place, part in enumerate(split_template(template)):
            if place % 2:
                pieces += recased(part, self._fill(part.lower()))
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


def recased(slot, pieces):
    """Writes what fills a slot as the slot is written: slot, Slot or SLOT."""
    if slot.islower():
        return pieces
    if slot.isupper():
        return [(text.upper(), filled) for text, filled in pieces]
    (text, filled), *others = pieces
    words = text.split(" ") if slot in ("Product", "Other_item") else [text]
    return [(" ".join(word[0].upper() + word[1:] for word in words), filled), *others]


def endless_pages(language, split, skew):
    """Yields the pages of one language without end, as `Written`."""
    lexicon = Lexicon(language)
    words, count = lexicon.words, lexicon.words.count
    target = Target(words.RATIO, words.LENGTH)
    dice = random.Random(zlib.crc32(f"{language}/{split}/0".encode()))
    platforms = {
        name: Platform(settings, lexicon.categories)
        for name, settings in words.PLATFORMS.items()
    }
    for number, name in enumerate(itertools.cycle(platforms)):
        platform = platforms[name]
        page = Page(dice, lexicon, split, pick(dice, platform.categories, skew))
        pieces = compose(page, platform, target, count)
        text, spans = join(pieces)
        marked = dict.fromkeys(MARKED, 0)
        for span in spans:
            marked[span.kind] += count(text[span.start : span.end])
        target.add(count(text), marked)
        if platform.full_width:
            text = text.translate(FULL_WIDTH)
        place = f"{language}/{split}/{name}/{number:05d}"
        example = Example(text, spans=spans, id=place)
        slots = frozenset(slot for _, slot in pieces if slot)
        sold = page.words["product"], page.words["head"]
        sold = sold if "product" in slots else None
        yield Written(example, language, page.lists, sold, slots)


def compose(page, platform, target, count):
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


def join(pieces):
    """Joins pieces to a text and the spans of the marked ones."""
    text, spans = "", []
    for piece, slot in pieces:
        if slot in MARKED:
            spans.append(Span(len(text), len(text) + len(piece), slot))
        text += piece
    return text.rstrip(), spans
