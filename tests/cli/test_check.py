import json
from functools import partial

import faults
import pytest
from rich.console import Console

import bat_tf
from bat_tf.cli import terminal
from bat_tf.data import from_rows
from bat_tf.runs.recipes import settings_for


@pytest.fixture
def call(capsys, monkeypatch):
    return lambda *words: faults.run_command(capsys, monkeypatch, *words)


@pytest.fixture
def files(tmp_path):
    rows = [(f"goal {n}", ["sport"]) for n in range(9)]
    rows += [(f"play {n}", ["art"]) for n in range(9)]
    from_rows(rows).save(tmp_path / "train.jsonl")
    from_rows([("goal 3", ["sport"]), ("film", ["cinema"])]).save(
        tmp_path / "test.jsonl"
    )
    return tmp_path / "train.jsonl", tmp_path / "test.jsonl"


def test_findings_are_shown_and_make_the_exit_code(call, files):
    code, shown = call("check", *files)
    assert code == 4 and "Read as: labels of texts from jsonl" in shown
    words = " ".join(shown.split())
    for word in ("text in both", "unknown name", "test.jsonl:1", "error", "art 9"):
        assert word in words
    code, shown = call("check", files[0])
    assert code == 0 and "Nothing to correct." in shown
    code, shown = call("check", files[0].parent / "gone.csv")
    assert code == 2 and "is neither a file" in shown


def test_all_that_was_found_as_json(call, files):
    code, shown = call("check", *files, "--json", "--max-length", "1")
    found = json.loads(shown)
    assert code == 4 and found["counts"][0] == {"sport": 9, "art": 9}
    assert {"text in both files", "long texts"} <= {
        f["kind"] for f in found["findings"]
    }
    assert [file["language"] for file in found["files"]] == ["", ""]


def test_a_file_that_reads_in_two_ways(call, tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("text,label\nA goal,New York\nA play,York\nA race,Rome\n")
    code, shown = call("check", path)
    assert code == 2 and """--read 'separator=""'""" in shown
    assert """--read 'separator=" "'""" in shown
    code, shown = call("check", path, "--read", "separator=''")
    assert "3 different" in shown
    # A terminal is asked.
    monkeypatch.setattr(terminal, "console", Console(force_terminal=True))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, labels in ((2, ("New", "York")), (1, ("New York",))):
        monkeypatch.setattr(terminal.typer, "prompt", lambda *_, n=answer, **__: n)
        found = terminal.or_asked(partial(bat_tf.data.read, path), {})
        assert found.labels[0] == labels


def test_one_bad_row_names_itself_and_its_way_out(call, files, tmp_path):
    with open(files[0], "a") as file:
        file.write('{"text": 3, "labels": []}\n')
    code, shown = call("train", files[0], "-o", tmp_path / "run", "--task", "labels")
    assert code == 2 and "train.jsonl, line 19: the text must be a string" in shown
    assert "--on-error skip" in shown
    code, shown = call("check", files[0])
    assert code == 4 and "faulty row" in shown
    verbs = (["evaluate", "-i", files[0]], ["tune", "-i", files[0], "-m", "x.keras"])
    for verb in (["train", files[0]], *verbs):
        _, shown = call(*verb, "--on-error", "pass")
        assert "No such option" not in shown
    changes = {"data.train": "x.csv", "data.options.on_error": "skip"}
    settings = settings_for(None, None, None, **changes)
    assert settings.data.options == {"on_error": "skip"}
