"""The demo: the whole job on the embedded product pages, in a minute or two."""

import json
import subprocess
import sys
import time

import keras
from rich.table import Table

import bat_tf
from bat_tf import display
from bat_tf.data.product_pages import product_pages
from bat_tf.metrics.report import micro, score_spans
from bat_tf.models import DictionaryTagger

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
    bat_tf.training.set_seed(0)
    tokenizer = bat_tf.TextTokenizer(**TOKENIZER)
    model = bat_tf.BATTagger.for_data(train, "bat", tokenizer, **ENCODER)
    steps = epochs * -(-len(train) // 32)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=3e-3, warmup_steps=max(1, steps // 12)
    )
    model.compile(
        bat_tf.optimizers.AdamW(rate, clipnorm=1.0),
        loss="ce",
        metrics=["token-macro-f1", "token-macro-f2", "span-f1"],
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
    train = product_pages("all", "train", size=size)
    valid, test = product_pages("all", "valid"), product_pages("all", "test")
    console.print(train.summary())
    started = time.perf_counter()
    model = train_model(train, valid, epochs)
    console.print(f"Trained for {time.perf_counter() - started:.0f} s.\n")
    console.print(model.evaluate_report(test))
    console.print(baseline_table(model, train))
    for language in LANGUAGES:
        unseen = product_pages(language, "test").take(pages)
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
        test = product_pages(language, "test")
        gold = [example.spans for example in test]
        scores = [
            micro(score_spans(gold, tagger.tag(test.texts))).f()
            for tagger in (dictionary, model)
        ]
        table.add_row(language, *(f"{100 * score:.1f}" for score in scores))
    return table


_FRESH = """
import json, sys
import tensorflow as tf
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
found = serve(text=tf.constant(json.loads(sys.argv[2])))
rows = zip(*(found[name].numpy().tolist() for name in ("num_tags", "starts", "ends")))
print(json.dumps([list(zip(starts[:n], ends[:n])) for n, starts, ends in rows]))
"""


def _show_reload(console, model, folder, texts):
    """Asks the SavedModel in a fresh process and compares with the model in memory."""
    process = subprocess.run(
        [sys.executable, "-c", _FRESH, str(folder), json.dumps(texts)],
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(process.stdout.splitlines()[-1])
    ours = [[[tag.start, tag.end] for tag in tags] for tags in model.tag(texts)]
    same = "the same tags" if answer == ours else f"OTHER tags: {answer}"
    # Texts and paths may hold what rich would take for markup.
    plain = {"markup": False, "highlight": False, "soft_wrap": True}
    console.print(f"SavedModel in {folder}; a fresh process finds {same}.", **plain)
    console.print(f'Ask it:  bat-tf tag --model {folder} "{texts[0]}"', **plain)
    if answer != ours:
        raise RuntimeError("The reloaded SavedModel answers otherwise than the model.")
