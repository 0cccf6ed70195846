import json

import pytest

from bat_tf.training.cluster import Cluster

TWO = ["a:2222", "b:2222"]


def test_file(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text("workers: ['a:2222', 'b:2222']")
    assert Cluster.load(path, worker=1) == Cluster(TWO, 1)
    path.write_text(json.dumps({"workers": TWO, "index": 0}))
    assert Cluster.load(path).is_chief
    config = {"cluster": {"worker": TWO}, "task": {"type": "worker", "index": 1}}
    path.write_text(json.dumps(config))
    assert Cluster.load(path) == Cluster(TWO, 1)
    assert Cluster.load(path, worker=0).is_chief


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workers: [a:1, b:1]", "`worker` must be given.*--worker 0"),
        ("workers: [a, b]\nindex: 0", '`workers` must be .* like "host:2222"'),
        ("workers: [a:1, a:1]\nindex: 0", "`workers` must be different addresses"),
        ("workers: [a:1, b:1]\nindex: 2", r"`worker` must be .*<= 1. Received: 2"),
        ("hosts: [a:1]", "`cluster` must be a file with `workers`"),
        ("workers: [", "neither YAML nor JSON"),
    ],
)
def test_file_sentences(tmp_path, text, message):
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Cluster.load(path)


def test_tf_config(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert Cluster.from_environment() is None
    jobs = {"chief": ["a:2222"], "worker": ["b:2222"]}
    for task, index in (("chief", 0), ("worker", 1)):
        config = {"cluster": jobs, "task": {"type": task, "index": 0}}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert Cluster.from_environment() == Cluster(TWO, index)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[", 'TF_CONFIG` must be like {"cluster"'),
        ("{}", 'TF_CONFIG` must be like {"cluster"'),
        ('{"cluster": {"worker": ["a:1"]}}', "`worker` must be an integer"),
        ('{"cluster": {"worker": [], "ps": ["a:1"]}}', "Parameter servers"),
    ],
)
def test_tf_config_sentences(monkeypatch, config, message):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(ValueError, match=message):
        Cluster.from_environment()
