"""The layers in anyone's Keras model: what Keras' own layers can do, ours can."""

import subprocess
import sys
import textwrap
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_cases import mask, states

from bat_tf.encoders.admin import AdminBlock
from bat_tf.encoders.bat import BATBlock
from bat_tf.encoders.cnn import Convolutions
from bat_tf.encoders.informer import ProbSparseAttention
from bat_tf.encoders.muse import MuseAttention
from bat_tf.encoders.performer import FavorAttention
from bat_tf.encoders.switch import SwitchFeedForward
from bat_tf.encoders.transformer import TransformerBlock
from bat_tf.layers import (
    AttentionTournament,
    FeedForwardTournament,
    LayerNorm,
    MultiFeatureSelfAttention,
    MultiHeadSelfAttention,
    Pooling,
)
from bat_tf.layers.block import InParts
from bat_tf.losses import PBP, TagLoss

# name → a function that makes the layer; all keep the width of 8.
BLOCKS = {
    "attention": lambda **kw: MultiHeadSelfAttention(2, **kw),
    "mfsa": lambda **kw: MultiFeatureSelfAttention(2, **kw),
    "ats": lambda **kw: AttentionTournament(2, **kw),
    "ats-pre": lambda **kw: AttentionTournament(2, norm="pre", **kw),
    "ffts": lambda **kw: FeedForwardTournament(16, **kw),
    "ffts-pre": lambda **kw: FeedForwardTournament(16, norm="pre", **kw),
    "transformer": lambda **kw: TransformerBlock(2, 16, **kw),
    "convolutions": lambda **kw: Convolutions(4, (1, 3), **kw),
    "bat": lambda **kw: BATBlock(2, 16, **kw),
    "admin": lambda **kw: AdminBlock(2, 16, **kw),
    "muse": lambda **kw: MuseAttention(2, **kw),
    "performer": lambda **kw: FavorAttention(2, **kw),
    "informer": lambda **kw: ProbSparseAttention(2, **kw),
    "switch": lambda **kw: SwitchFeedForward(16, num_experts=2, **kw),
}
LAYERS = {
    **BLOCKS,
    "norm": lambda **kw: LayerNorm(**kw),
}
blocks = pytest.mark.parametrize("name", BLOCKS)
layers = pytest.mark.parametrize("name", LAYERS)
# XLA and training once for the pair that the paper has, elsewhere for each alone.
IDS = np.array([[3, 4, 5, 6, 0], [7, 8, 0, 0, 0], [1, 2, 3, 0, 0]])
TAGS = np.where(IDS > 0, IDS % 3, 0)  # padded with 0, as a stock pipeline does


def tagger(*middle, policy=None):
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.layers.Embedding(10, 8, mask_zero=True, dtype=policy),
            *middle,
            keras.layers.Dense(3, dtype="float32"),
        ]
    )


@pytest.mark.parametrize(
    ("policy", "jit_compile"),
    [
        ("float32", False),
        ("float32", True),
        pytest.param("mixed_float16", True, marks=pytest.mark.slow),
        pytest.param("mixed_bfloat16", False, marks=pytest.mark.slow),
    ],
)
def test_a_sequential_model_learns(policy, jit_compile):
    model = tagger(
        AttentionTournament(2, dtype=policy),
        FeedForwardTournament(16, dtype=policy),
        policy=policy,
    )
    loss = PBP(class_counts=[5, 3, 2])
    model.compile(keras.optimizers.Adam(0.03), loss, jit_compile=jit_compile)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # "destroys the mask"
        history = model.fit(IDS, TAGS, epochs=8, verbose=0).history["loss"]
    assert np.isfinite(history).all() and history[-1] < history[0]
    assert model.jit_compile is jit_compile
    # What is padded with 0 does not count.
    expected = PBP(class_counts=[5, 3, 2])(np.where(IDS > 0, TAGS, -1), model(IDS))
    found = model.evaluate(IDS, TAGS, verbose=0)
    assert found == pytest.approx(float(expected), rel=2e-2)


@layers
def test_no_mask_is_no_padding(name):
    layer, x = LAYERS[name](), states(2, 5, 8)
    np.testing.assert_array_equal(layer(x), layer(x, np.ones((2, 5), bool)))
    assert keras_mask(layer(x)) is None


def keras_mask(x):
    return getattr(x, "_keras_mask", None)


@layers
def test_keras_mask_is_honoured_and_passed_on(name):
    layer, x, real = LAYERS[name](), states(2, 5, 8), mask(5, 3)
    expected = np.array(layer(x, real))
    masked = keras.layers.Masking()(x * real[..., None])
    assert keras_mask(masked) is not None
    found = layer(masked)
    np.testing.assert_allclose(found[real], expected[real], atol=1e-6)
    np.testing.assert_array_equal(keras_mask(found), real)


