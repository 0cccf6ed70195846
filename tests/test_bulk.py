"""Jobs over whole files; what breaks in the middle loses nothing."""

import errno
import gzip
import json
import lzma
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
import served
from typer.testing import CliRunner

from bat_tf import cli
from bat_tf._validation import DataError
from bat_tf.serving import Tag, bulk, tag_corpus

BAT_TF = [sys.executable, "-c", "from bat_tf.cli import main; main()"]


class FakeTagger:
    """Marks the first letter; remembers how many texts it was asked."""

    def __init__(self, path=None):
        self.asked = 0

    def tag(self, texts, batch_size=32):
        self.asked += len(texts)
        return [[Tag(0, 1, "letter", 0.5, text[0])] if text else [] for text in texts]


@pytest.fixture
def fake(monkeypatch):
    model = FakeTagger()
    monkeypatch.setattr(bulk, "load", lambda path: model)
    return model


@pytest.fixture
def job(tmp_path):
    """A function that does a job of seven rows, three a shard."""
    (tmp_path / "model.keras").write_bytes(b"not read by the fake")
    (tmp_path / "in.txt").write_text("".join(f"row {n}\n" for n in range(1, 8)))

    def run(**settings):
        given = {"model": tmp_path / "model.keras", "shard_rows": 3, "workers": 0}
        return tag_corpus(
            tmp_path / "in.txt", tmp_path / "out", **{**given, **settings}
        )

    return run


