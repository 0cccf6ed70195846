"""The comparison with other packages: everything but the packages themselves."""

import importlib.util
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from rich.console import Console

from bat_tf.data import Example, LabelSpace, TextDataset, read
from bat_tf.runs.settings import Settings

FOLDER = Path(__file__).parent
ROWS = [
    ("oil and gas", ["energy", "trade"]),
    ("gas", ["energy"]),
    ("rain", ["weather"]),
]


def load(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


peers, worker = load("xmc_peers"), load("xmc_peer_worker")


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "texts.jsonl"
    TextDataset(Example(text, labels=y) for text, y in ROWS * 4).save(path)
    return Settings.of(
        model="classifier", data={"train": str(path), "valid": str(path)}
    )


@pytest.fixture
def asked(monkeypatch):
    """Stands in for the workers: finds "energy" and "weather" for every text."""
    requests = []

    def ask(request, folder, environments, threads):
        requests.append(request)
        if request["method"] == "features":
            return {"version": "none", "features": 5}
        labels = scipy.sparse.load_npz(request["train_labels"])
        assert labels.shape == (12, 3)
        ids = np.tile([[0, 2, -1, -1, -1]], (12, 1))
        np.savez(request["predictions"], ids=ids, scores=np.ones(ids.shape))
        cost = {name: 1.5 for name in peers.COSTS}
        return {"version": "none 1.0", **cost}

    monkeypatch.setattr(peers, "ask", ask)

    def read_parts(settings):
        part = read(settings.data.train)
        return part, None, part

    monkeypatch.setattr(peers, "read_parts", read_parts)
    return requests


OPTIONS = SimpleNamespace(environments="", threads=2, top_k=5, note="a busy machine")


def test_results_are_scored_written_and_not_made_again(files, asked, tmp_path):
    names, results = ["parabel", "xr-linear"], tmp_path / "results"
    found = dict(peers.run(names, results, files, OPTIONS))
    assert [request["method"] for request in asked] == ["features", "omikuji", "pecos"]
    stored = json.loads((results / "parabel.json").read_text())
    assert stored == found["parabel"] and stored["note"] == "a busy machine"
    assert stored["data"]["train"] == 12 and stored["data"]["labels"] == 3
    assert stored["scores"]["precision_at_1"] == pytest.approx(2 / 3, abs=1e-5)
    # Four missing ids are no labels: of 5, one is right in each of the texts.
    assert stored["scores"]["precision_at_5"] == pytest.approx(1 / 5, abs=1e-5)
    assert dict(peers.run(names, results, files, OPTIONS)) == found
    assert len(asked) == 3
    console = Console(width=170, record=True, file=io.StringIO())
    console.print(peers.table(found))
    assert "omikuji, Parabel" in (text := console.export_text()) and "66.67" in text


def test_a_result_of_other_data_is_left_alone(files, asked, tmp_path):
    list(peers.run(["plt"], tmp_path, files, OPTIONS))
    files.data.min_label_count = 2
    with pytest.raises(SystemExit, match="is of other data"):
        list(peers.run(["plt"], tmp_path, files, OPTIONS))


def test_scores_are_those_of_the_definitions():
    space = LabelSpace.fit([labels for _, labels in ROWS] * 40)
    true = space.padded_ids([["energy"], ["trade", "weather"]])
    ids = np.array([[0, 1, 2, -1, -1], [2, 0, -1, -1, -1]])
    scores = np.array([[3.0, 2, 1, 0, 0], [2, 1, 0, 0, 0]])
    found = peers.score(space, true, ids, scores)
    assert list(found) == peers.METRICS
    assert found["precision_at_1"] == 1
    assert found["precision_at_3"] == pytest.approx(1 / 3, abs=1e-6)
    inverse = 1 + (np.log(120) - 1) * 2.5**0.55 * (space.counts + 1.5) ** -0.55
    best = inverse[0] + max(inverse[1], inverse[2])
    assert found["psp_at_1"] == pytest.approx(
        (inverse[0] + inverse[2]) / best, abs=1e-5
    )


def test_environments_are_made_once(monkeypatch, tmp_path):
    made, commands = [], []

    def create(home, **_):
        made.append(home)
        home.mkdir(exist_ok=True)

    def run(command, check):
        commands.append([str(part) for part in command])

    monkeypatch.setattr(peers.venv, "create", create)
    monkeypatch.setattr(peers.subprocess, "run", run)
    first = peers.environment("pecos", tmp_path)
    assert first == peers.environment("pecos", tmp_path) and len(made) == 1
    assert [command[5:] for command in commands] == peers.PACKAGES["pecos"]
    # Other packages than those it has: made anew.
    monkeypatch.setitem(peers.PACKAGES, "pecos", [["libpecos"]])
    peers.environment("pecos", tmp_path)
    assert len(made) == 2


def test_worker_pads_and_orders():
    ids, scores = worker._padded([[(4, 0.9), (1, 0.5), (0, 0.1)], []], 2)
    assert ids.tolist() == [[4, 1], [-1, -1]]
    np.testing.assert_allclose(scores, [[0.9, 0.5], [0, 0]])
    assert worker._peak_mib() > 10


def test_worker_writes_the_format_that_omikuji_reads(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "omikuji", SimpleNamespace())
    x = scipy.sparse.csr_matrix([[0.5, 0, 0.25], [0, 0, 0], [0, 1, 0]])
    y = scipy.sparse.csr_matrix([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    worker.Omikuji(tmp_path, 1, {}).prepare(x, y)
    lines = (tmp_path / "train.txt").read_text().splitlines()
    assert lines == ["2 3 4", "0,2 0:0.5 2:0.25", " 1:1"]


def test_worker_answers_into_a_file(monkeypatch, tmp_path):
    class Constant:
        package = "numpy"

        def __init__(self, folder, threads, settings):
            self.label = settings["label"]

        def prepare(self, x, y):
            pass

        def train(self, x, y):
            assert x.shape == (2, 3) and y.shape == (2, 4)

        def save(self, folder):
            folder.mkdir()
            (folder / "weights").write_bytes(bytes(2**20))

        def predict(self, x, k):
            return worker._padded([[(self.label, 1.0)]] * x.shape[0], k)

    monkeypatch.setitem(worker.METHODS, "constant", Constant)
    for name, shape in (("x", (2, 3)), ("y", (2, 4)), ("test", (5, 3))):
        scipy.sparse.save_npz(tmp_path / f"{name}.npz", scipy.sparse.csr_matrix(shape))
    request = {
        "method": "constant",
        "settings": {"label": 3},
        "threads": 1,
        "top_k": 2,
        "folder": str(tmp_path),
        "train_features": str(tmp_path / "x.npz"),
        "train_labels": str(tmp_path / "y.npz"),
        "test_features": str(tmp_path / "test.npz"),
        "predictions": str(tmp_path / "best.npz"),
        "answer": str(tmp_path / "answer.json"),
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    worker.main(tmp_path / "request.json")
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["model_mib"] == 1 and answer["version"].startswith("numpy ")
    with np.load(tmp_path / "best.npz") as best:
        assert best["ids"].tolist() == [[3, -1]] * 5
