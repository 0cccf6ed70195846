"""The embedded corpus with labels: on which shelves of a shop a product page belongs.

The pages are those of `product_pages`, written in the same way, but of categories that
are not alike in size: a few of them fill most of the shop, as in any other. A label is
the name of a shelf or of a filter, in the words of the page's language:

| label | such as | a page has it |
|---|---|---|
| category | "Lighting", "杯壺" | if it names a thing or the category |
| department | "Home" | with its category, if it has more than one |
| kind of item | "lamp": desk lamp, floor lamp … | if that is what it sells |
| material, feature | "brass", "dimmable" | if the product's name says so |
| sale | "sale" | if it names a discount |

What a page only mentions does not count: "copper" is no label of a pan by the brand
Copper, nor of one that "replaces your old copper wok".
Most labels are rare: of the 108 in English, three in ten are on eight of the 2,400
training pages or fewer. Some pages are on no shelf at all.
"""

import functools

from bat_tf.data import product_words_en, product_words_ja, product_words_zh
from bat_tf.data.dataset import Example, TextDataset
from bat_tf.data.product_pages import written_pages
from bat_tf.data.product_words import items

_WORDS = {"en": product_words_en, "zh": product_words_zh, "ja": product_words_ja}
# Nouns that end alike are one kind of item; "spotlight" is a "light".
_ITEMS = {
    "en": "cup | pan | lamp | light | table | stand | bag | cream | shirt",
    "zh": "杯 | 鍋 | 燈 | 枕 | 被 | 桌 | 架 | 椅 | 包 | 霜 | 衣 | 茶",
    "ja": "鍋 | 枕 | 布団 | 棚 | 椅子 | 財布",
}
_SALE = {"en": "sale", "zh": "特價", "ja": "セール"}

# Slots that name a discount, and slots that tell the category of a page.
_DISCOUNTS = {"percent", "was"}
_TELLING = {"product", "head", "other_item", "path", "genre"}
# How unlike categories are in size, as in `product_words.pick`.
_SKEW = 2


def product_shelves(language, split="train", size=None, seed=0):
    """Product pages with labels, few of them frequent and many rare.

    As in `product_pages`, two products and brands in five of the held-out pages are new
    there; their labels are not: all occur in the whole training part of that seed.

    Args:
        language: `"en"`, `"zh"` (traditional), `"ja"`, or `"all"`: the three in turn.
        split: `"train"`, `"valid"` or `"test"`.
        size: number of pages; None for 2,400 (train) or 300 (valid, test) per language.
            A smaller set is the beginning of a larger one.
        seed: another seed writes other pages with the same words.

    Returns:
        A `TextDataset` of task "labels". An example's `id` is
        language/split/platform/number.

    Example:
        >>> pages = product_shelves("en", size=100)
        >>> pages.task, pages.counts().most_common(2)
        ('labels', [('Kitchen', 47), ('Home', 41)])
    """
    examples = []
    for page in written_pages(language, split, size, seed, _SKEW):
        labels = _shelves(page)
        if split != "train":
            known = _known(page.language, seed)
            labels = [name for name in labels if name in known]
        examples.append(Example(page.example.text, labels=labels, id=page.example.id))
    return TextDataset(examples, name=f"product_shelves/{language}/{split}")


@functools.cache
def _known(language, seed):
    """The labels of a language's training part."""
    pages = written_pages(language, "train", None, seed, _SKEW)
    return frozenset(name for page in pages for name in _shelves(page))


def _shelves(page):
    """Returns the labels of a page, the widest shelf first."""
    labels = []
    if page.slots & _TELLING:
        department, category = _path(page.lists["path"][0])
        if department in _wide_departments(page.language):
            labels.append(department)
        labels.append(category)
    if page.product:
        labels += _product_shelves(page)
    if page.slots & _DISCOUNTS:
        labels.append(_SALE[page.language])
    return labels


def _product_shelves(page):
    """Returns what the name of a product says: item, feature, material."""
    name, head = page.product
    before = name.removesuffix(head).rstrip()
    return [
        *(ending for ending in items(_ITEMS[page.language]) if head.endswith(ending)),
        *(word for word in page.lists["kind"] if before.startswith(word)),
        *(word for word in page.lists["material"] if before.endswith(word)),
    ]


def _path(path):
    return [part.strip() for part in path.split(">")]


@functools.cache
def _wide_departments(language):
    """The departments that are not the same shelf as their only category."""
    categories = _WORDS[language].CATEGORIES.values()
    departments = [_path(lists["path"])[0] for lists in categories]
    return frozenset(name for name in departments if departments.count(name) > 1)
