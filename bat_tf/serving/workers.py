"""The processes of a bulk job; those that die are replaced."""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool

import tensorflow as tf

from bat_tf._internal.validation import DataError

_PATIENCE = 3  # deaths in a row, without a shard done in between
_worker = None  # of this process, if it is a worker


class WorkersDied(RuntimeError):
    """Workers die again and again."""


def in_processes(job, shards, workers):
    """Does shards in processes; those of a process that dies are done by another.

    Args:
        job: `bulk.Job`.
        shards: numbers of the shards to do.
        workers: processes; 0 does the work in this one.

    Yields:
        The number of each shard that is done.
    """
    if not workers:
        yield from map(job.do, shards)
        return
    deaths, todo = 0, shards
    while todo:
        lost = []
        with _pool(job, min(workers, len(todo))) as submit:
            for shard, done in _submit_all(submit, todo, 2 * workers):
                if done:
                    deaths = 0
                    yield shard
                else:
                    lost.append(shard)
        todo = sorted(lost)
        deaths += bool(lost)
        if deaths == _PATIENCE:
            raise WorkersDied(
                f"Workers died {deaths} times without finishing a shard: somebody "
                "killed them, or memory was short. Take fewer workers or smaller "
                "batches."
            )


def _submit_all(submit, shards, most):
    """Yields (shard, whether it was done), holding `most` futures at a time.

    When a process dies its pool breaks, and what it held is not done.
    """
    todo, running = iter(shards), {}
    while True:
        for shard in itertools.islice(todo, most - len(running)):
            running[submit(shard)] = shard
        if not running:
            return
        finished, _ = concurrent.futures.wait(
            running, return_when=concurrent.futures.FIRST_COMPLETED
        )
        for future in finished:
            shard = running.pop(future)
            broken = isinstance(future.exception(), BrokenProcessPool)
            if not broken:
                future.result()
            yield shard, not broken


@contextlib.contextmanager
def _pool(job, workers):
    """A function that submits shards to processes, which end with the block.

    They hold one end of a pipe and leave when the other is closed, which the system
    does for a job that is killed, so that none is left behind.
    """
    context = multiprocessing.get_context("spawn")
    theirs, ours = context.Pipe(duplex=False)
    threads = max(1, _cores() // workers)
    pool = concurrent.futures.ProcessPoolExecutor(
        workers, context, _start_worker, (job, theirs, threads)
    )

    def submit(shard):
        # New processes inherit the mask: Ctrl-C is for this one, which ends them.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return pool.submit(_work, shard)
        except BrokenProcessPool as error:
            future = concurrent.futures.Future()
            future.set_exception(error)
            return future
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield submit
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        theirs.close()


def _cores():
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _start_worker(job, pipe, threads):
    global _worker
    threading.Thread(target=_leave_with, args=(pipe,), daemon=True).start()
    limit_threads(threads)
    _worker = job.do


def _leave_with(pipe):
    with contextlib.suppress(EOFError, OSError):
        pipe.recv()
    os._exit(1)


def _work(shard):
    try:
        return _worker(shard)
    except DataError as error:
        # It takes several arguments, which do not travel between processes.
        raise ValueError(str(error)) from None


def limit_threads(threads):
    """Holds TensorFlow to so many threads, if it has not started any yet."""
    with contextlib.suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
