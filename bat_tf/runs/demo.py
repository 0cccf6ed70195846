"""The demo: the whole job on the embedded product pages, in a minute or two."""

import time

import keras
from rich.table import Table

from bat_tf._internal import display
from bat_tf.data import read
from bat_tf.metrics.report import micro, score_spans
from bat_tf.models import BATTagger, DictionaryTagger
from bat_tf.models.load import load
from bat_tf.text import TextTokenizer
from bat_tf.training import set_seed
from bat_tf.training.optimizers import AdamW

LANGUAGES = ("en", "zh", "ja")
# Words where blanks separate them, characters where none do; what a word begins and
# ends with stands in for the word when it was never seen.
TOKENIZER = {
    "kind": "words",
    "features": ("case", "prefix2", "prefix3", "suffix2", "suffix3"),
    "min_count": 2,
}
ENCODER = {"d_model": 64, "d_ff": 256, "dropout": 0.1, "word_dropout": 0.1}


def train_model(train, valid, epochs, callbacks=(), verbose="auto"):
    """Trains the tagger of the demo, which is also the one that is shipped."""
    set_seed(0)
    tokenizer = TextTokenizer(**TOKENIZER)
    model = BATTagger.for_data(train, "bat", tokenizer, **ENCODER)
    steps = epochs * -(-len(train) // 32)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=3e-3, warmup_steps=max(1, steps // 12)
    )
    model.compile(
        AdamW(rate, clipnorm=1.0),
        loss="ce",
        metrics=["token_macro_f1", "token_macro_f2", "span_f1"],
    )
    model.fit(
        train,
        validation_data=valid,
        epochs=epochs,
        batch_size=32,
        callbacks=list(callbacks),
        verbose=verbose,
    )
    return model


def demo(console, folder, epochs=4, size=None, pages=2):
    """Trains, scores, tags, exports and reloads; prints what a person wants to see."""
    parts = ("train", "valid", "test")
    train, valid, test = (read("product_pages/all", part) for part in parts)
    train = train if size is None else train.take(size)
    console.print(train.summary())
    started = time.perf_counter()
    model = train_model(train, valid, epochs)
    console.print(f"Trained for {time.perf_counter() - started:.0f} s.\n")
    console.print(model.evaluate_report(test))
    console.print(baseline_table(model, train))
    for language in LANGUAGES:
        unseen = read(f"product_pages/{language}", "test").take(pages)
        for example, tags in zip(unseen, model.tag(unseen.texts), strict=True):
            console.print(display.coloured(example.text, tags, model.kinds.names))
            console.print()
    exported = model.export(folder / "saved_model" / "1")
    _show_reload(console, model, exported, test.take(3).texts)


def baseline_table(model, train):
    """Keyword F1 of the model beside a look-up of the training keywords."""
    dictionary = DictionaryTagger().fit(train)
    table = Table(title="Keyword F1 on unseen pages (embedded stand-in corpus)")
    for name in ("language", "dictionary", "BAT"):
        table.add_column(name, justify="left" if name == "language" else "right")
    for language in LANGUAGES:
        test = read(f"product_pages/{language}", "test")
        gold = [example.spans for example in test]
        scores = [
            micro(score_spans(gold, tagger.tag(test.texts))).f()
            for tagger in (dictionary, model)
        ]
        table.add_row(language, *(f"{100 * score:.1f}" for score in scores))
    return table


def _show_reload(console, model, folder, texts):
    """Asks the SavedModel, which answered a fresh process before it was put there."""
    ours, theirs = (
        [[tag[:3] for tag in tags] for tags in one.tag(texts)]
        for one in (model, load(folder))
    )
    if ours != theirs:
        raise RuntimeError("The reloaded SavedModel answers otherwise than the model.")
    # Texts and paths may hold what rich would take for markup.
    plain = {"markup": False, "highlight": False, "soft_wrap": True}
    console.print(f"SavedModel in {folder}; reloaded, it finds the same tags.", **plain)
    console.print(f'Ask it:  bat-tf tag --model {folder} "{texts[0]}"', **plain)
