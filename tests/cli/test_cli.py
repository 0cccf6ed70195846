import json
import os
import subprocess
import sys

import pytest
import tiny
from typer.testing import CliRunner

import bat_tf
from bat_tf import cli

runner = CliRunner()


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    tiny.dataset(24).save(folder / "train.jsonl")
    config = folder / "small.yaml"
    train = folder / "train.jsonl"
    config.write_text(f"data: {{train: {train}}}\nbudget: {{epochs: 1}}\n")
    result = runner.invoke(
        cli.app,
        [
            *["train", "--config", str(config), "--output", str(folder / "run")],
            *[f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items()],
        ],
    )
    assert result.exit_code == 0, result.output
    assert "Best epoch 1" in result.output
    return folder


def call(*arguments, **kwargs):
    code = "from bat_tf.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        **kwargs,
    )


def test_evaluate_prints_the_tables(run_folder):
    output = run_folder / "scores.json"
    arguments = ["evaluate", "-i", str(run_folder / "train.jsonl"), "-o", str(output)]
    result = runner.invoke(cli.app, [*arguments, "--model", str(run_folder / "run")])
    assert "brand" in result.output and "F2" in result.output
    assert json.loads(output.read_text())["num_texts"] == 24


def test_tag_reads_arguments_files_and_standard_input(run_folder):
    model = ["--model", str(run_folder / "run"), "--jsonl"]
    texts = tiny.dataset(3, "test").texts
    (run_folder / "texts.txt").write_text("\n".join(texts))
    file = ["--input", str(run_folder / "texts.txt")]
    outputs = [
        runner.invoke(cli.app, ["tag", *model, *texts]).output,
        runner.invoke(cli.app, ["tag", *model, *file]).output,
        runner.invoke(cli.app, ["tag", *model], input="\n".join(texts)).output,
    ]
    assert outputs[0] == outputs[1] == outputs[2]
    rows = [json.loads(line) for line in outputs[0].splitlines()]
    assert [row["text"] for row in rows] == texts


def test_tag_uses_the_shipped_model_by_default():
    text = bat_tf.data.read("product_pages/en", split="test")[0]
    result = runner.invoke(cli.app, ["tag", "--jsonl", text.text])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["spans"]


def test_export_and_info(run_folder):
    target = str(run_folder / "served" / "1")
    result = runner.invoke(
        cli.app, ["export", "-m", str(run_folder / "run"), "-o", target]
    )
    assert "it answers as the model does" in result.output
    assert "beyond core TensorFlow: none" in result.output
    result = runner.invoke(cli.app, ["info", "--model", target])
    assert "ops_beyond_core" in result.output and "tensorflow 2.21" in result.output


def test_errors_are_one_sentence_without_a_traceback(run_folder, tmp_path):
    process = call("tag", "--model", tmp_path / "nowhere", "text")
    assert process.returncode == 2
    assert "There is no model at" in process.stderr
    assert "Traceback" not in process.stderr
    (tmp_path / "bad.jsonl").write_text('{"text": "a", "spans": [[0, 9, "x"]]}\n')
    process = call("train", tmp_path / "bad.jsonl", "-o", tmp_path / "r")
    assert process.returncode == 2
    assert "bad.jsonl, line 1" in process.stderr.replace("\n", "")


def test_help_lists_the_commands():
    process = call("--help", env={**os.environ, "NO_COLOR": "1"})
    assert process.returncode == 0
    for command in ("demo", "train", "evaluate", "tag", "export", "info"):
        assert command in process.stdout


