"""Workers are processes on this host; what each does is in distributed_worker.py."""

import functools
import json
import os
import re
import socket
import subprocess
import sys
import types
import zipfile
from pathlib import Path

import distributed_worker
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import bat_tf
from bat_tf.data.pipeline import Share
from bat_tf.training import distributed

HERE = Path(__file__).parents[1]
WORKER = [sys.executable, HERE / "distributed_worker.py"]
SECONDS = 300  # a worker that waits for another one forever is a bug


def free_addresses(number):
    """Addresses on this host whose ports are free now."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def start(command, **environment):
    path = os.pathsep.join([str(HERE), str(HERE.parent)])
    return subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes):
    """What processes wrote to stderr, and their return codes."""
    try:
        errors = [process.communicate(timeout=SECONDS)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return errors, [process.returncode for process in processes]


def cluster_file(folder):
    path = folder / "cluster.yaml"
    path.write_text("workers:\n" + "".join(f"- {a}\n" for a in free_addresses(2)))
    return path


def by_file(folder, cases, *environments):
    """Two workers that read a cluster file."""
    file = cluster_file(folder)
    return finish(
        [
            start([*WORKER, folder, cases, file, worker], **environment)
            for worker, environment in enumerate(environments or ({}, {}))
        ]
    )


def by_tf_config(folder, cases):
    """Two workers that read `TF_CONFIG`."""
    cluster = {"worker": free_addresses(2)}
    configs = [
        {"cluster": cluster, "task": {"type": "worker", "index": i}} for i in range(2)
    ]
    return finish(
        [start([*WORKER, folder, cases], TF_CONFIG=json.dumps(one)) for one in configs]
    )


def results(folder, case, worker=0):
    """History and weights of a worker."""
    found = dict(np.load(folder / f"{case}.{worker}.npz"))
    weights = [found.pop(name) for name in list(found) if re.fullmatch(r"w\d+", name)]
    return found, weights


@functools.cache
def alone(case):
    """History and weights of this process, with the same batches."""
    return distributed_worker.train(case)


def same(result, expected, tolerance=1e-4):
    assert result[0].keys() == expected[0].keys()
    for name, values in expected[0].items():
        np.testing.assert_allclose(result[0][name], values, atol=tolerance)
    for one, other in zip(result[1], expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What two workers leave behind."""
    folder = tmp_path_factory.mktemp("together")
    errors, codes = by_tf_config(folder, "tokens,batch_ratio")
    assert codes == [0, 0], errors
    return folder


@pytest.mark.parametrize("case", ["tokens", "batch_ratio"])
def test_two_workers_train_as_one_process_does(folder, case):
    for worker in range(2):
        same(results(folder, case, worker), alone(case))
    losses = alone(case)[0]["loss"]
    assert losses[-1] < losses[0]


