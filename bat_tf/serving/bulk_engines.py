"""Who does the work of a bulk job: processes of this machine, Ray, or Spark.

An engine is a function of a job, the numbers of its missing shards and how many
workers there shall be; it yields the number of each shard that is done.
"""

import concurrent.futures
import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from concurrent.futures.process import BrokenProcessPool

import tensorflow as tf

from bat_tf._validation import DataError, import_optional
from bat_tf.serving.bulk_rows import answers, loaded

# Columns that a model adds to a table, as Spark writes them.
COLUMNS = {
    "spans": "tags array<string>, starts array<int>, ends array<int>, "
    "scores array<double>, error string",
    "labels": "labels array<string>, scores array<double>, error string",
}
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
        yield from map(job.worker(), shards)
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
    _worker = job.worker()


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


def on_ray(job, shards, workers):
    """Does shards by actors of Ray Data, on this machine or a cluster.

    Ray starts an actor again when it dies. Every machine must see the job's files
    under the same paths.

    Args:
        job: `bulk.Job`.
        shards: numbers of the shards to do.
        workers: actors.

    Yields:
        The number of each shard that is done.
    """
    ray_data = _ray_data('`engine="ray"`')
    if not shards:
        return
    rows = [{"shard": shard} for shard in shards]
    # A block goes to one actor as a whole; each shard in its own keeps all busy.
    dataset = ray_data.from_items(rows, override_num_blocks=len(rows))
    done = dataset.map_batches(
        _RayWorker,
        fn_constructor_args=(job,),
        batch_size=1,
        compute=ray_data.ActorPoolStrategy(size=max(1, workers)),
        num_cpus=1,
    )
    for row in done.iter_rows():
        yield int(row["shard"])


class _RayWorker:
    def __init__(self, job):
        limit_threads(1)
        self._worker = job.worker()

    def __call__(self, batch):
        for shard in batch["shard"]:
            self._worker(int(shard))
        return batch


def _ray_data(purpose):
    import_optional("ray", "ray", purpose)
    return import_optional("ray.data", "ray", purpose)


class Annotate:
    """Adds a model's answers to a table: the batches of Ray Data and of Spark.

    The table needs the column `text`; the others stay as they are. A row whose text is
    missing gets empty lists and the reason in `error`, which is null otherwise.

    Args:
        model: path of a model.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        threads: of TensorFlow, in each process.
    """

    def __init__(self, model, batch_size=64, top_k=None, threads=1):
        self._model, self._threads = str(model), threads
        self._settings = batch_size, top_k

    def __call__(self, frame):
        """Returns a copy of a pandas `DataFrame` with the columns of `COLUMNS`."""
        limit_threads(self._threads)
        model = loaded(self._model)
        _, ask = answers(model, *self._settings)
        are_texts = [isinstance(text, str) for text in frame["text"]]
        found = iter(ask(list(itertools.compress(frame["text"], are_texts))))
        rows = [next(found) if is_text else [] for is_text in are_texts]
        errors = [None if is_text else "there is no text" for is_text in are_texts]
        columns = _span_columns if hasattr(model, "tag") else _label_columns
        return frame.assign(**columns(rows), error=errors)


def _span_columns(rows):
    return {
        "tags": [[tag.kind for tag in row] for row in rows],
        "starts": [[tag.start for tag in row] for row in rows],
        "ends": [[tag.end for tag in row] for row in rows],
        "scores": [[tag.score for tag in row] for row in rows],
    }


def _label_columns(rows):
    return {
        "labels": [[name for name, _ in row] for row in rows],
        "scores": [[score for _, score in row] for row in rows],
    }


def ray_dataset(dataset, model, *, workers=1, batch_size=64, top_k=None):
    """Adds a model's answers to a Ray dataset, by actors that load the model once.

        pages = ray.data.read_json("pages/")
        bulk.ray_dataset(pages, "shop/1", workers=4).write_parquet("tagged/")

    For a file as a resumable job on Ray, see `tag_corpus(..., engine="ray")`.

    Args:
        dataset: a `ray.data.Dataset` with a column `text`.
        model: path of a model, the same on every machine.
        workers: actors, with one core each.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.

    Returns:
        A `ray.data.Dataset` with the columns of `COLUMNS` added, not yet computed.
    """
    ray_data = _ray_data("`ray_dataset`")
    return dataset.map_batches(
        Annotate,
        fn_constructor_args=(str(model), batch_size, top_k),
        batch_format="pandas",
        batch_size=16 * batch_size,
        compute=ray_data.ActorPoolStrategy(size=max(1, workers)),
        num_cpus=1,
    )


def map_in_pandas(model, *, batch_size=64, top_k=None, threads=1):
    """Makes the function that Spark's `DataFrame.mapInPandas` wants.

        schema = f"id string, text string, {bulk.COLUMNS['spans']}"
        tagged = pages.mapInPandas(bulk.map_in_pandas("shop/1"), schema)
        tagged.where("error is null").write.parquet("tagged/")

    Args:
        model: path of a model, the same on every machine.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        threads: of TensorFlow, in each of Spark's Python processes.

    Returns:
        A function of an iterator of `DataFrame`s, which loads the model once a process.
    """
    import_optional("pandas", "spark", "`map_in_pandas`")
    annotate = Annotate(model, batch_size, top_k, threads)

    def annotated(frames):
        for frame in frames:
            yield annotate(frame)

    return annotated
