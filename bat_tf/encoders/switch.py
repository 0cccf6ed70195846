"""The Switch Transformer: fifty feed-forward networks, one of them for each token."""

import math
from functools import partial

import keras
from keras import ops

from bat_tf._internal.replicas import needs_whole_batch
from bat_tf._internal.validation import check_number
from bat_tf.encoders.stacked import TransformerStack
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers.block import WeightedLayer, in_float32, real_tokens


def capacity_of(tokens, num_experts, factor):
    """⌈factor · tokens / experts⌉, at least 1; of a number or of a tensor.

    >>> capacity_of(8, 3, 1)
    3
    """
    if isinstance(tokens, int):
        return max(1, math.ceil(factor * tokens / num_experts))
    share = factor * ops.cast(tokens, "float32") / num_experts
    return ops.maximum(ops.cast(ops.ceil(share), "int32"), 1)


def route(logits, valid, capacity):
    """Sends each token to the expert it likes best, first come, first served.

    Args:
        logits: of the router, float32 [N, E].
        valid: bool [N]; other tokens are padding and go nowhere.
        capacity: how many tokens an expert takes.

    Returns:
        Dict of `expert` [N], `place` [N] among the tokens of that expert, `kept` [N],
        `gate` [N], 0 for what is not kept, and the scalar `balance`: E Σ f_e P_e, with
        f_e the share of the tokens that like e best and P_e its mean probability.
    """
    num_experts = logits.shape[-1]
    probabilities = ops.softmax(logits, axis=-1)
    expert = ops.argmax(logits, axis=-1)
    real = ops.cast(valid, "int32")
    chosen = ops.one_hot(expert, num_experts, dtype="int32") * real[:, None]
    place = ops.take_along_axis(ops.cumsum(chosen, axis=0), expert[:, None], axis=1)
    place = place[:, 0] - 1
    kept = ops.logical_and(valid, place < capacity)
    gate = ops.where(kept, ops.max(probabilities, axis=-1, initial=0.0), 0.0)
    total = ops.cast(ops.maximum(ops.sum(real), 1), logits.dtype)
    share = ops.cast(ops.sum(chosen, axis=0), logits.dtype) / total
    mean = ops.sum(ops.where(valid[:, None], probabilities, 0.0), axis=0) / total
    balance = num_experts * ops.sum(share * mean)
    return {
        "expert": expert,
        "place": place,
        "kept": kept,
        "gate": gate,
        "balance": balance,
    }


def move_rows(x, source, target):
    """Row i of the result is row source[i] - 1 of x, or zeros for source[i] = 0.

    No row goes to two places: the gradient is the way back, given by `target`, and is
    a gather as well, where TensorFlow would derive a scatter.
    """

    def gather(rows, index):
        nothing = ops.zeros((1, rows.shape[-1]), rows.dtype)
        return ops.take(ops.concatenate([nothing, rows], axis=0), index, axis=0)

    @ops.custom_gradient
    def forward(rows):
        return gather(rows, source), lambda upstream: gather(upstream, target)

    return forward(x)


