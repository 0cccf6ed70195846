"""Layer normalisation as in the BAT paper and as in its release."""

import keras
from keras import ops

from bat_tf.layers.block import MaskedLayer


@keras.saving.register_keras_serializable(package="bat_tf")
class LayerNorm(MaskedLayer):
    """Normalises the last axis to mean 0 and deviation 1, then scales and shifts.

    Args:
        epsilon: keeps the division finite; 1e-6 by default, 1e-4 as released.
        released: False has ε inside the root, True is (x - μ) / (σ + ε).
        gamma_initializer: of the scale.
        beta_initializer: of the shift.
        gamma_regularizer: of the scale.
        beta_regularizer: of the shift.

    Example:
        >>> import numpy as np
        >>> LayerNorm()(np.array([[1.0, 3.0]])).numpy().round(3).tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        epsilon=None,
        released=False,
        *,
        gamma_initializer="ones",
        beta_initializer="zeros",
        gamma_regularizer=None,
        beta_regularizer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.released = released
        self.epsilon = (1e-4 if released else 1e-6) if epsilon is None else epsilon
        self.gamma_initializer = keras.initializers.get(gamma_initializer)
        self.beta_initializer = keras.initializers.get(beta_initializer)
        self.gamma_regularizer = keras.regularizers.get(gamma_regularizer)
        self.beta_regularizer = keras.regularizers.get(beta_regularizer)

    def build(self, shape):
        self.gamma, self.beta = (
            self.add_weight(
                name=name,
                shape=(shape[-1],),
                initializer=getattr(self, f"{name}_initializer"),
                regularizer=getattr(self, f"{name}_regularizer"),
            )
            for name in ("gamma", "beta")
        )

    def call(self, x, padding_mask=None, mask=None):
        # In float32: a float16 variance overflows at states of a few hundred.
        wide = ops.cast(x, "float32")
        if self.released:
            centred = wide - ops.mean(wide, axis=-1, keepdims=True)
            variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
            normal = centred / (ops.sqrt(variance) + self.epsilon)
        else:
            normal = standardise(wide, self.epsilon)
        return ops.cast(normal, x.dtype) * self.gamma + self.beta


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
