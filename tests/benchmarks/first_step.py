"""How long a fresh process takes to its first training step, beside stock Keras layers.

    python tests/benchmarks/first_step.py --turns 5

Each side runs in a process of its own, one after the other in turns: from the first
line after the imports to the end of a `fit` on four batches. "ours" is four blocks of
`AttentionTournament` and `FeedForwardTournament` between `Embedding` and `Dense`;
"stock" is the same written with `MultiHeadAttention`, `Conv1D`, `Dense` and
`LayerNormalization`. The table also has the processor's seconds, of which other work on
the machine takes less away, and a later step.
"""

import argparse
import statistics
import subprocess
import sys
import time

D_MODEL, D_FF, HEADS, LAYERS, WORDS, CLASSES = 128, 512, 4, 4, 5000, 3


def ours(x):
    """The blocks of this library."""
    from bat_tf.layers import AttentionTournament, FeedForwardTournament

    for _ in range(LAYERS):
        x = FeedForwardTournament(D_FF)(AttentionTournament(HEADS)(x))
    return x


def stock(x):
    """The same blocks in stock Keras layers."""
    from keras import layers

    def norm(x):
        return layers.LayerNormalization(epsilon=1e-6)(x)

    def convolve(x, size):
        return layers.Conv1D(D_MODEL, size, padding="same", activation="relu")(x)

    for _ in range(LAYERS):
        mixed = layers.MultiHeadAttention(HEADS, D_MODEL // HEADS)(x, x)
        features = layers.Add()([mixed, convolve(x, 1), convolve(x, 3)])
        a = norm(layers.Add()([norm(features), x]))
        y = layers.Dense(D_MODEL)(layers.Dense(D_FF, activation="relu")(a))
        x = norm(layers.Add()([y, convolve(a, 1)]))
    return x


def measure(blocks, jit_compile):
    """Seconds to the first step, processor's seconds, and a later step."""
    import keras
    import numpy as np

    import bat_tf.layers  # noqa: F401  # both sides pay for the imports beforehand

    rng = np.random.default_rng(0)
    ids = rng.integers(1, WORDS, (32, 64))
    tags = rng.integers(0, CLASSES, (32, 64))
    started, busy = time.perf_counter(), time.process_time()
    inputs = keras.Input((None,), dtype="int32")
    states = keras.layers.Embedding(WORDS, D_MODEL)(inputs)
    model = keras.Model(inputs, keras.layers.Dense(CLASSES)(blocks(states)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, jit_compile=jit_compile)
    model.fit(ids, tags, batch_size=8, verbose=0)
    first = time.perf_counter() - started, time.process_time() - busy
    started = time.perf_counter()
    model.fit(ids, tags, batch_size=8, verbose=0)
    return *first, (time.perf_counter() - started) / 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--jit", action="store_true")
    parser.add_argument("--side", choices=("ours", "stock"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(*measure({"ours": ours, "stock": stock}[options.side], options.jit))
        return
    found = {"ours": [], "stock": []}
    for turn in range(options.turns):
        for side in sorted(found, reverse=turn % 2 == 1):
            command = [sys.executable, __file__, "--side", side]
            command += ["--jit"] * options.jit
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            found[side].append([float(x) for x in run.stdout.split()])
    print(
        f"{'median of ' + str(options.turns):24} {'ours':>8} {'stock':>8} {'ratio':>8}"
    )
    names = ("first step, s", "first step, cpu s", "later step, s")
    for place, name in enumerate(names):
        pairs = [(a[place], b[place]) for a, b in zip(*found.values(), strict=True)]
        mine, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"{name:24} {mine:8.2f} {theirs:8.2f} {ratio:8.2f}")


if __name__ == "__main__":
    main()