@layers
@pytest.mark.parametrize("symbolic", [False, True])
def test_an_explicit_mask_wins_and_reaches_a_stock_loss(name, symbolic):
    layer, real, other = LAYERS[name](), mask(5, 3), mask(5, 2)
    x = states(2, 5, 8) * other[..., None]
    x[1, 2] = 0  # Keras' own mask says 2 tokens, the explicit one 3
    stock = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if symbolic:
        inputs = keras.Input((None, 8)), keras.Input((None,), dtype="bool")
        y = layer(keras.layers.Masking()(inputs[0]), padding_mask=inputs[1])
        # The layer that follows, and its node in the graph, have it, too.
        y = FeedForwardTournament(16)(y)
        model = keras.Model(inputs, y)
        found = model([x, real])
    else:
        found = layer(keras.layers.Masking()(x), padding_mask=real)
    np.testing.assert_array_equal(keras_mask(found), real)
    tags = np.array([[0, 1, 2, 3, 4], [5, 6, 7, 0, 0]])
    expected = stock(tags[real], np.array(found)[real])
    assert float(stock(tags, found)) == pytest.approx(float(expected), rel=1e-5)


@settings(max_examples=10)
@given(st.sampled_from(list(LAYERS)), st.integers(0, 99), st.integers(1, 9))
def test_padding_changes_neither_output_loss_nor_gradient(name, seed, extra):
    """Through Keras' mask and through an explicit one, whatever padding holds."""
    keras.utils.set_random_seed(seed)
    x, real = states(2, 5, 8, seed), mask(5, 3)
    tags = np.random.default_rng(seed).integers(0, 8, (2, 5))
    layer = LAYERS[name]()
    layer.build(x.shape)
    weights = [weight.value for weight in layer.trainable_weights]

    def step(x, real, tags, explicit):
        x = tf.constant(x)
        if not explicit:
            x._keras_mask = tf.constant(real)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, padding_mask=real) if explicit else layer(x)
            loss = TagLoss()(tags, y)
        *gradients, at_x = tape.gradient(loss, [*weights, x])
        return loss, y.numpy()[real], at_x.numpy()[real], *gradients

    expected = step(x, real, tags, True)
    junk = np.random.default_rng(seed).normal(size=(2, extra, 8)).astype("f4")
    x = np.concatenate([np.where(real[..., None], x, 7), junk], 1)
    real = np.pad(real, [(0, 0), (0, extra)])
    tags = np.pad(tags, [(0, 0), (0, extra)])
    for explicit in (True, False):
        found = step(x, real, tags, explicit)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


@layers
def test_texts_of_one_token_on_the_right_and_none_at_all(name):
    layer, x = LAYERS[name](), states(2, 4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # "softmax over an axis of size 1"
        alone = np.array(layer(x[:1, 3:]))
    right = np.array([[False, False, False, True], [False] * 4])
    found = np.array(layer(x, padding_mask=right))
    np.testing.assert_allclose(found[0, 3], alone[0, 0], atol=1e-5)
    assert np.isfinite(found).all()
    # A replica may be left without a row; Keras' own Conv1D fails there unless it
    # keeps the width.
    if name != "convolutions":
        assert layer(x[:0], padding_mask=right[:0]).shape == (0, 4, 8)


def test_in_a_functional_model_of_ones_own():
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(10, 8, mask_zero=True)(inputs)
    y = keras.layers.Add()([AttentionTournament(2)(x), x])
    # Keras loses masks at `+`: from here on, an explicit one takes their place.
    y = LayerNorm()(y) + FeedForwardTournament(16)(y)
    y = AttentionTournament(2)(y, padding_mask=inputs > 0)
    model = keras.Model(inputs, keras.layers.Dense(1)(Pooling("mean")(y)))
    model.compile("adam", "mse")
    assert np.isfinite(model.fit(IDS, np.ones(3), verbose=0).history["loss"]).all()
    longer = np.pad(IDS, [(0, 0), (0, 3)])
    np.testing.assert_allclose(model(longer), model(IDS), atol=1e-5)


@pytest.mark.parametrize("mode", ["first", "mean", "max", "attention", "chunks"])
def test_pooling_reads_and_consumes_keras_mask(mode):
    embedding = keras.layers.Embedding(10, 8, mask_zero=True)
    layer = Pooling(mode)
    pooled = layer(embedding(IDS))
    np.testing.assert_allclose(pooled, layer(np.array(embedding(IDS)), IDS > 0))
    assert keras_mask(pooled) is None
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(embedding(inputs)))
    assert model.output_shape == (None, *pooled.shape[1:])
    np.testing.assert_allclose(model(IDS), pooled)


