import io

import pytest
from rich.console import Console

from bat_tf.cli.progress import JobProgress


def shown(every, **settings):
    console = Console(file=io.StringIO(), width=120, **settings)
    with JobProgress(console, every=every) as progress:
        for done in (10, 20, 40):
            progress.show(done, 40)
    return console.file.getvalue()


def test_lines_for_logs_are_few():
    assert shown(every=60) == ""
    lines = shown(every=0).splitlines()
    assert lines[0] == "10 of 40 rows"
    assert "20 of 40 rows, " in lines[1] and lines[1].endswith(" left")
    assert "a second" in lines[2] and "left" not in lines[2]


def test_a_bar_for_terminals():
    assert "40 of 40 rows" in shown(every=60, force_terminal=True)


def test_what_is_not_counted_has_no_estimate():
    console = Console(file=io.StringIO())
    with JobProgress(console, every=0) as progress:
        progress.show(0)
        progress.show(64)
    assert "left" not in console.file.getvalue()


@pytest.mark.parametrize("terminal", [True, False])
def test_long_epochs_are_estimated_between_their_ends(terminal):
    text, now = io.StringIO(), [0.0]
    console = Console(file=text, force_terminal=terminal, width=120)
    with JobProgress(console, "epochs", 300, clock=lambda: now[0]) as progress:
        # Ten epochs were there before; one takes two minutes.
        for second in range(0, 1201, 5):
            now[0] = float(second)
            progress.show(10 + second // 120, 30, "[CE], Switch (1)")
    lines = text.getvalue()
    assert "[CE], Switch (1)" in lines
    if not terminal:
        # Of 18 epochs one has run for a minute.
        assert "12 of 30 epochs, 30 an hour, 0:35:00 left: [CE], Switch" in lines
        assert "20 of 30 epochs, 30 an hour, 0:20:00 left" in lines
        assert lines.count(" left") == 4
