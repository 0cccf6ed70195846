import io
import types

import pytest
from rich.console import Console

from bat_tf import display
from bat_tf.serving import Tag

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


@pytest.mark.parametrize("terminal", [True, False])
def test_a_grid_of_long_epochs_says_how_long_it_will_take(terminal):
    shown, now = io.StringIO(), [0.0]
    console = Console(file=shown, force_terminal=terminal, width=120)
    settings = types.SimpleNamespace(seed=1)
    running = [types.SimpleNamespace(row="[CE], Switch", settings=settings)]
    with display.GridProgress(console, clock=lambda: now[0]) as progress:
        # Ten epochs were there before; one takes two minutes.
        for second in range(0, 1201, 5):
            now[0] = float(second)
            progress.show(10 + second // 120, 30, running)
    lines = shown.getvalue()
    assert "[CE], Switch (1)" in lines
    if terminal:
        assert "10/20" in lines and "0:20:00" in lines
    else:
        assert "2 of 20 epochs, about 35 minutes left: [CE], Switch (1)\n" in lines
        assert "10 of 20 epochs, about 20 minutes left" in lines
        assert lines.count("minutes left") == 4