@blocks
def test_regularizers_count(name):
    plain, both = (
        BLOCKS[name](**extra)
        for extra in ({}, {"kernel_regularizer": "l2", "bias_regularizer": "l1"})
    )
    x = states(2, 5, 8)
    plain(x), both(x)
    assert plain.losses == []
    own = ("norm", "shortcut", "shares")  # neither kernels nor biases
    dense = [w for w in both.trainable_weights if not any(n in w.path for n in own)]
    for weight in dense:
        weight.assign(np.ones(weight.shape))
    kernels = sum(np.size(weight) for weight in dense if weight.ndim > 1)
    biases = sum(np.size(weight) for weight in dense if weight.ndim == 1)
    total = 0.01 * (kernels + biases)
    assert float(sum(both.losses)) == pytest.approx(total, rel=1e-5)
    model = tagger(both)
    model.compile("sgd", TagLoss())
    with_them = model.evaluate(IDS, TAGS, verbose=0)
    own = float(TagLoss()(np.where(IDS > 0, TAGS, -1), model(IDS)))
    assert with_them == pytest.approx(own + total, rel=1e-4)


@blocks
def test_initializers_are_used_and_draw_each_kernel_anew(name):
    layer = BLOCKS[name](
        kernel_initializer=keras.initializers.RandomNormal(stddev=7.0),
        bias_initializer=keras.initializers.Constant(3.0),
        kernel_constraint="non_neg",
    )
    layer.build((None, None, 8))
    kernels = [w for w in layer.weights if w.name.endswith("kernel")]
    biases = [w for w in layer.weights if w.name.endswith("bias")]
    assert kernels and (biases or name == "performer")
    values = np.concatenate([np.ravel(kernel) for kernel in kernels])
    assert 5 < values.std() < 9 and len(np.unique(values)) == values.size
    assert all(np.all(np.asarray(bias.value) == 3) for bias in biases)
    assert all(kernel.constraint is not None for kernel in kernels)
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()


def test_a_kernel_in_parts_is_drawn_once():
    """Each replica of a strategy asks for it when a model is built in `fit`."""
    draw = InParts("glorot_uniform", 3, axis=1)
    kernel = np.array(draw((4, 12)))
    np.testing.assert_array_equal(draw((4, 12)), kernel)
    parts = np.split(kernel, 3, axis=1)
    assert not np.allclose(parts[0], parts[1]) and not np.allclose(parts[1], parts[2])
    assert not np.allclose(draw.clone()((4, 12)), kernel)


def test_initial_limits_are_those_of_the_paper():
    """Glorot: of [D, D] for query, key and value, of [3, D, D] for the convolution."""
    limits = {"qkv": 3 / 64, "output": 3 / 64, "conv1": 3 / 64, "conv3": 1 / 64}
    for released in (False, True):
        layer = AttentionTournament(2, released=released)
        layer.build((None, None, 64))
        if released:
            limits["conv3"] = 3 / 64  # without the width of the kernel
        for weight in layer.weights:
            parent = weight.path.split("/")[-2]
            if weight.name == "kernel":
                limit = limits[parent] ** 0.5
                assert 0.97 * limit < np.abs(weight.value).max() <= limit, parent


@layers
def test_trainable_and_policies_are_as_in_keras(name):
    layer = LAYERS[name](trainable=False, dtype="mixed_bfloat16", name="mine")
    y = layer(states(2, 5, 8))
    assert y.dtype == "bfloat16" and layer.name == "mine"
    assert not layer.trainable_weights and layer.non_trainable_weights
    assert all(weight.dtype == "float32" for weight in layer.weights)
    layer.trainable = True
    count = len(layer.trainable_weights)
    assert count == len(layer.weights) > 0
    fresh = type(layer).from_config(layer.get_config())
    assert fresh.compute_dtype == "bfloat16" and fresh.name == "mine"


@layers
def test_clones_and_summaries(name):
    model = tagger(LAYERS[name]())
    before = model(IDS)
    clone = keras.models.clone_model(model)
    clone(IDS)
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(clone(IDS), before, atol=1e-6)
    lines = []
    model.summary(print_fn=lines.append)
    assert "unbuilt" not in "\n".join(lines) and model.count_params() > 0


def in_a_fresh_process(code):
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return run.stdout


