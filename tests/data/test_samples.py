"""The product pages that come with the package, and what writes them."""

import functools
import hashlib
import itertools
import re
import time
import unicodedata
from collections import Counter
from random import Random

import pytest

from bat_tf.data import read
from bat_tf.data.samples import FOLDER, SAMPLES, file_of
from examples.samples.lexicon import WORDS, Lexicon, items
from examples.samples.pages import write_pages
from examples.samples.shelves import SKEW
from examples.samples.write import rows

LANGUAGES = ("en", "zh", "ja")
SPLITS = ("train", "valid", "test")
PUBLISHED = {
    # none : product : brand, mean length
    "en": ((21.2, 1.9, 1.0), 46.6),
    "zh": ((21.2, 1.9, 1.0), 46.6),
    "ja": ((9.57, 1.0, 1.01), 30.0),
}


@functools.cache
def pages(language, split="train"):
    return read(f"product_pages/{language}", split)


@functools.cache
def shelves(language, split="train"):
    return read(f"product_shelves/{language}", split)


def count(language, text):
    return len(re.findall(r"\w+", text)) if language == "en" else len(text)


def keywords(dataset, kind=None):
    return [
        example.text[span.start : span.end].lower()
        for example in dataset
        for span in example.spans
        if kind in (None, span.kind)
    ]


def class_counts(dataset, count):
    product = sum(map(count, keywords(dataset, "product")))
    brand = sum(map(count, keywords(dataset, "brand")))
    return sum(map(count, dataset.texts)) - product - brand, product, brand


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", [n for n in SAMPLES if not n.endswith("all")])
def test_the_rows_are_those_that_the_script_writes(name, split):
    found = list(read(name, split))
    assert rows(name, split) == found
    assert (
        len(found)
        == {
            "train": 2400,
            "valid": 300,
            "test": 1000 if name == "product_shelves/en" else 300,
        }[split]
    )


def digest(rows):
    return hashlib.sha256("\n".join(map(repr, rows)).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("en", "8b5ba73c49856f3e"),
        ("zh", "91498018fec870b9"),
        ("ja", "3243233a102c515b"),
    ],
)
def test_the_pages_are_those_that_the_saved_model_learnt(language, expected):
    found = [
        (example.id, example.text, [tuple(span) for span in example.spans])
        for split in SPLITS
        for example in pages(language, split).take(50)
    ]
    assert digest(found) == expected, "train the saved model again"


def test_the_shelves_are_those_of_the_results():
    found = [
        (example.id, example.text, example.labels)
        for language in LANGUAGES
        for split in SPLITS
        for example in shelves(language, split).take(50)
    ]
    assert digest(found) == "5aff8028ca5aa0d2", "the corpus has changed"


def test_the_files_are_small_and_there_are_no_others():
    names = [name for name in SAMPLES if not name.endswith("all")]
    expected = {file_of(*pair) for pair in itertools.product(names, SPLITS)}
    assert expected == set(FOLDER.glob("*.xz"))
    assert sum(file.stat().st_size for file in expected) < 1_000_000


def test_a_whole_set_is_read_in_a_moment():
    before = time.process_time()
    assert len(read("product_pages/all")) == 7200
    assert time.process_time() - before < 2


def test_all_takes_the_languages_in_turn():
    for read_part in (pages, shelves):
        dataset = read_part("all", "valid")
        languages = [example.id.split("/")[0] for example in dataset[:4]]
        assert languages == ["en", "zh", "ja", "en"]
        assert dataset[4] == read_part("zh", "valid")[1]
        assert len(dataset) == len(read_part("all", "test")) == 900
    assert dataset.name == "product_shelves/all/valid"


@pytest.mark.parametrize(
    ("source", "settings", "error", "message"),
    [
        ("product_pages/fr", {}, FileNotFoundError, "Did you mean 'product_pages/"),
        ("product_shelves", {}, FileNotFoundError, "Did you mean 'product_shelves/"),
        ("product_pages/en", {"split": "dev"}, ValueError, "`split` must be one of"),
        ("product_pages/en", {"on_error": "no"}, ValueError, "`on_error` must be one"),
        ("product_pages/en", {"seed": 1}, TypeError, "option 'seed'. .* are: none"),
    ],
)
def test_wrong_names_are_sentences(source, settings, error, message):
    with pytest.raises(error, match=message):
        read(source, **settings)


