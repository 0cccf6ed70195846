"""Is a loss better, or does it only say "keyword" more often?

    python examples/operating_point.py runs/phantom_ce_0 runs/phantom_ce_1 …

For each run, the logit of the class "none" is shifted before the largest one is taken: a
negative shift finds more keywords, a positive one fewer. The shift with the best macro F2
on the valid part is chosen there and applied to the test part. If cross entropy with such
a shift scores like a loss that was made for F2, the loss has moved the operating point;
what is left is what it learnt better. Runs of one loss and several seeds are also shown
as mean and standard deviation.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

import bat_tf
from bat_tf.metrics import TokenFScore
from bat_tf.runs.run import read_parts
from bat_tf.runs.settings import Settings

SHIFTS = np.arange(-3, 3.01, 0.25)


def logits_and_tags(model, dataset):
    """The logits [N, C] and the tags [N] of all tokens that have one."""
    logits, tags = [], []
    for inputs, batch in model.batches(dataset, 64):
        batch = batch.numpy()
        logits.append(model.predict_on_batch(inputs)[batch >= 0])
        tags.append(batch[batch >= 0])
    return np.concatenate(logits), np.concatenate(tags)


def scores(logits, tags, shift):
    """Macro F1 and F2 when the logit of "none" is shifted."""
    shifted = logits + shift * (np.arange(logits.shape[-1]) == 0)
    values = []
    for beta in (1.0, 2.0):
        metric = TokenFScore(logits.shape[-1], beta=beta)
        metric.update_state(tags[None], shifted[None])
        values.append(100 * float(metric.result()))
    return values


def measure(folder):
    """The loss of a run, the shift, and test F1 and F2 without and with it."""
    settings = Settings.load(f"{folder}/settings.yaml")
    _, valid, test = read_parts(settings)
    model = bat_tf.load(folder)
    on_valid = logits_and_tags(model, valid)
    best = max(SHIFTS, key=lambda shift: scores(*on_valid, shift)[1])
    on_test = logits_and_tags(model, test)
    return settings.loss.name, best, scores(*on_test, 0.0) + scores(*on_test, best)


def summary(values):
    """Mean and, of several values, standard deviation."""
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of `bat-tf train`")
    options = parser.parse_args()
    runs = Table(title='test scores, as trained and with "none" shifted')
    losses = Table(title="the same by loss")
    columns = ["F1 as trained", "F2 as trained", "F1 shifted", "F2 shifted"]
    for table, first in ((runs, ["run", "shift"]), (losses, ["loss", "runs"])):
        for number, name in enumerate([*first, *columns]):
            table.add_column(name, justify="right" if number else "left")
    by_loss = {}
    for folder in options.runs:
        loss, shift, values = measure(folder)
        by_loss.setdefault(loss, []).append(values)
        runs.add_row(folder, f"{shift:+.2f}", *(f"{value:.2f}" for value in values))
    for loss, rows in by_loss.items():
        losses.add_row(loss, str(len(rows)), *map(summary, zip(*rows, strict=True)))
    console = Console(width=100)
    console.print(runs)
    console.print(losses)


if __name__ == "__main__":
    main()
