"""Tables of other engines: a model as a function for Spark and for Ray Data."""

import functools
import itertools

from bat_tf._internal.validation import import_optional
from bat_tf.models.load import load
from bat_tf.serving.workers import limit_threads

# Columns that a model adds to a table, as Spark writes them.
COLUMNS = {
    "spans": "tags array<string>, starts array<int>, ends array<int>, "
    "scores array<double>, error string",
    "labels": "labels array<string>, scores array<double>, error string",
}


class Annotate:
    """Adds a model's answers to a table: the batches of Ray Data and of Spark.

    The table needs the column `text`; the others stay as they are. A row whose text is
    missing gets empty lists and the reason in `error`, which is null otherwise.

    Args:
        model: path of a model.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        threshold: of labels, those whose score is above it.
        threads: of TensorFlow, in each process.
    """

    def __init__(self, model, batch_size=64, top_k=None, threshold=None, threads=1):
        self._model, self._threads = str(model), threads
        self._options = {"top_k": top_k, "threshold": threshold}
        self._batch_size = batch_size

    def __call__(self, frame):
        """Returns a copy of a pandas `DataFrame` with the columns of `COLUMNS`."""
        limit_threads(self._threads)
        model = _loaded(self._model)
        are_texts = [isinstance(text, str) for text in frame["text"]]
        texts = list(itertools.compress(frame["text"], are_texts))
        found = iter(model.answer(texts, self._batch_size, **self._options))
        rows = [next(found) if is_text else [] for is_text in are_texts]
        errors = [None if is_text else "there is no text" for is_text in are_texts]
        columns = _span_columns if model.task == "spans" else _label_columns
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


@functools.cache
def _loaded(path):
    """The model at a path, read once in a process."""
    return load(path)


def ray_dataset(
    dataset, model, *, workers=1, batch_size=64, top_k=None, threshold=None
):
    """Adds a model's answers to a Ray dataset, by actors that load the model once.

        pages = ray.data.read_json("pages/")
        ray_dataset(pages, "shop/1", workers=4).write_parquet("tagged/")

    Args:
        dataset: a `ray.data.Dataset` with a column `text`.
        model: path of a model, the same on every machine.
        workers: actors, with one core each.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        threshold: of labels, those whose score is above it.

    Returns:
        A `ray.data.Dataset` with the columns of `COLUMNS` added, not yet computed.
    """
    import_optional("ray", "ray", "`ray_dataset`")
    ray_data = import_optional("ray.data", "ray", "`ray_dataset`")
    return dataset.map_batches(
        Annotate,
        fn_constructor_args=(str(model), batch_size, top_k, threshold),
        batch_format="pandas",
        batch_size=16 * batch_size,
        compute=ray_data.ActorPoolStrategy(size=max(1, workers)),
        num_cpus=1,
    )


def map_in_pandas(model, *, batch_size=64, top_k=None, threshold=None, threads=1):
    """Makes the function that Spark's `DataFrame.mapInPandas` wants.

        schema = f"id string, text string, {COLUMNS['spans']}"
        tagged = pages.mapInPandas(map_in_pandas("shop/1"), schema)
        tagged.where("error is null").write.parquet("tagged/")

    Args:
        model: path of a model, the same on every machine.
        batch_size: texts a step.
        top_k: of labels, the best so many instead of those above the threshold.
        threshold: of labels, those whose score is above it.
        threads: of TensorFlow, in each of Spark's Python processes.

    Returns:
        A function of an iterator of `DataFrame`s, which loads the model once a process.
    """
    import_optional("pandas", "spark", "`map_in_pandas`")
    annotate = Annotate(model, batch_size, top_k, threshold, threads)
    return lambda frames: map(annotate, frames)
