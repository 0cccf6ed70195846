import asyncio
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import served
import tensorflow as tf

from bat_tf.serving.engine import (
    DEFAULT,
    Engine,
    Limits,
    Refusal,
    batch_requests,
    find_version,
    own_width,
)


@pytest.fixture(scope="module")
def engine():
    engine = Engine(served.folder("pages"), limits=Limits(text_characters=1000, rows=4))
    yield engine
    engine.close()


def texts(*rows):
    return {"text": np.array([row.encode() for row in rows], object)}


def ask(engine, inputs, signature=DEFAULT):
    return asyncio.run(engine.ask(signature, inputs, lambda found: found))


def test_the_newest_version_is_taken(tmp_path):
    for name in ("2", "10", "notes"):
        (tmp_path / "shop" / name / "variables").mkdir(parents=True)
        (tmp_path / "shop" / name / "saved_model.pb").touch()
    newest = tmp_path / "shop" / "10"
    assert find_version(tmp_path / "shop") == (newest, "shop", 10)
    assert find_version(tmp_path / "shop" / "2")[1:] == ("shop", 2)
    assert find_version(tmp_path / "shop" / "notes")[1:] == ("notes", 1)
    (newest / "saved_model.pb").unlink()
    with pytest.raises(FileNotFoundError, match=r"saved_model\.pb missing"):
        find_version(tmp_path / "shop")
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        find_version(tmp_path / "nowhere")


def test_concurrent_requests_are_answered_as_if_alone(engine):
    rows = [f"lamp {word} by Veloria" * n for n, word in enumerate("abcdefgh", 1)]
    alone = [served.call("pages", DEFAULT, text=[row]) for row in rows]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda row: engine.answer(DEFAULT, texts(row)), rows))
    for ours, theirs in zip(alone, together, strict=True):
        for name, value in ours.items():
            if name == "scores":
                np.testing.assert_allclose(value, theirs[name], atol=1e-5)
            else:
                assert value.tolist() == theirs[name].tolist()


