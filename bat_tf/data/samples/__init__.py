"""Invented product pages that come with the package: data for a first try.

EC-Zh and EC-JP, on which BAT was published, are private. These pages stand in for them
in demos and tests, with the published statistics; no real page, brand or person is in
them. `examples/samples` is what wrote them.

**product_pages** has texts with spans: the **product** that a page sells (its name with
material and type, such as "不鏽鋼保溫杯") and the **brand** that makes it. The same
words stay unmarked where they mean something else: in a category path, in "compatible
with …", in a shop's name, or as a colour ("Maple" the brand, "maple syrup brown").

| language | as in | platforms | none : product : brand | mean length |
|---|---|---|---|---|
| zh, traditional | EC-Zh | 5 | 21.2 : 1.9 : 1 characters | 46.6 characters |
| ja | EC-JP | 11 | 9.57 : 1 : 1.01 characters | 30 characters |
| en | EC-Zh, in words | 5 | 21.2 : 1.9 : 1 words | 46.6 words |

**product_shelves** has such pages with labels, a few categories filling most of the
shop. A label is a shelf or a filter, in the page's language; most are rare: of the 108
in English, three in ten are on eight of the 2,400 training pages or fewer. All labels
of the held-out pages occur in training. Some pages are on no shelf at all.

| label | such as | a page has it |
|---|---|---|
| category | "Lighting", "杯壺" | if it names a thing or the category |
| department | "Home" | with its category, if it has more than one |
| kind of item | "lamp": desk lamp, floor lamp … | if that is what it sells |
| material, feature | "brass", "dimmable" | if the product's name says so |
| sale | "sale" | if it names a discount |

Both have 2,400 pages to train on and 300 each for valid and test in every language;
`product_shelves/en` has 1,000 for test. `…/all` takes the three languages in turn. Two
keywords in five of the held-out pages are new there: no training page holds them, and
valid and test keep out different ones. An id is language/split/platform/number.
"""

import itertools
from pathlib import Path

from bat_tf._internal.validation import check_choice
from bat_tf.data.dataset import SPLITS
from bat_tf.data.readers.jsonl import iter_jsonl

FOLDER = Path(__file__).parent
LANGUAGES = ("en", "zh", "ja")
SAMPLES = tuple(
    f"{kind}/{language}"
    for kind in ("product_pages", "product_shelves")
    for language in (*LANGUAGES, "all")
)


def iter_sample(source, split):
    """Yields the examples of an included set.

    Args:
        source: the `Source`, one of `SAMPLES`.
        split: "train", "valid" or "test".
    """
    check_choice("split", split, SPLITS)
    kind, _, language = source.path.partition("/")
    languages = LANGUAGES if language == "all" else (language,)
    files = [file_of(f"{kind}/{each}", split) for each in languages]
    # In turn, as long as each language has a page.
    turns = zip(*(iter_jsonl(source.of(file)) for file in files), strict=False)
    return itertools.chain.from_iterable(turns)


def file_of(name, split, folder=FOLDER):
    """The file that holds one part of a set of one language."""
    return Path(folder) / f"{name.replace('/', '.')}.{split}.jsonl.xz"
