import sys

import pytest
import served

import bat_tf
from bat_tf.serving import engines, map_in_pandas, ray_dataset


class Table(dict):
    """As much of a `DataFrame` as is used."""

    def assign(self, **columns):
        return Table(self, **columns)


def test_answers_become_columns():
    texts = [served.TEXTS[0], None, served.TEXTS[2]]
    table = Table(id=[1, 2, 3], text=texts)
    found = engines.Annotate(served.folder("pages"))(table)
    assert found["id"] == [1, 2, 3] and found["text"] == texts
    assert found["error"] == [None, "there is no text", None]
    for row in (0, 2):
        tags = served.model("pages").tag(texts[row])
        assert found["tags"][row] == [tag.kind for tag in tags]
        assert found["starts"][row] == [tag.start for tag in tags]
        assert found["ends"][row] == [tag.end for tag in tags]
    assert found["scores"][1] == []
    names = [column.split()[0] for column in engines.COLUMNS["spans"].split(", ")]
    assert names == list(found)[2:]


def test_the_options_of_labels():
    table = Table(text=["a", "bb", None])
    found = engines.Annotate(served.folder("news"), top_k=2, threshold=0.6)(table)
    expected = bat_tf.load(served.folder("news")).label(["a", "bb"], 2, 0.6)
    assert found["labels"] == [[name for name, _ in row] for row in expected] + [[]]
    names = [column.split()[0] for column in engines.COLUMNS["labels"].split(", ")]
    assert names == list(found)[1:]


def test_what_is_not_installed_is_said_when_it_is_needed(monkeypatch):
    for name in ("ray", "ray.data", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[ray\]"'):
        ray_dataset(None, "model")
    with pytest.raises(ImportError, match=r'pip install "bat-tf\[spark\]"'):
        map_in_pandas("model")


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
def test_ray(ray):
    texts = [f"lamp number {n} by Veloria" for n in range(1, 201)]
    items = [{"id": n, "text": text} for n, text in enumerate(texts, 1)]
    tagged = ray_dataset(ray.data.from_items(items), served.folder("pages"))
    rows = sorted(tagged.take_all(), key=lambda row: row["id"])
    assert [row["text"] for row in rows] == texts
    assert [list(row["tags"]) for row in rows] == expected(texts)


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
        schema = f"id long, text string, {engines.COLUMNS['spans']}"
        tag = map_in_pandas(served.folder("pages"))
        rows = pages.mapInPandas(tag, schema).orderBy("id").collect()
    finally:
        spark.stop()
    assert [row["text"] for row in rows] == [*texts, None]
    assert [row["tags"] for row in rows[:-1]] == expected(texts)
    assert rows[-1]["error"] == "there is no text" and rows[0]["error"] is None
