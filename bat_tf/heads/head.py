"""What all heads share: `head(states, inputs)` gives logits."""

import keras
from keras import ops

from bat_tf._internal.configured import Configured
from bat_tf._internal.validation import sentence

# Where states of whole texts stand in for those of tokens, their mask.
STATES_MASK = "states_mask"


@keras.saving.register_keras_serializable(package="bat_tf")
class Head(Configured, keras.layers.Layer):
    """A layer from the states of an encoder to logits.

    Args:
        layers: numbers of the encoder's layers that the head reads; 0 is the
            embeddings, negative numbers count from the last. `()` if it reads none.

    Call arguments:
        states: list of states [B, T, D], or a dict from the number of a layer to them.
        inputs: the model's inputs: `token_ids`, `padding_mask` … [B, T].

    Attributes:
        trains: whether the head has a part in training; if not, it only answers.
    """

    trains = True

    def __init__(self, layers=(-1,), **kwargs):
        super().__init__(**{"dtype": "float32", **kwargs})
        self.supports_masking = True
        # Not `layers`: Keras takes that for layers inside, as models have them.
        self.reads = [int(number) for number in layers]

    def build_on(self, encoder):
        """Builds the weights for an encoder, without running it."""
        if not self.built:
            self.build([(None, None, encoder.d_model)] * (len(encoder.blocks) + 1))

    def build(self, states_shape, inputs_shape=None):
        """Builds the weights for states of these shapes, one a layer."""
        depth = len(states_shape)
        for number in self.reads:
            if not -depth <= number < depth:
                expected = f"on layers 0 to {depth - 1}, those of the encoder"
                raise ValueError(sentence("layers", expected, self.reads))
        self.built = True

    def keep(self, name, shape, dtype="float32"):
        """A weight that is set and never learnt."""
        return self.add_weight(
            name=name,
            shape=shape,
            dtype=dtype,
            initializer="zeros",
            trainable=False,
            autocast=False,
        )

    def read_shape(self, states_shape):
        """The shape of what `read` returns."""
        shapes = states_shape
        if isinstance(shapes, dict):
            shapes = list(shapes.values())
        return (None, None, shapes[0][-1] * len(self.reads))

    def numbers(self, depth):
        """The layers it reads, counted from the first."""
        return [number % depth for number in self.reads]

    def read(self, states):
        """What it reads: the states of its layers, side by side."""
        found = [self._of_layer(states, number) for number in self.reads]
        found = [ops.cast(state, self.compute_dtype) for state in found]
        return found[0] if len(found) == 1 else ops.concatenate(found, axis=-1)

    def _of_layer(self, states, number):
        if not isinstance(states, dict):
            return states[number]
        number = number if number >= 0 else max(states) + 1 + number
        if number in states:
            return states[number]
        raise ValueError(
            f"The head {self.name!r} reads layer {number}, below layer {min(states)}, "
            "where the cached states begin. Train without `cache_backbone`, or freeze "
            "fewer layers."
        )

    def call(self, states, inputs, training=None):
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), "layers": self.reads}

    def compute_mask(self, states, previous_mask):
        """None: which tokens count is said by their targets."""


def states_mask(inputs):
    """Which states are of real tokens, [B, T]."""
    return inputs.get(STATES_MASK, inputs["padding_mask"])


def chosen_labels(inputs):
    """The ids of the labels that this step scores, or None for all."""
    return inputs.get("candidates")
