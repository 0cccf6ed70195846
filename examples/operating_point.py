"""Is a loss better, or does it only say "keyword" more often?

    python examples/operating_point.py runs/phantom_ce runs/phantom_pbp

For each run, the logit of the class "none" is shifted before the largest one is taken: a
negative shift finds more keywords, a positive one fewer. The shift with the best macro F2
on the valid part is chosen there and applied to the test part. If cross entropy with such
a shift scores like a loss that was made for F2, the loss has moved the operating point;
what is left is what it learnt better.
"""

import argparse

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

import bat_tf
from bat_tf.experiments.run import RunSettings, read_parts
from bat_tf.metrics import TokenFScore

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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", help="folders of `bat-tf train`")
    options = parser.parse_args()
    table = Table(title='test macro F1 / F2, as trained and with "none" shifted')
    for column in ("run", "as trained", "shift (by valid F2)", "shifted"):
        table.add_column(column, justify="left" if column == "run" else "right")
    for folder in options.runs:
        with open(f"{folder}/settings.yaml", encoding="utf-8") as file:
            settings = RunSettings.of(**yaml.safe_load(file))
        _, valid, test = read_parts(settings)
        model = bat_tf.load(folder)
        on_valid = logits_and_tags(model, valid)
        best = max(SHIFTS, key=lambda shift: scores(*on_valid, shift)[1])
        on_test = logits_and_tags(model, test)
        cells = [
            "{:.2f} / {:.2f}".format(*scores(*on_test, shift)) for shift in (0.0, best)
        ]
        table.add_row(folder, cells[0], f"{best:+.2f}", cells[1])
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
