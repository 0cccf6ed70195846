"""Training steps and epochs of bat_tf, for `bat_step_vs_torch.py`.

Takes the batch size for `set_threads`, or nothing to leave threads as they are.
Reads one JSON request a line and answers one JSON line: see the driver.
"""

import json
import os
import sys
import time

# Whatever libraries print goes to stderr; stdout carries the answers alone.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import bat_tf  # noqa: E402


class StepTimer:
    """The train step that `model.fit` runs, on one full batch."""

    def __init__(self, request):
        keras.utils.set_random_seed(0)
        sizes = dict(request["sizes"])
        vocabulary, classes = sizes.pop("vocabulary"), sizes.pop("classes")
        inputs = {
            "token_ids": keras.Input((None,), name="token_ids", dtype="int32"),
            "padding_mask": keras.Input((None,), name="padding_mask", dtype="bool"),
        }
        states = bat_tf.encoders.BATEncoder(vocabulary, **sizes)(inputs)
        logits = keras.layers.Dense(classes, dtype="float32")(states[-1])
        self.model = keras.Model(inputs, logits)
        self.model.compile(
            bat_tf.optimizers.Adam(1e-4),
            bat_tf.losses.get("ce"),
            jit_compile=request["jit"],
        )
        shape = (request["batch"], request["length"])
        rng = np.random.default_rng(0)
        batch = {
            "token_ids": rng.integers(1, vocabulary, shape).astype("int32"),
            "padding_mask": np.ones(shape, bool),
        }
        tags = rng.integers(0, classes, shape).astype("int32")
        dataset = tf.data.Dataset.from_tensors((batch, tags)).repeat().prefetch(2)
        self.batches = iter(dataset)
        self.model.make_train_function()
        self.run(3)

    def run(self, steps):
        started = time.perf_counter()
        for _ in range(steps):
            logs = self.model.train_function(self.batches)
        float(logs["loss"])
        return time.perf_counter() - started


class EpochTimer:
    """Epochs of `BATTagger.fit` on texts whose lengths are given."""

    def __init__(self, request):
        keras.utils.set_random_seed(0)
        sizes = dict(request["sizes"])
        data = texts_of_lengths(request["lengths"], sizes.pop("vocabulary"))
        sizes.pop("classes")
        self.tagger = bat_tf.BATTagger.for_data(
            data,
            tokenizer="characters",
            scheme="plain",
            max_length=request["max_length"],
            **sizes,
        )
        self.tagger.compile(
            bat_tf.optimizers.Adam(1e-4), "ce", jit_compile=request["jit"]
        )
        self.batches = self.tagger.batches(data, request["batch"], seed=0)
        self.run()

    def run(self):
        started = time.perf_counter()
        self.tagger.fit(self.batches, verbose=0)
        return time.perf_counter() - started


def texts_of_lengths(lengths, vocabulary, seed=0):
    """Random texts with two kinds of spans, one character a token."""
    from bat_tf.data.dataset import Example, Span, TextDataset

    rng = np.random.default_rng(seed)
    first = 0x4E00  # Chinese characters: one token each
    examples = []
    for length in lengths:
        length = max(int(length), 1)
        text = "".join(chr(first + c) for c in rng.integers(0, vocabulary - 2, length))
        kind = ("brand", "product")[len(examples) % 2]
        spans = (Span(0, min(2, length), kind),)
        examples.append(Example(text=text, spans=spans, labels=None, id=None))
    return TextDataset(examples, name="random characters")


def main():
    if len(sys.argv) > 1:
        bat_tf.training.set_threads(int(sys.argv[1]))
    timers = {}
    for line in sys.stdin:
        request = json.loads(line)
        steps = request.pop("steps", None)
        key = json.dumps(request, sort_keys=True)
        if key not in timers:
            kind = EpochTimer if "lengths" in request else StepTimer
            timers[key] = kind(request)
        timer = timers[key]
        model = timer.tagger if "lengths" in request else timer.model
        answer = {
            "seconds": timer.run() if steps is None else timer.run(steps),
            "parameters": model.count_params(),
            "version": f"TensorFlow {tf.__version__}, Keras {keras.__version__}",
        }
        ANSWERS.write(json.dumps(answer) + "\n")
        ANSWERS.flush()


if __name__ == "__main__":
    main()
