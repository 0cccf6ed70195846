"""Cleaning moves spans along with what they mark."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bat_tf import TextDataset
from bat_tf.data import Example, read
from examples.papers import preparation
from examples.papers.preparation import clean_page, prepared, without_words


def test_examples_of_the_docstrings():
    assert doctest.testmod(preparation).failed == 0


def marked(example):
    return [(example.text[s.start : s.end], s.kind) for s in example.spans]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("<div class='x'>銅鍋</div><br/>一人用", "銅鍋 一人用"),
        ("a<script>if (a < b) {}</script>b <!-- <b> --> c", "a b c"),
        ("Zur<b>ten</b> 銅<span class=x>鍋</span>", "Zurten 銅鍋"),
        ("3 < 4 and 5 > 2", "3 < 4 and 5 > 2"),  # no markup
        ("x&lt;b&gt; &#x9285;&#37707; &nosuch;", "x<b> 銅鍋 &nosuch;"),
        ("see http://a.test/b, www.a.test 松", "see 松"),
        ("\ufeffa\u200bb\xadc\r\n\td ", "abc d"),
        ("a\rb\u2028c\x0cd\x85e", "a b c d e"),  # old ends of lines and pages
        ('<a title=\'5 > 4\' href="x">a</a><p class="y>b', "a b"),
    ],
)
def test_pages_are_cleaned(text, clean):
    assert clean_page(Example(text, spans=[])).text == clean
    assert clean_page(Example(text, labels=["x"])).labels == ("x",)


def test_spans_keep_what_they_mark():
    text = "<b>Zurten</b>&nbsp;brass <i>desk</i> lamp"
    start = text.index("desk")
    whole = (text.index("brass"), len(text), "product")
    page = Example(text, spans=[(3, 9, "brand"), whole])
    assert marked(clean_page(page)) == [
        ("Zurten", "brand"),
        ("brass desk lamp", "product"),
    ]
    # A span that ends inside of markup loses that part, and one of markup alone goes.
    cut = Example(text, spans=[(0, 3, "tag"), (start, start + 6, "kind")])
    assert marked(clean_page(cut)) == [("desk", "kind")]


def test_stop_words_stay_inside_keywords():
    page = Example("本店的限量的銅鍋", spans=[(3, 8, "product")])
    found = without_words(page, ["的", "本店"])
    assert found.text == "限量的銅鍋" and marked(found) == [("限量的銅鍋", "product")]
    other = without_words(Example("Theory of THE lamp", spans=[]), ["the", "of"])
    assert other.text == "Theory lamp"


WORDS = st.lists(st.sampled_from(["lamp", "<b>", "</b>", "&amp;", " ", "的", "銅鍋"]))


@given(WORDS, st.data())
def test_what_is_marked_is_what_cleaning_the_mark_alone_gives(words, data):
    """Spans are of whole pieces; cleaning does not depend on what stands around."""
    text = "".join(words)
    if not text.strip():
        return
    places, at = [], 0
    for word in words:
        if word in ("lamp", "銅鍋"):
            places.append((at, at + len(word)))
        at += len(word)
    chosen = [place for place in places if data.draw(st.booleans())]
    page = Example(text, spans=[(*place, "x") for place in chosen])
    found = without_words(clean_page(page), ["的"])
    assert [name for name, _ in marked(found)] == [text[a:b] for a, b in chosen]
    assert "<b>" not in found.text and "的" not in found.text


def test_a_lone_stop_word_is_not_taken_for_its_letters():
    page = Example("of a lamp", spans=[])
    for call in (without_words, lambda page, words: prepared([page], words)):
        with pytest.raises(TypeError, match="must be a list"):
            call(page, "of")


def test_a_data_set_is_prepared_as_a_whole():
    pages = TextDataset(
        [
            Example("<p> </p>", spans=[]),
            Example("的 lamp", spans=[(2, 6, "x")]),
            Example("long " * 100, spans=[]),
        ],
        name="shop",
    )
    found = prepared(pages, stop_words=["的"], longest=400)
    assert found.texts == ["lamp"] and found.name == "shop"
    assert found[0].spans == ((0, 4, "x"),)
    # What is clean stays as it is.
    own = read("product_pages/zh", split="test")
    assert [marked(x) for x in prepared(own)] == [marked(x) for x in own]