class Slow(tf.Module):
    """Answers each row with the size of its batch, when the gate is open."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        count = tf.while_loop(lambda n: n < 30000, lambda n: n + 1, [tf.constant(0)])
        with tf.control_dependencies(count):
            return {"size": tf.fill(tf.shape(text), tf.shape(text)[0])}


def test_requests_that_wait_share_a_batch(tmp_path):
    module = Slow()
    tf.saved_model.save(module, str(tmp_path), {DEFAULT: module.serve})
    loaded = tf.saved_model.load(str(tmp_path))
    shared = batch_requests(loaded.signatures[DEFAULT], 1, 8, 100)

    def size(_):
        return int(shared(text=tf.constant(["a"]))["size"][0])

    assert size(0) == 1
    with ThreadPoolExecutor(32) as pool:
        sizes = list(pool.map(size, range(32)))
    assert 1 < max(sizes) <= 8


def test_two_models_in_a_process_keep_apart(engine):
    other = Engine(served.folder("news"), limits=Limits(rows=32))
    rows = texts(*["gas prices"] * 32)
    with ThreadPoolExecutor(8) as pool:
        ours = [pool.submit(engine.answer, DEFAULT, texts("a")) for _ in range(8)]
        theirs = [pool.submit(other.answer, DEFAULT, rows) for _ in range(8)]
    assert all("num_tags" in job.result() for job in ours)
    assert all(len(job.result()["num_labels"]) == 32 for job in theirs)
    other.close()


def test_columns_of_others_are_cut_off():
    found = {"tags": np.array([["a", "", ""]]), "num_tags": np.array([1])}
    assert own_width(found)["tags"].tolist() == [["a"]]
    assert own_width({"size": np.ones([2, 2])})["size"].shape == (2, 2)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (texts(*"abcde"), "1 to 4 rows; `text` has 5"),
        ({"text": np.array([], object)}, "1 to 4 rows"),
        (texts("x" * 1001), "may have 1000 characters"),
        ({"text": np.array([1.0])}, "must be strings of shape"),
        ({"text": np.array([[b"a"]], object)}, r"of shape \(None,\)"),
        ({"txt": np.array([b"a"], object)}, "must be `text`. Received: `txt`"),
    ],
)
def test_what_is_beyond_the_limits_is_refused(engine, inputs, reason):
    with pytest.raises(Refusal, match=reason) as caught:
        ask(engine, inputs)
    assert caught.value.code == "INVALID_ARGUMENT"


def test_a_request_alone_does_not_queue(engine, monkeypatch):
    ways, answer = [], engine.answer

    def watch(signature, inputs, alone):
        ways.append(alone)
        time.sleep(0.1)
        return answer(signature, inputs, alone)

    monkeypatch.setattr(engine, "answer", watch)

    async def pair():
        asked = (engine.ask(DEFAULT, texts("a"), len) for _ in range(2))
        return await asyncio.gather(*asked)

    assert asyncio.run(pair()) == [5, 5] and sorted(ways) == [False, True]


def test_length_is_counted_in_characters(engine):
    assert ask(engine, texts("東" * 1000))["num_tags"].shape == (1,)


def test_what_the_graph_refuses_is_the_request_s_fault(engine):
    inputs = {
        "token_ids": np.ones([1, 100], "int32"),
        "padding_mask": np.ones([1, 100], bool),
    }
    with pytest.raises(Refusal, match="^`token_ids` must have 1 to 64 columns.$"):
        ask(engine, inputs, "serve_tokens")
    with pytest.raises(Refusal, match='signature name: "other" not found'):
        ask(engine, inputs, "other")


def test_requests_above_the_limit_are_turned_away(monkeypatch):
    engine = Engine(served.folder("pages"), batching=False, limits=Limits(requests=2))
    gate = threading.Event()
    monkeypatch.setattr(engine, "answer", lambda *_: gate.wait(10))

    async def crowd():
        jobs = [
            asyncio.create_task(engine.ask(DEFAULT, texts("a"), bool)) for _ in range(3)
        ]
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        rest = await asyncio.gather(*(job for job in jobs if job not in done))
        return [job.exception() for job in done], rest

    (refusal,), answers = asyncio.run(crowd())
    assert refusal.code == "UNAVAILABLE" and answers == [True, True]
    assert asyncio.run(engine.ask(DEFAULT, texts("a"), bool))
    engine.close()


def test_a_cancelled_request_counts_until_its_thread_ends(monkeypatch):
    engine = Engine(served.folder("pages"), batching=False, limits=Limits(requests=1))
    gate = threading.Event()
    monkeypatch.setattr(engine, "answer", lambda *_: gate.wait(10))

    async def leave():
        job = asyncio.create_task(engine.ask(DEFAULT, texts("a"), bool))
        await asyncio.sleep(0.05)
        job.cancel()
        with pytest.raises(Refusal, match="holds 1 requests"):
            await engine.ask(DEFAULT, texts("a"), bool)
        gate.set()

    asyncio.run(leave())
    for _ in range(100):
        if not engine._held:
            break
        time.sleep(0.01)
    assert engine._held == 0
    engine.close()


def test_warm_up_asks_every_signature(engine, monkeypatch):
    asked = []
    monkeypatch.setattr(engine, "answer", lambda name, *_, **__: asked.append(name))
    engine.warm_up()
    # Of the requests in the export, those within the limit of four rows, both ways.
    assert sorted(set(asked)) == ["metadata", "serve_tokens", DEFAULT]
    assert len(asked) == 6


def test_warm_up_requests_that_are_not_whole_are_said(tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(served.folder("pages"), folder)
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    path.write_bytes(path.read_bytes()[:-9])
    engine = Engine(folder, batching=False)
    with pytest.raises(OSError, match="warm-up requests are not whole.*export the"):
        engine.warm_up()
    engine.close()


def test_limits_must_make_sense():
    with pytest.raises(ValueError, match="`rows` must be an integer >= 1"):
        Limits(rows=0)
    assert Limits().rows == 64
