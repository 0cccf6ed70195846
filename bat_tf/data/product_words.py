"""The words of the embedded corpus, dealt out to training and held-out pages.

Thousands of brands are made from syllables and word parts, products from nouns with a
type or a material before them. Each brand, noun and compound belongs to exactly one of
train, valid and test, whatever the seed of the pages, so that words kept out of
training cannot leak into it.
"""

import itertools
import random
import re
import zlib

# One sound in three scripts: the same invented name as Trimora, 崔茉菈 and トリモラ.
OPENINGS = """tri崔トリ flo芙フロ qua夸クア bri碧ブリ cle可クレ dra卓ドラ sta史スタ
    gri葛グリ plo璞プロ vre唯ヴレ ska斯スカ fle芙フレ bro博ブロ zen澤ゼン"""
SYLLABLES = """lu露ル mo茉モ ra菈ラ ve薇ヴェ no諾ノ ri莉リ so索ソ ta塔タ mi蜜ミ ne妮ネ
    fa法ファ lo洛ロ vi維ヴィ za札ザ pe佩ペ ya雅ヤ be貝ベ di迪ディ le蕾レ pa帕パ ni霓ニ
    go戈ゴ te緹テ zo佐ゾ li黎リ bo柏ボ"""

_NUM_BRANDS = 1500
_NUM_COMPOUNDS = 36


def items(text):
    """Splits a list of the word files, "a | b | c", into its items.

    >>> items("oak | carbon steel")
    ['oak', 'carbon steel']
    """
    return [" ".join(item.split()) for item in text.split("|")]


def pick(dice, choices, skew=1):
    """Picks one of `choices`; the first ones more often if `skew` is above 1.

    Only `random()` is used: of all of `random.Random`, it alone is promised to give the
    same numbers in every version of Python.
    """
    return choices[int(len(choices) * dice.random() ** skew)]


def part_of(position):
    """Which pages the word at `position` belongs to: 4 of 6 to train, 1, 1."""
    return ("train", "valid", "train", "test", "train", "train")[position % 6]


class Lexicon:
    """Brands and products of one language, by the part of the corpus that owns them.

    Args:
        words: one of the modules `product_words_en`, `product_words_zh`,
            `product_words_ja`.
    """

    def __init__(self, words):
        self._bare, self._prices = words.BARE, words.PRICES
        self._cents = words.CENTS
        self.slots = {name: items(text) for name, text in words.SLOTS.items()}
        self.categories = {
            name: {slot: items(text) for slot, text in lists.items()}
            for name, lists in words.CATEGORIES.items()
        }
        for lists in self.categories.values():
            lists["genre"] = [path.split(">")[-1].strip() for path in lists["path"]]
        self._brands = {"train": [], "valid": [], "test": []}
        for position, brand in enumerate(_brands(words)):
            self._brands[part_of(position)].append(brand)
        # Common words stand in texts of every part, so they are never held out.
        for position, brand in enumerate(items(words.COMMON_BRANDS)):
            self._brands["train"].insert(5 * position, brand)
        self._products = {
            name: _products(lists, words.JOINER)
            for name, lists in self.categories.items()
        }

    def brand(self, dice, part):
        """Draws a brand; few are frequent, most are rare, as in any shop."""
        return pick(dice, self._brands[part], skew=2.5)

    def product(self, dice, part, category):
        """Draws a product as (name, bare noun)."""
        bare, compounds = self._products[category][part]
        return pick(dice, bare if dice.random() < self._bare else compounds, skew=1.5)

    def price(self, dice):
        """Draws a price and a higher one that it is said to have been."""
        low, high = self._prices
        now = int(low + (high - low) * dice.random() ** 3)
        was = now + int(now * (0.1 + dice.random()))
        return f"{now}{self._cents}", f"{was}{self._cents}"


def _brands(words):
    """Makes the brands of a language, all different."""
    dice = random.Random(zlib.crc32(words.__name__.encode()))
    openings, syllables = (
        re.findall(r"([a-z]+)(\w)(\w+)", sounds) for sounds in (OPENINGS, SYLLABLES)
    )
    parts = {name: text.split() for name, text in words.BRAND_PARTS.items()}
    brands = {}
    while len(brands) < _NUM_BRANDS:
        # A consonant cluster in each name keeps it clear of names that exist.
        sounds = [pick(dice, syllables) for _ in range(1 + (dice.random() < 0.6))]
        sounds.insert(int(2 * dice.random()), pick(dice, openings))
        latin, han, kana = ("".join(script) for script in zip(*sounds, strict=True))
        spelled = {"latin": latin, "LATIN": latin.upper(), "han": han, "kana": kana}
        spelled["Latin"] = latin.capitalize()
        drawn = {name: pick(dice, choices) for name, choices in parts.items()}
        name = pick(dice, words.BRAND_FORMS).format(**spelled, **drawn)
        brands[name[0].upper() + name[1:]] = True
    return list(brands)


def _products(lists, joiner):
    """Returns (bare nouns, compounds) of a category for each part, as (name, noun)."""
    products = {part: ([], []) for part in ("train", "valid", "test")}
    for position, head in enumerate(lists["head"]):
        products[part_of(position)][0].append((head, head))
    before = [(word,) for word in (*lists["kind"], *lists["material"])]
    before += itertools.product(lists["kind"], lists["material"])
    # Any order that is neither alphabetical nor bound to Python's hash will do.
    compounds = sorted(
        (zlib.crc32(joiner.join((*words, head)).encode()), position, words, head)
        for position, head in enumerate(lists["head"])
        for words in before
        if len(words) == 1 or zlib.crc32(joiner.join((*words, head)).encode()) % 8 == 0
    )
    for order, position, words, head in compounds:
        # A compound of a held-out noun is held out with it.
        part = part_of(position)
        part = part_of(order) if part == "train" else part
        chosen = products[part][1]
        if len(chosen) < _NUM_COMPOUNDS:
            chosen.append((joiner.join((*words, head)), head))
    return products
