import asyncio
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import served
import tensorflow as tf
from starlette.exceptions import HTTPException

from bat_tf.serving.engine import Engine, Limits, own_width
from bat_tf.serving.versions import DEFAULT, Version, find_versions


@pytest.fixture(scope="module")
def engine():
    limits = Limits(text_characters=1000, characters=2500, rows=4)
    engine = Engine(served.folder("pages"), limits=limits)
    yield engine
    engine.close()


def texts(*rows):
    return {"text": np.array([row.encode() for row in rows], object)}


def ask(engine, inputs, signature=DEFAULT):
    return asyncio.run(engine.ask(signature, inputs))


def ask_together(engine, inputs, signature=DEFAULT):
    async def crowd():
        asked = [engine.ask(signature, one) for one in inputs]
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(crowd())


def test_versions_are_found_by_their_numbers(tmp_path):
    shop = tmp_path.resolve() / "shop"
    for name in ("2", "10", "notes"):
        (shop / name).mkdir(parents=True)
    assert find_versions(shop) == ("shop", [(10, shop / "10"), (2, shop / "2")])
    assert find_versions(shop / "2") == ("shop", [(2, shop / "2")])
    assert find_versions(shop / "notes") == ("notes", [(1, shop / "notes")])
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        find_versions(tmp_path / "nowhere")


def damage(folder):
    """A copy of a SavedModel that was cut off."""
    for path in (folder / "variables").glob("*.data*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.fault(
    "newest version of a served model is not whole",
    'a warning in the log, "Version … is ignored: …"; the newest whole one answers',
)
def test_the_newest_whole_version_is_taken(tmp_path, caplog, sees):
    for number in (1, 2, 3):
        shutil.copytree(served.folder("pages"), tmp_path / "shop" / str(number))
    (tmp_path / "shop" / "3" / "saved_model.pb").unlink()
    damage(tmp_path / "shop" / "2")
    engine = Engine(tmp_path / "shop")
    assert (engine.name, engine.model.number) == ("shop", 1)
    assert len(caplog.messages) == 2
    sees(caplog.messages[0])
    engine.close()
    shutil.rmtree(tmp_path / "shop" / "1")
    with pytest.raises(FileNotFoundError, match=r"saved_model\.pb missing"):
        Engine(tmp_path / "shop")


def test_a_newer_version_is_taken_when_it_is_whole(tmp_path, caplog):
    shop = tmp_path / "shop"
    shutil.copytree(served.folder("pages"), shop / "1")
    engine = Engine(shop)
    first = engine.model
    shutil.copytree(served.folder("pages"), shop / "2")
    damage(shop / "2")
    engine.look_for_newer()  # it may still be being copied
    assert not caplog.messages
    engine.look_for_newer()
    engine.look_for_newer()
    assert engine.model is first
    assert [m.split(":")[0] for m in caplog.messages] == ["Version 2 is ignored"]
    shutil.rmtree(shop / "2")
    shutil.copytree(served.folder("pages"), shop / "2")
    engine.look_for_newer()
    engine.look_for_newer()
    assert engine.model.number == 2
    assert ask(engine, texts("a"))["num_tags"].shape == (1,)
    engine.close()


def test_concurrent_requests_are_answered_as_if_alone(engine):
    rows = [f"lamp {word} by Veloria" * n for n, word in enumerate("abcdefgh", 1)]
    alone = [served.call("pages", DEFAULT, text=[row]) for row in rows]
    together = ask_together(engine, map(texts, rows))
    for ours, theirs in zip(alone, together, strict=True):
        for name, value in ours.items():
            if name == "scores":
                np.testing.assert_allclose(value, theirs[name], atol=1e-5)
            else:
                assert value.tolist() == theirs[name].tolist()


