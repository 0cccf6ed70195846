"""A process that dies at any of the steps in which files are changed."""

import os
import signal

from bat_tf._internal import files


class Dying(files.Disk):
    """A disk on which the process ends before a step, as `kill -9` ends it."""

    def __init__(self, step, exchanges=True):
        self._left, self._exchanges = step, exchanges

    def _live(self):
        self._left -= 1
        if self._left < 0:
            os._exit(9)

    def write(self, path, text):
        self._live()
        super().write(path, text)

    def flush(self, path):
        self._live()
        super().flush(path)

    def rename(self, old, new):
        self._live()
        super().rename(old, new)

    def exchange(self, one, other):
        self._live()
        return self._exchanges and super().exchange(one, other)

    def remove(self, path):
        self._live()
        super().remove(path)


class Recording(files.Disk):
    """A disk that notes what is done on it."""

    def __init__(self):
        self.done = []

    def flush(self, path):
        self.done.append(("flush", path.name))
        super().flush(path)

    def rename(self, old, new):
        self.done.append(("rename", new.name))
        super().rename(old, new)

    def exchange(self, one, other):
        self.done.append(("exchange", other.name))
        return super().exchange(one, other)


def dies(work, step, **settings):
    """Whether a process that does the work dies before that step of it.

    The work must not run TensorFlow's operations: their threads are not in the child.
    """
    child = os.fork()
    if not child:
        code = 1
        signal.alarm(120)  # rather than wait for a lock that nobody gives back
        try:
            files.disk = Dying(step, **settings)
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9), f"the work failed with {code}"
    return code == 9


def contents(folder):
    """Every file of a folder and what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
