"""States of a frozen backbone, computed once and kept instead of once an epoch."""

import numpy as np
import tensorflow as tf

from bat_tf.data import pipeline

NAME = "backbone_states"


def has_frozen_backbone(encoder):
    """Whether an encoder stands on a backbone whose weights do not change."""
    backbone = getattr(encoder, "backbone", None)
    return backbone is not None and not encoder.backbone_trainable


def add_states(examples, encoder, tokenizer, batch_size=32):
    """Adds what the frozen backbone says of each example.

    The states are kept as float16, half of what they are in the backbone: 0.75 KiB a
    token for MiniLM.

    Args:
        examples: dict of RaggedTensors, such as `tag_examples` returns.
        encoder: an encoder on a frozen backbone.
        tokenizer: packs the rows: special tokens, padding, mask.
        batch_size: rows a step.

    Returns:
        The dict with one more entry: a RaggedTensor, a state for each token, special
        tokens included.
    """

    @tf.function(reduce_retracing=True)
    def states_of(inputs):
        return tf.cast(encoder.backbone_input(inputs, False), tf.float16)

    tokens = {name: examples[name] for name in pipeline.token_names(examples)}
    lengths = tokens["token_ids"].row_lengths().numpy() + tokenizer.num_special
    splits = np.concatenate([[0], np.cumsum(lengths)])
    values = np.zeros((splits[-1], encoder.backbone_width), np.float16)
    for rows, inputs in pipeline.text_batches(tokens, tokenizer, batch_size):
        inputs = {name: inputs[name] for name in ("token_ids", "padding_mask")}
        states = states_of(inputs).numpy()
        for row, part in zip(rows, states, strict=True):
            values[splits[row] : splits[row + 1]] = part[: lengths[row]]
    ragged = tf.RaggedTensor.from_row_splits(tf.constant(values), splits)
    return {**examples, NAME: ragged}
