"""Keeps TensorFlow's log lines off the terminal."""

import logging
import os
import re
import signal
import sys

# What C++ writes in absl's form, and the two lines that belong to such lines.
LOG_LINE = re.compile(
    rb"[IWE]\d{4} \d\d:\d\d:\d\S+ +\d+ \S+:\d+\]"
    rb"|WARNING: All log messages before absl::InitializeLog"
    rb"|To enable the following instructions:"
)


def hide_logs():
    """Hides TensorFlow's log lines, of worker processes too; all else is passed on.

    Its own variable is not enough: it leaves the lines that are written while the
    libraries are loaded. So a small process reads what C++ writes to stderr, and lives
    until the last writer has gone; Python goes on writing to the terminal itself.

    Nothing is hidden where `TF_CPP_MIN_LOG_LEVEL` says what is wanted, or where
    TensorFlow is there already.
    """
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ or "tensorflow" in sys.modules:
        return
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    try:
        terminal = os.dup(2)
    except OSError:  # stderr is closed
        return
    lines, end = os.pipe()
    if not os.fork():
        os.close(end)
        _pass_on(lines)
    os.close(lines)
    os.dup2(end, 2)
    os.close(end)
    if sys.stderr is sys.__stderr__:
        sys.stderr = os.fdopen(terminal, "w", buffering=1, errors="backslashreplace")


def _pass_on(lines):
    """Copies to stderr what is no log line, and ends this process."""
    # Ctrl-C is for the others, who may have something to say about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.close(0)
    os.close(1)
    try:
        with os.fdopen(lines, "rb") as file:
            for line in file:
                if not LOG_LINE.match(line):
                    os.write(2, line)
    finally:
        os._exit(0)
