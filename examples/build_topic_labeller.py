"""Exports the model in saved_models/reuters_topics, and writes its card.

    python examples/build_topic_labeller.py

Trains it first (some minutes on two cores), unless --run names a run that is there.
It needs the corpus, see BAT_TF_DATA.
"""

import argparse
import json
from pathlib import Path

import bat_tf
from bat_tf.runs.recipes import settings_for
from bat_tf.runs.run import run

HERE = Path(__file__).parent
FOLDER = HERE.parent / "saved_models" / "reuters_topics"

CARD = """# reuters_topics: the topics of a business news story

A label classifier ({parameters:,} parameters): one small layer of BAT and a linear layer on the words, trained
together with the loss CB-NTR, the best of the balanced losses on the validation part. It chooses among the
{num_labels} topics of Reuters-21578.

    bat-tf tag --model reuters_topics "Exporters sold 500,000 tonnes of wheat to the Soviet Union, the U.S. Agriculture Department said."

* **Data**: Reuters-21578, Distribution 1.0, the ModApte split: {num_train:,} training documents of 1987, {num_valid:,} to choose the
  epoch and the threshold on. Reuters and Carnegie Group hold the copyright and give the texts for research; the same
  is meant for this model. None of the texts is in it; its vocabulary is.
* **Settings**: `examples/recipes/labels_light.yaml`, loss `{loss}`, seed {seed}.
* **Made by** `python examples/build_topic_labeller.py`, bat_tf {version}.

Test part, {num_test:,} documents, in %:

| labels | number | micro F1 | macro F1 |
|---|---|---|---|
{rows}

* **Limits**: news agency English of 1987, mostly on companies, commodities and money; `earn` and `acq` are most of
  it. A rare topic is often found by its name alone, and in a headline of five words too many of them are: give it
  some sentences. Texts without any of the topics are not in the training data:
  expect false labels there. Only the first {max_length} words are read. Input is raw UTF-8 text; it answers with `labels`,
  `scores` and `num_labels`.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", default="runs/reuters_topics")
    folder = Path(parser.parse_args().run)
    if not (folder / "report.json").exists():
        recipe = HERE / "recipes" / "labels_light.yaml"
        data = {"name": "reuters21578", "valid_fraction": 0.12872}
        run(settings_for(recipe, data=data, loss="cb-ntr", output=str(folder)))
    report = json.loads((folder / "report.json").read_text())
    model = bat_tf.load(folder)
    model.export(FOLDER / "1")
    test = report["test"]
    groups = [{"name": "all", "size": len(model.labels), **test["values"]}]
    rows = [
        f"| {g['name']} | {g['size']} | {100 * g['micro_f1']:.1f} | {100 * g['macro_f1']:.1f} |"
        for g in groups + test["label_groups"]
    ]
    card = CARD.format(
        parameters=model.count_params(),
        num_labels=len(model.labels),
        num_train=model.labels.num_examples,
        num_valid=report["valid"]["num_rows"],
        num_test=test["num_rows"],
        loss=report["settings"]["loss"]["name"],
        seed=report["settings"]["budget"]["seed"],
        version=bat_tf.__version__,
        rows="\n".join(rows),
        max_length=model.max_length,
    )
    (FOLDER / "README.md").write_text(card, encoding="utf-8")
    print(card)


if __name__ == "__main__":
    main()
