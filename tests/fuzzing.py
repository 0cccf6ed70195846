"""How the fuzz tests draw, count and bound what they try.

A few hundred inputs by default, more than 200,000 different ones with
`pytest -m slow tests/test_fuzz.py tests/test_fuzz_loaders.py`. Each test is a part of
its own: `-k "files or tokens"` runs some, in any order, on any day.
"""

import contextlib
import signal

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

BATCH = 40  # texts at a time
# How many inputs each test takes: of the default run, of the slow one.
PLAN = {
    "tokens": (160, 60_000),
    "spans": (20, 9_000),
    "windows": (20, 6_000),
    "files": (220, 21_000),
    "matrix": (20, 2_000),
    "sgml": (20, 2_000),
    "rows": (50, 3_000),
    "rest": (60, 9_000),
    "socket": (20, 1_000),
    # Those below are in test_fuzz_loaders.py.
    "label spaces": (60, 20_000),
    "preprocessors": (40, 10_000),
    "safetensors": (60, 20_000),
    "targets": (60, 20_000),
    "archives": (30, 8_000),
    "graphs": (20, 10_000),
    "models": (6, 400),
}


def doses(name, ways=("any",), quick=None):
    """Runs a test in several ways with few inputs, or with many if slow ones are run.

    Args:
        name: key of `PLAN`, which says how many inputs there are in all.
        ways: what the test gets as `way`.
        quick: those of the default run; all by default.
    """
    few, many = PLAN[name]
    quick = ways if quick is None else quick
    rows = [pytest.param(way, -(-few // len(quick)), id=f"{way}-few") for way in quick]
    for way in ways:
        count = -(-many // len(ways))
        rows.append(pytest.param(way, count, id=f"{way}-many", marks=pytest.mark.slow))
    return pytest.mark.parametrize(("way", "count"), rows)


def fuzz(strategy, check, count, inputs_of=None):
    """Checks `count` different inputs; `inputs_of` finds `BATCH` of them in a batch.

    Nothing may take long: a batch that takes ten seconds counts as a hang.
    """
    seen = set()

    @settings(
        max_examples=-(-count // BATCH) if inputs_of else count,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(batch):
        inputs = inputs_of(batch) if inputs_of else [batch]
        seen.update(hash(repr(one)) for one in inputs)
        with within(10):
            check(batch)

    # One run may repeat itself; the next ones begin elsewhere. By seeds, because where
    # `CI` is set Hypothesis would begin at the same place every time.
    for number in range(10):
        if len(seen) < count:
            seed(number)(run)()
    assert len(seen) >= count


@contextlib.contextmanager
def within(seconds):
    def stop(*_):
        raise TimeoutError(f"nothing after {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
