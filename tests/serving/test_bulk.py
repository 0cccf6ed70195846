"""Jobs over whole files; what breaks in the middle loses nothing."""

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

import faults
import pytest
import served
from typer.testing import CliRunner

import bat_tf
from bat_tf import cli
from bat_tf._internal.validation import DataError
from bat_tf.answers import Tag
from bat_tf.serving import bulk, tag_corpus

BAT_TF = [sys.executable, "-c", "from bat_tf.cli import main; main()"]


class FakeTagger:
    """Marks the first letter; remembers how many texts it was asked."""

    task = "spans"

    def __init__(self, path=None):
        self.asked = 0

    def answer(self, texts, batch_size=32, top_k=None, threshold=None):
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
        given["output"] = tmp_path / "out"
        return tag_corpus(tmp_path / "in.txt", **{**given, **settings})

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


@pytest.mark.fault(
    "rows of a bulk job that are no texts (broken JSON, no UTF-8)",
    "they are in `bad-*.jsonl` with their line and the reason; the others are tagged",
)
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
    with pytest.raises(ValueError, match="another `threshold`: None. Received: 0.5"):
        job(threshold=0.5)
    (tmp_path / "other.keras").write_bytes(b"another model")
    with pytest.raises(ValueError, match="another `model`"):
        job(model=tmp_path / "other.keras")
    (tmp_path / "in.txt").write_text("row 1\n" * 7)
    with pytest.raises(ValueError, match="another `input`"):
        job()
    assert len(rows(tmp_path / "out")) == 7


@pytest.mark.fault(
    "input of a bulk job changed while it ran or between two runs, its size the same",
    '"… was changed while the job ran. Give another folder …" or "… holds a job with '
    'another `input`: … Give another folder, or remove this one."',
)
def test_a_changed_input_of_equal_size_is_refused(fake, tmp_path, sees):
    path, out = tmp_path / "in.txt", tmp_path / "out"
    path.write_text("".join(f"{n:04} {'lamp ' * 200}\n" for n in range(4000)))
    (tmp_path / "model.keras").write_bytes(b"fake")
    job = [path, out, tmp_path / "model.keras"]
    settings = {"workers": 0, "shard_rows": 500}
    whole = path.read_bytes()
    changed = whole.replace(b"2000 lamp", b"2000 LAMP")

    def change(done, total):
        if done == 1000:
            path.write_bytes(changed)

    with pytest.raises(ValueError) as first:
        tag_corpus(*job, **settings, progress=change)
    with pytest.raises(ValueError) as second:
        tag_corpus(*job, **settings)
    sees(f"{first.value} {second.value}")
    path.write_bytes(whole)
    assert tag_corpus(*job, **settings).rows == 4000
    assert [row["text"][:4] for row in rows(out)] == [f"{n:04}" for n in range(4000)]


@pytest.mark.fault(
    "model of a bulk job changed while it ran",
    '"… was changed while the job ran. Give another folder for the model as it is '
    'now, or put back what was there before."',
)
def test_a_model_that_was_changed_meanwhile_is_refused(fake, job, tmp_path, sees):
    model = tmp_path / "model.keras"

    def change(done, total):
        if done == 0:
            model.write_bytes(b"another model")

    with pytest.raises(ValueError) as caught:
        job(progress=change)
    sees(str(caught.value))
    assert not rows(tmp_path / "out")


@pytest.mark.fault(
    "part of a bulk job changed or cut off between two runs",
    '"… is not what the job wrote there. Remove part-… and run the same command '
    'again."; done so, that shard is done anew',
)
def test_a_changed_part_is_refused(fake, job, tmp_path, sees):
    job()
    out = tmp_path / "out"
    before, part = rows(out), out / "part-000001.jsonl"
    text = part.read_text()
    (out / "part-000002.jsonl").unlink()
    for other in (text.replace("row 4", "row 9"), text[:-1], ""):
        part.write_text(other)
        with pytest.raises(ValueError) as caught:
            job()
        sees(str(caught.value))
    part.unlink()
    assert job().rows_now == 4 and rows(out) == before
    (out / "parts.sha256").unlink()
    with pytest.raises(ValueError, match="part-000000.jsonl is not what"):
        job()


def test_digests_are_those_of_sha256sum(fake, job, tmp_path):
    with open(tmp_path / "in.txt", "ab") as file:
        file.write(b"caf\xe9\n")
    job()
    check = ["sha256sum", "--check", "parts.sha256"]
    shown = subprocess.run(check, cwd=tmp_path / "out", capture_output=True, text=True)
    names = ["bad-000002", *(f"part-00000{n}" for n in range(3))]
    assert shown.stdout == "".join(f"{name}.jsonl: OK\n" for name in names)


