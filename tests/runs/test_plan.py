"""Plans: how many epochs, or texts, fit into the time; and that a run keeps to them."""

from types import SimpleNamespace

import pytest
import tiny

from bat_tf.runs import plan
from bat_tf.runs.plan import Speed
from bat_tf.runs.run import Task, at_most, run
from bat_tf.runs.settings import Settings
from bat_tf.training import distributed


def settings_of(**changes):
    return Settings.of(data={"train": "-"}, encoder=tiny.ENCODER).changed(**changes)


def task_of(size=400):
    data = tiny.dataset(size)
    return Task(None, data, data.take(40), None)


@pytest.mark.parametrize(
    "minutes, epochs, texts",
    [(100, 10, None), (2, 6, None), (0.5, 1, None), (0.2, 1, 163)],
)
def test_as_many_epochs_as_fit(minutes, epochs, texts):
    """10 s before the first step, 15 s an epoch, and 15 % for the unforeseen."""
    settings, task = settings_of(), task_of()
    chosen = plan.planned(settings, task, Speed(10.0, 15.0), minutes)
    assert chosen.budget.epochs == epochs and chosen.budget.minutes is None
    few = chosen.data.max_train
    assert (few is None) if texts is None else few == texts
    share = 1 if few is None else few / len(task.train)
    assert share * Speed(10.0, 15.0).minutes(epochs) <= minutes
    sentence = plan.in_words(chosen, task, Speed(10.0, 15.0))
    assert sentence.startswith(f"{epochs} epoch")
    assert (" of the 400 texts" in sentence) == (few is not None)


@pytest.mark.parametrize(
    ("minutes", "epochs", "tokens"), [(20, 10, 256), (3, 4, 128), (1.5, 4, 64)]
)
def test_of_long_texts_less_is_read_before_epochs_are_few(minutes, epochs, tokens):
    speed = Speed(20.0, 60.0, (256,) * 50 + (40,) * 10)
    changes = {"model": "classifier", "text.max_length": 256, "budget.epochs": 10}
    settings = settings_of(**changes)
    chosen = plan.planned(settings, task_of(), speed, minutes)
    assert chosen.text.max_length == tokens
    assert chosen.budget.epochs == epochs
    said = plan.in_words(chosen, task_of(), speed)
    assert (f"by the first {tokens} tokens" in said) == (tokens < 256)
    assert speed.reading(tokens).minutes(epochs) <= minutes
    # Spans may stand anywhere.
    chosen = plan.planned(settings_of(**{"budget.epochs": 10}), task_of(), speed, 3)
    assert chosen.text.max_length == 256


@pytest.mark.slow
def test_a_rehearsal_measures_what_an_epoch_takes(tmp_path):
    """The plan of a real run: within its time, repeated exactly, and gone on with."""
    tiny.dataset(64).save(tmp_path / "train.jsonl")
    settings = settings_of(
        data={"train": str(tmp_path / "train.jsonl")},
        output=str(tmp_path / "run"),
        **{"budget.epochs": 2, "budget.minutes": 5.0},
    )
    _, first = run(settings, verbose=0)
    assert first["settings"]["budget"]["epochs"] == 2
    assert first["settings"]["budget"]["minutes"] is None
    assert first["seconds"] < 300
    stored = Settings.load(tmp_path / "run" / "settings.yaml")
    assert stored.to_dict() == first["settings"]
    _, again = run(settings, verbose=0)  # the same command, after the end
    assert again["best"] == first["best"]
    repeated = stored.changed(output=str(tmp_path / "other"))
    _, other = run(repeated, verbose=0)
    assert other["valid"] == first["valid"] and other["best"] == first["best"]


def test_some_texts_are_always_the_same():
    data = tiny.dataset(40)
    few = at_most(data, 10)
    assert len(few) == 10 and set(few.texts) < set(data.texts)
    assert few.texts == at_most(data, 10).texts
    assert at_most(data, None) is at_most(data, 99) is data


def test_several_workers_do_not_plan_each_for_itself(tmp_path, monkeypatch):
    two = SimpleNamespace(num_replicas_in_sync=2)
    monkeypatch.setattr(distributed, "strategy", lambda *_: two)
    settings = Settings.of(data="product_pages/en", **{"budget.minutes": 5.0})
    with pytest.raises(ValueError, match="`budget.minutes` must be None for several"):
        run(settings.changed(output=str(tmp_path)), verbose=0)
