"""An encoder that another one stands on."""

import keras
from keras import ops

from bat_tf._internal.configured import Configured
from bat_tf._internal.validation import check_choice

STATES = ("mean", "last", "concat")


@keras.saving.register_keras_serializable(package="bat_tf")
class Backbone(Configured, keras.layers.Layer):
    """One state a token out of the states of all layers of an encoder.

    Args:
        encoder: such as a `BertEncoder`.
        states: `"mean"` of all layers, as BAT's CoNLL recipe has it, the `"last"`, or
            `"concat"`: all of them side by side.
        trainable: False keeps the encoder's weights as they are. It then answers as it
            does when served: without dropout.

    Call arguments:
        inputs: dict, as the encoder takes it.

    Returns:
        States [B, T, width].

    Example:
        >>> import numpy as np
        >>> from bat_tf.encoders import BATEncoder, TransformerEncoder
        >>> small = TransformerEncoder(100, 16, d_ff=32, num_heads=2, num_layers=2)
        >>> backbone = Backbone(small, states="concat")
        >>> ids = np.array([[5, 7, 0]])
        >>> backbone({"token_ids": ids, "padding_mask": ids > 0}).shape
        TensorShape([1, 3, 48])
        >>> encoder = BATEncoder(backbone=backbone, d_model=16, num_heads=2)

    Reference:
        The CoNLL recipe of BAT's release: the mean of all states.
    """

    def __init__(self, encoder, states="mean", trainable=False, **kwargs):
        super().__init__(trainable=trainable, **kwargs)
        self.supports_masking = True
        self.encoder = encoder
        self.states = check_choice("states", states, STATES)

    @property
    def width(self):
        """The width of the states."""
        layers = len(self.encoder.blocks) + 1
        return self.encoder.d_model * (layers if self.states == "concat" else 1)

    def build(self, shape):
        if not self.encoder.built:
            self.encoder.build(shape)
        if not self.trainable:
            # An encoder that is read from a file comes with the value set, but not for
            # the layers inside, and Keras does not pass on what it has already.
            self.encoder.trainable = True
            self.encoder.trainable = False

    def call(self, inputs, training=None):
        # A step from the embeddings is one from those of the encoder on top.
        inputs = {n: value for n, value in inputs.items() if n != "perturbation"}
        states = self.encoder(inputs, training=training if self.trainable else False)
        if self.states == "last":
            mixed = states[-1]
        elif self.states == "concat":
            mixed = ops.concatenate(states, axis=-1)
        else:
            mixed = sum(states[1:], states[0]) / len(states)
        return mixed if self.trainable else ops.stop_gradient(mixed)

    def compute_mask(self, inputs, previous_mask):
        return inputs["padding_mask"]