# The pages.


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_ratio_and_length_are_the_published_ones(language, split):
    (none, product, brand), length = PUBLISHED[language]
    dataset = pages(language, split)
    found = class_counts(dataset, lambda text: count(language, text))
    assert found[0] / found[2] == pytest.approx(none / brand, rel=0.1)
    assert found[1] / found[2] == pytest.approx(product / brand, rel=0.1)
    assert sum(found) / len(dataset) == pytest.approx(length, rel=0.1)


@pytest.mark.parametrize("language", ["zh", "ja"])
def test_ratio_holds_for_tokenizers_that_drop_blanks(language):
    (none, _, brand), _ = PUBLISHED[language]
    found = class_counts(pages(language), lambda text: len("".join(text.split())))
    assert found[0] / found[2] == pytest.approx(none / brand, rel=0.1)


@pytest.mark.parametrize(("language", "number"), [("en", 5), ("zh", 5), ("ja", 11)])
def test_ids_name_platform_and_number(language, number):
    ids = [example.id for split in SPLITS for example in pages(language, split)]
    assert len(set(ids)) == len(ids) == 3000
    assert len({name.split("/")[2] for name in ids}) == number
    assert re.fullmatch(rf"{language}/train/\w+/00000", ids[0])


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_three_keywords_in_ten_are_new(language, split):
    seen = set(keywords(pages(language)))
    texts = "\n".join(pages(language).texts).lower()
    for kind in ("product", "brand"):
        found = keywords(pages(language, split), kind)
        new = [word for word in found if word not in seen]
        assert len(new) >= 0.3 * len(found)
        assert len(set(new)) >= 0.3 * len(set(found))
    # Not even unmarked, or inside a longer word.
    found = keywords(pages(language, split))
    new = [word for word in found if word not in texts]
    assert len(new) >= 0.3 * len(found)
    assert len(set(new)) >= 0.3 * len(set(found))


@pytest.mark.parametrize("language", LANGUAGES)
def test_parts_of_the_lexicon_share_no_keyword(language):
    lexicon, dice = Lexicon(language), Random(1)
    drawn = {
        part: {lexicon.brand(dice, part) for _ in range(3000)}
        | {
            lexicon.product(dice, part, category)[0]
            for category in lexicon.categories
            for _ in range(500)
        }
        for part in SPLITS
    }
    assert not drawn["train"] & drawn["valid"]
    assert not drawn["train"] & drawn["test"]
    assert not drawn["valid"] & drawn["test"]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_spans_are_sound(language, split):
    for example in pages(language, split):
        text, previous = example.text, None
        assert text == text.strip()
        assert "{" not in text and "}" not in text
        for span in example.spans:
            word = text[span.start : span.end]
            assert word and word == word.strip()
            assert span.kind in ("product", "brand")
            if previous:
                between = text[previous.end : span.start]
                assert span.start >= previous.end
                # The scheme "plain" would join neighbours of one kind.
                assert previous.kind != span.kind or re.search(r"\w", between)
            previous = span


@pytest.mark.parametrize("split", SPLITS)
def test_english_keywords_are_whole_words(split):
    for example in pages("en", split):
        for span in example.spans:
            around = f" {example.text} "[span.start], f" {example.text} "[span.end + 1]
            assert not any(char.isalnum() or char in "'-’" for char in around)


@pytest.mark.parametrize(("language", "codec"), [("zh", "big5"), ("ja", "cp932")])
def test_characters_are_those_of_the_language(language, codec):
    # Simplified Chinese characters are in neither encoding.
    characters = set("".join(pages(language).texts))
    han = {c for c in characters if unicodedata.name(c, "").startswith("CJK UNIFIED")}
    assert len(han) > 200
    assert "".join(sorted(han)).encode(codec)


