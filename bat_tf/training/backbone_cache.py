"""What a frozen backbone says, computed once and kept instead of once an epoch."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from bat_tf._internal.files import atomic_write
from bat_tf.data import pipeline
from bat_tf.data.pipeline import DOCUMENT_STATES, TOKEN_STATES

# States beyond that are not kept in memory: they are computed in every epoch.
MOST_BYTES = 2**30


class FrozenPart(NamedTuple):
    """The part of a model that does not change: a function whose values can be kept.

    Attributes:
        name: of the input that takes its place: `TOKEN_STATES` are a state for each
            token, `DOCUMENT_STATES` one for each text.
        states: the function, from inputs to states [B, T, width] or [B, width].
        width: of a state.
        weights: the variables of the function.
        settings: what else it depends on.
    """

    name: str
    states: Callable
    width: int
    weights: list
    settings: Any = None


def token_part(encoder):
    """The frozen backbone, or the frozen layers, of an encoder; None if it has none."""
    backbone = getattr(encoder, "backbone", None)
    frozen = backbone is not None and not backbone.trainable
    if not frozen and not getattr(encoder, "frozen_layers", 0):
        return None
    return FrozenPart(
        TOKEN_STATES,
        lambda inputs: encoder.backbone_input(inputs, False),
        encoder.backbone_width,
        encoder.non_trainable_variables,
        [getattr(encoder, "frozen_layers", None), getattr(backbone, "states", None)],
    )


def add_states(examples, part, tokenizer, folder=None, batch_size=32, verbose=0):
    """Adds what the frozen part of a model says of each example.

    The states are kept as float16, half of what they are in the backbone: of MiniLM,
    0.75 KiB a token, or a text if only its pooled state is read. Where they would take
    more than a GiB of memory and no folder is named, nothing is added.

    Args:
        examples: dict of RaggedTensors, such as `tag_examples` returns.
        part: a `FrozenPart`.
        tokenizer: packs the rows: special tokens, padding, mask.
        folder: where to keep the states from one run to the next; None keeps them in
            memory alone. They are found again by the tokens and the frozen weights.
        batch_size: rows a step.
        verbose: 1 shows a bar, 2 a line at the end, as in Keras.

    Returns:
        The dict with one more entry, `part.name`: a RaggedTensor, a state for each
        token, special tokens included, or a Tensor, a state for each example.
    """
    tokens = {name: examples[name] for name in pipeline.token_names(examples)}
    splits = _splits(examples, part, tokenizer)
    size = num_bytes(examples, part, tokenizer)
    if folder is None and size > MOST_BYTES:
        if verbose:
            print(
                f"The states of the frozen layers would take {size / 2**30:.1f} GiB of "
                "memory: they are computed in every epoch. A folder can keep them."
            )
        return examples
    path = folder and Path(folder) / f"{_fingerprint(tokens, part)}.npy"
    if path and path.exists():
        values = np.load(path)
    else:
        values = _states(tokens, part, tokenizer, splits, batch_size, verbose)
        if path:
            with atomic_write(path, "wb") as file:
                np.save(file, values)
    values = tf.constant(values)
    if part.name == TOKEN_STATES:
        values = tf.RaggedTensor.from_row_splits(values, splits)
    return {**examples, part.name: values}


def num_bytes(examples, part, tokenizer):
    """How much memory the states of examples take, see `add_states`."""
    return int(2 * part.width * _splits(examples, part, tokenizer)[-1])


def _splits(examples, part, tokenizer):
    """Where the states of each example begin, and the end of the last."""
    lengths = examples["token_ids"].row_lengths().numpy() + tokenizer.num_special
    if part.name == DOCUMENT_STATES:
        lengths = np.ones_like(lengths)
    return np.concatenate([[0], np.cumsum(lengths)])


def _states(tokens, part, tokenizer, splits, batch_size, verbose):
    """The states of all rows, one below the other."""

    @tf.function(reduce_retracing=True)
    def states_of(inputs):
        states = tf.cast(part.states(inputs), tf.float16)
        return states if len(states.shape) == 3 else states[:, None]

    values = np.zeros((splits[-1], part.width), np.float16)
    bar = keras.utils.Progbar(
        len(splits) - 1, verbose=verbose, unit_name="text of the frozen layers"
    )
    for rows, inputs in pipeline.text_batches(tokens, tokenizer, batch_size):
        inputs = {name: inputs[name] for name in ("token_ids", "padding_mask")}
        states = states_of(inputs).numpy()
        for row, found in zip(rows, states, strict=True):
            length = splits[row + 1] - splits[row]
            values[splits[row] : splits[row] + length] = found[:length]
        bar.add(len(rows))
    if not np.isfinite(values).all():
        raise ValueError(
            "`cache_backbone` keeps states as float16, and some of them are too large "
            "for it or no numbers at all. Leave it out."
        )
    return values


def _fingerprint(tokens, part):
    """A name for the states of these tokens under these weights."""
    ids = tokens["token_ids"]
    digest = hashlib.sha256(repr(part.settings).encode())
    arrays = [ids.flat_values.numpy(), ids.row_splits.numpy()]
    weights = [v.numpy() for v in part.weights]  # variables of integers are seeds
    for array in arrays + [w for w in weights if w.dtype.kind == "f"]:
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()[:32]
