import io

from rich.console import Console

from bat_tf.serving.bulk_progress import RowsProgress


def shown(every, **settings):
    console = Console(file=io.StringIO(), width=120, **settings)
    with RowsProgress(console, every) as progress:
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
    with RowsProgress(console, 0) as progress:
        progress.show(0)
        progress.show(64)
    assert "left" not in console.file.getvalue()
