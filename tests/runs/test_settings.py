"""Settings have one form, and what is wrong with them is said with its path."""

import pytest
import yaml

from bat_tf.runs.settings import Settings, differences, flat

TEXTS = {"data": {"train": "x"}}
EXPERTS = {**TEXTS, "model": "experts", "heads.experts": ["S"]}


def test_one_form_for_python_yaml_and_results(tmp_path):
    settings = Settings.of(
        model="classifier",
        data="reuters21578",
        text={"tokenizer": "words", "min_count": 2},
        encoder={"name": "bat", "d_model": 32, "kernel_sizes": (1, 3)},
        heads={"words": True, "dropout": 0.2},
        loss="db",
        **{"optimizer.learning_rate": 1, "budget.epochs": 6},
    )
    values = settings.to_dict()
    assert values["encoder"]["d_model"] == 32 and values["loss"] == {"name": "db"}
    path = tmp_path / "settings.yaml"
    path.write_text(yaml.safe_dump(values))
    assert Settings.load(path) == settings == Settings.of(**values)
    assert flat(values)["encoder.kernel_sizes"] == [1, 3]
    assert isinstance(settings.optimizer.learning_rate, float)


def test_what_is_left_out_is_decided_by_the_model():
    spans, labels = Settings.of(**TEXTS), Settings.of(**TEXTS, model="classifier")
    assert (spans.loss.name, spans.scores.monitor) == ("ce", "val_token_macro_f2")
    assert (labels.loss.name, labels.scores.monitor) == ("zlpr", "val_micro_f1")
    assert (spans.task, labels.task) == ("spans", "labels")


def test_changes_reach_inside_and_leave_the_rest(tmp_path):
    settings = Settings.of(data={"name": "a", "options": {"size": 9}}, encoder="muse")
    changed = settings.changed(**{"data": "b", "encoder.d_model": 64})
    assert changed.data.name == "b" and changed.data.options == {"size": 9}
    assert changed.encoder.name == "muse" and changed.encoder.settings["d_model"] == 64
    assert settings.encoder.settings == {}
    assert changed.changed(encoder={}).encoder == Settings.of(data="a").encoder
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump({**TEXTS, "budget": {"epochs": 7, "seed": 1}}))
    budget = Settings.load(path, **{"budget.epochs": 8}).budget
    assert (budget.epochs, budget.seed) == (8, 1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (
            {"encoder.d_modle": 64},
            "`encoder.d_modle` is no setting, did you mean d_model?",
        ),
        ({"budgt.epochs": 1}, "`budgt` is no setting, did you mean budget?"),
        ({"budget.epoch": 1}, "`budget.epoch` is no setting, did you mean epochs?"),
        ({"optimizer": {"rate": 1}}, "`optimizer.rate` is no setting. Settings of"),
        (
            {"text": {"tokenizer": "words", "min_cont": 2}},
            "`text.min_cont` is .*min_count?",
        ),
        ({"text.min_count": 2}, "`text.tokenizer` must be given"),
        ({"loss": {"name": "pbp", "gama": 1}}, "`loss.gama` is no .* mean gamma?"),
        ({"loss": "pbb"}, "`loss.name` must be one of"),
        ({"encoder": "bad"}, "`encoder.name` must be one of"),
        ({"heads.words": True}, "`heads.words` is no setting"),
        (
            {"heads.dropuot": 0.1},
            "`heads.dropuot` is no setting, did you mean dropout?",
        ),
        ({"report.label_bounds": [1]}, "`report.label_bounds` is no setting"),
        ({"model": "classfier"}, "`model` must be one of"),
        ({"heads.thresholds": "by-count"}, "`heads.thresholds` must be one of"),
        ({"budget": 3}, "`budget` must be names and values. Received: 3"),
        ({"budget.epochs": "3"}, "`budget.epochs` must be of the type int. Received"),
        ({"budget.patience": "no"}, "of the type int or nothing"),
        ({"optimizer.learning_rate": "1e-3"}, "must be of the type float"),
        ({**EXPERTS, "heads.neighbours": 3}, "must be 0 for a model without a doc"),
        ({**EXPERTS, "heads.neighbours": -3}, "must be an integer >= 0"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(values, said):
    with pytest.raises(ValueError, match=said):
        Settings.of(**{**TEXTS, **values})


def test_there_must_be_data(tmp_path):
    with pytest.raises(ValueError, match="`data.name` must be given"):
        Settings.of(**{"budget.epochs": 3})
    for text, said in (("a: [1, 2", "is not YAML"), ("- a", "names and values")):
        (tmp_path / "bad.yaml").write_text(text)
        with pytest.raises(ValueError, match=f"bad.yaml .*{said}"):
            Settings.load(tmp_path / "bad.yaml")


def test_differences_are_said_in_paths():
    one = Settings.of(**TEXTS)
    other = one.changed(**{"encoder.d_model": 64, "budget.seed": 2, "output": "x"})
    assert set(differences(one, other, without=("output",))) == {
        "budget.seed 0 instead of 2",
        "encoder.d_model None instead of 64",
    }