@pytest.mark.fault(
    "two bulk jobs in one folder",
    'the second ends: "Another job is at work in … Wait for it or stop it."',
)
def test_folders_of_others_are_left_alone(fake, job, tmp_path, sees):
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
        with pytest.raises(RuntimeError) as caught:
            job()
        sees(str(caught.value))

    assert job(progress=twice).rows == 7


@pytest.mark.fault(
    "full disk in a bulk job",
    '"There is no room left for … Make room. … of … shards are done and stay; run the '
    'same command again for the others."',
)
def test_a_full_disk_loses_nothing(fake, job, tmp_path, sees):
    with open(tmp_path / "in.txt", "a") as file:
        file.write("long " * 30_000 + "\n")
    with faults.small_disk(tmp_path / "disk") as disk:
        out = disk.folder / "out"
        disk.fill(leave=100_000)
        with pytest.raises(OSError, match="2 of 3 shards are done") as caught:
            job(output=out)
        sees(str(caught.value))
        assert [row["id"] for row in rows(out)] == [1, 2, 3, 4, 5, 6]
        assert not list(out.glob(".*.tmp"))
        disk.clear()
        assert job(output=out).rows_now == 2
        assert [row["id"] for row in rows(out)] == list(range(1, 9))


def test_a_disk_that_is_full_from_the_start_is_named(fake, job, tmp_path):
    with faults.small_disk(tmp_path / "disk") as disk:
        disk.fill(leave=0)
        with pytest.raises(OSError, match=r"job\.json could not be written.*Free some"):
            job(output=disk.folder / "out")


@pytest.mark.fault(
    "corrupted SavedModel in a bulk job",
    '"… could not be loaded: … Copy the folder again as a whole, or export the model '
    'anew."; the same folder takes the mended model',
)
def test_a_broken_model_is_said_and_may_be_mended(job, tmp_path, sees):
    broken = tmp_path / "broken" / "1"
    shutil.copytree(served.folder("pages"), broken)
    for path in (broken / "variables").glob("*.data*"):
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(OSError) as caught:
        job(model=broken)
    sees(str(caught.value))
    assert rows(tmp_path / "out") == []
    assert job(model=served.folder("pages")).rows == 7


def test_wrong_calls_get_a_sentence(job, tmp_path):
    with pytest.raises(FileNotFoundError, match="no model at"):
        job(model=tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no file"):
        tag_corpus(tmp_path / "none.txt", tmp_path / "out", tmp_path / "model.keras")
    with pytest.raises(ValueError, match="`workers` must be an integer >= 0"):
        job(workers=-1)
    with pytest.raises(ValueError, match="`top_k` must be an integer >= 1"):
        job(top_k=0)


@pytest.mark.fault(
    "input `.gz` of a bulk job cut off",
    'before any work: "… its name ends in .gz, but it is not a whole file of that '
    'kind"',
)
def test_an_input_that_was_cut_off_is_said_before_any_work(fake, tmp_path, sees):
    (tmp_path / "model.keras").write_bytes(b"fake")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"row\n" * 999)[:-9])
    with pytest.raises(DataError) as caught:
        tag_corpus(tmp_path / "cut.txt.gz", tmp_path / "out", tmp_path / "model.keras")
    sees(str(caught.value))
    assert not fake.asked


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


def test_the_options_of_labels(job, tmp_path):
    model = served.folder("news")
    job(model=model, top_k=3, threshold=0.6)
    local = bat_tf.load(model)
    for row in rows(tmp_path / "out"):
        expected = local.label(row["text"], top_k=3, threshold=0.6)
        assert row["labels"] == [name for name, _ in expected]
        assert len(row["labels"]) <= 3 and all(score > 0.6 for score in row["scores"])
    with pytest.raises(ValueError, match="a tagger gives all keywords"):
        job(model=served.folder("pages"), output=tmp_path / "other", top_k=3)


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


@pytest.mark.fault(
    "killed bulk job (`kill -9`)",
    "its workers leave; parts stay; the same command does the rest: no line twice, "
    "none lost",
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


@pytest.mark.fault("killed worker of a bulk job", "nothing; another one does its shard")
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


@pytest.mark.fault(
    "Ctrl-C in a bulk job",
    'exit code 130: "Stopped. What is done stays in …; run the same command again for '
    'the rest."',
)
@pytest.mark.slow
@needs_proc
def test_ctrl_c_stops_cleanly(tmp_path, sees):
    out, count = tmp_path / "out", 6000
    path = write_numbers(tmp_path / "in.txt", count)
    process = start(path, out, "--workers", "2", "--shard-rows", "20")
    wait_for(lambda: parts(out) >= 3, process)
    workers = workers_of(process)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    sees(output + errors)
    assert not any(map(is_alive, workers)) and not list(out.glob(".*.tmp"))
    tag_corpus(path, out, served.folder("pages"), workers=0, shard_rows=20)
    check_numbers(out, count)
