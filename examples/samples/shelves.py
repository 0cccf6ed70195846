"""The shelves of a page: its labels; `bat_tf.data.samples` says which there are.

What a page only mentions does not count: "copper" is no label of a pan by the brand
Copper, nor of one that "replaces your old copper wok".
"""

import functools

from bat_tf.data import Example
from examples.samples.lexicon import Lexicon, items
from examples.samples.pages import write_pages

# Slots that name a discount, and slots that tell the category of a page.
DISCOUNTS = {"percent", "was"}
TELLING = {"product", "head", "other_item", "path", "genre"}
# How unlike categories are in size, as in `pick`: a few of them fill most of the shop.
SKEW = 2


def label_pages(language, split, size):
    """Yields pages with their labels; a label that no training page has is left out."""
    known = known_labels(language)
    for page in write_pages(language, split, size, SKEW):
        labels = [name for name in shelves(page) if name in known]
        yield Example(page.example.text, labels=labels, id=page.example.id)


@functools.cache
def known_labels(language):
    """The labels of a language's training part."""
    pages = write_pages(language, "train", skew=SKEW)
    return frozenset(name for page in pages for name in shelves(page))


def shelves(page):
    """Returns the labels of a page, the widest shelf first."""
    labels, words = [], Lexicon(page.language).words
    if page.slots & TELLING:
        department, category = split_path(page.lists["path"][0])
        if department in wide_departments(page.language):
            labels.append(department)
        labels.append(category)
    if page.product:
        name, head = page.product
        before = name.removesuffix(head).rstrip()
        labels += [ending for ending in items(words.ITEMS) if head.endswith(ending)]
        labels += [word for word in page.lists["kind"] if before.startswith(word)]
        labels += [word for word in page.lists["material"] if before.endswith(word)]
    if page.slots & DISCOUNTS:
        labels.append(words.SALE)
    return labels


def split_path(path):
    return [part.strip() for part in path.split(">")]


@functools.cache
def wide_departments(language):
    """The departments that are not the same shelf as their only category."""
    categories = Lexicon(language).words.CATEGORIES.values()
    departments = [split_path(lists["path"])[0] for lists in categories]
    return frozenset(name for name in departments if departments.count(name) > 1)
