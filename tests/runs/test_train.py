"""`bat_tf.train` and `bat-tf train FILE`: what is found out, and what is left."""

import json

import numpy as np
import pytest
import tiny
from typer.testing import CliRunner

import bat_tf
from bat_tf.cli import app
from bat_tf.data import Example, TextDataset
from bat_tf.models.load import load
from bat_tf.runs import baseline
from bat_tf.runs import train as training
from bat_tf.runs.train import choose, prepare

ROWS = [("the oil and the gas", "energy"), ("the rain and wind", "weather")] * 15
ROWS += [(f"{text} {number}", label) for number, (text, label) in enumerate(ROWS)]
SMALL = {"encoder": tiny.ENCODER, "recipe": "light", "verbose": 0}
SMALL["optimizer"] = {"learning_rate": 0.03}


@pytest.fixture(autouse=True)
def without_a_backbone(monkeypatch):
    monkeypatch.setattr(training.catalogue, "find", lambda name: None)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels") / "run"
    model = bat_tf.train(ROWS, output=folder, task="labels", epochs=6, **SMALL)
    return folder, model


def test_rows_become_a_run_with_all_that_other_verbs_take(labelled):
    folder, model = labelled
    assert [name for name, _ in model.label("rain and rain")] == ["weather"]
    assert model.label("rain") == load(folder).label("rain")
    assert {"data", "best.keras", "report.json", "settings.yaml"} <= {
        path.name for path in folder.iterdir()
    }
    assert json.loads((folder / "data" / "train.jsonl").read_text().split("\n")[0]) == {
        "text": "the oil and the gas",
        "labels": ["energy"],
    }


def test_a_recipe_that_is_found_brings_the_linear_model_along(tmp_path):
    bat_tf.data.from_rows(ROWS).save(tmp_path / "train.jsonl")
    settings, said = prepare(**{"data.train": str(tmp_path / "train.jsonl")})
    assert settings.baseline and settings.model == "classifier"
    assert settings.budget.minutes == 10.0
    assert said.startswith("Read as: labels of texts from jsonl, en, Latin script")
    assert "'the oil and the gas' → energy" in said
    assert "Recipe light_labels: language en; no pretrained encoder for it" in said


def test_epochs_that_are_given_are_not_planned(tmp_path):
    bat_tf.data.from_rows(ROWS).save(tmp_path / "train.jsonl")
    file = {"data.train": str(tmp_path / "train.jsonl")}
    assert prepare(**file, **{"budget.epochs": 3})[0].budget.minutes is None
    assert prepare(minutes=2, **file)[0].budget.minutes == 2.0
    with pytest.raises(ValueError, match="`minutes` must be a number >= 0"):
        prepare(minutes=-1, **file)


def test_texts_decide_the_recipe(monkeypatch):
    spans = TextDataset([Example("a lamp", spans=[(2, 6, "product")])] * 3)
    assert choose(spans)[0] == "light_spans"
    many = TextDataset(Example(f"text {i}", labels=[f"l{i}"]) for i in range(1001))
    assert choose(many)[0] == "extreme"
    german = bat_tf.data.from_rows([("der Regen und das Gas", "wetter")] * 5)
    name, why, _ = choose(german)
    assert name == "light_labels" and "`bat-tf backbones get german-bert` adds" in why


def test_a_backbone_that_is_here_and_knows_the_language_is_taken(monkeypatch, minilm):
    here = {"minilm": minilm}
    monkeypatch.setattr(training.catalogue, "find", here.get)
    name, why, own = choose(bat_tf.data.from_rows(ROWS))
    assert name == "pretrained_labels" and "language en; backbone minilm" in why
    assert own["encoder"] == {"backbone": "minilm"}
    titles = [("red running shoes size nine", "shoes"), ("steel kettle", "kitchen")]
    assert (
        "not clear, but its words are known" in choose(bat_tf.data.from_rows(titles))[1]
    )
    swedish = [("vattentät vinterjacka storlek", "kläder")] * 3
    assert choose(bat_tf.data.from_rows(swedish))[0] == "light_labels"
    spans = TextDataset([Example("der Regen und das Gas", spans=[(0, 3, "x")])] * 3)
    named = choose(spans, backbone="german-bert")
    assert named[0] == "pretrained_spans"
    assert named[2]["encoder"] == {"backbone": "german-bert"}


def test_a_task_that_the_texts_do_not_have_is_refused(tmp_path):
    bat_tf.data.from_rows(ROWS).save(tmp_path / "train.jsonl")
    with pytest.raises(ValueError, match="`task` must be 'labels'. Received: 'spans'"):
        prepare(task="spans", **{"data.train": str(tmp_path / "train.jsonl")})


