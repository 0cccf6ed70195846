"""The default command on every public set: what people get at the first try.

    python tests/benchmarks/first_try.py --sets conll2003,reuters21578 --seeds 0
    python tests/benchmarks/first_try.py --table examples/guides/first_try.md

`bat-tf train FILE --valid FILE --test FILE`, once with the backbones that are present
and once with none. A result that is there is not made again. The test part is scored by
the run itself, once, when it is over.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bat_tf.data import read, splits

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "examples" / "results" / "first_try"
# name → files in BAT_TF_DATA as they were published, else the named set as JSON lines.
SETS = {
    "conll2003": [f"conll2003/eng.{part}.gz" for part in ("train", "testa", "testb")],
    "queryner": [f"queryner/{part}.conll" for part in ("train", "dev", "test")],
    "zh_ecommerce_ner/ecommerce": None,
    "zh_ecommerce_ner/phantom": None,
    "ja_wikipedia_ner": None,
    "inspec_keyphrase": None,
    "scienceie2017": None,
    "reuters21578": None,
    "goemotions": None,
    "fasttext_cooking": None,
    "yso_finna_en_xmc": None,
}
OPTIONS = {"yso_finna_en_xmc": {"size": 100_000}}
MINUTES = {"yso_finna_en_xmc": 60}
BEGIN, END = "<!-- made by tests/benchmarks/first_try.py -->\n", "<!-- end -->\n"


def files_of(name, folder):
    """The train, valid and test files of a set; valid or test may be missing."""
    if SETS[name]:
        return dict(
            zip(
                ("train", "valid", "test"),
                (Path(os.environ["BAT_TF_DATA"]) / file for file in SETS[name]),
                strict=True,
            )
        )
    found = {}
    for part in splits(name):
        found[part] = folder / f"{part}.jsonl"
        if not found[part].exists():
            folder.mkdir(parents=True, exist_ok=True)
            options = OPTIONS.get(name, {}) if part == "train" else {}
            read(name, split=part, **options).save(found[part])
    return found


def measure(name, backbone, seed, work):
    """Runs the command; returns what is worth keeping."""
    label = f"{name.replace('/', '_')}_{backbone}_{seed}"
    files = files_of(name, work / name.replace("/", "_"))
    output = work / "runs" / label
    work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-c", "from bat_tf.cli import main; main()"]
    command += ["train", str(files["train"])]
    for part in ("valid", "test"):
        command += [f"--{part}", str(files[part])] if part in files else []
    command += ["--output", str(output)]
    if backbone == "none":
        command += ["--backbone", "none"]
    if name in MINUTES:
        command += ["--minutes", str(MINUTES[name])]
    if seed:
        command += ["--seed", str(seed)]
    began = time.perf_counter()
    with open(work / f"{label}.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    said = (work / f"{label}.log").read_text("utf-8", "replace")
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}:\n{said[-2000:]}")
    report = json.loads((output / "report.json").read_text())
    settings = report["settings"]
    found = re.search(r"Recipe (\w+): (.*)", said)
    return {
        "set": name,
        "backbone": settings["encoder"]["backbone"],
        "seed": seed,
        "recipe": found[1],
        "why": found[2],
        "task": "spans" if settings["model"] == "tagger" else "labels",
        "epochs": settings["budget"]["epochs"],
        "best_epoch": report["best"]["epoch"],
        "seconds": round(time.perf_counter() - began),
        "peak_mib": round(usage.ru_maxrss / 1024),
        "cores": os.cpu_count(),
        "values": report["test"]["values"],
        "baseline": report.get("baseline"),
        "linear_share": report.get("linear_share"),
    }


def table(results):
    """Markdown: a row for each set, with and without a backbone."""
    lines = [
        "| set | backbone | score | model | linear model alone | difference | seconds "
        "(of them linear) | memory, GiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for key in dict.fromkeys((r["set"], r["backbone"] or "none") for r in results):
        rows = [r for r in results if (r["set"], r["backbone"] or "none") == key]
        first = rows[0]
        compared = first["baseline"] or {}
        names = [n for n in ("micro_f1", "macro_f1") if n in compared]
        if not names:
            values = first["values"]
            names = [f"precision_at_{k}" for k in (1, 3, 5)]
            own = " / ".join(f"{100 * values[n]:.1f}" for n in names)
            cells = [*key, "P@1 / 3 / 5", own, "—", "—"]
            lines.append(f"| {' | '.join([*cells, *_costs(first)])} |")
            continue
        for number, name in enumerate(names):
            if first["task"] == "spans" and name == "macro_f1":
                continue
            spread = [r["baseline"][name] for r in rows]
            own = " ".join(f"{100 * one['model'][0]:.1f}" for one in spread)
            linear, *its = (100 * value for value in spread[0]["baseline"])
            gains = [one["difference"] for one in spread]
            gain = "; ".join(
                f"{100 * g:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
                for g, low, high in gains
            )
            score = (
                "span F1" if first["task"] == "spans" else name.replace("_f1", " F1")
            )
            cells = [*key, score, own, f"{linear:.1f} ({its[0]:.1f} to {its[1]:.1f})"]
            costs = _costs(first) if not number else ["", ""]
            lines.append(f"| {' | '.join([*cells, gain, *costs])} |")
    return "\n".join(lines) + "\n"


def _costs(row):
    linear = (row["baseline"] or {}).get("seconds")
    inside = f" ({linear:.0f})" if linear else ""
    return [f"{row['seconds']}{inside}", f"{row['peak_mib'] / 1024:.1f}"]


def gains(results):
    """The median gain over the linear model, with and without a backbone."""
    lines = []
    for backbone in (True, False):
        for task, name in (
            ("spans", "micro_f1"),
            ("labels", "micro_f1"),
            ("labels", "macro_f1"),
        ):
            found = [
                100 * r["baseline"][name]["difference"][0]
                for r in results
                if bool(r["backbone"]) == backbone
                and r["task"] == task
                and r["seed"] == 0
                and name in (r["baseline"] or {})
            ]
            if found:
                score = "span F1" if task == "spans" else name.replace("_f1", " F1")
                lines.append(
                    f"- {'With' if backbone else 'Without'} a backbone, {score}: "
                    f"median gain {median(found):+.1f} over {len(found)} sets."
                )
    return "\n".join(lines) + "\n"


def results():
    """What was measured, in the order of `SETS`."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    order = list(SETS)
    return sorted(
        found, key=lambda r: (order.index(r["set"]), not r["backbone"], r["seed"])
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--backbones", default="present,none")
    parser.add_argument("--work", default="runs/first_try")
    parser.add_argument("--table", help="Only write the table into this page.")
    own = parser.parse_args()
    if own.table:
        page = Path(own.table)
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        made = results()
        text = f"{before}{BEGIN}{table(made)}\n{gains(made)}{END}{after}"
        page.write_text(text, encoding="utf-8")
        return
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in own.sets.split(","):
        for seed in map(int, own.seeds.split(",")):
            for backbone in own.backbones.split(","):
                label = f"{name.replace('/', '_')}_{backbone}_{seed}"
                path = RESULTS / f"{label}.json"
                if path.exists():
                    continue
                found = measure(name, backbone, seed, Path(own.work))
                path.write_text(json.dumps(found, indent=1) + "\n")
                print(json.dumps({k: v for k, v in found.items() if k != "why"}))


if __name__ == "__main__":
    main()
