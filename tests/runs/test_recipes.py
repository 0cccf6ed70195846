"""Recipes are settings without data, in the library and in examples/recipes."""

from pathlib import Path

import pytest

from bat_tf.runs.recipes import Recipe, names, settings_for

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted((EXAMPLES / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("recipe", [*names(), *FILES], ids=str)
def test_every_recipe_is_whole_and_says_what_it_is_for(recipe):
    found = Recipe.load(recipe)
    assert len(found.about) > 20
    assert found.settings_for(data="reuters21578").data.name == "reuters21578"


def test_the_page_of_recipes_names_each_of_them():
    page = (EXAMPLES / "recipes" / "README.md").read_text("utf-8")
    for name in [*names(), *(path.name for path in FILES)]:
        assert (
            f"--recipe {name}" in page or f"/{name}" in page or f"`{name}`" in page
        ), name


def test_a_name_means_the_recipe_of_the_task():
    assert settings_for("light", task="labels", data="x").model == "classifier"
    assert settings_for("light", data="x", model="tagger").task == "spans"
    assert settings_for("extreme", task="labels", data="x").model == "experts"
    assert settings_for(task="labels", data="x").model == "classifier"
    with pytest.raises(ValueError, match="`recipe` must be one of .*'light_labels'"):
        Recipe.load("light")
    with pytest.raises(ValueError, match="`task` must be 'labels'. Received: 'spans'"):
        settings_for("extreme", task="spans", data="x")


def test_options_win_over_files_and_files_over_recipes(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("{data: x, budget: {epochs: 2, batch_size: 4}, loss: bce}")
    settings = settings_for("light_labels", path, **{"budget.epochs": 3})
    assert (settings.budget.epochs, settings.budget.batch_size) == (3, 4)
    assert settings.loss.name == "bce"
    assert settings.encoder.settings["d_model"] == 64  # of the recipe


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: reuters21578", "has no `data.name`"),
        ("output: runs/x", "has no `output`"),
        ("encoder: {d_modle: 3}", "encoder.d_modle"),
    ],
)
def test_a_recipe_has_no_data_and_nothing_unknown(tmp_path, text, said):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=said):
        Recipe.load(tmp_path / "bad.yaml")
