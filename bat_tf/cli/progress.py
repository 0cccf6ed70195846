"""How far a long job is: a bar for eyes, a line now and then for logs."""

import time
from datetime import timedelta

from rich import progress


def as_rate(rows, seconds):
    """Rows a second, in words.

    Example:
        >>> as_rate(5000, 2), as_rate(3, 2), as_rate(1, 120)
        ('2,500 a second', '1.5 a second', '30 an hour')
    """
    rate = rows / seconds
    if rate < 0.1:
        return f"{3600 * rate:.0f} an hour"
    return f"{rate:,.{0 if rate >= 10 else 1}f} a second"


class JobProgress(progress.Progress):
    """Shows what is done of a job, how fast it goes and how long the rest will take.

    Args:
        console: a rich `Console`; where it is no terminal, lines are written.
        unit: what is counted: "rows", "epochs".
        every: seconds between those lines; a job that is shorter writes none.
        clock: a function that returns seconds.
    """

    def __init__(self, console, unit="rows", every=10, clock=time.monotonic):
        super().__init__(
            progress.BarColumn(),
            progress.TextColumn("{task.description}", markup=False),
            progress.TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,  # it is where answers may go
            disable=not console.is_terminal,
            get_time=clock,
        )
        self._unit, self._every, self._clock = unit, every, clock
        self._written = clock()

    def show(self, done, total=None, doing=""):
        """Draws the state.

        Args:
            done: how many are done, those of earlier calls of the command included.
            total: how many there are; None if nobody knows.
            doing: what is at work now, in words.
        """
        now = self._clock()
        if not self.tasks:
            # What was there before says nothing about the speed.
            self._first, self._began, self._last = done, now, (done, now)
            self.add_task("", total=total, completed=done)
        if done > self._last[0]:
            self._last = done, now
        text = self._in_words(done, total, now) + (f": {doing}" if doing else "")
        self.update(self.tasks[0].id, completed=done, description=text)
        if not self.console.is_terminal and now - self._written >= self._every:
            self._written = now
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _in_words(self, done, total, now):
        of_all = "" if total is None else f" of {total:,}"
        text = f"{done:,}{of_all} {self._unit}"
        moved = self._last[1]
        seconds, count = moved - self._began, done - self._first
        if count and seconds:
            text += f", {as_rate(count, seconds)}"
            if total is not None and done < total:
                left = max(0, seconds / count * (total - done) - (now - moved))
                text += f", {timedelta(seconds=round(left))} left"
        return text
