import time
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_tf.data import Example, Span, TextDataset, read
from bat_tf.models.dictionary import DictionaryTagger


def tagger(**keywords):
    """A tagger whose training set marks each keyword once: tagger(product="desk")."""
    return DictionaryTagger().fit(
        TextDataset(
            Example(word, spans=[(0, len(word), kind)])
            for kind, words in keywords.items()
            for word in words.split("|")
        )
    )


def found(tagger, text):
    (spans,) = tagger.tag([text])
    return [(text[span.start : span.end], span.kind) for span in spans]


def test_longest_keyword_wins_from_left_to_right():
    model = tagger(product="desk|desk lamp|lamp shade|保溫|保溫杯|杯蓋")
    assert found(model, "desk lamp shade") == [("desk lamp", "product")]
    assert found(model, "desk, lamp shade") == [
        ("desk", "product"),
        ("lamp shade", "product"),
    ]
    assert found(model, "保溫杯蓋") == [("保溫杯", "product")]


def test_shorter_keyword_is_tried_where_longer_one_ends_inside_a_word():
    assert found(tagger(product="tea|tea pot"), "tea pottery") == [("tea", "product")]


@pytest.mark.parametrize(
    "text", ["desktop", "escritoiredesk", "desk2", "ädesk", "desk\u0301"]
)
def test_only_whole_words_match_where_blanks_separate_words(text):
    assert found(tagger(product="desk"), text) == []


@pytest.mark.parametrize("text", ["desk", "(desk)", "a desk.", "書desk桌", "desk/lamp"])
def test_word_boundaries(text):
    assert found(tagger(product="desk"), text) == [("desk", "product")]


def test_han_and_kana_match_anywhere():
    model = tagger(product="水筒|保溫杯|コーヒー", brand="ルモ")
    assert found(model, "軽量水筒セット") == [("水筒", "product")]
    assert found(model, "新保溫杯組") == [("保溫杯", "product")]
    assert found(model, "ルモラのコーヒー豆") == [
        ("ルモ", "brand"),
        ("コーヒー", "product"),
    ]


def test_capitals_and_full_width_forms_make_no_difference():
    model = tagger(brand="Lumora 露茉菈")
    assert found(model, "LUMORA 露茉菈") == [("LUMORA 露茉菈", "brand")]
    assert found(model, "ｌｕｍｏｒａ　露茉菈") == [("ｌｕｍｏｒａ　露茉菈", "brand")]


def test_offsets_are_those_of_the_text_as_given():
    # The small İ has two characters in Python, emoji and flags one each.
    model = tagger(product="desk")
    for text in ("İİ desk", "🇯🇵🔥desk", "ﬁ ß desk"):
        assert found(model, text) == [("desk", "product")]


def test_kind_is_the_most_frequent_one():
    rows = [("Maple", "brand"), ("maple", "product"), ("MAPLE", "product")]
    rows += [("oak", "product"), ("oak", "brand")]
    model = DictionaryTagger().fit(
        TextDataset(Example(word, spans=[(0, len(word), kind)]) for word, kind in rows)
    )
    assert model.keywords == {"maple": "product", "oak": "brand"}


def test_fitting_again_forgets():
    model = tagger(product="desk")
    model.fit(TextDataset([Example("lamp", spans=[(0, 4, "product")])]))
    assert found(model, "desk lamp") == [("lamp", "product")]


def test_nothing_to_find():
    model = tagger(product="desk")
    assert model.tag([]) == []
    assert model.tag(["", "  ", "chair"]) == [[], [], []]
    assert DictionaryTagger().tag(["desk"]) == [[]]


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"`texts` must be a list.*Write \[text\]"):
        tagger(product="desk").tag("desk")
    labelled = TextDataset([Example("desk", labels=["wood"])])
    with pytest.raises(ValueError, match="`dataset` must be a data set with spans"):
        DictionaryTagger().fit(labelled)


@given(
    st.lists(st.text(min_size=1, max_size=4).filter(str.strip), max_size=5), st.text()
)
def test_spans_are_keywords_inside_the_text(words, text):
    model = DictionaryTagger().fit(
        TextDataset(Example(word, spans=[(0, len(word), "x")]) for word in words)
    )
    (spans,) = model.tag([text])
    ends = 0
    for span in spans:
        assert ends <= span.start < span.end <= len(text)
        ends = span.end
    # A keyword that stands alone is always found.
    for word in words:
        assert model.tag([word]) == [[Span(0, len(word), "x")]]


def f1(gold, predicted):
    pairs = list(zip(gold, predicted, strict=True))
    hits = sum(len(set(a) & set(b)) for a, b in pairs)
    return 2 * hits / sum(len(a) + len(b) for a, b in pairs)


@pytest.mark.parametrize("language", ["en", "zh", "ja"])
def test_baseline_leaves_a_model_room(language):
    test = read(f"product_pages/{language}", "test")
    model = DictionaryTagger().fit(read(f"product_pages/{language}"))
    assert 0.35 < f1(test.spans, model.tag(test.texts)) < 0.65


def test_megabytes_take_a_moment():
    dice = Random(0)
    alphabets = ["abcdefghijklmnopqrstuvwxyz", [chr(0x4E00 + n) for n in range(3000)]]
    words = {
        "".join(dice.choices(alphabets[n % 2], k=2 + n % 5)) for n in range(10_000)
    }
    model = DictionaryTagger().fit(
        TextDataset(Example(word, spans=[(0, len(word), "x")]) for word in words)
    )
    text = " ".join(read("product_pages/all").take(2000).texts)
    text = (text * (1_000_000 // len(text) + 1))[:1_000_000]
    before = time.process_time()
    model.tag([text])
    assert time.process_time() - before < 5
