import functools
import hashlib
import time
from collections import Counter

import pytest

from bat_tf.data import product_words_en, product_words_ja, product_words_zh, read
from bat_tf.data.product_pages import product_pages, written_pages
from bat_tf.data.product_shelves import product_shelves
from bat_tf.data.product_words import items

WORDS = {"en": product_words_en, "zh": product_words_zh, "ja": product_words_ja}
SPLITS = ("train", "valid", "test")

shelves = functools.cache(product_shelves)


def rows(dataset):
    return [(example.id, example.text, example.labels) for example in dataset]


@pytest.mark.parametrize("language", WORDS)
def test_sizes_and_ids_are_those_of_the_pages(language):
    for split in SPLITS:
        found, pages = shelves(language, split), product_pages(language, split)
        assert found.task == "labels"
        assert [example.id for example in found] == [example.id for example in pages]


@pytest.mark.parametrize("language", WORDS)
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


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("language", [*WORDS, "all"])
def test_held_out_labels_are_known_in_training(language, seed):
    known = set(shelves(language, "train", seed=seed).counts())
    for split in ("valid", "test"):
        found = set(shelves(language, split, seed=seed).counts())
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


@pytest.mark.parametrize("language", WORDS)
def test_features_and_materials_are_those_of_the_name(language):
    """A name is a noun, with a feature, a material or both before it."""
    pages = list(written_pages(language, "train", skew=2))
    features = Counter()
    for page, example in zip(pages, shelves(language), strict=True):
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


@pytest.mark.parametrize("language", WORDS)
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

    train, valid = shelves("en"), shelves("en", "valid")
    test = product_shelves("en", "test", size=1000)
    model = SVMClassifier.for_data(train).fit(train, valid)
    truth = model.labels.csr(test.labels)
    scores = model.scores(test.texts)
    report = LabelReport.of_scores(scores, truth, model.labels, model.threshold)
    head, medium, tail = report.label_groups
    assert 0.85 < report.values["micro_f1"] < 0.97
    assert head.macro_f1 > medium.macro_f1 > tail.macro_f1
    assert 0.1 < tail.macro_f1 < 0.6


def test_pages_are_the_same_everywhere():
    found = [
        repr(row)
        for language in WORDS
        for split in SPLITS
        for row in rows(shelves(language, split).take(50))
    ]
    found = hashlib.sha256("\n".join(found).encode()).hexdigest()[:16]
    assert found == "5aff8028ca5aa0d2", "the corpus has changed"


def test_smaller_set_begins_larger_one():
    assert rows(product_shelves("zh", size=20)) == rows(shelves("zh")[:20])
    assert len(product_shelves("zh", size=0)) == 0
    first, second = (product_shelves("en", size=50, seed=seed) for seed in (0, 1))
    assert not set(first.texts) & set(second.texts)


def test_all_takes_the_languages_in_turn():
    dataset = shelves("all", "valid")
    languages = [example.id.split("/")[0] for example in dataset[:4]]
    assert languages == ["en", "zh", "ja", "en"]
    assert len(dataset) == 900 and dataset[3] == shelves("en", "valid")[1]


def test_writing_everything_takes_a_moment():
    before = time.process_time()
    for split in SPLITS:
        product_shelves("all", split)
    assert time.process_time() - before < 8


def test_the_corpus_has_a_name():
    dataset = read("product_shelves/en", split="valid", size=5)
    assert rows(dataset) == rows(shelves("en", "valid")[:5])
    assert dataset.name == "product_shelves/en/valid"
    assert rows(read("product_shelves/ja")) == rows(shelves("ja"))


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        ("product_shelves/fr", {}, "`language` must be one of 'en', 'zh', 'ja', 'all'"),
        ("product_shelves/en", {"split": "dev"}, "`split` must be one of 'train'"),
        ("product_shelves/en", {"size": -1}, "`size` must be an integer >= 0"),
        ("product_shelves/en", {"seed": "a"}, "`seed` must be an integer"),
    ],
)
def test_wrong_arguments_are_named(source, settings, message):
    with pytest.raises(ValueError, match=message):
        read(source, **settings)


def test_a_name_without_a_language_gets_a_hint():
    with pytest.raises(FileNotFoundError, match="Did you mean 'product_shelves/"):
        read("product_shelves")
