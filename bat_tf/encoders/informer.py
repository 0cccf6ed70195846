"""The Informer: attention for the queries that have something to choose from."""

import math
from functools import partial

import keras
from keras import ops

from bat_tf._internal.numerics import LARGE_NEGATIVE, at_least_float32
from bat_tf._internal.validation import check_number
from bat_tf.encoders.stacked import TransformerStack
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.attention import MultiHeadSelfAttention, attend, padding_bias
from bat_tf.layers.normalization import LayerNorm


def sample_count(length, factor):
    """min(c ⌈ln T⌉, T), and 1 for a single token; of a number or of a tensor.

    >>> sample_count(100, 5), sample_count(5, 5), sample_count(1, 5)
    (25, 5, 1)
    """
    if isinstance(length, int):
        return max(1, min(factor * math.ceil(math.log(max(length, 1))), length))
    logarithm = ops.log(ops.cast(ops.maximum(length, 1), "float32"))
    count = factor * ops.cast(ops.ceil(logarithm), "int32")
    return ops.maximum(ops.minimum(count, length), 1)


def random_grid(rows, columns, seed):
    """Numbers in [0, 1) that depend on seed, row and column alone: [rows, columns].

    A generator would fill a larger grid with other numbers: more padding would draw
    other keys. This is a hash of the place.

    Args:
        rows: how many rows.
        columns: how many columns.
        seed: two integers.
    """

    def mixed(x):
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):
            x = ops.bitwise_xor(x, ops.right_shift(x, ops.cast(shift, "uint32")))
            x = x * ops.cast(factor, "uint32")
        return x

    seed = ops.cast(seed, "uint32")
    row = mixed(ops.cast(ops.arange(rows), "uint32") + seed[0])
    place = ops.bitwise_xor(row[:, None], seed[1])
    place = mixed(place + ops.cast(ops.arange(columns), "uint32")[None, :])
    # 24 bits are what a float32 holds; 32 could be rounded up to 1.
    place = ops.right_shift(place, ops.cast(8, "uint32"))
    return ops.cast(place, "float32") * 2.0**-24


def sparsity(query, key, sample, counted, lengths):
    """M = max_s(q·k_s) - Σ_s q·k_s / T over the sampled keys: [B, heads, T].

    Sample after sample: all at once would take as many copies of the keys.

    Args:
        query: [B, heads, T, depth].
        key: [B, heads, T, depth].
        sample: which keys each query looks at, int [B, T, U].
        counted: which of them count, bool [B, T, U].
        lengths: number of real tokens [B].
    """
    # Nothing but a choice of queries depends on M, and a choice has no gradient.
    parts = (ops.stop_gradient(at_least_float32(part)) for part in (query, key))
    query, key = (ops.transpose(part, (0, 2, 1, 3)) for part in parts)
    batch, length, heads, depth = ops.shape(query)
    rows = ops.reshape(key, (batch * length, heads * depth))
    sample = sample + (ops.arange(batch) * length)[:, None, None]

    def look(number, found):
        largest, total = found
        index = ops.take(sample, number, axis=-1)
        keys = ops.reshape(ops.take(rows, index, axis=0), ops.shape(query))
        logits = ops.sum(query * keys, axis=-1)
        counts = ops.take(counted, number, axis=-1)[..., None]
        largest = ops.maximum(largest, ops.where(counts, logits, LARGE_NEGATIVE))
        return largest, total + ops.where(counts, logits, 0.0)

    start = ops.zeros((batch, length, heads), query.dtype)
    largest, total = ops.fori_loop(
        0, ops.shape(sample)[-1], look, (start + LARGE_NEGATIVE, start)
    )
    lengths = ops.cast(ops.maximum(lengths, 1), total.dtype)
    measure = largest - total / lengths[:, None, None]
    return ops.transpose(measure, (0, 2, 1))