@keras.saving.register_keras_serializable(package="bat_tf")
class SwitchFeedForward(WeightedLayer):
    """y = p_e(x) · FFN_e(x) with the expert e that the router likes best.

    An expert takes ⌈factor · tokens / experts⌉ tokens of a batch; those that come later
    get y = 0, which leaves them their residual. In training, `balance_weight` times
    E Σ f_e P_e joins the loss, so that tokens spread over the experts.

    Padding: goes to no expert, and counts neither for the capacity nor in the loss.

    Args:
        d_ff: width of the hidden layer of an expert.
        num_experts: how many experts there are.
        capacity_factor: 1 has room for all tokens if they spread evenly.
        inference_capacity_factor: the same outside training; None: no other. With a
            small one, what a text gets depends on the texts beside it.
        balance_weight: α of the loss that spreads the tokens.
        **kwargs: see `WeightedLayer`.

    Call arguments: see `MultiHeadSelfAttention`.
    """

    def __init__(
        self,
        d_ff,
        *,
        num_experts=50,
        capacity_factor=1.0,
        inference_capacity_factor=None,
        balance_weight=0.01,
        **kwargs,
    ):
        super().__init__(**kwargs)
        needs_whole_batch(
            "The Switch Transformer",
            "which tokens an expert takes depends on the whole batch",
            "Train it in one process, or choose another encoder.",
        )
        self.d_ff = d_ff
        self.num_experts = check_number("num_experts", num_experts, 1, integer=True)
        self.capacity_factor = check_number("capacity_factor", capacity_factor, 0)
        if inference_capacity_factor is not None:
            check_number("inference_capacity_factor", inference_capacity_factor, 0)
        self.inference_capacity_factor = inference_capacity_factor
        self.balance_weight = check_number("balance_weight", balance_weight, 0)

    def build(self, shape):
        width, number = shape[-1], self.num_experts
        # In float32: half precision would send tokens to experts at random.
        self.router = self.dense(
            "router", width, number, dtype=in_float32(self.dtype_policy)
        )
        sizes = {"hidden": (width, self.d_ff), "output": (self.d_ff, width)}
        for name, (rows, columns) in sizes.items():
            kernel = self.add_kernel(f"{name}_kernel", (number, rows, columns), number)
            bias = self.add_bias(f"{name}_bias", (number, 1, columns))
            setattr(self, f"{name}_weights", (kernel, bias))

    def call(self, x, padding_mask=None, mask=None, training=None):
        factor = self.capacity_factor
        if not training and self.inference_capacity_factor is not None:
            factor = self.inference_capacity_factor
        batch, length, width = ops.shape(x)
        tokens = ops.reshape(x, (-1, width))
        valid = ops.reshape(real_tokens(x, padding_mask, mask), (-1,))
        # Shapes follow from all tokens, padding included; what is kept from real ones.
        room = capacity_of(batch * length, self.num_experts, factor)
        count = ops.sum(ops.cast(valid, "int32"))
        capacity = ops.minimum(capacity_of(count, self.num_experts, factor), room)
        routed = route(self.router(tokens), valid, capacity)
        if training and self.balance_weight:
            self.add_loss(self.balance_weight * routed["balance"])
        slot = ops.cast(routed["expert"], "int32") * room + routed["place"] + 1
        slot = ops.where(routed["kept"], slot, 0)
        numbers = ops.arange(1, batch * length + 1, dtype="int32")
        slots = self.num_experts * room + 1
        token = ops.scatter(slot[:, None], numbers, (slots,))[1:]
        inside = move_rows(tokens, token, slot)
        inside = ops.reshape(inside, (self.num_experts, room, width))
        kernel, bias = self.hidden_weights
        hidden = ops.relu(ops.add(ops.matmul(inside, kernel), bias))
        kernel, bias = self.output_weights
        outside = ops.add(ops.matmul(hidden, kernel), bias)
        outside = ops.reshape(outside, (-1, width))
        y = move_rows(outside, slot, token)
        y = y * ops.cast(routed["gate"], y.dtype)[:, None]
        return ops.reshape(y, (batch, length, width))


@keras.saving.register_keras_serializable(package="bat_tf")
class SwitchEncoder(TransformerStack):
    """Embeddings and positions → Transformer blocks with experts.

    With the paper's sizes, 50 experts and a linear layer of 3 classes it has 26,634,827
    parameters beside the embeddings, of which a token meets 794,000 or so.

    Args:
        vocabulary_size: number of token ids.
        d_model: width of the states.
        num_experts: experts of a block.
        capacity_factor: see `SwitchFeedForward`, as for the two that follow.
        inference_capacity_factor: outside training.
        balance_weight: of the loss that spreads the tokens.
        **kwargs: see `TransformerStack`.

    Call arguments and returns: see `BATEncoder`.

    Reference:
        Fedus et al., Switch Transformers, 2021. BAT's paper says "C=1", which is read
        as the capacity factor.
    """

    def __init__(
        self,
        vocabulary_size,
        d_model=128,
        *,
        num_experts=50,
        capacity_factor=1.0,
        inference_capacity_factor=None,
        balance_weight=0.01,
        **kwargs,
    ):
        super().__init__(vocabulary_size, d_model, **kwargs)
        self.num_experts = num_experts
        self.capacity_factor = capacity_factor
        self.inference_capacity_factor = inference_capacity_factor
        self.balance_weight = balance_weight
        experts = partial(
            SwitchFeedForward,
            self.d_ff,
            num_experts=num_experts,
            capacity_factor=capacity_factor,
            inference_capacity_factor=inference_capacity_factor,
            balance_weight=balance_weight,
        )
        self.stack(TransformerBlock, {"feed_forward": experts})
