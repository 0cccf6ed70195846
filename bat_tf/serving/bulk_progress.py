"""How far a long job is: a bar for eyes, a line now and then for logs."""

import time
from datetime import timedelta

from rich import progress


def describe(done, total, now, seconds):
    """Rows, rate and estimate in words.

    Args:
        done: rows done in all.
        total: rows there are, or None if nobody knows.
        now: rows done since the clock started, which set the rate.
        seconds: what the clock says.

    Example:
        >>> describe(1500, 10_000, 500, 2.0)
        '1,500 of 10,000 rows, 250 a second, 0:00:34 left'
        >>> describe(1500, None, 0, 2.0)
        '1,500 rows'
    """
    text = f"{done:,} rows" if total is None else f"{done:,} of {total:,} rows"
    if now and seconds > 0:
        text += f", {as_rate(now, seconds)}"
        if total is not None and done < total:
            left = round((total - done) * seconds / now)
            text += f", {timedelta(seconds=left)} left"
    return text


def as_rate(rows, seconds):
    """Rows a second, in words.

    Example:
        >>> as_rate(5000, 2), as_rate(3, 2)
        ('2,500 a second', '1.5 a second')
    """
    rate = rows / seconds
    return f"{rate:,.{0 if rate >= 10 else 1}f} a second"


class RowsProgress:
    """Shows rows done, their rate and how long the others will take.

    Args:
        console: a rich `Console`; where it is no terminal, lines are written.
        every: seconds between those lines; a job that is shorter writes none.
    """

    def __init__(self, console, every=10):
        self._console, self._every = console, every
        self._bar = progress.Progress(
            progress.BarColumn(),
            progress.TextColumn("{task.description}"),
            progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,  # it is where answers may go
            disable=not console.is_terminal,
        )
        self._task = self._began = None

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *error):
        self._bar.stop()

    def show(self, done, total=None):
        """Draws the state; a function for `tag_corpus`."""
        now = time.monotonic()
        if self._began is None:
            # What was there before says nothing about the speed.
            self._began = self._written = now
            self._first = done
            self._task = self._bar.add_task("", total=total)
        text = describe(done, total, done - self._first, now - self._began)
        self._bar.update(self._task, completed=done, description=text)
        if not self._console.is_terminal and now - self._written >= self._every:
            self._written = now
            self._console.print(text, highlight=False, soft_wrap=True)
