"""Recipes: settings for a kind of job, without the data.

Those in the folder `recipes` beside this file are known by name, `light` for short
where the job says which: `light_spans` or `light_labels`. Any YAML file with settings
and a line `about` is one, too.
"""

import dataclasses
from pathlib import Path

from bat_tf._internal.validation import check_choice, sentence
from bat_tf.runs.settings import Settings, merged, nested, read_yaml

FOLDER = Path(__file__).parent / "recipes"
# What a recipe leaves to the one who uses it.
OF_THE_USER = ("output", "cluster", "worker")
TASKS = {"tagger": "spans", "classifier": "labels"}
OF_THE_DATA = ("name", "parts", "train", "valid", "test", "options", "label_texts")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Settings without data.

    Args:
        name: of its file.
        about: what it is for, in a sentence or two.
        settings: nested names and values, see `Settings`; only what is not the usual.

    Example:
        >>> recipe = Recipe.load("light", "labels")
        >>> settings = recipe.settings_for(data="reuters21578", loss="db")
        >>> settings.model, settings.loss.name, settings.encoder.settings["d_model"]
        ('classifier', 'db', 64)
    """

    name: str
    about: str
    settings: dict

    @classmethod
    def load(cls, recipe, task=None):
        """Reads a recipe.

        Args:
            recipe: a name, see `names`, or a YAML file.
            task: `"spans"` or `"labels"`, where a name has a recipe for each.
        """
        path = Path(recipe)
        if path.suffix not in (".yaml", ".yml"):
            both = f"{recipe}_{task}"
            name = check_choice("recipe", both if both in names() else recipe, names())
            path = FOLDER / f"{name}.yaml"
        values = read_yaml(path)
        about = " ".join(str(values.pop("about", "")).split())
        found = cls(path.stem, about, nested(values))
        found._check(path)
        return found

    def _check(self, path):
        """Raises if there are data in it, or what is no setting."""
        own = [name for name in OF_THE_USER if name in self.settings]
        data = self.settings.get("data", {})
        own += [f"data.{name}" for name in OF_THE_DATA if name in data]
        if own:
            raise ValueError(
                f"{path} is a recipe, which has no `{own[0]}`: that is for those to "
                "say who use it. Put it beside the recipe."
            )
        self.settings_for(data="-")

    def settings_for(self, **changes):
        """The `Settings` of a run; `changes` name the data and win over the recipe."""
        return Settings.of(**merged(self.settings, nested(changes)))


def names():
    """Names of the recipes that are part of the library."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def settings_for(recipe=None, file=None, task=None, **changes):
    """Settings of a recipe, a file and changes: the later win over the earlier.

    Args:
        recipe: a name or a file, see `Recipe.load`.
        file: a YAML file of settings.
        task: `"spans"` or `"labels"`; it says which of two recipes of a name is meant,
            and which model it is where nothing else does.
        **changes: nested, or with dots in their names, see `Settings`.

    Returns:
        `Settings`, checked when all is put together.
    """
    values = nested(read_yaml(file)) if file else {}
    values = merged(values, nested(changes))
    if "model" in values:
        task = task or TASKS.get(values["model"], "labels")
    if recipe:
        values = merged(Recipe.load(recipe, task).settings, values)
    if task and "model" not in values:
        check_choice("task", task, TASKS.values())
        values["model"] = next(model for model in TASKS if TASKS[model] == task)
    settings = Settings.of(**values)
    if task not in (None, settings.task):
        remedy = f"The model is called {settings.model!r}: leave one of them out."
        raise ValueError(sentence("task", repr(settings.task), task, remedy))
    return settings
