"""The tagger without an encoder against sklearn-crfsuite: span F1 and seconds.

    python tests/benchmarks/crf_peers.py --data conll2003 --part valid \\
        --peer-python ../peers/bin/python --results crf_peers.jsonl

Sparse features and a CRF, on the parts and the tokens that both read alike: words
between blanks, or characters. What the file of results has is not measured again. Tune
on `--part valid`; `--part test` is for the end.
"""

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from pathlib import Path

import keras

import bat_tf
from bat_tf.metrics.report import micro, score_spans
from bat_tf.models.parts import is_east_asian
from bat_tf.text import TextTokenizer

WORKER = Path(__file__).with_name("crfsuite_worker.py")


def tokens_of(text, kind):
    """(start, end) of each token."""
    if kind == "characters":
        return [(place, place + 1) for place in range(len(text))]
    found, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        found.append((place, place + len(word)))
        place += len(word)
    return found


def tagged(example, kind):
    """The tokens of a text and their BIO tags."""
    tokens = tokens_of(example.text, kind)
    tags = ["O"] * len(tokens)
    for span in example.spans:
        shared = (a < span.end and b > span.start for a, b in tokens)
        inside = [place for place, shares in enumerate(shared) if shares]
        for count, place in enumerate(inside):
            tags[place] = ("I-" if count else "B-") + span.kind
    return [[example.text[a:b] for a, b in tokens], tags]


def spans_of(example, tags, kind):
    """The spans that BIO tags say."""
    found, tokens = [], tokens_of(example.text, kind)
    for (start, end), tag in zip(tokens, tags, strict=True):
        place, _, name = tag.partition("-")
        if place == "B" or (place == "I" and not (found and found[-1][3])):
            found.append([start, end, name, True])
        elif place == "I" and found[-1][2] == name:
            found[-1][1] = end
        elif place == "I":
            found.append([start, end, name, True])
        elif found:
            found[-1][3] = False
    return [tuple(span[:3]) for span in found]


def peer(own, train, test, kind):
    """Spans by sklearn-crfsuite, and seconds of training."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.json"
        parts = {"train": train, "test": test}
        parts = {n: [tagged(row, kind) for row in part] for n, part in parts.items()}
        path.write_text(json.dumps(parts), encoding="utf-8")
        command = [own.peer_python, str(WORKER), str(path), kind]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    rows = zip(test, answer["tags"], strict=True)
    return [spans_of(row, tags, kind) for row, tags in rows], answer["seconds"]


def ours(own, train, test, kind):
    """Spans by the sparse head with a CRF, and seconds of making and training."""
    begin = time.perf_counter()
    keras.utils.set_random_seed(own.seed)
    tokenizer = TextTokenizer(kind, split="whitespace")
    model = bat_tf.BATTagger.for_data(
        train,
        "none",
        tokenizer,
        crf=True,
        sparse=True,
        sparse_min_count=own.min_count,
        sparse_dropout=own.dropout,
    )
    steps = own.epochs * -(-len(train) // own.batch_size)
    rate = keras.optimizers.schedules.CosineDecay(own.rate, steps)
    model.compile(bat_tf.optimizers.AdamW(rate), train_metrics=False)
    model.fit(
        train, batch_size=own.batch_size, epochs=own.epochs, seed=own.seed, verbose=0
    )
    seconds = time.perf_counter() - begin
    return [[tag[:3] for tag in tags] for tags in model.tag(test.texts)], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="conll2003")
    parser.add_argument("--part", default="valid", choices=("valid", "test"))
    parser.add_argument("--peer-python", help="without it, ours alone")
    parser.add_argument("--results", default="crf_peers.jsonl")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--min-count", type=int, default=1)
    own = parser.parse_args()
    results = Path(own.results)
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    known = [json.loads(line) for line in lines]
    parts = [bat_tf.data.read(own.data, split=split) for split in ("train", own.part)]
    kind = "characters" if is_east_asian(parts[0].texts) else "words"
    settings = {name: getattr(own, name) for name in ("seed", "epochs", "batch_size")}
    settings |= {"rate": own.rate, "dropout": own.dropout, "min_count": own.min_count}
    work = {"ours": (ours, settings)}
    if own.peer_python:
        work["sklearn-crfsuite"] = (peer, {})
    gold = [row.spans for row in parts[1]]
    for name, (function, how) in work.items():
        key = {"data": own.data, "part": own.part, "who": name, **how}
        row = next((row for row in known if key.items() <= row.items()), None)
        if row is None:
            found, seconds = function(own, *parts, kind)
            score = micro(score_spans(gold, found))
            row = {**key, "span_f1": 100 * score.f(), "seconds": seconds}
            row |= {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
            row |= {"machine": platform.machine()}
            with results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
