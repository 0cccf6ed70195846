"""What the layers share: Keras' mask, and the settings of their weights."""

import keras
from keras import ops

from bat_tf._internal.configured import Configured


class MaskedLayer(Configured, keras.layers.Layer):
    """A layer that honours Keras' mask, and passes it on.

    `padding_mask` is the explicit name of that mask: it wins over the one that Keras
    keeps on the states, and takes its place on the output, so that the layers that
    follow and a stock loss see it. Without either there is no padding.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def __call__(self, x, padding_mask=None, mask=None, **kwargs):
        # Keras puts on the output what it is given as `mask`: no private name needed.
        given = mask if padding_mask is None else padding_mask
        if given is not None:
            kwargs["mask"] = as_mask(given)
        return super().__call__(x, **kwargs)

    def compute_output_shape(self, shape):
        return shape


def as_mask(mask):
    """A mask of any type as bool."""
    is_bool = getattr(mask, "dtype", None) == "bool"
    return mask if is_bool else ops.cast(mask, "bool")


def real_tokens(x, padding_mask=None, mask=None):
    """Which tokens of `x` [B, T, D] are no padding: bool [B, T]; all by default."""
    given = mask if padding_mask is None else padding_mask
    return ops.ones(ops.shape(x)[:2], "bool") if given is None else as_mask(given)


class Weighted(Configured):
    """The settings that the Dense layers and convolutions inside a layer share.

    Args:
        kernel_initializer: of every kernel; each draws numbers of its own.
        bias_initializer: of every bias.
        kernel_regularizer: of every kernel.
        bias_regularizer: of every bias.
        kernel_constraint: of every kernel.
        bias_constraint: of every bias.
        **kwargs: `name`, `dtype`, `trainable` and `activity_regularizer`, as in Keras.
    """

    def __init__(
        self,
        *,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)

    def weight_settings(self):
        """The settings of the weights, and the dtype policy, for a part of this."""
        return {
            "kernel_initializer": another(self.kernel_initializer),
            "bias_initializer": another(self.bias_initializer),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
            "dtype": self.dtype_policy,
        }

    def add_kernel(self, name, shape, parts=1):
        """A kernel outside of any layer; `parts` of it lie one behind the other."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=InParts(self.kernel_initializer, parts, axis=0),
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )

    def add_bias(self, name, shape):
        """A bias outside of any layer."""
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=another(self.bias_initializer),
            regularizer=self.bias_regularizer,
            constraint=self.bias_constraint,
        )

    def dense(self, name, width, units, parts=1, **settings):
        """A Dense layer with these settings, built; call it by `on_tokens`.

        `parts` layers of this kind lie side by side in it.
        """
        settings = {**self.weight_settings(), **settings}
        if parts > 1:
            settings["kernel_initializer"] = InParts(self.kernel_initializer, parts, 1)
        layer = keras.layers.Dense(units, name=name, **settings)
        layer.build((None, width))
        return layer


class WeightedLayer(Weighted, MaskedLayer):
    """A masked layer made of Dense layers and convolutions, see `Weighted`."""


def in_float32(policy):
    """float32, unless the policy says what became of each part when quantized."""
    return (
        policy if isinstance(policy, keras.dtype_policies.DTypePolicyMap) else "float32"
    )


def on_tokens(function, x):
    """Calls Dense layers on the tokens of x [B, T, D], as rows [B·T, D].

    On the CPU a product of [B, T, D] with [D, E] is a batch of small ones, of
    [B·T, D] with [D, E] a single large one.
    """
    rows = function(ops.reshape(x, (-1, x.shape[-1])))
    return ops.reshape(rows, (*ops.shape(x)[:-1], rows.shape[-1]))


def another(initializer):
    """A copy that draws other numbers: one object draws the same ones every time."""
    has_copies = isinstance(initializer, keras.initializers.Initializer)
    return initializer.clone() if has_copies else initializer


@keras.saving.register_keras_serializable(package="bat_tf")
class InParts(keras.initializers.Initializer):
    """Draws a kernel part by part: each has the limits that its own shape asks for.

    Args:
        initializer: of a part.
        parts: how many there are.
        axis: along which they lie side by side.
    """

    def __init__(self, initializer, parts, axis):
        self.initializer = keras.initializers.get(initializer)
        self.parts = parts
        self.axis = axis
        # Now: where a model is built inside `fit`, kernels are drawn later, and once
        # for each replica.
        self._each = [another(self.initializer) for _ in range(parts)]

    def __call__(self, shape, dtype=None):
        shape = list(shape)
        shape[self.axis] //= self.parts
        drawn = [draw(tuple(shape), dtype=dtype) for draw in self._each]
        return ops.concatenate(drawn, axis=self.axis)

    def get_config(self):
        return {
            "initializer": keras.initializers.serialize(self.initializer),
            "parts": self.parts,
            "axis": self.axis,
        }
