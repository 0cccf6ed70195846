import json

import numpy as np
import oracles
import pytest
import tiny
from label_cases import documents

from bat_tf._internal.files import locked
from bat_tf.models.load import load
from bat_tf.runs.build import build_optimizer, head_arguments
from bat_tf.runs.run import read_label_texts, read_task, run
from bat_tf.runs.settings import Settings
from bat_tf.training import (
    Backup,
    DivergedError,
    EpochClock,
    SaveBest,
    distributed,
)


@pytest.fixture
def files(tmp_path):
    tiny.dataset(24).save(tmp_path / "train.jsonl")
    tiny.dataset(8, "valid").save(tmp_path / "valid.jsonl")
    return tmp_path


def settings_of(files, **changes):
    data = {"train": str(files / "train.jsonl"), "valid": str(files / "valid.jsonl")}
    settings = Settings.of(
        data=data,
        output=str(files / "run"),
        encoder=tiny.ENCODER,
        budget={"epochs": 1},
    )
    return settings.changed(**changes)


def test_a_run_leaves_what_is_needed_to_repeat_it(files):
    model, report = run(settings_of(files), verbose=0)
    saved = Settings.load(files / "run" / "settings.yaml")
    assert saved == settings_of(files)
    assert json.loads((files / "run" / "report.json").read_text())["best"]["epoch"] == 1
    assert model.tag("a lamp") is not None
    assert 0 <= report["valid"]["values"]["token_macro_f1"] <= 1


