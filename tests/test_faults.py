"""The guide's table of faults, and faults that no single file is to blame for."""

import json
import shutil
import subprocess
import sys
import time

import faults
import numpy as np
import pytest
import served
import tensorflow as tf
import tiny
from faults import cut

import bat_tf


def test_the_guide_has_the_faults_that_tests_make():
    text = faults.GUIDE.read_text(encoding="utf-8")
    found = text.partition(faults.BEGIN)[2].partition(faults.END)[0]
    assert found == faults.table(), "run `python tests/faults.py`"


def test_every_sentence_in_the_table_is_checked_by_its_test():
    found = faults.faults()
    assert len({fault.what for fault in found}) == len(found)
    unchecked = [
        fault.test
        for fault in found
        if faults.quotes(fault.seen) and "sees" not in fault.arguments
    ]
    assert unchecked == []


def test_a_quote_that_is_not_shown_is_found_out():
    faults.check('it says "no room … left" and stops', "there is no room\n here left")
    with pytest.raises(AssertionError, match="is not in"):
        faults.check('"no room … right"', "there is no room here left")
    with pytest.raises(AssertionError):
        faults.check("nothing quoted", "Traceback (most recent call last)")


@pytest.fixture
def bat_tf_command(capsys, monkeypatch):
    return lambda *arguments: faults.run_command(capsys, monkeypatch, *arguments)


def garble(path):
    path.write_bytes(b"\x08\x01\x12" + b"garbage" * 99)


DAMAGES = {
    "variables cut": lambda folder: [*map(cut, folder.glob("variables/*.data*"))],
    "index cut": lambda folder: cut(folder / "variables" / "variables.index"),
    "graph cut": lambda folder: cut(folder / "saved_model.pb"),
    "graph garbled": lambda folder: garble(folder / "saved_model.pb"),
    "description cut": lambda folder: cut(folder / "assets.extra" / "bat_tf.json"),
}


@pytest.mark.fault(
    "corrupted SavedModel in `bat-tf tag` and `bat-tf serve`",
    'exit code 2: "Error: … Copy the folder again as a whole, or export the model '
    'anew."; nothing is served',
)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_corrupted_saved_model(damage, tmp_path, bat_tf_command, sees):
    folder = tmp_path / "shop" / "1"
    shutil.copytree(served.folder("pages"), folder)
    DAMAGES[damage](folder)
    code, output = bat_tf_command("tag", "--model", folder, "a lamp")
    assert code == 2
    sees(output)
    if damage in ("variables cut", "graph garbled"):
        code, output = bat_tf_command("serve", "-m", folder, "--port", 0)
        assert code == 2
        sees(output)


def test_a_model_of_others_is_said(tmp_path):
    module = tf.Module()
    tf.saved_model.save(module, str(tmp_path / "1"))
    with pytest.raises(OSError, match="no signature `serving_default`"):
        bat_tf.load(tmp_path / "1")


@pytest.mark.fault(
    "invalid UTF-8 in a file to learn from",
    'exit code 2: "Error: …train.jsonl, line 2: not UTF-8 text (byte 0xff at position '
    '16). Save it as UTF-8."',
)
def test_a_training_file_that_is_no_text(tmp_path, bat_tf_command, sees):
    lines = [b'{"text": "a lamp", "spans": []}', b'{"text": "a caf\xff", "spans": []}']
    (tmp_path / "train.jsonl").write_bytes(b"\n".join(lines))
    arguments = [tmp_path / "train.jsonl", "--output", tmp_path / "run"]
    code, output = bat_tf_command("train", *arguments)
    assert code == 2
    sees(output)


@pytest.mark.fault(
    "invalid UTF-8 or half a surrogate pair in `model.tag(texts)`",
    "each counts as one character; offsets are those of the Python string",
)
def test_texts_that_are_no_text():
    model = served.model("pages")
    raw = b"Soft \xff\xfe towel by Veloria \xe6\x9d lamp"
    text = raw.decode("utf-8", "replace")
    assert model.tag([raw]) == model.tag([text]) != [[]]
    half = text.replace("\ufffd", "\ud83d")
    for tag in model.tag(half):
        assert half[tag.start : tag.end] == tag.text


@pytest.mark.fault(
    "full disk in `bat-tf tag --output tags.jsonl`",
    'exit code 2: "Error: … could not be written: … What was there before is unharmed. '
    'Free some space, run again."',
)
def test_a_full_disk_keeps_the_older_answers(tmp_path, bat_tf_command, sees):
    with faults.small_disk(tmp_path / "disk") as disk:
        output = disk.folder / "tags.jsonl"
        output.write_text("older\n")
        command = ["tag", "--model", served.folder("pages"), "--output", output]
        disk.fill(leave=4096)
        code, shown = bat_tf_command(*command, "lamp " * 2000)
        assert code == 2
        sees(shown)
        assert output.read_text() == "older\n"


@pytest.mark.slow
def test_the_same_command_continues_a_killed_one(tmp_path):
    """`bat-tf train`, killed between two epochs or in one, as it happens."""
    tiny.dataset(24).save(tmp_path / "train.jsonl")
    tiny.dataset(8, "valid").save(tmp_path / "valid.jsonl")

    def command(output):
        settings = {
            "train": str(tmp_path / "train.jsonl"),
            "valid": str(tmp_path / "valid.jsonl"),
            "encoder_settings": {**tiny.ENCODER, "dropout": 0.1},
            "epochs": 12,
        }
        (tmp_path / "run.yaml").write_text(json.dumps(settings))
        command = [sys.executable, "-c", "from bat_tf.cli import main; main()", "train"]
        return [*command, "--config", tmp_path / "run.yaml", "--output", output]

    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True)
    process = subprocess.Popen(command(broken))
    while not (broken / "backup" / "epoch-000003.keras").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -9 and not (broken / "report.json").exists()
    subprocess.run(command(broken), check=True)
    weights = [bat_tf.load(folder).get_weights() for folder in (whole, broken)]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)
    best = [
        json.loads((f / "report.json").read_text())["best"] for f in (whole, broken)
    ]
    assert best[0] == best[1]
