"""Trains and exports the model in saved_models/product_pages, and writes its card.

    python examples/build_saved_model.py

Takes a few minutes on two cores. The test pages are looked at once, at the end.
"""

import argparse
from pathlib import Path

import bat_tf
from bat_tf.data import read
from bat_tf.metrics.report import micro, score_spans
from bat_tf.models import DictionaryTagger
from bat_tf.runs.demo import LANGUAGES, train_model

FOLDER = Path(__file__).parent.parent / "saved_models" / "product_pages"

CARD = """# product_pages: brands and products in shop pages

A BAT tagger (4 layers, d_model 64, {parameters:,} parameters) that marks brands and products in English,
traditional Chinese and Japanese product titles. `bat-tf tag` uses it by default.

* **Data**: `bat_tf.data.read("product_pages/all")`, {num_train:,} invented pages written from word lists and templates by
  `examples/samples`, under its own licence (MIT). They stand in for shop data, which nobody may publish; no real page, brand
  or person is in them.
* **Settings**: words (characters for Han and kana) with case and affix features, BIO tags, cross entropy, AdamW,
  {epochs} epochs, batch 32, seed 0; the epoch with the best validation macro F2 is kept.
* **Made by** `python examples/build_saved_model.py`, bat_tf {version}.

Test part, 300 pages a language; about half of their keywords never occur in training. Exact keyword matches, in %:

| language | precision | recall | F1 | F1 of a dictionary look-up |
|---|---|---|---|---|
{rows}

* **Limits**: real pages differ from invented ones. Expect it to find what looks like a brand or product by its
  surroundings and spelling, and to miss much else; train on your own pages before you rely on it. Input is raw UTF-8
  text; it answers with `tags`, `starts`, `ends` (characters), `scores` and `num_tags`.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--run", default="runs/product_pages")
    options = parser.parse_args()
    train, valid = (read("product_pages/all", part) for part in ("train", "valid"))
    callbacks = bat_tf.training.default_callbacks(options.run)
    train_model(train, valid, options.epochs, callbacks)
    model = bat_tf.load(options.run)
    model.export(FOLDER / "1")
    dictionary = DictionaryTagger().fit(train)
    rows = []
    for language in LANGUAGES:
        test = read(f"product_pages/{language}", "test")
        ours, theirs = (
            micro(score_spans(test.spans, tagger.tag(test.texts)))
            for tagger in (bat_tf.load(FOLDER / "1"), dictionary)
        )
        shares = (ours.precision, ours.recall, ours.f(), theirs.f())
        rows.append(" | ".join([f"| {language}", *(f"{100 * x:.1f}" for x in shares)]))
    card = CARD.format(
        parameters=model.count_params(),
        num_train=len(train),
        epochs=options.epochs,
        version=bat_tf.__version__,
        rows=" |\n".join(rows) + " |",
    )
    (FOLDER / "README.md").write_text(card, encoding="utf-8")
    print(card)


if __name__ == "__main__":
    main()
