"""States of a frozen backbone, computed once and kept instead of once an epoch."""

import hashlib
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from bat_tf.data import pipeline
from bat_tf.data.files import atomic_write

NAME = "backbone_states"


def has_frozen_backbone(encoder):
    """Whether an encoder stands on a backbone, or on layers, that do not change."""
    if getattr(encoder, "frozen_layers", 0):
        return True
    backbone = getattr(encoder, "backbone", None)
    return backbone is not None and not encoder.backbone_trainable


def add_states(examples, encoder, tokenizer, folder=None, batch_size=32, verbose=0):
    """Adds what the frozen backbone says of each example.

    The states are kept as float16, half of what they are in the backbone: 0.75 KiB a
    token for MiniLM.

    Args:
        examples: dict of RaggedTensors, such as `tag_examples` returns.
        encoder: an encoder on a frozen backbone.
        tokenizer: packs the rows: special tokens, padding, mask.
        folder: where to keep the states from one run to the next; None keeps them in
            memory alone. They are found again by the tokens and the frozen weights.
        batch_size: rows a step.
        verbose: 1 shows a bar, 2 a line at the end, as in Keras.

    Returns:
        The dict with one more entry: a RaggedTensor, a state for each token, special
        tokens included.
    """
    tokens = {name: examples[name] for name in pipeline.token_names(examples)}
    lengths = tokens["token_ids"].row_lengths().numpy() + tokenizer.num_special
    splits = np.concatenate([[0], np.cumsum(lengths)])
    path = folder and Path(folder) / f"{_fingerprint(tokens, encoder)}.npy"
    if path and path.exists():
        values = np.load(path)
    else:
        values = _states(tokens, encoder, tokenizer, splits, batch_size, verbose)
        if path:
            with atomic_write(path, "wb") as file:
                np.save(file, values)
    ragged = tf.RaggedTensor.from_row_splits(tf.constant(values), splits)
    return {**examples, NAME: ragged}


def _states(tokens, encoder, tokenizer, splits, batch_size, verbose):
    @tf.function(reduce_retracing=True)
    def states_of(inputs):
        return tf.cast(encoder.backbone_input(inputs, False), tf.float16)

    values = np.zeros((splits[-1], encoder.backbone_width), np.float16)
    bar = keras.utils.Progbar(
        len(splits) - 1, verbose=verbose, unit_name="text of the frozen layers"
    )
    for rows, inputs in pipeline.text_batches(tokens, tokenizer, batch_size):
        inputs = {name: inputs[name] for name in ("token_ids", "padding_mask")}
        states = states_of(inputs).numpy()
        for row, part in zip(rows, states, strict=True):
            length = splits[row + 1] - splits[row]
            values[splits[row] : splits[row] + length] = part[:length]
        bar.add(len(rows))
    return values


def _fingerprint(tokens, encoder):
    """A name for the states of these tokens under these weights."""
    ids = tokens["token_ids"]
    # Which states are kept, the tokens, the weights; other variables are seeds.
    choice = [getattr(encoder, n, None) for n in ("frozen_layers", "backbone_states")]
    digest = hashlib.sha256(repr(choice).encode())
    arrays = [ids.flat_values.numpy(), ids.row_splits.numpy()]
    weights = [v.numpy() for v in encoder.non_trainable_variables]
    for array in arrays + [w for w in weights if w.dtype.kind == "f"]:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()[:32]