@pytest.fixture(scope="module")
def with_baseline(tmp_path_factory):
    folder = tmp_path_factory.mktemp("baseline") / "run"
    settings = {"output": folder, "task": "labels", "baseline": True, **SMALL}
    return folder, settings, bat_tf.train(ROWS, epochs=1, **settings)


def test_the_report_shows_the_linear_model_beside(with_baseline):
    folder, *_ = with_baseline
    report = json.loads((folder / "report.json").read_text())
    beside = report["baseline"]
    assert beside["part"] == "valid" and beside["seconds"] > 0
    linear = load(folder / "baseline.keras")
    assert beside["micro_f1"]["baseline"][0] == pytest.approx(
        linear.evaluate_report(training_part(folder)).values["micro_f1"], abs=1e-6
    )
    gain = beside["micro_f1"]["model"][0] - beside["micro_f1"]["baseline"][0]
    assert beside["micro_f1"]["difference"][0] == pytest.approx(gain)
    assert report["shipped"] == "model" and 0 <= report["linear_share"] <= 1


def training_part(folder):
    """The valid part of a run."""
    from bat_tf.runs.run import read_task
    from bat_tf.runs.settings import Settings

    return read_task(Settings.load(folder / "settings.yaml")).valid


def test_the_same_call_again_changes_nothing(with_baseline):
    _, settings, model = with_baseline
    again = bat_tf.train(ROWS, epochs=1, **settings)
    texts = [text for text, _ in ROWS[:6]]
    np.testing.assert_allclose(again.scores(texts), model.scores(texts), atol=1e-5)
    assert len(again.heads) == len(model.heads)


def test_the_linear_model_can_be_kept_and_the_full_one_comes_back(with_baseline):
    folder, settings, model = with_baseline
    linear = load(folder / "baseline.keras")
    texts = [text for text, _ in ROWS[:6]]
    bat_tf.train(ROWS, epochs=1, ship="baseline", **settings)
    np.testing.assert_allclose(
        load(folder).scores(texts), linear.scores(texts), atol=1e-5
    )
    bat_tf.train(ROWS, epochs=1, **settings)
    np.testing.assert_allclose(
        load(folder).scores(texts), model.scores(texts), atol=1e-5
    )


def test_labels_that_a_model_does_not_know_count_as_missed(labelled):
    _, model = labelled
    known = TextDataset([Example("the rain and wind", labels=["weather"])] * 4)
    strange = TextDataset([Example("the rain", labels=["weather", "snow"])] * 4)
    assert baseline.text_counts(model, known).f1() == 1.0
    assert baseline.text_counts(model, strange).f1() == pytest.approx(2 / 3)


def test_a_tagger_has_a_linear_model_too(tmp_path):
    data = tiny.dataset(40)
    settings = {**SMALL, "baseline": True, "output": tmp_path / "run", "epochs": 1}
    bat_tf.train(data, task="spans", **settings)
    beside = json.loads((tmp_path / "run" / "report.json").read_text())["baseline"]
    assert set(beside["micro_f1"]) == {"model", "baseline", "difference"}
    assert load(tmp_path / "run" / "baseline.keras").encoder.name == "encoder"


AMBIGUOUS = (
    "text,label\n" + "a text,red shoes\nanother,blue\nthird,red\nlast,shoes\n" * 5
)


def test_a_file_that_reads_in_two_ways_is_asked_about(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").write_text(AMBIGUOUS)
    found = CliRunner().invoke(app, ["train", "mine.csv"])
    said = str(found.exception)
    assert "'red shoes' may be one label or 2. Choose one of:" in said
    assert "--read 'separator=\"\"'   each cell is one label" in said
    assert not (tmp_path / "runs").exists()


def test_a_run_goes_on_with_new_texts(labelled, tmp_path):
    folder, model = labelled
    new = [("snow and ice and rain", "weather"), ("crude oil", "energy")] * 12
    settings = {"continue_from": str(folder), "verbose": 0}
    settings["budget"] = {"batch_size": 2, "epochs": 1}
    more = bat_tf.train(new, output=tmp_path / "more", **settings)
    assert more.names == model.names
    assert more.tokenizer.vocabulary == model.tokenizer.vocabulary
    before = np.concatenate([w.ravel() for w in model.get_weights()])
    after = np.concatenate([w.ravel() for w in more.get_weights()])
    distance = np.abs(before - after)
    assert 0 < distance.max() and np.median(distance) < 0.5
    strange = [("a song", "music"), ("rain", "weather")] * 12
    with pytest.raises(
        ValueError, match="of labels that .* knows. Received: \"'music'"
    ):
        bat_tf.train(strange, output=tmp_path / "strange", **settings)


def test_recipes_are_listed():
    shown = CliRunner().invoke(app, ["recipes"]).output
    for name in ("light_spans", "light_labels", "extreme", "paper"):
        assert name in shown