def rows(folder, kind="part"):
    return [
        json.loads(line)
        for path in sorted(Path(folder).glob(f"{kind}-*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def write_numbers(path, count):
    path.write_text("".join(f"lamp number {n}\n" for n in range(1, count + 1)))
    return path


def check_numbers(folder, count):
    found = [(row["id"], row["text"]) for row in rows(folder)]
    assert found == [(n, f"lamp number {n}") for n in range(1, count + 1)]
    assert not list(Path(folder).glob(".*.tmp"))


def test_order_ids_and_bad_rows(fake, tmp_path):
    lines = [
        b'{"id": "p1", "text": "one"}',
        b'{"text": "two", "id": 7}',
        b"{broken",
        b'{"text": "four"}',
        b"",
        b'{"id": 6, "title": "no text"}',
        b'{"text": "caf\xe9"}',
        b'{"text": "\\ud83d"}',
        b"[" * 100_000,
        '{"text": "東京"}'.encode(),
    ]
    for name, opened in (("in.jsonl.gz", gzip.open), ("in.jsonl.xz", lzma.open)):
        with opened(tmp_path / name, "wb") as file:
            file.write(b"\n".join(lines))
        (tmp_path / "model.keras").write_bytes(b"fake")
        output = tmp_path / f"out {name}"
        done = tag_corpus(
            tmp_path / name, output, tmp_path / "model.keras", workers=0, shard_rows=4
        )
        assert (done.rows, done.bad, done.shards, done.rows_now) == (10, 5, 3, 10)
        found = rows(output)
        assert [row["id"] for row in found] == ["p1", 7, 4, 10]
        assert [row["text"] for row in found] == ["one", "two", "four", "東京"]
        assert found[0]["spans"] == [[0, 1, "letter", 0.5]]
        reasons = {row["line"]: row["reason"] for row in rows(output, "bad")}
        assert list(reasons) == [3, 6, 7, 8, 9]
        for line, words in (
            (3, "not JSON"),
            (6, 'expected {"text": …}'),
            (7, "not UTF-8 text (byte 0xe9"),
            (8, "surrogate"),
            (9, "not JSON"),
        ):
            assert words in reasons[line]


def test_only_what_is_missing_is_done(fake, job, tmp_path):
    calls = []
    assert job(progress=lambda *call: calls.append(call)).rows_now == 7
    assert calls == [(0, 7), (3, 7), (6, 7), (7, 7)]
    out = tmp_path / "out"
    before = rows(out)
    assert job().rows_now == 0 and fake.asked == 7
    kept = (out / "part-000000.jsonl").stat()
    (out / "part-000001.jsonl").unlink()
    (out / ".part-000001.jsonl.99.tmp").write_text('{"id": 4, "text": "ro')
    calls.clear()
    done = job(batch_size=2, progress=lambda *call: calls.append(call))
    assert done.rows_now == 3 and fake.asked == 10 and calls == [(4, 7), (7, 7)]
    assert rows(out) == before and not list(out.glob(".*.tmp"))
    assert (out / "part-000000.jsonl").stat() == kept


def test_another_job_is_refused_in_the_same_folder(fake, job, tmp_path):
    job()
    with pytest.raises(ValueError, match="another `shard_rows`: 3. Received: 4"):
        job(shard_rows=4)
    (tmp_path / "other.keras").write_bytes(b"another model")
    with pytest.raises(ValueError, match="another `model`"):
        job(model=tmp_path / "other.keras")
    (tmp_path / "in.txt").write_text("row 1\n" * 7)
    with pytest.raises(ValueError, match="another `input`"):
        job()
    assert len(rows(tmp_path / "out")) == 7


def test_folders_of_others_are_left_alone(fake, job, tmp_path):
    out = tmp_path / "out"
    out.write_text("a file")
    with pytest.raises(NotADirectoryError, match="is a file"):
        job()
    out.unlink()
    out.mkdir()
    (out / "holiday.jpg").write_bytes(b"")
    with pytest.raises(FileExistsError, match="holds other files"):
        job()
    (out / "holiday.jpg").unlink()

    def twice(done, total):
        with pytest.raises(RuntimeError, match="Another job is at work"):
            job()

    assert job(progress=twice).rows == 7


def test_a_full_disk_loses_nothing(fake, job, tmp_path, monkeypatch):
    def full(number, fsync=os.fsync):
        if list((tmp_path / "out").glob("part-*")):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(number)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no room left.*1 of 3 shards are done"):
            job()
    assert [row["id"] for row in rows(tmp_path / "out")] == [1, 2, 3]
    assert not list((tmp_path / "out").glob(".*.tmp"))
    assert job().rows_now == 4
    assert [row["id"] for row in rows(tmp_path / "out")] == list(range(1, 8))


def test_a_broken_model_is_said_and_may_be_mended(job, tmp_path):
    broken = tmp_path / "broken" / "1"
    shutil.copytree(served.folder("pages"), broken)
    for path in (broken / "variables").glob("*.data*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(OSError, match="could not be loaded.*export the model anew"):
        job(model=broken)
    assert rows(tmp_path / "out") == []
    assert job(model=served.folder("pages")).rows == 7


def test_wrong_calls_get_a_sentence(job, tmp_path):
    with pytest.raises(FileNotFoundError, match="no model at"):
        job(model=tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no file"):
        tag_corpus(tmp_path / "none.txt", tmp_path / "out", tmp_path / "model.keras")
    with pytest.raises(ValueError, match="`workers` must be an integer >= 0"):
        job(workers=-1)
    with pytest.raises(ValueError, match="'processes', 'ray'"):
        job(engine="abacus")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"row\n" * 999)[:-9])
    with pytest.raises(DataError, match="not a whole file"):
        tag_corpus(tmp_path / "cut.txt.gz", tmp_path / "out", tmp_path / "model.keras")


def test_memory_does_not_grow_with_the_input(fake, tmp_path):
    (tmp_path / "model.keras").write_bytes(b"fake")
    peaks = []
    for count in (2_000, 20_000):
        path = write_numbers(tmp_path / f"{count}.txt", count)
        tracemalloc.start()
        tag_corpus(
            path,
            tmp_path / f"out {count}",
            tmp_path / "model.keras",
            workers=0,
            shard_rows=500,
        )
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0] + 200_000


def test_the_command_line_writes_parts_and_says_what_it_did(tmp_path):
    path = write_numbers(tmp_path / "in.txt", 5)
    model = ["--model", str(served.folder("pages"))]
    command = ["tag", "-i", str(path), *model, "-o", f"{tmp_path / 'out'}/"]
    result = CliRunner().invoke(cli.app, [*command, "--workers", "0"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert "5 rows in 1 parts" in result.output and "Bad rows: 0." in result.output
    check_numbers(tmp_path / "out", 5)
    plain = CliRunner().invoke(cli.app, ["tag", "-i", str(path), *model, "--jsonl"])
    expected = [json.loads(line) for line in plain.output.splitlines()]
    found = rows(tmp_path / "out")
    assert [{**row, "id": n} for n, row in enumerate(expected, 1)] == found
    result = CliRunner().invoke(cli.app, ["tag", "a text", "--workers", "2"])
    assert "give `--input` and `--output`" in str(result.exception)


def start(path, folder, *options):
    model = ["--model", str(served.folder("pages"))]
    return subprocess.Popen(
        [*BAT_TF, "tag", "-i", str(path), "-o", f"{folder}/", *model, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )


def wait_for(condition, process, seconds=300):
    ends = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends, "nothing happened"
        time.sleep(0.01)


def parts(folder):
    return len(list(folder.glob("part-*.jsonl")))


def workers_of(process):
    """Process ids of the workers, not of multiprocessing's tracker."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            command = (path / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == process.pid and b"spawn_main" in command:
            found.append(int(path.name))
    return found


def is_alive(number):
    try:
        status = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return status != "Z"


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="finds workers through /proc"
)


@needs_proc
def test_a_killed_job_goes_on_where_it_was(tmp_path):
    out, count = tmp_path / "out", 4000
    path = write_numbers(tmp_path / "in.txt", count)
    process = start(path, out, "--workers", "1", "--shard-rows", "20")
    try:
        wait_for(lambda: parts(out) >= 3, process)
        workers = workers_of(process)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL and len(workers) == 1
    ends = time.monotonic() + 60
    while any(map(is_alive, workers)) and time.monotonic() < ends:
        time.sleep(0.05)
    assert not any(map(is_alive, workers))
    there = {path: path.stat().st_mtime_ns for path in out.glob("part-*.jsonl")}
    assert 3 <= len(there) < 200
    done = tag_corpus(path, out, served.folder("pages"), workers=0, shard_rows=20)
    assert done.rows_now == count - 20 * len(there)
    assert all(path.stat().st_mtime_ns == when for path, when in there.items())
    check_numbers(out, count)


@pytest.mark.slow
@needs_proc
def test_a_killed_worker_is_replaced(tmp_path):
    out, count = tmp_path / "out", 6000
    path = write_numbers(tmp_path / "in.txt", count)
    process = start(path, out, "--workers", "2", "--shard-rows", "20")
    wait_for(lambda: parts(out) >= 3, process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert "6,000 rows in 300 parts" in output
    check_numbers(out, count)


@pytest.mark.slow
@needs_proc
def test_ctrl_c_stops_cleanly(tmp_path):
    out, count = tmp_path / "out", 6000
    path = write_numbers(tmp_path / "in.txt", count)
    process = start(path, out, "--workers", "2", "--shard-rows", "20")
    wait_for(lambda: parts(out) >= 3, process)
    workers = workers_of(process)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "run the same command again" in output and "Traceback" not in errors
    assert not any(map(is_alive, workers)) and not list(out.glob(".*.tmp"))
    tag_corpus(path, out, served.folder("pages"), workers=0, shard_rows=20)
    check_numbers(out, count)
