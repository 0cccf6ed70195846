import functools
import hashlib
import re
import time
import unicodedata
from random import Random

import pytest

from bat_tf.data import product_words_en, product_words_ja, product_words_zh
from bat_tf.data.product_pages import product_pages
from bat_tf.data.product_words import Lexicon

LANGUAGES = ("en", "zh", "ja")
SPLITS = ("train", "valid", "test")
PUBLISHED = {
    # none : product : brand, mean length
    "en": ((21.2, 1.9, 1.0), 46.6),
    "zh": ((21.2, 1.9, 1.0), 46.6),
    "ja": ((9.57, 1.0, 1.01), 30.0),
}

pages = functools.cache(product_pages)


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


@pytest.mark.parametrize("language", LANGUAGES)
def test_statistics_do_not_hang_on_seed_or_size(language):
    (none, product, brand), length = PUBLISHED[language]
    dataset = product_pages(language, "train", size=200, seed=7)
    found = class_counts(dataset, lambda text: count(language, text))
    assert found[0] / found[2] == pytest.approx(none / brand, rel=0.1)
    assert found[1] / found[2] == pytest.approx(product / brand, rel=0.1)
    assert sum(found) / len(dataset) == pytest.approx(length, rel=0.1)


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


@pytest.mark.parametrize(
    "words", [product_words_en, product_words_zh, product_words_ja]
)
def test_parts_of_the_lexicon_share_no_keyword(words):
    lexicon, dice = Lexicon(words), Random(1)
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


@pytest.mark.parametrize(
    ("language", "digest"),
    [
        ("en", "8b5ba73c49856f3e"),
        ("zh", "91498018fec870b9"),
        ("ja", "3243233a102c515b"),
    ],
)
def test_pages_are_the_same_everywhere(language, digest):
    rows = [
        repr((example.id, example.text, [tuple(span) for span in example.spans]))
        for split in SPLITS
        for example in pages(language, split).take(50)
    ]
    found = hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]
    assert found == digest, "the corpus has changed: train the saved model again"


def test_smaller_set_begins_larger_one():
    assert list(product_pages("ja", size=20)) == list(pages("ja")[:20])
    assert len(product_pages("ja", size=0)) == 0


def test_another_seed_writes_other_pages():
    first, second = (product_pages("zh", size=50, seed=seed) for seed in (0, 1))
    assert not set(first.texts) & set(second.texts)


def test_all_takes_the_languages_in_turn():
    dataset = product_pages("all", "valid", size=7)
    languages = [example.id.split("/")[0] for example in dataset]
    assert languages == ["en", "zh", "ja", "en", "zh", "ja", "en"]
    assert dataset[4] == pages("zh", "valid")[1]
    assert len(product_pages("all", "test")) == 900


def test_writing_everything_takes_a_moment():
    before = time.process_time()
    for split in SPLITS:
        product_pages("all", split)
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language": "fr"}, "`language` must be one of 'en', 'zh', 'ja', 'all'"),
        ({"language": "en", "split": "dev"}, "`split` must be one of 'train'"),
        ({"language": "en", "size": -1}, "`size` must be an integer >= 0"),
        ({"language": "en", "seed": "a"}, "`seed` must be an integer"),
    ],
)
def test_wrong_arguments_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        product_pages(**settings)
