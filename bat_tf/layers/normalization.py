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
        if self.flavour == "paper":
            normal = standardise(wide, self.epsilon)
        else:
            centred = wide - ops.mean(wide, axis=-1, keepdims=True)
            variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
            normal = centred / (ops.sqrt(variance) + self.epsilon)
        return ops.cast(normal, x.dtype) * self.gamma + self.beta

    def get_config(self):
        return {
            **super().get_config(),
            "epsilon": self.epsilon,
            "flavour": self.flavour,
        }


def standardise(x, epsilon):
    """(x - μ) / √(σ² + ε) over the last axis, with its gradient in closed form.

    The gradient that TensorFlow derives takes twice as many passes over the states.
    """

    @ops.custom_gradient
    def forward(x):
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        inverse = ops.rsqrt(variance + epsilon)
        normal = centred * inverse

        def gradient(upstream):
            along = ops.mean(upstream * normal, axis=-1, keepdims=True)
            mean = ops.mean(upstream, axis=-1, keepdims=True)
            return inverse * (upstream - mean - normal * along)

        return normal, gradient

    return forward(x)
