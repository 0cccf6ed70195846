"""A table or figure of a paper: what it compares, how it is run, what it prints."""

import dataclasses
import json
import math
import re
from pathlib import Path

from bat_tf.runs.recipes import Recipe
from bat_tf.runs.settings import merged, nested
from bat_tf.schedules import BATSchedule

EXAMPLES = Path(__file__).parents[2]
# The printed values: percentages, counts where the table has counts, null where the
# print has lost a value.
PRINTED = {
    table["id"]: table
    for table in json.loads((EXAMPLES / "papers" / "papers.json").read_text("utf-8"))
}


@dataclasses.dataclass(frozen=True)
class Table:
    """One table or figure.

    Args:
        id: such as "s0-table3".
        title: what it shows.
        rows: names, as printed.
        columns: names, as printed.
        runs: what a name changes in the settings of a run, see `Settings`.
        scores: which score of a result a name stands for, see `score`.
        score: the score of the whole table, where no name stands for one.
        paper: the paper's settings that we may deviate from.
        stand_ins: for each data set that stands in for the paper's, the settings that
            replace the paper's.
        steps: optimizer steps of one of the paper's epochs, for its share of warm-up.
        printed: (row, column) → the printed value.
        note: what a reader should know.
    """

    id: str
    title: str
    rows: tuple
    columns: tuple
    runs: dict = dataclasses.field(default_factory=dict)
    scores: dict = dataclasses.field(default_factory=dict)
    score: str | None = None
    paper: dict = dataclasses.field(default_factory=dict)
    stand_ins: tuple = ()
    steps: int | None = None
    printed: dict = dataclasses.field(default_factory=dict)
    note: str = ""

    def place(self, row, column):
        """(names of the run, score) of one value, or None if it cannot be run here.

        >>> TABLES["s0-table3"].place("CE", "BAT")
        (('CE', 'BAT'), 'token_macro_f1')
        """
        both = (row, column)
        if any(name not in self.runs and name not in self.scores for name in both):
            return None
        scores = [self.scores[name] for name in both if name in self.scores]
        names = tuple(name for name in both if name in self.runs)
        return names, scores[0] if scores else self.score

    @property
    def places(self):
        """Names of all runs, in the order of the print."""
        found = (
            self.place(row, column) for row in self.rows for column in self.columns
        )
        return tuple(dict.fromkeys(place[0] for place in found if place))

    def changes(self, names):
        """What the run of these names changes in the table's settings.

        >>> TABLES["s0-table7"].changes(("12-layer", "MUSE"))["optimizer"]
        {'schedule_scale': 0.235702, 'warmup_steps': 8000}
        """
        found = {}
        for name in names:
            found = merged(found, nested(self.runs[name]))
        encoder = found.get("encoder", {})
        layers = encoder.get("num_layers", 4)
        if layers >= 12 and self.paper["optimizer"]["name"] == "bat":
            rule = BATSchedule.for_depth(encoder["name"], layers, 128)
            # A run keeps the peak of 4,000 steps whatever its warm-up.
            peak = math.sqrt(4000 / rule.warmup_steps)
            scale = round(rule.scale * peak, 6)
            own = {"schedule_scale": scale, "warmup_steps": rule.warmup_steps}
            found = merged(found, {"optimizer": own})
        return found

    def pick(self, wanted):
        """Names of rows and columns that are meant by `wanted`, such as "pbp".

        >>> TABLES["s0-table3"].pick(["BAT", "pbp"])
        ['BAT', 'PBP_{0,8}']
        """
        names = [name for name in (*self.rows, *self.columns) if name in self.runs]
        found = []
        for text in wanted:
            key = text.strip().lower()
            for fits in (
                lambda name, key=key: name.lower() == key,
                lambda name, key=key: re.split("[_,(]", name)[0].lower() == key,
                lambda name, key=key: name.lower().startswith(key),
            ):
                matching = [name for name in names if fits(name)]
                if matching:
                    break
            else:
                known = ", ".join(names)
                raise ValueError(f"No rows or columns are called {text!r}: {known}.")
            found += matching
        return found


def recipe(name):
    """The settings of a recipe, of this folder's neighbour or of the library."""
    path = EXAMPLES / "recipes" / f"{name}.yaml"
    return Recipe.load(path if path.exists() else name).settings


def part(name, *groups):
    """Some groups of a recipe's settings."""
    settings = recipe(name)
    return {group: settings[group] for group in groups}


def _named(row):
    """A row's name, with the backbone or data set it is of."""
    more = [row[key] for key in ("backbone", "dataset") if key in row]
    return ", ".join([row["name"].replace(" (ours)", ""), *more])


def table(id, **settings):
    """A table with its rows, columns and values as printed."""
    source = PRINTED[id]
    columns = tuple(source["columns"])
    rows = {_named(row): row["values"] for row in source["rows"]}
    printed = {
        (row, column): value
        for row, values in rows.items()
        for column, value in zip(columns, values, strict=True)
        if value is not None
    }
    title = source["title"]
    return Table(id, title, tuple(rows), columns, printed=printed, **settings)