def test_labels_from_training_to_tags(tmp_path):
    rows = [("oil and gas", ["energy"]), ("wheat, oil", ["energy", "grain"])]
    data = [bat_tf.data.Example(text, labels=labels) for text, labels in rows * 12]
    path = tmp_path / "news.jsonl"
    bat_tf.TextDataset(data).save(path)
    run = str(tmp_path / "run")
    settings = [f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items()]

    def ask(*arguments):
        result = runner.invoke(cli.app, [*map(str, arguments)])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output

    train = [
        "train",
        path,
        "--task",
        "labels",
        "--recipe",
        "none",
        "--valid",
        path,
        "-o",
        run,
    ]
    output = ask(*train, "--epochs", 1, "--thresholds", "global", *settings)
    assert "micro_f1" in output
    assert "saved in" in ask("tune", "-m", run, "-i", path, "--by-count")
    assert "saved in" in ask("tune", "-m", run, "-i", path, "--per-label")
    plot = tmp_path / "plots" / "f1.png"
    assert "head" in ask("evaluate", "-i", path, "--model", run, "--plot", plot)
    assert plot.stat().st_size > 1000
    line = json.loads(ask("tag", "--model", run, "--jsonl", "wheat, oil"))
    assert line["text"] == "wheat, oil" and len(line["labels"]) == len(line["scores"])
    best = json.loads(ask("tag", "--model", run, "--jsonl", "--top-k", 2, "wheat, oil"))
    assert sorted(best["labels"]) == ["energy", "grain"]
    assert "labels: energy, grain" in ask("info", "--model", run)
    served = tmp_path / "served" / "1"
    assert "answers as the model does" in ask("export", "-m", run, "-o", served)
    assert json.loads(ask("tag", "--model", served, "--jsonl", "wheat, oil")) == line
    for options in (["--top-k", 2], ["--threshold", 0.01], ["--threshold", 1]):
        command = ["tag", "--jsonl", *options, "wheat, oil", "--model"]
        assert ask(*command, run) == ask(*command, served)
    for arguments, words in (
        (["evaluate", "-i", path, "--model", served], "gives no scores of all of them"),
        (["tune", "-m", served, "-i", path], "has no thresholds to fit"),
        (["tag", "--top-k", 1, "x"], "They choose among labels"),
        (["tag", "--input", path, "x"], "not both"),
        (["train", path, "--data", "reuters21578"], "not both"),
    ):
        result = runner.invoke(cli.app, [*map(str, arguments)])
        assert words in str(result.exception)


def test_models_that_come_with_the_package_go_by_name():
    text = "Opec ministers agreed to cut crude oil output, an oil official said."
    result = runner.invoke(
        cli.app, ["tag", "--model", "reuters_topics", text, "--jsonl"]
    )
    assert result.exit_code == 0, result.output
    row = json.loads(result.output.splitlines()[-1])
    assert "crude" in row["labels"]
    missing = runner.invoke(cli.app, ["tag", "--model", "no_such_model", text])
    assert isinstance(missing.exception, (OSError, ValueError))
    assert "no_such_model" in str(missing.exception)


def test_a_test_file_is_read_as_the_run_was_and_unknown_labels_are_named(tmp_path):
    rows = [("oil, gas", "energy"), ("rain", "the weather")] * 12
    lines = "".join(f'"{text}",{label}\n' for text, label in rows)
    (tmp_path / "train.csv").write_text("text,label\n" + lines)
    (tmp_path / "test.csv").write_text("text,label\n" + lines + "snow,deep snow\n")
    result = runner.invoke(
        cli.app,
        [
            *["train", str(tmp_path / "train.csv"), "--output", str(tmp_path / "run")],
            *["--recipe", "light", "--task", "labels", "--epochs", "1"],
            *["--read", "separator=''"],
            *[f"--set=encoder.{k}={v}" for k, v in tiny.ENCODER.items()],
        ],
    )
    assert result.exit_code == 0, result.output
    files = ["--model", str(tmp_path / "run"), "--input", str(tmp_path / "test.csv")]
    result = runner.invoke(cli.app, ["evaluate", *files])
    assert result.exit_code == 0, result.output
    said = "Labels that the model does not know, each counted as missed: deep snow (1)"
    assert said in result.output
