"""Layer normalisation in the flavours of the BAT paper and of its release."""

import keras
from keras import ops

from bat_tf._validation import check_choice


@keras.saving.register_keras_serializable(package="bat_tf")
class LayerNorm(keras.layers.Layer):
    """Normalises the last axis to mean 0 and deviation 1, then scales and shifts.

    Args:
        epsilon: keeps the division finite.
        flavour: `"paper"` has ε inside the root, `"release"` is (x - μ) / (σ + ε).

    Example:
        >>> import numpy as np
        >>> LayerNorm()(np.array([[1.0, 3.0]])).numpy().round(3).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(self, epsilon=None, flavour="paper", **kwargs):
        super().__init__(**kwargs)
        self.flavour = check_choice("flavour", flavour, ("paper", "release"))
        default = 1e-6 if flavour == "paper" else 1e-4
        self.epsilon = default if epsilon is None else epsilon

    def build(self, shape):
        self.gamma = self.add_weight(
            name="gamma", shape=(shape[-1],), initializer="ones"
        )
        self.beta = self.add_weight(
            name="beta", shape=(shape[-1],), initializer="zeros"
        )

    def call(self, x):
        # In float32: a float16 variance overflows at states of a few hundred.
        wide = ops.cast(x, "float32")
        centred = wide - ops.mean(wide, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        if self.flavour == "paper":
            normal = centred * ops.rsqrt(variance + self.epsilon)
        else:
            normal = centred / (ops.sqrt(variance) + self.epsilon)
        return ops.cast(normal, x.dtype) * self.gamma + self.beta

    def get_config(self):
        return {
            **super().get_config(),
            "epsilon": self.epsilon,
            "flavour": self.flavour,
        }
