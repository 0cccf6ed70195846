"""One of the processes of test_distributed.py, and what a process alone does.

    python distributed_worker.py <folder> <cases> [<cluster file> <worker>]
    python distributed_worker.py <folder> <cases> local

Trains each case and writes its history and weights to `<folder>/<case>.<worker>.npz`.
`local` is for two replicas in one process.
"""

import json
import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import bat_tf
from bat_tf import training
from bat_tf.data import Example
from bat_tf.heads import Average
from bat_tf.training import distributed

# Batches of 5 among 23 texts: two replicas have different numbers of rows and tokens,
# and of the last batch of some lengths one of them has none.
SIZE, BATCH = 23, 5
SMALL = {"filters": 4, "kernel_sizes": [2, 3], "embedding_width": 8, "dropout": 0.0}


def pages(size, split="train"):
    return bat_tf.data.read("product_pages/en", split=split).take(size)


def topics(size, split="train"):
    words = ["oil", "gas", "rain", "snow", "bank", "tax"]
    return bat_tf.TextDataset(
        Example(page.text, labels=[w for i, w in enumerate(words) if number % (i + 2)])
        for number, page in enumerate(pages(size, split))
    )


def tokens(**changes):
    """A mean over valid tokens."""
    model = bat_tf.BATTagger.for_data(pages(SIZE), "cnn", **{**SMALL, **changes})
    metrics = ["token_macro_f2", "span_f1"]
    optimizer = bat_tf.optimizers.AdamW(0.01, clipnorm=0.1, epsilon=1e-4)
    model.compile(optimizer, loss="wce", metrics=metrics)
    return model, pages(SIZE), pages(7, "valid")


def batch_weights():
    """Class weights that are counted in each batch."""
    model, *data = tokens()
    loss = bat_tf.losses.get("cecla", class_counts="batch")
    model.compile(bat_tf.optimizers.AdamW(0.01, epsilon=1e-4), loss=loss)
    return model, *data


def batch_ratio():
    """DL2, and a linear layer that shares its second moment."""
    model = bat_tf.LabelClassifier.for_data(topics(SIZE), "cnn", words=True, **SMALL)
    optimizer = bat_tf.optimizers.Adam()
    model.compile(optimizer, loss="dl2", metrics=["micro_f1", "average_precision"])
    return model, topics(SIZE), topics(7, "valid")


def experts():
    """A mean over rows, of experts that are to differ."""
    model = bat_tf.ExpertClassifier.for_data(
        topics(SIZE),
        "cnn",
        experts=("D-1", "A-1"),
        combine=Average(diversity_start_epoch=1),
        **SMALL,
    )
    model.compile("adam", loss="zlpr", metrics=["precision_at_1"])
    return model, topics(SIZE), topics(7, "valid")


def admin():
    """An encoder that looks at the first batch, and a plain mean over rows."""
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2, "num_layers": 1}
    model = bat_tf.LabelClassifier.for_data(topics(SIZE), "admin", **sizes)
    # Keys have a bias whose gradient is 0, and Adam would make steps of its rounding.
    model.compile(bat_tf.optimizers.Adam(epsilon=1e-4), loss="bce")
    return model, topics(SIZE), topics(7, "valid")


def resumed():
    """The first case with dropout, to be killed and continued."""
    return tokens(dropout=0.2)


def patient():
    """The first case, which never gets better."""
    model, *data = tokens()
    model.compile(keras.optimizers.SGD(0.0), loss="ce", metrics=["token_macro_f2"])
    return model, *data


CASES = (tokens, batch_weights, batch_ratio, experts, admin, resumed, patient)
CASES = {case.__name__: case for case in CASES}
# Those with the callbacks of an ordinary run, and how patient it is.
PATIENCE = {"tokens": 9, "resumed": 9, "patient": 2}


class Kill(keras.callbacks.Callback):
    """Ends the process in the middle of the third epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == 2 and batch == 2:
            os.kill(os.getpid(), signal.SIGKILL)


def train(case, folder=None, strategy=None, kill=False):
    """Trains a case; returns its history, evaluation and weights."""
    training.set_seed(1, deterministic=False)
    callbacks = []
    if folder and case in PATIENCE:
        callbacks = training.default_callbacks(folder / case, patience=PATIENCE[case])
    with (strategy or distributed.strategy()).scope():
        model, data, valid = CASES[case]()
    data = data.take(int(os.environ.get("SIZE", SIZE)))
    # Several replicas read texts, one process a data set: the results are the same.
    targets = data.spans if data.task == "spans" else data.labels
    history = model.fit(
        *((data.texts, targets) if strategy else (data,)),
        validation_data=valid,
        batch_size=BATCH,
        validation_batch_size=4,
        epochs=int(os.environ.get("EPOCHS", 3)),
        callbacks=callbacks + [Kill()] * kill,
    ).history
    if case == "tokens":
        scores = model.evaluate(valid, batch_size=3, return_dict=True, verbose=0)
        history |= {f"evaluate_{name}": [value] for name, value in scores.items()}
    return history, model.get_weights()


def check_draws(strategy):
    """No two replicas draw the same dropout."""
    with strategy.scope():
        model, _, _ = tokens(dropout=0.5)
    counter = training.EpochCounter()
    counter.set_model(model)
    counter.on_train_begin()
    counter.on_epoch_begin(1)
    state = next(v for v in model.non_trainable_variables if "seed_gen" in v.path)
    parts = strategy.experimental_local_results(state.value)
    (seed, first), (same, second) = (part.numpy().tolist() for part in parts)
    assert seed == same and second - first == 2**31, (first, second)


def main(folder, cases, cluster=None, worker=None):
    if cluster == "local":
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
    strategy = distributed.strategy(cluster, worker and int(worker))
    assert strategy.num_replicas_in_sync == 2
    folder, kill = Path(folder), os.environ.get("KILL", "") == worker
    if cluster == "local":
        check_draws(strategy)
    if cluster is None:
        worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
    for case in cases.split(","):
        history, weights = train(case, folder, strategy, kill)
        numbered = {f"w{number}": weight for number, weight in enumerate(weights)}
        np.savez(folder / f"{case}.{worker or 0}.npz", **history, **numbered)


if __name__ == "__main__":
    main(*sys.argv[1:])