def test_a_folder_with_another_run_is_left_alone(files):
    run(settings_of(files), verbose=0)
    with pytest.raises(ValueError, match="loss.name 'ce' instead of 'pbp'"):
        run(settings_of(files, loss="pbp"), verbose=0)
    # More epochs of the same run are a continuation.
    _, report = run(settings_of(files, **{"budget.epochs": 2}), verbose=0)
    assert report["best"]["epoch"] in (1, 2)
    history = (files / "run" / "history.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in history] == ["epoch", "0", "1"]


def test_a_run_that_never_began_takes_other_settings(files):
    wrong = settings_of(files, **{"data.train": str(files / "nothing.jsonl")})
    with pytest.raises(FileNotFoundError):
        run(wrong, verbose=0)
    assert (files / "run" / "settings.yaml").exists()
    run(settings_of(files), verbose=0)


@pytest.mark.slow
def test_a_run_without_a_best_epoch_is_an_error_of_the_chief_alone(files, monkeypatch):
    monkeypatch.setattr(SaveBest, "on_epoch_end", lambda *_, **__: None)
    with pytest.raises(DivergedError, match="`val_token_macro_f2` was no finite"):
        run(settings_of(files), verbose=0)
    monkeypatch.setattr(distributed, "is_chief", lambda _: False)
    model, report = run(settings_of(files, output=str(files / "other")), verbose=0)
    assert report is None and model.tag("a lamp") is not None


@pytest.mark.slow
def test_what_earlier_parts_of_a_run_took_is_counted(files, monkeypatch):
    run(settings_of(files), verbose=0)
    took = Backup._continue

    def slow(self, epoch, states):
        states[EpochClock.__name__] = {"seconds": [1000.0, 2000.0]}
        took(self, epoch, states)

    monkeypatch.setattr(Backup, "_continue", slow)
    _, report = run(settings_of(files), verbose=0)
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


def test_what_labels_mean_is_read_from_a_file(tmp_path):
    path = tmp_path / "texts.json"
    data = {"train": "x", "label_texts": str(path)}
    settings = Settings.of(model="classifier", data=data)
    path.write_text('{"C7": "zinc"}')
    assert read_label_texts(settings) == {"C7": "zinc"}
    for content, reason in (("{", "is not JSON"), ('["zinc"]', "must hold an object")):
        path.write_text(content)
        with pytest.raises(ValueError, match=f"texts.json {reason}"):
            read_label_texts(settings)
    assert read_label_texts(Settings.of(data={"train": "x"})) is None


def test_labels_are_texts_to_learn_from(tmp_path):
    train, texts = tmp_path / "train.jsonl", tmp_path / "texts.json"
    rows = [{"text": f"price {i}", "labels": ["C7"]} for i in range(10)]
    train.write_text("\n".join(map(json.dumps, rows)))
    texts.write_text('{"C7": "zinc"}')
    data = {"train": str(train), "label_texts": str(texts)}
    settings = Settings.of(model="classifier", data=data)
    plain = read_task(settings)
    task = read_task(settings.changed(**{"data.label_examples": True}))
    assert len(task.train) == len(plain.train) + 1
    assert (task.train[-1].text, task.train[-1].labels) == ("zinc", ("C7",))
    # It is no example that losses and thresholds could count on.
    assert task.labels.counts.tolist() == [len(plain.train)]
    assert len(task.valid) == len(plain.valid)


@pytest.mark.fault(
    "other texts of the labels where a run goes on",
    '"The data are not those that the run in … began with. labels: text 1 is another. '
    'Give it the same data, or choose another folder to train on these."',
)
def test_a_run_goes_on_with_the_same_texts_of_its_labels(tmp_path, sees):
    documents(24).save(tmp_path / "train.jsonl")
    names = sorted({name for row in documents(24).labels for name in row})
    data = {"train": str(tmp_path / "train.jsonl"), "label_texts": str(tmp_path / "l")}
    settings = Settings.of(
        model="classifier",
        data=data,
        output=str(tmp_path / "run"),
        encoder=tiny.ENCODER,
        budget={"epochs": 1},
    )
    (tmp_path / "l").write_text(json.dumps(dict.fromkeys(names, "zinc")))
    run(settings, verbose=0)
    (tmp_path / "l").write_text(json.dumps({names[0]: "tin"}))
    with pytest.raises(ValueError, match="are not those") as caught:
        run(settings.changed(**{"budget.epochs": 2}), verbose=0)
    sees(str(caught.value))


def test_a_report_says_what_the_loss_found_in_the_labels(tmp_path):
    documents(24).save(tmp_path / "train.jsonl")
    settings = Settings.of(
        model="classifier",
        data={"train": str(tmp_path / "train.jsonl")},
        output=str(tmp_path / "run"),
        encoder=tiny.ENCODER,
        loss="db",
        budget={"epochs": 1},
    )
    run(settings, verbose=0)
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    expected = oracles.middle_ratio(read_task(settings).train.labels)
    assert report["loss"] == {"rebalance_mu": pytest.approx(expected)}


@pytest.mark.slow
def test_neighbours_vote_in_the_model_that_is_kept(tmp_path):
    train = tmp_path / "train.jsonl"
    rows = [
        {"text": text, "labels": [label]}
        for text, label in (("oil and gas", "energy"), ("rain and wind", "weather"))
    ]
    train.write_text("\n".join(map(json.dumps, rows * 10)))
    settings = Settings.of(
        model="experts",
        data={"train": str(train)},
        output=str(tmp_path / "run"),
        encoder={"num_layers": 1, "d_model": 16},
        heads={
            "experts": ["D-1"],
            "averaging": "logits",
            "neighbours": 3,
            "thresholds": "by_count",
        },
        budget={"epochs": 1},
    )
    model, _ = run(settings, verbose=0)
    again = load(tmp_path / "run")
    assert len(again.thresholds) == 2
    votes = again.heads[-1]
    assert votes.num_texts == 18 and votes.neighbours == 3
    assert again.label("rain and wind", top_k=1)[0][0] == "weather"
    np.testing.assert_allclose(again.scores(["oil"]), model.scores(["oil"]), atol=1e-5)


def test_experts_owe_consistency_too():
    heads = {"experts": ["D-1"], "r_drop": 2.0, "vat": 0.5, "mode": "collaborative"}
    own = head_arguments(Settings.of(model="experts", data={"train": "x"}, heads=heads))
    assert [term.get_config() for term in own["consistency"]] == [
        {"alpha": 2.0},
        {"alpha": 0.5, "radius": 1.0},
    ]
    assert own["combine"].loss == "collaborative" and own["experts"] == ["D-1"]


def test_warm_up_scales_with_the_run_and_the_peak_stays():
    settings = Settings.of(data={"train": "x"}, optimizer="bat")
    rate = build_optimizer(settings, 128, steps=1000).get_config()["learning_rate"]
    assert rate["config"]["warmup_steps"] == 80
    peak = (128 * 4000) ** -0.5
    schedule = build_optimizer(settings, 128, steps=1000)._learning_rate
    assert float(schedule(79)) == pytest.approx(peak, rel=1e-5)
