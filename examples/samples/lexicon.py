"""The words of the invented shop, dealt out to training and held-out pages.

1,500 brands of each language are made from syllables and word parts, products from
nouns with a type or a material before them. Each brand, noun and compound belongs to
exactly one of train, valid and test, so that words kept out of training cannot leak
into it.
"""

import functools
import random
import re
import zlib

from examples.samples import words_en, words_ja, words_zh

WORDS = {"en": words_en, "zh": words_zh, "ja": words_ja}

# One sound in three scripts: the same invented name as Trimora, 崔茉菈 and トリモラ.
OPENINGS = """tri崔トリ flo芙フロ qua夸クア bri碧ブリ cle可クレ dra卓ドラ sta史スタ
    gri葛グリ plo璞プロ vre唯ヴレ ska斯スカ fle芙フレ bro博ブロ zen澤ゼン"""
SYLLABLES = """lu露ル mo茉モ ra菈ラ ve薇ヴェ no諾ノ ri莉リ so索ソ ta塔タ mi蜜ミ ne妮ネ
    fa法ファ lo洛ロ vi維ヴィ za札ザ pe佩ペ ya雅ヤ be貝ベ di迪ディ le蕾レ pa帕パ ni霓ニ
    go戈ゴ te緹テ zo佐ゾ li黎リ bo柏ボ"""

NUM_BRANDS = 1500
NUM_COMPOUNDS = 36
PARTS = ("train", "valid", "train", "test", "train", "train")


def items(text):
    """Splits a list of the word files into its items."""
    return [" ".join(item.split()) for item in text.split("|")]


def pick(dice, choices, skew=1):
    """Picks one of `choices`; with `skew` 2 the first ones are by far the most likely.

    Only `random()` and products of it are used: they alone are promised to be the same
    in every version of Python, on every machine.
    """
    place = dice.random()
    for _ in range(skew - 1):
        place *= dice.random()
    return choices[int(len(choices) * place)]


def part_of(position):
    """Says which part of the corpus owns the word at `position` of a list."""
    return PARTS[position % len(PARTS)]


@functools.cache
class Lexicon:
    """Brands and products of one language, by the part of the corpus that owns them."""

    def __init__(self, language):
        self.words = words = WORDS[language]
        # A category's own list of a name goes before the language's.
        self.categories = {
            name: {slot: items(text) for slot, text in (words.SLOTS | lists).items()}
            for name, lists in words.CATEGORIES.items()
        }
        for lists in self.categories.values():
            lists["genre"] = [path.split(">")[-1].strip() for path in lists["path"]]
        common, made = items(words.COMMON_BRANDS), make_brands(language)
        self.brands = {"train": [], "valid": [], "test": []}
        for position, brand in enumerate(name for name in made if name not in common):
            self.brands[part_of(position)].append(brand)
        # Common words stand in texts of every part, so they are never held out.
        for position, brand in enumerate(common):
            self.brands["train"].insert(5 * position, brand)
        self.products = {
            name: make_products(lists, words.JOINER)
            for name, lists in self.categories.items()
        }

    def brand(self, dice, part):
        """Draws a brand; few are frequent, most are rare, as in any shop."""
        return pick(dice, self.brands[part], skew=2)

    def product(self, dice, part, category):
        """Draws a product as (name, bare noun)."""
        bare, compounds = self.products[category][part]
        return pick(dice, bare if dice.random() < self.words.BARE else compounds)

    def price(self, dice):
        """Draws a price and a higher one that it is said to have been."""
        low, high = self.words.PRICES
        now = pick(dice, range(low, high), skew=2)
        was = now + int(now * (0.1 + dice.random()))
        return f"{now}{self.words.CENTS}", f"{was}{self.words.CENTS}"


def make_brands(language):
    """Makes the brands of a language, all different."""
    words = WORDS[language]
    # The name that the word lists had when the brands were drawn first.
    dice = random.Random(zlib.crc32(f"bat_tf.data.product_words_{language}".encode()))
    openings, syllables = (
        re.findall(r"([a-z]+)(\w)(\w+)", sounds) for sounds in (OPENINGS, SYLLABLES)
    )
    parts = {name: text.split() for name, text in words.BRAND_PARTS.items()}
    brands = {}
    while len(brands) < NUM_BRANDS:
        # A consonant cluster in each name keeps it clear of names that exist.
        sounds = [pick(dice, syllables) for _ in range(1 + (dice.random() < 0.6))]
        sounds.insert(int(2 * dice.random()), pick(dice, openings))
        latin, han, kana = ("".join(script) for script in zip(*sounds, strict=True))
        spelled = {"latin": latin, "LATIN": latin.upper(), "han": han, "kana": kana}
        spelled["Latin"] = latin.capitalize()
        drawn = {name: pick(dice, choices) for name, choices in parts.items()}
        name = pick(dice, words.BRAND_FORMS).format(**spelled, **drawn)
        # Capitals do not make another name: only one of Trimora and TRIMORA is kept.
        brands.setdefault(name.lower(), name[0].upper() + name[1:])
    return list(brands.values())


def make_products(lists, joiner):
    """Returns (bare nouns, compounds) of a category for each part, as (name, noun)."""
    products = {part: ([], []) for part in ("train", "valid", "test")}
    for position, head in enumerate(lists["head"]):
        products[part_of(position)][0].append((head, head))
    # One word before the noun, or a type and a material.
    before = [(word,) for word in (*lists["kind"], *lists["material"])]
    before += zip(lists["kind"], lists["material"], strict=True)
    compounds = [
        (joiner.join((*words, head)), head, part_of(position))
        for position, head in enumerate(lists["head"])
        for words in before
    ]
    # Any order will do that is neither the alphabet's nor that of Python's own hash.
    compounds.sort(key=lambda compound: zlib.crc32(compound[0].encode()))
    for position, (name, head, part) in enumerate(compounds):
        # A compound of a held-out noun is held out with it.
        owner = part_of(position) if part == "train" else part
        if len(products[owner][1]) < NUM_COMPOUNDS:
            products[owner][1].append((name, head))
    return products
