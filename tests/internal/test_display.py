from bat_tf._internal import display
from bat_tf.answers import Tag

TAGS = [Tag(0, 4, "brand", 0.9, "Zorv"), Tag(5, 9, "product", 0.8, "lamp")]


def test_keywords_are_coloured_in_place():
    text = display.coloured("Zorv lamp", TAGS, ["brand", "product"])
    assert text.plain.startswith("Zorv lamp\n")
    styles = {(span.start, span.end): span.style for span in text.spans}
    assert styles[0, 4] != styles[5, 9]


def test_plain_text_keeps_everything_that_is_not_a_keyword():
    line = display.as_plain("Zorv lamp, white", TAGS)
    assert line == "[Zorv](brand) [lamp](product), white"


def test_markup_in_a_text_is_text():
    assert display.coloured("[bold]x[/bold]", []).plain == "[bold]x[/bold]"
