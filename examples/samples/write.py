"""Writes the invented product pages that come with bat_tf, always the same ones.

    python -m examples.samples.write [folder]

18 files, some 0.7 MB, in a few seconds. The rows are the same on every machine; other
versions of liblzma may pack them into other bytes. The folder is the package's own
unless another one is given. When rows change, `examples/build_saved_model.py` trains
the tagger of `bat-tf tag` again.
"""

import argparse
import itertools

from bat_tf.data import TextDataset, samples
from examples.samples.lexicon import WORDS
from examples.samples.pages import SIZES, write_pages
from examples.samples.shelves import label_pages


def rows(name, split):
    """The examples of one part of one set, such as "product_pages/en"."""
    kind, _, language = name.partition("/")
    size = SIZES[split]
    if kind == "product_pages":
        return [page.example for page in write_pages(language, split, size)]
    if (language, split) == ("en", "test"):
        size = 1000  # the notebooks compare rare labels there
    return list(label_pages(language, split, size))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=samples.FOLDER)
    folder = parser.parse_args().folder
    kinds = ("product_pages", "product_shelves")
    for kind, language, split in itertools.product(kinds, WORDS, SIZES):
        name = f"{kind}/{language}"
        TextDataset(rows(name, split)).save(samples.file_of(name, split, folder))


if __name__ == "__main__":
    main()
