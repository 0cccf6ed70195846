import json

import numpy as np
import pytest
import tiny
import yaml

from bat_tf.data.files import locked
from bat_tf.experiments.run import (
    RunSettings,
    build_optimizer,
    read_label_texts,
    read_task,
    run,
)
from bat_tf.serving import load


@pytest.fixture
def files(tmp_path):
    tiny.dataset(24).save(tmp_path / "train.jsonl")
    tiny.dataset(8, "valid").save(tmp_path / "valid.jsonl")
    return tmp_path


def settings_of(files, **changes):
    return RunSettings.of(
        **{
            "train": str(files / "train.jsonl"),
            "valid": str(files / "valid.jsonl"),
            "output": str(files / "run"),
            "encoder_settings": tiny.ENCODER,
            "epochs": 1,
            **changes,
        }
    )


def test_a_run_leaves_what_is_needed_to_repeat_it(files):
    model, report = run(settings_of(files), verbose=0)
    saved = RunSettings.load(files / "run" / "settings.yaml")
    assert saved == settings_of(files)
    assert json.loads((files / "run" / "report.json").read_text())["best"]["epoch"] == 1
    assert model.tag("a lamp") is not None
    assert 0 <= report["valid"]["values"]["token_macro_f1"] <= 1


def test_a_folder_with_another_run_is_left_alone(files):
    run(settings_of(files), verbose=0)
    with pytest.raises(ValueError, match="loss 'ce' instead of 'pbp'"):
        run(settings_of(files, loss="pbp"), verbose=0)
    # More epochs of the same run are a continuation.
    _, report = run(settings_of(files, epochs=2), verbose=0)
    assert report["best"]["epoch"] in (1, 2)
    history = (files / "run" / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in history] == ["epoch", "0", "1"]
    # What it took is counted from the beginning.
    (files / "run" / "epochs.json").write_text('{"1": 1000.0, "2": 2000.0}')
    _, report = run(settings_of(files, epochs=2), verbose=0)
    assert 3000 < report["fit_seconds"] < report["seconds"] < 4000
    assert report["epoch_seconds"] == 2000.0


@pytest.mark.fault(
    "two processes train in one folder",
    'the second ends: "Another run is at work in … Wait for it or stop it."',
)
def test_a_second_process_is_kept_out_of_a_run_s_folder(files, sees):
    (files / "run").mkdir()
    with locked(files / "run"), pytest.raises(RuntimeError) as caught:
        run(settings_of(files), verbose=0)
    sees(str(caught.value))
    assert [path.name for path in (files / "run").iterdir()] == [".lock"]
    with locked(files / "run"):  # it is free again
        pass


def test_settings_that_do_not_exist_are_named(tmp_path):
    with pytest.raises(ValueError, match="`setting` must be one of.*'learning_rat'"):
        RunSettings.of(train="x", learning_rat=1)
    with pytest.raises(ValueError, match="`data` must be given"):
        RunSettings.of(epochs=3)
    (tmp_path / "bad.yaml").write_text("a: [1, 2")
    with pytest.raises(ValueError, match="bad.yaml is not YAML"):
        RunSettings.load(tmp_path / "bad.yaml")


def test_yaml_file_and_changes(tmp_path):
    (tmp_path / "run.yaml").write_text(yaml.safe_dump({"train": "a", "epochs": 7}))
    settings = RunSettings.load(tmp_path / "run.yaml", epochs=8)
    assert (settings.train, settings.epochs) == ("a", 8)


def test_what_labels_mean_is_read_from_a_file(tmp_path):
    path = tmp_path / "texts.json"
    settings = RunSettings.of(train="x", task="labels", label_texts=str(path))
    path.write_text('{"C7": "zinc"}')
    assert read_label_texts(settings) == {"C7": "zinc"}
    for content, reason in (("{", "is not JSON"), ('["zinc"]', "must hold an object")):
        path.write_text(content)
        with pytest.raises(ValueError, match=f"texts.json {reason}"):
            read_label_texts(settings)
    assert read_label_texts(RunSettings.of(train="x")) is None


def test_labels_are_texts_to_learn_from(tmp_path):
    train, texts = tmp_path / "train.jsonl", tmp_path / "texts.json"
    rows = [{"text": f"price {i}", "labels": ["C7"]} for i in range(10)]
    train.write_text("\n".join(map(json.dumps, rows)))
    texts.write_text('{"C7": "zinc"}')
    settings = {"task": "labels", "train": str(train), "label_texts": str(texts)}
    plain = read_task(RunSettings.of(**settings))
    task = read_task(RunSettings.of(**settings, label_examples=True))
    assert len(task.train) == len(plain.train) + 1
    assert (task.train[-1].text, task.train[-1].labels) == ("zinc", ("C7",))
    # It is no example that losses and thresholds could count on.
    assert task.labels.counts.tolist() == [len(plain.train)]
    assert len(task.valid) == len(plain.valid)


def test_neighbours_vote_in_the_model_that_is_kept(tmp_path):
    train = tmp_path / "train.jsonl"
    rows = [
        {"text": text, "labels": [label]}
        for text, label in (("oil and gas", "energy"), ("rain and wind", "weather"))
    ]
    train.write_text("\n".join(map(json.dumps, rows * 10)))
    settings = RunSettings.of(
        task="labels",
        train=str(train),
        output=str(tmp_path / "run"),
        encoder_settings={"num_layers": 1, "d_model": 16},
        model_settings={"experts": ["D-1"], "averaging": "logits"},
        neighbours=3,
        thresholds="by-count",
        epochs=1,
    )
    model, _ = run(settings, verbose=0)
    again = load(tmp_path / "run")
    assert len(again.thresholds) == 2
    assert again.memory.num_texts == 18 and again.memory.neighbours == 3
    assert again.label("rain and wind", top_k=1)[0][0] == "weather"
    np.testing.assert_allclose(again.scores(["oil"]), model.scores(["oil"]), atol=1e-5)
    for bad, sentence in ((-3, "an integer >= 0"), (3, "0 for a model without")):
        with pytest.raises(ValueError, match=f"`neighbours` must be {sentence}"):
            RunSettings.of(train="x", neighbours=bad, model_settings={"experts": ["S"]})


def test_warm_up_scales_with_the_run_and_the_peak_stays():
    settings = RunSettings.of(train="x", optimizer="bat")
    rate = build_optimizer(settings, 128, steps=1000).get_config()["learning_rate"]
    assert rate["config"]["warmup_steps"] == 80
    peak = (128 * 4000) ** -0.5
    schedule = build_optimizer(settings, 128, steps=1000)._learning_rate
    assert float(schedule(79)) == pytest.approx(peak, rel=1e-5)
