import concurrent.futures
import contextlib
import functools
import os
import signal
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
import served

from bat_tf.serving import bulk, bulk_engines


class DyingJob:
    """Shard 1 kills its process the first time."""

    def __init__(self, folder):
        self.folder = folder

    def worker(self):
        return functools.partial(_die_once, self.folder)


def _die_once(folder, shard):
    mark = Path(folder) / f"tried-{shard}"
    if shard == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if shard == 3:
        raise OSError("shard 3 is not to be had")
    mark.touch()
    return shard


def test_another_process_does_what_a_dead_one_held(tmp_path):
    done = bulk_engines.in_processes(DyingJob(str(tmp_path)), [0, 1, 2], 1)
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

    monkeypatch.setattr(bulk_engines, "_pool", broken_pool)
    with pytest.raises(bulk_engines.WorkersDied) as caught:
        list(bulk_engines.in_processes(None, [0, 1, 2], 2))
    sees(str(caught.value))
    assert pools == [2, 2, 2]


def test_what_a_shard_raises_ends_the_job(tmp_path):
    done = bulk_engines.in_processes(DyingJob(str(tmp_path)), [0, 3, 2], 0)
    assert next(done) == 0
    with pytest.raises(OSError, match="not to be had"):
        next(done)


class Table(dict):
    """As much of a `DataFrame` as is used."""

    def assign(self, **columns):
        return Table(self, **columns)


def test_answers_become_columns():
    texts = [served.TEXTS[0], None, served.TEXTS[2]]
    table = Table(id=[1, 2, 3], text=texts)
    found = bulk_engines.Annotate(served.folder("pages"))(table)
    assert found["id"] == [1, 2, 3] and found["text"] == texts
    assert found["error"] == [None, "there is no text", None]
    for row in (0, 2):
        tags = served.model("pages").tag(texts[row])
        assert found["tags"][row] == [tag.kind for tag in tags]
        assert found["starts"][row] == [tag.start for tag in tags]
        assert found["ends"][row] == [tag.end for tag in tags]
    assert found["scores"][1] == []
    names = [column.split()[0] for column in bulk.COLUMNS["spans"].split(", ")]
    assert names == list(found)[2:]
    labels = bulk_engines._label_columns([[("energy", 0.9)], []])
    assert labels == {"labels": [["energy"], []], "scores": [[0.9], []]}


def test_what_is_not_installed_is_said_when_it_is_needed(monkeypatch):
    for name in ("ray", "ray.data", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[ray\]"'):
        list(bulk_engines.on_ray(None, [0], 1))
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[ray\]"'):
        bulk.ray_dataset(None, "model")
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[spark\]"'):
        bulk.map_in_pandas("model")


def expected(texts):
    return [[tag.kind for tag in tags] for tags in served.model("pages").tag(texts)]


@pytest.fixture
def ray(monkeypatch):
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=200 * 2**20,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        runtime_env={"env_vars": {"TF_CPP_MIN_LOG_LEVEL": "2"}},
    )
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_ray(ray, tmp_path):
    texts = [f"lamp number {n} by Veloria" for n in range(1, 201)]
    items = [{"id": n, "text": text} for n, text in enumerate(texts, 1)]
    tagged = bulk.ray_dataset(ray.data.from_items(items), served.folder("pages"))
    rows = sorted(tagged.take_all(), key=lambda row: row["id"])
    assert [row["text"] for row in rows] == texts
    assert [list(row["tags"]) for row in rows] == expected(texts)

    (tmp_path / "in.txt").write_text("\n".join(texts))
    job = (tmp_path / "in.txt", tmp_path / "out", served.folder("pages"))
    settings = {"shard_rows": 30, "engine": "ray"}
    assert bulk.tag_corpus(*job, **settings).rows_now == 200
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    before = [part.read_text() for part in parts]
    parts[3].unlink()
    assert bulk.tag_corpus(*job, **settings).rows_now == 30
    assert [part.read_text() for part in parts] == before


@pytest.mark.slow
def test_spark(monkeypatch):
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    texts = [f"lamp number {n} by Veloria" for n in range(100)]
    items = [*enumerate(texts), (100, None)]
    try:
        pages = spark.createDataFrame(items, "id long, text string").repartition(2)
        schema = f"id long, text string, {bulk.COLUMNS['spans']}"
        tag = bulk.map_in_pandas(served.folder("pages"))
        rows = pages.mapInPandas(tag, schema).orderBy("id").collect()
    finally:
        spark.stop()
    assert [row["text"] for row in rows] == [*texts, None]
    assert [row["tags"] for row in rows[:-1]] == expected(texts)
    assert rows[-1]["error"] == "there is no text" and rows[0]["error"] is None
