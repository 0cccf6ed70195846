"""Admin: a Transformer whose residuals are scaled so that depth does not hurt it."""

import math
from collections.abc import Iterator

import keras
import numpy as np
from keras import ops

from bat_tf._internal.validation import check_choice, sentence
from bat_tf.encoders.stacked import TransformerStack
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.block import real_tokens

INITIALIZATIONS = ("profile", "data-free")


def next_ratio(shortcut, change, padding_mask):
    """√(Var(ω x) + Var(f(x))), each over the channels of all real tokens.

    >>> ones, real = np.ones((1, 2, 2)), np.array([[True, True]])
    >>> float(next_ratio(ones, np.array([[[1.0, 3.0], [3.0, 1.0]]]), real))
    1.0
    """
    real = np.array(padding_mask, bool)
    parts = (ops.convert_to_numpy(ops.cast(x, "float32")) for x in (shortcut, change))
    return math.sqrt(sum(float(np.var(part[real], dtype="f8")) for part in parts))


def data_free_scale(num_layers):
    """ω = √((n + 1) / ln(n + 1) - 1) for n = 2 · layers sub-layers.

    >>> round(data_free_scale(4), 6)
    1.759567
    """
    parts = 2 * num_layers + 1
    return math.sqrt(parts / math.log(parts) - 1)


@keras.saving.register_keras_serializable(package="bat_tf")
class AdminBlock(TransformerBlock):
    """x = LN(ω_1 ⊙ x + MHA(x)); x = LN(ω_2 ⊙ x + FFN(x)).

    Args:
        num_heads: heads of the attention.
        d_ff: width of the hidden layer.
        scale: what ω starts with.
        **kwargs: see `TransformerBlock`.
    """

    def __init__(self, num_heads, d_ff, *, scale=1.0, **kwargs):
        super().__init__(num_heads, d_ff, **kwargs)
        self.scale = scale

    def build(self, shape):
        super().build(shape)
        self.shortcuts = [
            self.add_weight(
                name=f"{name}_shortcut",
                shape=(shape[-1],),
                initializer=keras.initializers.Constant(self.scale),
            )
            for name in ("attention", "output")
        ]

    def call(self, x, padding_mask=None, mask=None, training=None):
        real = real_tokens(x, padding_mask, mask)
        for omega, part, norm in self.sublayers():
            x = norm(x * omega + part(x, real, training))
        return x

    def sublayers(self):
        """(ω, f, LN) of the two sub-layers."""
        parts = (self.attend, self.transform)
        norms = (self.attention_norm, self.output_norm)
        return list(zip(self.shortcuts, parts, norms, strict=True))


@keras.saving.register_keras_serializable(package="bat_tf")
class AdminEncoder(TransformerStack):
    """Embeddings and positions → Transformer blocks with scaled residuals.

        x = LN(ω ⊙ x + f(x)),   ω_i² ≈ ω_1² + Σ_{j<i} Var f_j(x)

    ω is a weight of d_model entries a sub-layer. Where it starts is measured on one
    batch: the models of this library do so in `fit`, before the first step; elsewhere
    call `profile` once, or give `fit` the callback of `profiling`. A model that has
    been profiled or trained, resumed and reloaded ones among them, is left alone.

    With the paper's sizes and a linear layer of 3 classes it has 794,499 parameters
    beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        initialization: `"profile"`, or `"data-free"`: ω = √((n + 1) / ln(n + 1) - 1)
            for n sub-layers, without looking at a batch.
        **kwargs: see `TransformerStack`.

    Call arguments and returns: see `BATEncoder`.

    Example:
        >>> encoder = AdminEncoder(100, d_model=16, num_heads=2, num_layers=2)
        >>> ids = np.array([[5, 7, 0]])
        >>> encoder.profile({"token_ids": ids, "padding_mask": ids > 0})[0]
        1.0
        >>> encoder.needs_profile
        False

    Reference:
        Liu et al., Understanding the difficulty of training Transformers, 2020.
    """

    def __init__(
        self, vocabulary_size, d_model=128, *, initialization="profile", **kwargs
    ):
        super().__init__(vocabulary_size, d_model, **kwargs)
        check_choice("initialization", initialization, INITIALIZATIONS)
        self.initialization = initialization
        known = initialization == "data-free"
        self.stack(AdminBlock, scale=data_free_scale(self.num_layers) if known else 1.0)

    @property
    def needs_profile(self):
        """Whether ω is still what it was when the weights were made."""
        if self.initialization != "profile":
            return False
        # Read off the weights, so that it holds for weights from any kind of file.
        return not self.built or all(
            np.all(ops.convert_to_numpy(omega) == 1)
            for block in self.blocks
            for omega in block.shortcuts
        )

    def profile(self, inputs):
        """Sets ω from one forward pass in training mode.

        ω ← ratio, ratio ← √(Var(ω x) + Var(f(x))), one sub-layer after the other,
        starting from 1.

        Args:
            inputs: one batch, as in a call.

        Returns:
            The ratios, one a sub-layer.
        """
        if not self.built:
            self.build({name: np.shape(part) for name, part in inputs.items()})
        mask = inputs["padding_mask"]
        x = self.embedding(inputs, training=True)
        ratios = [1.0]
        for block in self.blocks:
            for omega, part, norm in block.sublayers():
                omega.assign(np.full(omega.shape, ratios[-1]))
                change = part(x, mask, True)
                shortcut = x * ops.cast(ratios[-1], x.dtype)
                ratios.append(next_ratio(shortcut, change, mask))
                x = norm(shortcut + change)
        return ratios[:-1]

    def profiling(self, x, batch_size=None):
        """The callback that profiles the encoder on the first batch of `x`.

        Args:
            x: what `fit` gets: a dataset of (inputs, …) or a dict of arrays.
            batch_size: rows of a batch, for arrays.
        """
        return Profiling(self, x, batch_size)


class Profiling(keras.callbacks.Callback):
    """Profiles an `AdminEncoder` before the first step, unless it has been.

    It comes after `BackupAndRestore` in the list of callbacks: restored weights are
    there when it looks at them.
    """

    def __init__(self, encoder, x, batch_size=None):
        super().__init__()
        self.encoder, self.x, self.batch_size = encoder, x, batch_size

    def on_train_begin(self, logs=None):
        """Profiles the encoder, if it asks for it."""
        if self.encoder.needs_profile:
            self.encoder.profile(self._first_batch())

    def _first_batch(self):
        if isinstance(self.x, dict):
            size = self.batch_size or 32
            return {name: part[:size] for name, part in self.x.items()}
        if isinstance(self.x, Iterator):
            remedy = "Call `encoder.profile` with one of its batches before `fit`."
            expected = "a dataset or arrays for a profile, not what is read only once"
            raise ValueError(sentence("x", expected, self.x, remedy))
        batch = self.x[0] if hasattr(self.x, "__getitem__") else next(iter(self.x))
        return batch if isinstance(batch, dict) else batch[0]
