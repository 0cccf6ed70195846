"""Brings result files of the first edition to the form of today, once.

Their settings were flat, their files named by hashes of those, and metrics had names
such as `p@5` and `token-macro-f2`. A file that is of today's form stays as it is.
"""

import json
import re
from pathlib import Path

from bat_tf.runs.settings import Settings, nested
from examples.papers.reproduce import file_name

# Flat name → path. What is not here stays where it was.
PATHS = {
    "data": "data.name",
    "data_settings": "data.options",
    "tokenizer": "text.tokenizer",
    "scheme": "text.scheme",
    "encoder": "encoder.name",
    "precision": "encoder.precision",
    "cache_backbone": "encoder.cache",
    "thresholds": "heads.thresholds",
    "neighbours": "heads.neighbours",
    "loss": "loss.name",
    "optimizer": "optimizer.name",
    "report_settings": "report",
}
GROUPS = {
    "data": "parts train valid test valid_fraction min_label_count label_texts "
    "label_examples",
    "optimizer": "learning_rate weight_decay module_rates schedule schedule_scale "
    "warmup_steps warmup_share",
    "budget": "epochs batch_size patience seed jit_compile",
    "scores": "metrics monitor train_metrics",
}
PATHS |= {name: f"{group}.{name}" for group in GROUPS for name in GROUPS[group].split()}
# Flat settings that are names and values themselves → the group they go to.
INNER = {
    "tokenizer_settings": "text",
    "encoder_settings": "encoder",
    "model_settings": "heads",
    "loss_settings": "loss",
}
INNER_PATHS = {
    "max_length": "text.max_length",
    "overlap": "text.overlap",
    "head_dropout": "heads.dropout",
}
METRIC = re.compile(r"(val_)?(macro-)?(p|r|f|ndcg|psp)@(\d+)(-few|-medium|-many)?")
WORDS = {"p": "precision", "r": "recall"}


def metric_name(name):
    """A metric's name as it is today.

    >>> [metric_name(old) for old in ("val_p@5", "macro-f@5-few", "token-macro-f2")]
    ['val_precision_at_5', 'macro_f_at_5_few', 'token_macro_f2']
    """
    found = METRIC.fullmatch(name)
    if found:
        before, macro, score, k, group = (part or "" for part in found.groups())
        name = f"{before}{macro}{WORDS.get(score, score)}_at_{k}{group}"
    return name.replace("-", "_")


def nested_settings(old):
    """Today's settings of flat ones, as nested plain values."""
    old = {name: value for name, value in old.items() if name != "output"}
    task = old.pop("task", "spans")
    experts = "experts" in old.get("model_settings", {})
    new = {"model": {"spans": "tagger"}.get(task, "classifier")}
    if experts:
        new["model"] = "experts"
    if old.get("encoder") == "svm":
        new["model"] = "svm"  # which has neither
        old = {name: value for name, value in old.items() if not _is_of_a_net(name)}
    for name, value in old.items():
        if name in INNER:
            for key, inner in value.items():
                new[INNER_PATHS.get(key, f"{INNER[name]}.{key}")] = inner
        else:
            new[PATHS.get(name, name)] = value
    for path, rename in (("scores.monitor", metric_name), ("scores.metrics", _names)):
        if new.get(path):
            new[path] = rename(new[path])
    if "metrics" in new.get("report", {}):
        new["report"] = {**new["report"], "metrics": _names(new["report"]["metrics"])}
    if "heads.thresholds" in new:
        new["heads.thresholds"] = new["heads.thresholds"].replace("-", "_")
    return nested(new)


def _is_of_a_net(name):
    path = PATHS.get(name) or INNER.get(name, "")
    return path.startswith(("encoder", "heads"))


def _names(names):
    return [metric_name(name) for name in names]


def migrated(result):
    """A result with nested settings and today's names of metrics."""
    settings = Settings.of(**nested_settings(result["settings"])).to_dict()
    settings.pop("output")
    result = {**result, "settings": settings}
    for name in ("best", "history"):
        if result.get(name):
            result[name] = _renamed(result[name])
    for name in ("valid", "test"):
        if name in result:
            values = _renamed(result[name]["values"])
            result[name] = {**result[name], "values": values}
    return result


def _renamed(values):
    return {metric_name(name): value for name, value in values.items()}


def migrate(results, grids):
    """Brings all result files to today's form.

    Args:
        results: folder of the tables' results; their names have a hash of the settings.
        grids: folder of the results of grids, which keep their names.

    Returns:
        (old path, new path) of the files that were changed.
    """
    changed = []
    for folder in (results, grids):
        for path in sorted(Path(folder).rglob("*.json")):
            text = path.read_text(encoding="utf-8")
            result = json.loads(text)
            if not isinstance(result, dict):
                continue
            new, found = path, result
            if "scores" in result:  # of another package, see xmc_peers.py
                found = {**result, "scores": _renamed(result["scores"])}
            elif "data_settings" in result["settings"]:
                found = migrated(result)
                if folder == results:
                    settings = Settings.of(**found["settings"])
                    new = path.with_name(f"{file_name(settings)}.json")
            if found == result:
                continue
            indent = 1 if text.startswith("{\n") else None
            new_text = json.dumps(found, ensure_ascii=False, indent=indent) + "\n"
            path.unlink()
            new.write_text(new_text, encoding="utf-8")
            changed.append((path, new))
    return changed