@pytest.mark.parametrize("language", LANGUAGES)
def test_keywords_also_occur_unmarked(language):
    # Otherwise a look-up in a dictionary would do.
    dataset = pages(language)
    for kind in ("product", "brand"):
        common = {word for word in keywords(dataset, kind) if len(word) > 2}
        unmarked = 0
        for example in dataset:
            rest = list(example.text.lower())
            for span in example.spans:
                rest[span.start : span.end] = "\n" * (span.end - span.start)
            rest = "".join(rest)
            unmarked += any(word in rest for word in common)
        assert unmarked > 0.1 * len(dataset)


# The shelves.


@pytest.mark.parametrize("language", LANGUAGES)
def test_few_labels_are_frequent_and_many_rare(language):
    dataset = shelves(language)
    counts = sorted(dataset.counts().values(), reverse=True)
    assert 60 <= len(counts) <= 140
    assert sum(count >= 200 for count in counts) >= 5
    assert sum(count <= 8 for count in counts) > 0.28 * len(counts)
    # Several labels a page, and some pages without.
    sizes = Counter(map(len, dataset.labels))
    assert sizes[0] > 0
    assert sum(size * count for size, count in sizes.items()) > 1.5 * len(dataset)
    assert max(sizes) >= 5


@pytest.mark.parametrize("language", [*LANGUAGES, "all"])
def test_held_out_labels_are_known_in_training(language):
    known = set(shelves(language).counts())
    for split in ("valid", "test"):
        found = set(shelves(language, split).counts())
        assert found <= known
        assert len(found) > 0.5 * len(known)


def test_labels_say_what_is_sold():
    def labels_where(words):
        found = [set(e.labels) for e in shelves("en") if words in e.text]
        assert found
        return found

    for labels in labels_where("type: dimmable brass wall lamp"):
        assert labels >= {"Home", "Lighting", "lamp", "dimmable", "brass"}
    assert all("sale" in labels for labels in labels_where("% off"))
    assert all("sale" in labels for labels in labels_where("| was $"))
    # Mentioned, but not for sale: the old wok of someone who buys another pan.
    mentioned = labels_where("eplaces your old copper")
    assert any("copper" not in labels for labels in mentioned)


@pytest.mark.parametrize("language", LANGUAGES)
def test_features_and_materials_are_those_of_the_name(language):
    """A name is a noun, with a feature, a material or both before it."""
    written = write_pages(language, "train", skew=SKEW)
    features = Counter()
    for page, example in zip(written, shelves(language), strict=True):
        before = ""
        if page.product:
            name, head = page.product
            before = name.removesuffix(head).strip()
        kinds, materials = page.lists["kind"], page.lists["material"]
        found = [name for name in example.labels if name in (*kinds, *materials)]
        assert WORDS[language].JOINER.join(found) == before
        features.update(found)
    lists = WORDS[language].CATEGORIES.values()
    known = {x for each in lists for x in items(f"{each['kind']} | {each['material']}")}
    assert set(features) <= known


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_labels_also_occur_on_other_pages(language):
    # Otherwise looking for the name of the label would do.
    counts = shelves(language).counts()
    misleading = sum(
        name.lower() in example.text.lower() and name not in example.labels
        for example in shelves(language)
        for name in counts
    )
    assert misleading > 0.05 * counts.total()


def test_a_linear_model_learns_the_frequent_labels_and_not_the_rare():
    pytest.importorskip("sklearn")
    from bat_tf.metrics import LabelReport
    from bat_tf.models import SVMClassifier

    train, valid, test = (shelves("en", split) for split in SPLITS)
    model = SVMClassifier.for_data(train).fit(train, valid)
    truth = model.labels.csr(test.labels)
    scores = model.scores(test.texts)
    report = LabelReport.of_scores(scores, truth, model.labels, model.threshold)
    head, medium, tail = report.label_groups
    assert 0.85 < report.values["micro_f1"] < 0.97
    assert head.macro_f1 > medium.macro_f1 > tail.macro_f1
    assert 0.1 < tail.macro_f1 < 0.6