def test_reloads_in_a_fresh_process(tmp_path):
    inputs = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(10, 8, mask_zero=True)(inputs)
    for name in LAYERS:
        extra = {} if name in ("norm", "bat") else {"kernel_regularizer": "l2"}
        x = LAYERS[name](**extra)(x)
    x = FeedForwardTournament(16)(x, keras.ops.greater(inputs, 2))
    model = keras.Model(inputs, [x, Pooling("attention")(x)])
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "answer.npz", *[np.array(y) for y in model(IDS)])
    in_a_fresh_process(
        f"""
        import keras, numpy as np, bat_tf.layers, bat_tf.encoders
        model = keras.saving.load_model(r"{tmp_path}/model.keras")
        answer = np.load(r"{tmp_path}/answer.npz")
        found = model(np.array({IDS.tolist()}))
        for one, name in zip(found, answer):
            np.testing.assert_allclose(one, answer[name], atol=1e-6)
        assert len(model.losses) > 5
        """
    )


# Each kind of part once: the others are made of these.
@pytest.mark.parametrize(
    "name",
    [
        "ats",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in "attention convolutions switch ffts transformer bat".split()
        ),
    ],
)
def test_quantize_and_lora_reach_the_weights(name, tmp_path):
    model = tagger(BLOCKS[name]())
    before = np.array(model(IDS))
    dense = dense_layers(model)
    assert len(dense) > 1
    for layer in dense:
        layer.enable_lora(2)
    names = {weight.name for weight in model.trainable_weights}
    assert {"lora_kernel_a", "lora_kernel_b"} <= names
    np.testing.assert_allclose(model(IDS), before, atol=1e-6)
    model.compile("sgd", TagLoss())
    assert np.isfinite(model.fit(IDS, TAGS, verbose=0).history["loss"]).all()

    model = tagger(BLOCKS[name]())
    before = np.array(model(IDS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # layers without an int8 form
        model.quantize("int8")
    assert all(layer.kernel.dtype == "int8" for layer in dense_layers(model))
    after = np.array(model(IDS))
    assert 0 < np.abs(after - before).max() < 0.15 * np.abs(before).max()
    model.save(tmp_path / "small.keras")
    again = keras.saving.load_model(tmp_path / "small.keras")
    np.testing.assert_allclose(again(IDS), after, atol=1e-5)


def dense_layers(model):
    """Every Dense inside a model, however deep."""
    found, todo = [], list(model.layers)
    while todo:
        layer = todo.pop()
        found += [layer] * (type(layer) is keras.layers.Dense)
        todo += layer._layers
    return found


@pytest.mark.slow
def test_mirrored_replicas_see_keras_mask():
    """Two replicas with Keras' mask learn what one does."""
    out = in_a_fresh_process(
        """
        import keras, numpy as np, tensorflow as tf
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        from bat_tf.layers import AttentionTournament, FeedForwardTournament, Pooling
        from bat_tf.layers import LayerNorm, MultiFeatureSelfAttention
        from bat_tf.layers import MultiHeadSelfAttention
        from bat_tf.losses import PBP
        from bat_tf import metrics

        rng = np.random.default_rng(0)
        lengths = rng.integers(1, 6, (8, 1))
        ids = np.where(np.arange(6) < lengths, rng.integers(1, 10, (8, 6)), 0)
        tags = np.where(ids > 0, ids % 3, 0)

        def learn(strategy):
            keras.utils.set_random_seed(0)
            with strategy.scope():
                model = keras.Sequential([
                    keras.layers.Embedding(10, 8, mask_zero=True),
                    AttentionTournament(2), FeedForwardTournament(16),
                    MultiHeadSelfAttention(2), MultiFeatureSelfAttention(2),
                    LayerNorm(), keras.layers.Dense(3)])
                model.compile(keras.optimizers.SGD(1e-3), PBP([5, 3, 2]),
                              metrics=[metrics.get("token_macro_f1")])
            return model.fit(ids, tags, batch_size=4, epochs=2, shuffle=False,
                             verbose=0).history

        two = learn(tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]))
        one = learn(tf.distribute.get_strategy())
        for name in one:
            np.testing.assert_allclose(two[name], one[name], rtol=1e-4)
        print(sorted(one))
        """
    )
    assert "token_macro_f1" in out


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_one_hot_tags_are_integers(jit_compile):
    def made():
        model = tagger(AttentionTournament(2))
        model.compile("adam", PBP([5, 3, 2]), jit_compile=jit_compile)
        model(IDS)  # its weights are drawn now
        return model

    hot, model = np.eye(3)[TAGS].astype("float32"), made()
    expected = made().evaluate(IDS, TAGS, verbose=0)
    for tags in (hot, hot > 0, hot.astype("int64")):
        assert model.evaluate(IDS, tags, verbose=0) == pytest.approx(expected, rel=1e-5)
    if not jit_compile:
        assert np.isfinite(model.fit(IDS, hot, verbose=0).history["loss"]).all()
