"""The Performer: attention whose cost grows with the length, not with its square."""

from functools import partial

import keras
from keras import ops

from bat_tf._internal.numerics import LARGE_NEGATIVE, at_least_float32
from bat_tf._internal.validation import check_choice, check_number
from bat_tf.encoders.stacked import TransformerStack
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.attention import MultiHeadSelfAttention

FEATURES = ("relu", "softmax")
RELU_FLOOR = 1e-3
SOFTMAX_FLOOR = 1e-6


def relu_features(x):
    """φ(x) = relu(x) + 10⁻³: no row of weights is ever all zeros."""
    return ops.relu(x) + RELU_FLOOR


def softmax_features(x, projection, padding_mask=None):
    """Positive random features whose products estimate exp(q·k / √d_k).

        φ(x) = m^{-1/2} (exp(W x - |x|²/2 - max W x) + 10⁻⁶),  x ← x · d_k^{-1/4}

    The maximum is over the features of a query, but over those of all real keys
    together: what all keys share cancels in the quotient.

    Args:
        x: queries or keys [B, heads, T, depth].
        projection: W [m, depth].
        padding_mask: bool [B, T]; given for keys.
    """
    x = x * x.shape[-1] ** -0.25
    exponent = ops.matmul(x, ops.transpose(projection))
    if padding_mask is None:
        largest = ops.max(exponent, axis=-1, keepdims=True, initial=LARGE_NEGATIVE)
    else:
        # Padding may not set the scale; it gets weight 0 later on.
        real = padding_mask[:, None, :, None]
        exponent = ops.where(real, exponent, LARGE_NEGATIVE)
        # `initial` for batches without a text, which have no maximum.
        largest = ops.max(
            exponent, axis=(-1, -2), keepdims=True, initial=LARGE_NEGATIVE
        )
    exponent = exponent - ops.stop_gradient(largest)
    exponent = exponent - ops.sum(ops.square(x), axis=-1, keepdims=True) / 2
    return (ops.exp(exponent) + SOFTMAX_FLOOR) * projection.shape[0] ** -0.5


def attend_linearly(query, key, value, padding_mask):
    """φ_q (φ_kᵀ V) / φ_q (φ_kᵀ 1), with weight 0 for padding.

    Args:
        query: features φ_q [B, heads, T, m].
        key: features φ_k [B, heads, T, m].
        value: [B, heads, T, depth].
        padding_mask: bool [B, T].
    """
    key = ops.where(padding_mask[:, None, :, None], key, 0.0)
    mixed = ops.matmul(query, ops.matmul(ops.swapaxes(key, -1, -2), value))
    total = ops.matmul(query, ops.sum(key, axis=2)[..., None])
    return ops.divide_no_nan(mixed, total)  # a row of padding alone has no weight


def orthogonal_features(shape, dtype=None, seed=None):
    """W [m, depth]: orthogonal rows, block by block, as long as Gaussian ones.

    >>> rows = orthogonal_features((4, 4)).numpy()
    >>> bool(abs(rows[0] @ rows[1]) < 1e-5)
    True
    """
    count, depth = shape
    blocks = -(-count // depth)
    normal = keras.random.normal((blocks, depth, depth), seed=seed)
    directions, triangle = ops.qr(normal)
    # As it comes, each column of Q prefers one side: it lost the sign that R has.
    directions = directions * ops.sign(ops.diagonal(triangle, 0, -2, -1))[:, None, :]
    rows = ops.reshape(ops.swapaxes(directions, -1, -2), (-1, depth))[:count]
    # The length of a Gaussian vector of this depth, χ(d_k), drawn for itself.
    lengths = ops.norm(keras.random.normal(shape, seed=seed), axis=-1, keepdims=True)
    return ops.cast(rows * lengths, dtype or "float32")


@keras.saving.register_keras_serializable(package="bat_tf")
class FavorAttention(MultiHeadSelfAttention):
    """FAVOR+: attention through features of queries and keys, without biases.

    Padding: its keys have weight 0.

    Args:
        num_heads: number of heads; divides the width of the input.
        features: `"relu"`, the default of the authors' layer, or `"softmax"`: random
            features that estimate attention, as in the paper.
        num_features: m of the random features; d_k ln d_k (111 at 32) suffices.
        redraw: whether training draws new random features at every step. Inference
            always has those of `build`.

    Call arguments: see `MultiHeadSelfAttention`.
    """

    def __init__(
        self, num_heads, *, features="relu", num_features=128, redraw=False, **kwargs
    ):
        super().__init__(num_heads, **{"use_bias": False, **kwargs})
        self.features = check_choice("features", features, FEATURES)
        self.num_features = check_number("num_features", num_features, 1, integer=True)
        self.redraw = redraw
        if redraw:
            self.seed_generator = keras.random.SeedGenerator()

    def build(self, shape):
        super().build(shape)
        if self.features == "softmax":
            self.projection = self.add_weight(
                name="projection",
                shape=(self.num_features, shape[-1] // self.num_heads),
                initializer=orthogonal_features,
                trainable=False,
                autocast=False,
            )

    def mix(self, query, key, value, padding_mask, training):
        """The attention; in float32, for sums over long texts overflow float16."""
        query, key, value = (at_least_float32(part) for part in (query, key, value))
        if self.features == "relu":
            query, key = relu_features(query), relu_features(key)
        else:
            projection = ops.convert_to_tensor(self.projection)
            if self.redraw and training:
                projection = orthogonal_features(
                    projection.shape, seed=self.seed_generator
                )
            query = softmax_features(query, projection)
            key = softmax_features(key, projection, padding_mask)
        mixed = attend_linearly(query, key, value, padding_mask)
        return ops.cast(mixed, self.compute_dtype)


@keras.saving.register_keras_serializable(package="bat_tf")
class PerformerEncoder(TransformerStack):
    """Embeddings and positions → Transformer blocks with linear attention.

    With the paper's sizes and a linear layer of 3 classes it has 791,427 parameters
    beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        features: see `FavorAttention`, as for the two that follow.
        num_features: of the random features.
        redraw: whether training draws them anew.
        **kwargs: see `TransformerStack`.

    Call arguments and returns: see `BATEncoder`.

    Reference:
        Choromanski et al., Rethinking attention with Performers, 2021. The authors'
        layer ignores the mask and draws features anew at every call; here padding has
        no weight, and the features stay.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model=128,
        *,
        features="relu",
        num_features=128,
        redraw=False,
        **kwargs,
    ):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.features = features
        self.num_features = num_features
        self.redraw = redraw
        attention = partial(
            FavorAttention,
            self.num_heads,
            features=features,
            num_features=num_features,
            redraw=redraw,
        )
        self.stack(TransformerBlock, {"attention": attention})
