"""Every label looks at a text with its own attention; ME-XML's experts on words.

With states h_i, a row w_j for each label and one MLP (K, b, v, c) for all of them:

    α_ji = softmax_i(h_i · w_j)   e_j = Σ_i α_ji h_i   logit_j = v · relu(e_j K + b) + c

Written down as it stands, [B, L, T] weights and [B, L, D] states exist for L labels.
Three things keep memory where it is as L grows:

* K goes first: e_j K = Σ_i α_ji (h_i K). The states [B, L, D] are never needed, and
  a product of [D, d_ff] for each label becomes one of [T, d_ff].
* Labels pass in chunks, one after the other, and only logits are kept.
* The gradient walks over the chunks once more and computes them again. A chunk writes
  the gradient of its own rows into one tensor of the size of the weights.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bat_tf._internal.keras_private import in_xla
from bat_tf._internal.numerics import LARGE_NEGATIVE, at_least_float32
from bat_tf._internal.validation import check_number, sentence
from bat_tf.heads.head import Head, chosen_labels, states_mask
from bat_tf.layers.block import MaskedLayer, on_tokens, real_tokens

MEBIBYTE = 2**20


@keras.saving.register_keras_serializable(package="bat_tf")
class LabelAttention(MaskedLayer):
    """Label-to-word attention: a logit for each label, from the words that concern it.

    Memory beyond weights, their gradient and the logits does not grow with the number
    of labels. No gradient of the gradient.

    Padding: masked tokens take no part. A text without tokens has e_j = 0, and nothing
    is learnt from it.

    Args:
        num_labels: L.
        d_ff: width of the MLP's hidden layer. AttentionXML has 256, ME-XML says none.
        memory_mib: what one chunk of labels may take, in MiB. A batch of more or longer
            texts has fewer labels in a chunk, but never less than one.

    Call arguments:
        x: states [B, T, D].
        padding_mask: bool [B, T]; wins over Keras' mask. Without either there is no
            padding. The logits have no mask.
        labels: optional label ids [C]; only these are scored.

    Returns:
        Logits [B, L], or [B, C] for `labels`.

    Example:
        >>> import numpy as np
        >>> layer = LabelAttention(1000)
        >>> states, mask = np.ones((2, 5, 8)), np.ones((2, 5), bool)
        >>> layer(states, mask).shape
        TensorShape([2, 1000])
        >>> layer(states, mask, labels=np.array([3, 999])).shape
        TensorShape([2, 2])

    Reference:
        ME-XML; AttentionXML, You et al. 2019. Unlike ME-XML's formula, the softmax is
        over real tokens alone.
    """

    def __init__(self, num_labels, d_ff=256, memory_mib=64, **kwargs):
        super().__init__(**kwargs)
        self.num_labels = check_number("num_labels", num_labels, low=1, integer=True)
        self.d_ff = check_number("d_ff", d_ff, low=1, integer=True)
        self.memory_mib = check_number("memory_mib", memory_mib, low=0)

    def build(self, shape):
        width = shape[-1]

        def weight(name, *shape):
            initializer = "zeros" if name.endswith("bias") else "glorot_uniform"
            # Cast a chunk at a time: no copy of all rows in half precision.
            return self.add_weight(
                name=name, shape=shape, initializer=initializer, autocast=False
            )

        self.label_kernel = weight("label_kernel", self.num_labels, width)
        self.hidden_kernel = weight("hidden_kernel", width, self.d_ff)
        self.hidden_bias = weight("hidden_bias", self.d_ff)
        self.output_kernel = weight("output_kernel", self.d_ff, 1)
        self.output_bias = weight("output_bias", 1)

    def call(self, x, padding_mask=None, labels=None, mask=None, x_mask=None):
        # Keras calls its mask `x_mask` where `labels` are a second tensor.
        mask = x_mask if mask is None else mask
        padding_mask = real_tokens(x, padding_mask, mask)
        states, projected = self._prepare(x, padding_mask)
        bias = at_least_float32(self.hidden_bias.value)
        kernel = at_least_float32(self.output_kernel.value)[:, 0]
        rows = tf.convert_to_tensor(self.label_kernel.value)
        if labels is not None:
            rows = tf.gather(rows, self._check_labels(labels))
        budget = int(self.memory_mib * MEBIBYTE)
        logits = _all_labels(
            states, projected, padding_mask, rows, bias, kernel, budget
        )
        logits = logits + ops.cast(self.output_bias, logits.dtype)
        learns = ops.any(padding_mask, axis=1, keepdims=True)
        logits = ops.where(learns, logits, ops.stop_gradient(logits))
        return ops.cast(logits, self.compute_dtype)

    def compute_mask(self, inputs, previous_mask):
        return None

    def compute_output_shape(self, x_shape, labels_shape=None):
        return (x_shape[0], *(labels_shape or (self.num_labels,)))

    def attention(self, states, padding_mask, labels):
        """What each word counts for the given labels: α, to look at.

        Args:
            states: [B, T, D].
            padding_mask: bool [B, T].
            labels: label ids [C].

        Returns:
            [B, C, T]; each row adds up to 1 over the text's tokens, or is 0 throughout
            where there are none.
        """
        padding_mask = ops.convert_to_tensor(padding_mask)
        states = ops.cast(states, self.compute_dtype)
        states, _ = self._prepare(states, padding_mask)
        rows = ops.take(self.label_kernel, self._check_labels(labels), axis=0)
        weights = _attend(states, padding_mask, ops.cast(rows, states.dtype))
        return ops.swapaxes(weights, 1, 2)

    def _prepare(self, states, padding_mask):
        """States with 0 in padding, and their product with the MLP's first kernel."""
        states = ops.where(padding_mask[..., None], states, ops.zeros_like(states))
        kernel = ops.cast(self.hidden_kernel, states.dtype)
        return states, on_tokens(lambda rows: ops.matmul(rows, kernel), states)

    def _check_labels(self, labels):
        labels = ops.convert_to_tensor(labels)
        if len(labels.shape) != 1 or not tf.as_dtype(labels.dtype).is_integer:
            raise ValueError(sentence("labels", "label ids [C], integers", labels))
        labels = ops.cast(labels, "int32")
        wrong = (labels < 0) | (labels >= self.num_labels)
        expected = f"label ids below {self.num_labels}"
        if not tf.executing_eagerly():
            # XLA leaves this out; the last label then stands in for those beyond it.
            said = f"`labels` must be {expected}. Received:"
            right = tf.debugging.Assert(~tf.reduce_any(wrong), [said, labels])
            with tf.control_dependencies([right]):
                return tf.identity(labels)
        if tf.reduce_any(wrong):
            received = tf.boolean_mask(labels, wrong)[0].numpy().item()
            raise ValueError(sentence("labels", expected, received))
        return labels