def test_the_chief_alone_writes(folder):
    run = folder / "tokens"
    names = {"best.keras", "history.csv", "logs", "backup"}
    assert {entry.name for entry in run.iterdir()} == names
    lines = (run / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1", "2"]
    assert len(list((run / "logs" / "train").iterdir())) == 1
    scores = results(folder, "tokens")[0]["val_token_macro_f2"]
    with zipfile.ZipFile(run / "backup" / "epoch-000003.keras") as backup:
        best = json.loads(backup.read("callbacks.json"))["SaveBest"]
    assert best["epoch"] == 1 + np.argmax(scores)
    assert isinstance(bat_tf.load(run), bat_tf.BATTagger)


def test_two_replicas_in_one_process_train_as_one(tmp_path):
    errors, codes = finish([start([*WORKER, tmp_path, "batch_ratio", "local"])])
    assert codes == [0], errors
    same(results(tmp_path, "batch_ratio"), alone("batch_ratio"))


@pytest.mark.slow
def test_other_losses_and_encoders_too(tmp_path):
    errors, codes = by_file(tmp_path, "experts,admin,batch_weights")
    assert codes == [0, 0], errors
    for case in ("experts", "admin", "batch_weights"):
        same(results(tmp_path, case), alone(case))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What two workers with dropout leave behind if nobody kills them."""
    folder = tmp_path_factory.mktemp("whole")
    errors, codes = by_file(folder, "resumed")
    assert codes == [0, 0], errors
    return folder


@pytest.mark.slow
class TestLostWorkers:
    @pytest.mark.parametrize("killed", [0, 1])
    def test_the_other_ends_and_both_continue(self, whole, tmp_path, killed):
        kill = {"KILL": str(killed)}
        errors, codes = by_file(tmp_path, "resumed", kill, kill)
        assert codes[killed] == -9 and codes[1 - killed] == 1
        said = f"Worker {killed} is gone.*Start the same command again on every worker"
        assert re.search(said, errors[1 - killed])
        errors, codes = by_file(tmp_path, "resumed")
        assert codes == [0, 0], errors
        for worker in range(2):
            history, weights = results(tmp_path, "resumed", worker)
            first, expected = results(whole, "resumed", worker)
            # The third epoch alone was left to do.
            assert history["loss"] == pytest.approx(first["loss"][2:], abs=1e-6)
            for one, other in zip(weights, expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6)
        lines = (tmp_path / "resumed" / "history.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1", "2"]

    def test_patience_is_the_chiefs_and_all_stop_together(self, tmp_path):
        """Cut off after two epochs of three; the chief alone has the history."""
        for epochs, done in ((2, 2), (9, 1), (9, 0)):
            environment = {"EPOCHS": str(epochs)}
            errors, codes = by_file(tmp_path, "patient", environment, environment)
            assert codes == [0, 0], errors
            for worker in range(2):
                history, _ = results(tmp_path, "patient", worker)
                assert len(history.get("loss", ())) == done
        lines = (tmp_path / "patient" / "history.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines] == ["epoch", "0", "1", "2"]

    def test_different_data_are_noticed(self, tmp_path):
        errors, codes = by_file(tmp_path, "tokens", {}, {"SIZE": "12"})
        assert 0 not in codes
        assert any("All workers must read the same data" in error for error in errors)


@pytest.mark.slow
def test_the_command_line_trains_on_two_workers(tmp_path):
    tiny.dataset(24).save(tmp_path / "train.jsonl")
    tiny.dataset(8, "valid").save(tmp_path / "valid.jsonl")
    settings = {
        "train": str(tmp_path / "train.jsonl"),
        "valid": str(tmp_path / "valid.jsonl"),
        "encoder_settings": tiny.ENCODER,
        "epochs": 2,
        "output": str(tmp_path / "run"),
        "cluster": str(cluster_file(tmp_path)),
    }
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    command = [sys.executable, "-c", "from bat_tf.cli import main; main()", "train"]
    command += ["--config", tmp_path / "run.yaml", "--worker"]
    errors, codes = finish([start([*command, worker]) for worker in range(2)])
    assert codes == [0, 0], errors
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["best"]["epoch"] in (1, 2)


@pytest.fixture(scope="module")
def batches():
    data = tiny.dataset(23)
    model = tiny.tagger(data, compiled=False)
    return lambda share=None: list(model.batches(data, 5, seed=3, share=share))


class TestShares:
    def test_make_up_the_batch(self, batches):
        parts = [batches(Share(number, 1, 4)) for number in range(4)]
        for step, (inputs, _) in enumerate(batches()):
            expected = inputs["token_ids"].numpy()
            found = np.zeros_like(expected)
            for number, part in enumerate(parts):
                ids, tags = part[step][0]["token_ids"], part[step][1]
                assert len(tags) == len(range(number, len(expected), 4))
                found[number::4, : ids.shape[1]] = ids
            np.testing.assert_array_equal(found, expected)
        # Of some batches a replica has none.
        assert any(tags.shape[0] == 0 for part in parts for _, tags in part)

    def test_of_several_replicas_come_one_after_the_other(self, batches):
        both = batches(Share(2, 2, 4))
        for number in range(2):
            expected, found = batches(Share(2 + number, 1, 4)), both[number::2]
            for (_, one), (_, other) in zip(expected, found, strict=True):
                np.testing.assert_array_equal(one, other)


class TestRefusals:
    @pytest.fixture(autouse=True)
    def two_replicas(self, monkeypatch):
        strategy = types.SimpleNamespace(num_replicas_in_sync=2)
        monkeypatch.setattr(tf.distribute, "get_strategy", lambda: strategy)

    def test_what_needs_the_whole_batch(self):
        from bat_tf.encoders.switch import SwitchFeedForward

        with pytest.raises(ValueError, match="Switch.*one replica.*2 replicas. Train"):
            SwitchFeedForward(8)
        with pytest.raises(ValueError, match="`global_clipnorm`.*Use `clipnorm`"):
            bat_tf.optimizers.Adam(global_clipnorm=1.0)
        model = types.SimpleNamespace(candidates=5)
        with pytest.raises(ValueError, match="`candidates` must be.*`candidates=0`"):
            bat_tf.ExpertClassifier.compile(model)

    def test_what_a_model_is_compiled_with(self):
        ours = bat_tf.losses.TagLoss(), bat_tf.optimizers.AdamW(clipnorm=1.0)
        distributed.check_compiled(*ours, jit_compile="auto")
        other = keras.losses.SparseCategoricalCrossentropy()
        with pytest.raises(ValueError, match="Use a loss of bat_tf.losses"):
            distributed.check_compiled(other, ours[1], False)
        clips = keras.optimizers.SGD(clipvalue=1.0)
        with pytest.raises(ValueError, match="clipping SGD.*bat_tf.optimizers.Adam"):
            distributed.check_compiled(ours[0], clips, False)
        with pytest.raises(ValueError, match="Leave `jit_compile` out"):
            distributed.check_compiled(*ours, jit_compile=True)

    def test_a_clipped_gradient_is_that_of_the_batch(self):
        optimizer = bat_tf.optimizers.Adam(clipnorm=1.0)
        # Keras would clip each replica's part of it.
        assert optimizer.clipnorm is None
        assert optimizer.get_config()["clipnorm"] == 1.0


def test_one_worker_is_no_cluster(monkeypatch):
    config = {"cluster": {"worker": ["a:1"]}, "task": {"index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    strategy = distributed.strategy()
    assert distributed.num_workers(strategy) == 1
    assert distributed.is_chief(strategy)


def test_a_strategy_that_comes_too_late_says_so(tmp_path):
    tf.zeros(1)  # has started now
    with pytest.raises(RuntimeError, match="before anything else of TensorFlow"):
        distributed.strategy(cluster_file(tmp_path), worker=0)