def attend_actively(query, key, value, padding_mask, measure, active, most, scale):
    """softmax(q kᵀ · scale) v for the active queries, the mean of v for the others.

    Args:
        query: [B, heads, T, depth].
        key: [B, heads, T, depth].
        value: [B, heads, T, depth].
        padding_mask: bool [B, T].
        measure: what `sparsity` returns; the largest are active.
        active: how many queries of a text are active, int [B].
        most: the largest number that `active` may have.
        scale: of the logits.
    """
    real = padding_mask[:, None, :]
    _, chosen = ops.top_k(ops.where(real, measure, LARGE_NEGATIVE), most)
    counted = ops.arange(most) < active[:, None, None]
    # Rows of 0 and one 1: to gather and to scatter are products with them, so that
    # their gradients are products, too.
    select = ops.one_hot(chosen, ops.shape(query)[2], dtype=query.dtype)
    select = ops.where(counted[..., None], select, 0.0)
    bias = padding_bias(padding_mask, query.dtype)
    mixed = attend(ops.matmul(select, query), key, value, bias, scale)
    weight = ops.cast(real[..., None], "float32")
    mean = ops.sum(at_least_float32(value) * weight, axis=2, keepdims=True)
    mean = mean / ops.maximum(ops.sum(weight, axis=2, keepdims=True), 1.0)
    rest = 1.0 - ops.sum(select, axis=2)[..., None]
    mixed = ops.matmul(ops.swapaxes(select, -1, -2), mixed)
    return mixed + rest * ops.cast(mean, mixed.dtype)


@keras.saving.register_keras_serializable(package="bat_tf")
class ProbSparseAttention(MultiHeadSelfAttention):
    """Full attention for the c ⌈ln T⌉ queries that need it, the mean for the others.

    Which queries these are is guessed from c ⌈ln T⌉ sampled keys each: those for which
    one key stands out. With as many as there are tokens it is full attention.

    Padding: T is the number of real tokens of a text; padding is neither sampled nor
    active, and is in no mean and no softmax.

    Randomness: training draws other keys at every step, inference always the same.

    Args:
        num_heads: number of heads; divides the width of the input.
        factor: c.

    Call arguments: see `MultiHeadSelfAttention`.
    """

    def __init__(self, num_heads, *, factor=5, **kwargs):
        super().__init__(num_heads, **kwargs)
        self.factor = check_number("factor", factor, low=1, integer=True)
        self.seed_generator = keras.random.SeedGenerator()

    def mix(self, query, key, value, padding_mask, training):
        """What the active queries and the others take from the values."""
        lengths = ops.sum(ops.cast(padding_mask, "int32"), axis=-1)
        counts = sample_count(lengths, self.factor)
        most = sample_count(ops.shape(query)[2], self.factor)
        seed = self.seed_generator.next() if training else (0, 0)
        draw = random_grid(ops.shape(query)[2], most, seed)
        lengths_of = ops.cast(lengths, "float32")[:, None, None]
        sample = ops.cast(ops.floor(draw * lengths_of), "int32")
        counted = ops.arange(most) < counts[:, None, None]
        counted = ops.broadcast_to(counted, ops.shape(sample))
        measure = sparsity(query, key, sample, counted, lengths)
        return attend_actively(
            query, key, value, padding_mask, measure, counts, most, self._factor
        )


@keras.saving.register_keras_serializable(package="bat_tf")
class InformerEncoder(TransformerStack):
    """Embeddings and positions → blocks with ProbSparse attention → LN.

    The Informer's distilling, which halves the length after each block, is left out: a
    tagger needs a state for every token.

    With the paper's sizes and a linear layer of 3 classes it has 793,731 parameters
    beside the embeddings.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        factor: c of the c ⌈ln T⌉ active queries and sampled keys.
        **kwargs: see `TransformerStack`.

    Call arguments and returns: see `BATEncoder`. The LN is part of the last state.

    Reference:
        Zhou et al., Informer: beyond efficient Transformer for long sequence
        time-series forecasting, 2021.
    """

    def __init__(self, vocabulary_size, d_model=128, *, factor=5, **kwargs):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.factor = factor
        attention = partial(ProbSparseAttention, self.num_heads, factor=factor)
        self.stack(TransformerBlock, {"attention": attention}, activation="gelu")
        self.final_norm = LayerNorm(name="final_norm", dtype=self.dtype_policy)

    def build(self, shape):
        super().build(shape)
        self.final_norm.build((None, None, self.d_model))

    def call(self, inputs, training=None):
        *states, last = super().call(inputs, training)
        return [*states, self.final_norm(last)]