def _scores(states, rows):
    """Products [B, T, C] with rows [C, D], as one of two matrices."""
    flat = tf.reshape(states, (-1, rows.shape[-1]))
    scores = tf.matmul(flat, rows, transpose_b=True)
    batch, length, _ = ops.shape(states)
    return tf.reshape(scores, (batch, length, ops.shape(rows)[0]))


def _attend(states, padding_mask, rows):
    """α [B, T, C]: the softmax over each text's tokens, at least float32."""
    scores = at_least_float32(_scores(states, rows))
    if states.dtype == tf.float16:
        # Beyond float16 is inf, and inf - inf is no number.
        scores = tf.clip_by_value(scores, tf.float16.min, tf.float16.max)
    real = padding_mask[..., None]
    scores = tf.where(real, scores, tf.constant(LARGE_NEGATIVE, scores.dtype))
    top = tf.stop_gradient(tf.reduce_max(scores, axis=1, keepdims=True))
    powers = tf.where(real, tf.exp(scores - top), tf.zeros((), scores.dtype))
    return tf.math.divide_no_nan(powers, tf.reduce_sum(powers, axis=1, keepdims=True))


def _hidden(weights, projected, bias):
    """relu(e K + b) [B, C, d_ff], with e K = Σ α (h K)."""
    hidden = tf.matmul(tf.cast(weights, projected.dtype), projected, transpose_a=True)
    return tf.nn.relu(tf.cast(hidden, bias.dtype) + bias)