class Sizes(tf.Module):
    """Answers each row with the size of its batch; "bad" spoils the whole batch."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        bad = tf.debugging.assert_none_equal(text, "bad", message="bad is bad")
        with tf.control_dependencies([bad]):
            return {"size": tf.fill(tf.shape(text), tf.shape(text)[0])}


@pytest.fixture
def sizes(tmp_path, monkeypatch):
    """An engine of `Sizes` whose first batch waits for all requests of a test."""
    module = Sizes()
    tf.saved_model.save(module, str(tmp_path), {DEFAULT: module.serve})
    engine = Engine(tmp_path, limits=Limits(rows=8))
    answer = engine.model.answer
    patient = lambda *a: time.sleep(0.1) or answer(*a)  # noqa: E731
    monkeypatch.setattr(engine.model, "answer", patient)
    yield engine
    engine.close()


def test_requests_that_wait_share_a_batch(sizes):
    found = ask_together(sizes, [texts("a")] * 20)
    found = [answer["size"].tolist()[0] for answer in found]
    assert len(found) == 20 and 1 < max(found) <= 8
    assert ask(sizes, texts("a"))["size"].tolist() == [1]


def test_without_batching_each_is_alone(sizes):
    sizes._batching = False
    found = ask_together(sizes, [texts("a")] * 6)
    assert [answer["size"].tolist() for answer in found] == [[1]] * 6


def test_one_that_fails_spoils_nobody_else_s_answer(sizes):
    found = ask_together(sizes, [texts(t) for t in ("a", "b", "bad", "c", "d")])
    failed = [error for error in found if isinstance(error, HTTPException)]
    assert found[2] is failed[0] and len(failed) == 1
    assert "bad is bad" in found[2].detail and found[2].status_code == 400
    assert sizes.held == 0


def test_two_signatures_wait_in_one_queue(engine):
    about = ask_together(engine, [texts("a"), texts("b")] * 3, "metadata")
    assert [x["labels"].tolist() for x in about] == [[[b"brand", b"product"]]] * 6

    async def mixed():
        names = [DEFAULT, "metadata"] * 4
        asked = [engine.ask(name, texts("a")) for name in names]
        return await asyncio.gather(*asked)

    assert ["num_tags" in found for found in asyncio.run(mixed())] == [True, False] * 4


def test_columns_of_others_are_cut_off():
    found = {"tags": np.array([["a", "", ""]]), "num_tags": np.array([1])}
    assert own_width(found)["tags"].tolist() == [["a"]]
    assert own_width({"size": np.ones([2, 2])})["size"].shape == (2, 2)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (texts(*"abcde"), "1 to 4 rows, .* Received: 5"),
        ({"text": np.array([], object)}, "1 to 4 rows"),
        ({**texts("a"), "top_k": np.array([1, 2])}, "as many in each"),
        (texts("x" * 1001), "may have 1000 characters. Cut"),
        (texts(*["x" * 900] * 3), "request may have 2500 characters in all"),
    ],
)
def test_what_is_beyond_the_limits_is_refused(engine, inputs, reason):
    with pytest.raises(HTTPException, match=reason) as caught:
        ask(engine, inputs)
    assert caught.value.status_code == 400 and engine.held == 0


def test_length_is_counted_in_characters(engine):
    assert ask(engine, texts("東" * 1000))["num_tags"].shape == (1,)


def test_what_the_graph_refuses_is_the_request_s_fault(engine):
    inputs = {
        "token_ids": np.ones([1, 100], "int32"),
        "padding_mask": np.ones([1, 100], bool),
    }
    with pytest.raises(HTTPException, match="`token_ids` must have 1 to 64 columns.$"):
        ask(engine, inputs, "serve_tokens")
    with pytest.raises(HTTPException, match='No signature "other". There is: meta'):
        engine.model.inputs("other")


@pytest.fixture
def gated(monkeypatch):
    """A function that makes an engine whose answers wait for a gate, and the gate."""
    gate, made = threading.Event(), []

    def make(**limits):
        made.append(Engine(served.folder("pages"), limits=Limits(**limits)))
        monkeypatch.setattr(made[0].model, "answer", lambda *_: gate.wait(10) and {})
        return made[0]

    yield make, gate
    gate.set()
    made[0].close()


def test_requests_above_the_limit_are_turned_away(gated):
    make, gate = gated
    engine = make(requests=2)

    async def crowd():
        jobs = [asyncio.create_task(engine.ask(DEFAULT, texts("a"))) for _ in range(3)]
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        rest = await asyncio.gather(*(job for job in jobs if job not in done))
        return [job.exception() for job in done], rest

    (refusal,), answers = asyncio.run(crowd())
    assert refusal.status_code == 503 and answers == [{}, {}]
    assert refusal.headers == {"retry-after": "1"}
    assert ask(engine, texts("a")) == {}


def test_a_cancelled_request_leaves_at_once(gated):
    make, gate = gated
    engine = make(requests=2)

    async def leave():
        jobs = [asyncio.create_task(engine.ask(DEFAULT, texts("a"))) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert engine.held == 2
        for job in jobs:
            job.cancel()
        await asyncio.sleep(0.01)
        assert engine.held == 0 and not engine._lanes["short"].waiting
        gate.set()
        return await engine.ask(DEFAULT, texts("a"))

    assert asyncio.run(leave()) == {}


def test_an_answer_has_its_time(gated):
    make, _ = gated
    engine = make(requests=2, answer_seconds=0.1)
    with pytest.raises(HTTPException, match="within 0.1 seconds. Send fewer") as caught:
        ask(engine, texts("a"))
    assert caught.value.status_code == 504 and engine.held == 0


@pytest.fixture
def portions(monkeypatch):
    """An engine with room for 100 characters a portion, and the texts of each."""
    monkeypatch.setattr("bat_tf.serving.engine.SHORT", 50)
    limits = Limits(text_characters=100, rows=8)
    engine, seen = Engine(served.folder("pages"), limits=limits), []
    answer, gate = engine.model.answer, threading.Event()

    def watch(signature, inputs):
        seen.append([text.decode()[:1] for text in inputs["text"]])
        gate.wait(10)
        return answer(signature, inputs)

    monkeypatch.setattr(engine.model, "answer", watch)
    for lane in engine._lanes.values():
        lane.pool = ThreadPoolExecutor(1)
    yield engine, seen, gate
    gate.set()
    engine.close()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_long_requests_take_turns_and_short_ones_do_not_wait(portions):
    engine, seen, gate = portions

    async def crowd():
        jobs = [engine.ask(DEFAULT, texts(*[f"{x}{' lamp' * 15}"] * 6)) for x in "AB"]
        jobs = [asyncio.create_task(job) for job in jobs]
        await until(lambda: engine.held == 2 and seen)
        short = [engine.ask(DEFAULT, texts(name)) for name in "cde"]
        jobs += map(asyncio.create_task, short)
        await until(lambda: engine.held == 5 and len(seen) == 2)
        gate.set()
        await asyncio.gather(*jobs)

    asyncio.run(crowd())
    long = ["".join(portion) for portion in seen if portion[0] in "AB"]
    assert "".join(long) in ("AABABABABABB", "ABABABABABAB")
    assert set("cde") <= {name for portion in seen[:4] for name in portion}


def test_an_answer_in_portions_is_the_answer(portions):
    engine, seen, gate = portions
    gate.set()
    rows = ["lamp by Veloria " * n for n in (1, 6, 2, 0, 5, 6, 3)]
    found, alone = ask(engine, texts(*rows)), served.call("pages", DEFAULT, text=rows)
    assert len(seen) > 2
    for name, value in alone.items():
        if name == "scores":
            np.testing.assert_allclose(value, found[name], atol=1e-5)
        else:
            assert value.tolist() == found[name].tolist()


def test_portions_of_a_caller_who_leaves_are_not_done(portions):
    engine, seen, gate = portions

    async def leave():
        job = asyncio.create_task(engine.ask(DEFAULT, texts(*["A" * 99] * 8)))
        await until(lambda: seen)
        job.cancel()
        await until(lambda: not engine.held)
        gate.set()
        return await engine.ask(DEFAULT, texts("b"))

    asyncio.run(leave())
    assert seen == [["A"], ["b"]]


def test_warm_up_asks_every_signature(engine, monkeypatch):
    asked = []
    model = Version(engine.model.folder, 1)
    monkeypatch.setattr(model, "answer", lambda name, _: asked.append(name))
    model.warm_up(most_rows=4)
    # Of the requests in the export, those within the limit of four rows.
    assert sorted(set(asked)) == ["metadata", "serve_tokens", DEFAULT]
    assert len(asked) == 3


def test_warm_up_requests_that_are_not_whole_are_said(tmp_path):
    folder = tmp_path / "1"
    shutil.copytree(served.folder("pages"), folder)
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(OSError, match="warm-up requests are not whole.*export the"):
        Engine(folder)


def test_limits_must_make_sense():
    with pytest.raises(ValueError, match="`rows` must be an integer >= 1"):
        Limits(rows=0)
    assert Limits().rows == 64
