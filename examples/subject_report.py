"""Writes examples/subjects/README.md: subjects of library titles, ours and other packages.

    python examples/subject_report.py

It only reads results. `bat-tf grid examples/grids/yso_experts.yaml --output
examples/results` and `yso_all.yaml` make ours, `tests/benchmarks/xmc_models.py` the times
of their answers, `tests/benchmarks/xmc_peers.py` those of the other packages.
"""

import argparse
import json
from pathlib import Path

from bat_tf.runs.grid import Grid

HERE = Path(__file__).parent
RESULTS = HERE / "results"
GROUPS = ("few", "medium", "many")
COLUMNS = {
    "P@1 / 3 / 5": tuple(f"precision_at_{k}" for k in (1, 3, 5)),
    "PSP@1 / 3 / 5": tuple(f"psp_at_{k}" for k in (1, 3, 5)),
    "macro F@5": ("macro_f_at_5",),
    "few / medium / many": tuple(f"macro_f_at_5_{group}" for group in GROUPS),
}
COSTS = ("training, s", "1,000 answers, s", "model, MiB", "peak, MiB")
NOTES = """\
Test part, percent. Macro F@5 is the mean over labels, also those that the test titles lack;
few is up to 20 training titles, many above 100. Training of ours is with MiniLM's one
pass over the titles unless its states were kept from a run before; answers of ours begin
with strings, those of the others with features that are made already. Peak is what the
process held. Times were taken beside other work, but for those marked * and the training
of D-6 and S on 100,000 titles.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE / "subjects")
    folder = parser.parse_args().output
    parts = ["# Subjects of library titles, measured\n"]
    parts += [__doc__.split("\n", 1)[1].strip("\n") + "\n"]
    parts += [NOTES]
    parts += section("yso_experts", "yso_peers_100k", "yso_models.json")
    parts += section("yso_all", "yso_peers_all", "yso_models_all.json")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"Written: {folder / 'README.md'}")


def section(grid, peers, models):
    """The table of one size."""
    peers = [json.loads(path.read_text()) for path in (RESULTS / peers).glob("*.json")]
    peers.sort(key=lambda peer: -peer["scores"]["precision_at_1"])
    data = peers[0]["data"]
    sizes = [data[f"labels_{group}"] for group in GROUPS]
    path = RESULTS / models
    models = json.loads(path.read_text()) if path.exists() else []
    yield f"## {data['train']:,} training titles, {data['labels']:,} subjects\n"
    yield line(["", *COLUMNS, *COSTS])
    yield "|---|" + "---|" * (len(COLUMNS) + len(COSTS))
    for cell in Grid.load(HERE / "grids" / f"{grid}.yaml").cells(RESULTS, "runs"):
        if cell.result is None:
            yield line([cell.row, "not run"])
            continue
        answers = {model["run"]: model for model in models}.get(cell.path.stem, {})
        costs = (
            number(cell.result["fit_seconds"]),
            number(answers.get("exact"), "*"),
            number(answers.get("model_mib")),
            number(cell.result["peak_mib"]),
        )
        yield line([cell.row, *scores(cell.result["test"]["values"], sizes), *costs])
    for peer in peers:
        cost = peer["cost"]
        idle = "*" if peer["note"] == "nothing else ran" else ""
        costs = (
            number(cost["train_seconds"], idle),
            number(cost["predict_seconds_per_1000"], idle),
            number(cost["model_mib"]),
            number(cost["peak_mib"]),
        )
        yield line([peer["peer"], *scores(peer["scores"], sizes), *costs])
    yield ""


def scores(values, sizes):
    """A row's cells; of the three groups, two and the whole tell the third."""
    few, medium, many = (f"macro_f_at_5_{group}" for group in GROUPS)
    rest = values["macro_f_at_5"] * sum(sizes)
    rest -= values[few] * sizes[0] + values[medium] * sizes[1]
    values = {**values, many: rest / sizes[2] if sizes[2] else None}

    def percent(name):
        return "–" if values[name] is None else f"{100 * values[name]:.1f}"

    return [" / ".join(map(percent, names)) for names in COLUMNS.values()]


def number(value, mark=""):
    """A figure with three digits, or a dash."""
    if value is None:
        return "–"
    return (f"{value:,.0f}" if value >= 100 else f"{value:.3g}") + mark


def line(cells):
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