def _score(hidden, kernel):
    """Hidden layer · v [B, C]."""
    return tf.linalg.matvec(hidden, kernel)


def _all_labels(states, projected, padding_mask, rows, bias, kernel, budget):
    """Logits [B, L] without c, chunk by chunk, forward and backward.

    Args:
        states: h [B, T, D].
        projected: h K [B, T, d_ff].
        padding_mask: bool [B, T].
        rows: w [L, D].
        bias: b [d_ff].
        kernel: v [d_ff].
        budget: bytes that a chunk may take.
    """
    wide, narrow = bias.dtype, states.dtype
    total, width = rows.shape
    batch, length, _ = ops.shape(states)
    size = chunk_size(total, batch, length, width, bias.shape[0], wide.size, budget)
    size = size if isinstance(size, int) else tf.cast(size, "int32")

    def chunk_of(number, states, projected, rows, bias):
        """Where the chunk starts, its rows, weights and hidden layer."""
        # The last chunk reaches back, so that all are of one size.
        start = tf.minimum(number * size, total - size)
        own = tf.cast(tf.slice(rows, (start, 0), (size, width)), narrow)
        weights = _attend(states, padding_mask, own)
        return start, own, weights, _hidden(weights, projected, bias)

    count = -(-total // size)

    def repeat(step, *totals):
        # One chunk at a time: a loop may otherwise begin ten at once.
        return tf.while_loop(
            lambda number, *_: number < count,
            lambda number, *totals: (number + 1, *step(number, *totals)),
            (0, *totals),
            parallel_iterations=1,
        )[1:]

    @tf.custom_gradient
    def forward(states, projected, rows, bias, kernel):
        inputs = states, projected, rows, bias

        def step(number, logits):
            *_, hidden = chunk_of(number, *inputs)
            return (logits.write(number, _score(hidden, kernel)),)

        def gradient(upstream):
            return backward(tf.convert_to_tensor(upstream), inputs, kernel)

        shape = states.shape[0], size if isinstance(size, int) else None
        (logits,) = repeat(step, tf.TensorArray(wide, count, element_shape=shape))
        logits = tf.transpose(logits.stack(), (1, 0, 2))
        logits = tf.reshape(logits, (batch, count * size))
        # The last chunk's own labels are at its end.
        before = (count - 1) * size
        parts = logits[:, :before], logits[:, before + count * size - total :]
        return tf.ensure_shape(tf.concat(parts, axis=1), (None, total)), gradient

    def backward(upstream, inputs, kernel):
        states, projected, rows, bias = inputs
        flat_states = tf.reshape(states, (-1, width))

        def step(number, d_states, d_projected, d_rows, d_bias, d_kernel):
            start, own, weights, hidden = chunk_of(number, *inputs)
            places = start + tf.range(size)
            up = tf.slice(upstream, (0, start), (batch, size))
            # What the last chunk reaches back to has been counted.
            up = tf.where(places < number * size, tf.zeros((), wide), up)
            d_kernel += tf.reduce_sum(up[..., None] * hidden, axis=(0, 1))
            d_hidden = tf.where(hidden > 0, up[..., None] * kernel, 0)
            d_bias += tf.reduce_sum(d_hidden, axis=(0, 1))
            d_hidden = tf.cast(d_hidden, narrow)
            d_weights = tf.matmul(projected, d_hidden, transpose_b=True)
            d_weights = tf.cast(d_weights, wide)
            d_own = tf.matmul(tf.cast(weights, narrow), d_hidden)
            d_projected += tf.cast(d_own, wide)
            along = tf.reduce_sum(weights * d_weights, axis=1, keepdims=True)
            d_scores = tf.cast(weights * (d_weights - along), narrow)
            d_scores = tf.reshape(d_scores, (batch * length, size))
            d_own = tf.matmul(d_scores, flat_states, transpose_a=True)
            d_rows = _add_in_place(d_rows, places, tf.cast(d_own, d_rows.dtype))
            d_states += tf.cast(tf.matmul(d_scores, own), wide)
            return d_states, d_projected, d_rows, d_bias, d_kernel

        totals = repeat(
            step,
            tf.zeros((batch * length, width), wide),
            tf.zeros((batch, length, bias.shape[0]), wide),
            _zeros_to_fill(rows.shape, rows.dtype),
            tf.zeros(bias.shape, wide),
            tf.zeros(kernel.shape, wide),
        )
        d_states = tf.reshape(totals[0], (batch, length, width))
        return tf.cast(d_states, narrow), tf.cast(totals[1], narrow), *totals[2:]

    return forward(states, projected, rows, bias, kernel)


def _zeros_to_fill(shape, dtype):
    """Zeros for `_add_in_place`, made anew in every step."""
    if in_xla():
        return tf.zeros(shape, dtype)
    # `tf.zeros` may be folded to a constant, which would then be written to.
    return tf.raw_ops.Empty(shape=shape, dtype=dtype, init=True)


def _add_in_place(x, places, rows):
    """Adds `rows` to those of `x` at `places`, without a copy of `x`.

    Inside a loop, TensorFlow's scatter copies all of `x` each time; XLA's does not, and
    it has no other.
    """
    if in_xla():
        return tf.tensor_scatter_nd_add(x, places[:, None], rows)
    return tf.raw_ops.InplaceAdd(x=x, i=places, v=rows)


def chunk_size(num_labels, batch, length, width, d_ff, item_size, budget):
    """Labels in a chunk, as even as it can be; at least 1.

    Args:
        num_labels: L.
        batch: B, as a number or a tensor.
        length: T, as a number or a tensor.
        width: D.
        d_ff: width of the hidden layer.
        item_size: bytes of a number.
        budget: bytes that a chunk may take.
    """
    texts = [x if isinstance(x, int) else tf.cast(x, "int64") for x in (batch, length)]
    # In the backward pass, which holds more: weights and scores with their gradients,
    # the hidden layer with its, and the label's row with its.
    numbers = 5 * texts[0] * texts[1] + 3 * texts[0] * d_ff + 3 * width
    count = -(-num_labels * numbers * item_size // max(budget, 1))
    return -(-num_labels // count)


@keras.saving.register_keras_serializable(package="bat_tf")
class AttentionHead(Head):
    """Label-to-word attention on layers of an encoder, as ME-XML's experts A-m.

    Args:
        num_labels: L.
        layers: which states it reads, side by side.
        d_ff: see `LabelAttention`.
        memory_mib: see `LabelAttention`.

    Call arguments: see `Head`.

    Returns:
        Logits [B, L], or of the `candidates` among the inputs.

    Reference:
        ME-XML: A-1 is `layers=[1]`.
    """

    def __init__(self, num_labels, *, layers=(1,), d_ff=256, memory_mib=64, **kwargs):
        super().__init__(layers, **kwargs)
        self.num_labels = num_labels
        self.d_ff = d_ff
        self.memory_mib = memory_mib
        self.attention = LabelAttention(
            num_labels, d_ff, memory_mib, name="attention", dtype=self.dtype_policy
        )

    def build(self, states_shape, inputs_shape=None):
        self.attention.build(self.read_shape(states_shape))
        super().build(states_shape)

    def call(self, states, inputs, training=None):
        mask, labels = states_mask(inputs), chosen_labels(inputs)
        return self.attention(self.read(states), mask, labels=labels)

    def start_from_counts(self, labels):
        """Begins at how frequent a label is on average; labels share their bias."""
        share = labels.counts.mean() / labels.num_examples
        self.attention.output_bias.assign([np.log(share / (1 - share))])
