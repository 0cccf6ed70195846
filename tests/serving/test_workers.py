import concurrent.futures
import contextlib
import os
import signal
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest

from bat_tf.serving import workers


class DyingJob:
    """Shard 1 kills its process the first time."""

    def __init__(self, folder):
        self.folder = folder

    def do(self, shard):
        mark = Path(self.folder) / f"tried-{shard}"
        if shard == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if shard == 3:
            raise OSError("shard 3 is not to be had")
        mark.touch()
        return shard


def test_another_process_does_what_a_dead_one_held(tmp_path):
    done = workers.in_processes(DyingJob(str(tmp_path)), [0, 1, 2], 1)
    assert sorted(done) == [0, 1, 2]


@pytest.mark.fault(
    "workers of a bulk job that keep dying",
    'after three deaths without a shard done: "Workers died 3 times without finishing '
    "a shard: somebody killed them, or memory was short. Take fewer workers or smaller "
    'batches."',
)
def test_workers_that_keep_dying_end_the_job(monkeypatch, sees):
    pools = []

    @contextlib.contextmanager
    def broken_pool(job, workers):
        pools.append(workers)

        def submit(shard):
            future = concurrent.futures.Future()
            future.set_exception(BrokenProcessPool())
            return future

        yield submit

    monkeypatch.setattr(workers, "_pool", broken_pool)
    with pytest.raises(workers.WorkersDied) as caught:
        list(workers.in_processes(None, [0, 1, 2], 2))
    sees(str(caught.value))
    assert pools == [2, 2, 2]


def test_what_a_shard_raises_ends_the_job(tmp_path):
    done = workers.in_processes(DyingJob(str(tmp_path)), [0, 3, 2], 0)
    assert next(done) == 0
    with pytest.raises(OSError, match="not to be had"):
        next(done)
