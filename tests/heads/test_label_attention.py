"""Label attention: the formula, and that nothing of the size of all labels exists."""

import itertools

import hypothesis
import hypothesis.strategies as st
import keras
import numpy as np
import pytest
import tensorflow as tf
from layer_cases import mask, states

from bat_tf.heads import LabelAttention
from bat_tf.heads.label_attention import MEBIBYTE, chunk_size

TINY = 1500 / MEBIBYTE


def build(num_labels=11, width=8, d_ff=6, seed=0, **settings):
    """A layer whose weights, biases included, are large enough to matter."""
    settings = {"memory_mib": TINY, **settings}
    layer = LabelAttention(num_labels, d_ff=d_ff, **settings)
    layer.build((None, None, width))
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(rng.normal(size=weight.shape) * 0.7)
    return layer


def plain(layer, x, real):
    """The formula as it is written, with its gradient as TensorFlow derives it."""
    rows, k, b, v, c = (tf.convert_to_tensor(w.value) for w in layer.weights)
    scores = tf.einsum("btd,ld->blt", x, rows)
    scores = tf.where(real[:, None, :], scores, tf.constant(-1e30, scores.dtype))
    weights = tf.nn.softmax(scores) * tf.cast(real[:, None, :], scores.dtype)
    mixed = tf.einsum("blt,btd->bld", weights, x)
    logits = tf.matmul(tf.nn.relu(tf.matmul(mixed, k) + b), v)[..., 0] + c
    some = tf.reduce_any(real, axis=1, keepdims=True)
    return tf.where(some, logits, tf.stop_gradient(logits))


def gradients(call, layer, x, real):
    """Logits, and the gradient of a loss in x and in every weight."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        logits = call(x, real)
        at = tf.range(tf.size(logits), dtype="int32")
        wave = tf.reshape(tf.sin(tf.cast(at, logits.dtype)), tf.shape(logits))
        total = tf.reduce_sum(wave * logits + logits**2)
    found = tape.gradient(total, [x, *(w.value for w in layer.weights)])
    return [logits, *(tf.convert_to_tensor(g) for g in found)]


def compare(found, expected, **tolerance):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)


# === The formula ===


@pytest.mark.parametrize("memory_mib", [0, TINY, 64])
def test_the_layer_equals_the_oracle(vectors, memory_mib):
    case = vectors["layers/label_attention"]
    x = np.array(case["inputs"]["h"], "f4")
    real = np.array(case["inputs"]["mask"], bool)
    rows = np.array(case["inputs"]["label_embeddings"])
    layer = build(num_labels=len(rows), memory_mib=memory_mib)
    layer.label_kernel.assign(rows)
    weights = np.array(layer.attention(x, real, np.arange(len(rows))))
    expected = np.array(case["expected"]["alpha"])
    np.testing.assert_allclose(weights, expected, atol=2e-5)
    k, b, v, c = (w.numpy() for w in layer.weights[1:])
    mixed = np.array(case["expected"]["e"])
    logits = (np.maximum(mixed @ k + b, 0) @ v)[..., 0] + c
    np.testing.assert_allclose(layer(x, real), logits, atol=2e-5)


@hypothesis.settings(max_examples=25)
@hypothesis.given(
    sizes=st.tuples(*[st.integers(1, n) for n in (3, 6, 7, 30, 5)]),
    budget=st.integers(0, 20_000),
    seed=st.integers(0, 9),
)
def test_values_and_gradients_are_those_of_the_plain_form(sizes, budget, seed):
    batch, length, width, num_labels, d_ff = sizes
    rng = np.random.default_rng(seed)
    settings = {"memory_mib": budget / MEBIBYTE, "dtype": "float64"}
    layer = build(num_labels, width, d_ff, seed, **settings)
    x = tf.constant(rng.normal(size=(batch, length, width)))
    real = tf.constant(rng.random((batch, length)) < 0.7)
    found = gradients(layer, layer, x, real)
    expected = gradients(lambda *x: plain(layer, *x), layer, x, real)
    compare(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
def test_graphs_agree_with_eager_mode(jit_compile, dynamic):
    layer = build()
    x, real = tf.constant(states(3)), tf.constant(mask(5, 2, 4))
    expected = gradients(layer, layer, x, real)
    shape = (None, None) if dynamic else (3, 5)
    signature = [tf.TensorSpec((*shape, 8)), tf.TensorSpec(shape, "bool")]
    step = tf.function(
        lambda x, real: gradients(layer, layer, x, real),
        input_signature=signature,
        jit_compile=jit_compile,
    )
    # Twice: what one step writes to must be zero again in the next.
    for _ in range(2):
        compare(step(x, real), expected, atol=1e-4)


def test_what_is_in_padding_changes_nothing():
    layer = build()
    x, real = states(2), mask(5, 3)
    before = gradients(layer, layer, tf.constant(x), tf.constant(real))
    x[~real] = np.nan
    x, real = np.pad(x, [(0, 0), (0, 4), (0, 0)]), np.pad(real, [(0, 0), (0, 4)])
    after = gradients(layer, layer, tf.constant(x), tf.constant(real))
    after[1] = after[1][:, :5]
    compare(after, before, atol=1e-4)


@pytest.mark.parametrize("labels", [None, [3, 0]])
def test_a_text_without_tokens_is_finite_and_teaches_nothing(labels):
    layer = build()
    real = tf.zeros((2, 5), "bool")
    logits, *found = gradients(
        lambda x, real: layer(x, real, labels=labels),
        layer,
        tf.constant(states()),
        real,
    )
    assert np.isfinite(logits).all()
    assert not any(np.any(gradient) for gradient in found)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_no_texts_or_no_words(shape):
    layer = build()
    signature = [tf.TensorSpec((None, None, 8)), tf.TensorSpec((None, None), "bool")]
    step = tf.function(
        lambda x, real: gradients(layer, layer, x, real), input_signature=signature
    )
    logits, *found = step(tf.zeros((*shape, 8)), tf.zeros(shape, "bool"))
    assert logits.shape == (shape[0], 11)
    assert not any(np.any(gradient) for gradient in found)


# === Memory ===


def graphs(graph):
    """A graph and all that it calls, the bodies of its loops included."""
    yield graph
    for op in graph.get_operations():
        for name, value in op.node_def.attr.items():
            if value.HasField("func") and name != "cond":
                yield from graphs(graph._get_function(value.func.name).graph)


def largest(function, *arguments):
    """The most numbers that one tensor of a function holds.

    A list of tensors counts as a whole; one that grows, as loops keep for a derived
    gradient, has no bound.
    """
    most = 0
    for graph in graphs(function.get_concrete_function(*arguments).graph):
        for op in graph.get_operations():
            assert "PushBack" not in op.type, "a loop keeps its values for a gradient"
            if op.type == "TensorListReserve":
                number = tf.get_static_value(op.inputs[1])
                shape = tf.get_static_value(op.inputs[0])
                assert np.min(shape) >= 0, "a list of anything"
                most = max(most, int(number * np.prod(shape)))
            for tensor in op.outputs:
                holds_shape = tensor.dtype.is_integer and tensor.shape.rank == 1
                if tensor.dtype in (tf.variant, tf.resource) or holds_shape:
                    continue
                assert tensor.shape.is_fully_defined(), tensor
                most = max(most, tensor.shape.num_elements())
    return most


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_nothing_of_batch_labels_and_words_exists(jit_compile, policy):
    batch, length, width, d_ff, num_labels = 6, 7, 5, 9, 1000
    layer = build(num_labels, width, d_ff, memory_mib=0.05, dtype=policy)
    chunk = chunk_size(num_labels, batch, length, width, d_ff, 4, 0.05 * MEBIBYTE)
    assert 1 < chunk < num_labels / 10
    inputs = tf.zeros((batch, length, width)), tf.ones((batch, length), "bool")
    forms = {"chunks": layer, "plain": lambda *x: plain(layer, *x)}
    found = {
        name: largest(
            tf.function(
                lambda x, real, call=call: gradients(call, layer, x, real),
                jit_compile=jit_compile,
            ),
            *inputs,
        )
        for name, call in forms.items()
    }
    # Logits and rows are whole; labels times words, width or hidden layer are not.
    assert found["chunks"] <= num_labels * max(batch, width) + batch * chunk
    assert found["chunks"] < batch * num_labels * min(length, width, d_ff)
    assert found["plain"] >= batch * num_labels * max(length, width)


def test_a_loop_that_keeps_its_values_would_be_noticed():
    layer = build()

    def call(x, real):
        def one(row):
            weights = tf.nn.softmax(tf.einsum("btd,d->bt", x, row))
            return tf.reduce_sum(weights[..., None] * x, axis=(1, 2))

        rows = tf.convert_to_tensor(layer.label_kernel.value)
        return tf.transpose(tf.map_fn(one, rows))

    function = tf.function(
        lambda x: tf.gradients(call(x, None), x),
        input_signature=[tf.TensorSpec((2, 5, 8))],
    )
    with pytest.raises(AssertionError):
        largest(function)


def test_a_chunk_fits_its_budget():
    sizes = {"batch": 8, "length": 64, "width": 32, "d_ff": 16, "item_size": 4}
    last = 0
    for budget in (0, 1, 2**14, 2**17, 2**20, 2**30):
        size = chunk_size(5000, **sizes, budget=budget)
        assert 1 <= size <= 5000
        assert size >= last
        assert size == 1 or size * 4 * 8 * (64 + 16) <= budget
        last = size
        for name in ("batch", "length"):
            dynamic = {**sizes, name: tf.constant(sizes[name])}
            assert chunk_size(5000, **dynamic, budget=budget) == size
    assert last == 5000


def test_longer_texts_have_fewer_labels_in_a_chunk():
    short, long = (chunk_size(10**6, 8, t, 384, 256, 4, 2**26) for t in (32, 512))
    assert long < short / 2


# === Candidates ===


@pytest.mark.parametrize("jit_compile", [False, True])
def test_candidates_have_the_scores_of_all_labels(jit_compile):
    layer = build()
    x, real = tf.constant(states(2)), tf.constant(mask(5, 3))
    ids = np.array([3, 0, 10])

    def pick(x, real):
        return tf.gather(layer(x, real), ids, axis=1)

    def score(x, real):
        return layer(x, real, labels=ids)

    expected = gradients(pick, layer, x, real)
    step = tf.function(
        lambda x, real: gradients(score, layer, x, real), jit_compile=jit_compile
    )
    compare(step(x, real), expected, atol=1e-4)


@pytest.mark.parametrize("wrong", [11, -2])
def test_a_label_outside_the_space_is_named(wrong):
    layer = build()
    x, real, ids = states(1), mask(5), np.array([3, wrong])
    said = "`labels` must be label ids below 11. Received:"
    with pytest.raises(ValueError, match=f"{said} {wrong}"):
        layer(x, real, labels=ids)
    with pytest.raises(tf.errors.InvalidArgumentError, match=said):
        tf.function(lambda ids: layer(x, real, labels=ids))(tf.constant(ids))


@pytest.mark.parametrize("wrong", [np.zeros(2), np.zeros((2, 1), int)])
def test_candidates_are_integers_for_all_texts(wrong):
    with pytest.raises(ValueError, match=r"`labels` must be label ids \[C\]"):
        build()(states(), mask(5, 5), labels=wrong)


# === A layer among others ===


@pytest.mark.parametrize("name", ["num_labels", "d_ff", "memory_mib"])
def test_settings_are_checked(name):
    settings = {"num_labels": 5, name: -1}
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        LabelAttention(**settings)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16", "bfloat16"])
def test_half_precision(policy, jit_compile):
    layer, wide = build(dtype=policy), build()
    x, real = tf.constant(states(2)), tf.constant(mask(5, 3))
    step = tf.function(
        lambda x, real: gradients(layer, layer, x, real), jit_compile=jit_compile
    )
    expected = gradients(wide, wide, x, real)
    for one, other in zip(step(x, real), expected, strict=True):
        error = np.abs(tf.cast(one, "float32") - other).max()
        assert error <= 0.05 * np.abs(other).max()
    # Products of states of some hundreds are beyond float16.
    assert np.isfinite(tf.cast(layer(300 * x, real), "float32")).all()


def tagger(**settings):
    x = keras.Input((None, 8))
    real = keras.Input((None,), dtype="bool")
    return keras.Model([x, real], build(20, **settings)(x, real))


@pytest.mark.parametrize(
    ("policy", "jit_compile"),
    [
        ("float32", False),
        ("mixed_float16", True),
        pytest.param("float32", True, marks=pytest.mark.slow),
        pytest.param("mixed_float16", False, marks=pytest.mark.slow),
    ],
)
def test_it_learns(jit_compile, policy):
    x, real = states(16), mask(*itertools.islice(itertools.cycle([5, 3, 4, 1]), 16))
    hot = np.eye(20, dtype="f4")[np.arange(16)]
    model = tagger(dtype=policy)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.03), loss, jit_compile=jit_compile)
    settings = {"batch_size": 6, "verbose": 0, "shuffle": False}
    seen = model.fit([x, real], hot, epochs=30, **settings).history["loss"]
    assert seen[-1] < 0.3 * seen[0]


def test_saved_and_reloaded(tmp_path):
    x, real = states(2), mask(5, 3)
    model = tagger()
    before = model([x, real])
    model.save(tmp_path / "model.keras")
    after = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(after([x, real]), before, atol=1e-6)
    layer = after.layers[-1]
    assert (layer.num_labels, layer.d_ff, layer.memory_mib) == (20, 6, TINY)
    model.export(tmp_path / "served", verbose=False)
    served = tf.saved_model.load(tmp_path / "served")
    np.testing.assert_allclose(served.serve([x, real]), before, atol=1e-6)


def test_in_anyone_s_model_it_reads_keras_mask(tmp_path):
    """The mask of the embedding, whatever else the layer is called with."""
    ids = np.array([[3, 4, 5, 6], [7, 8, 0, 0]])
    longer = np.pad(ids, [(0, 0), (0, 3)])
    embedding = keras.layers.Embedding(10, 8, mask_zero=True)
    model = keras.Sequential([embedding, LabelAttention(11, d_ff=6)])
    found, layer = np.array(model(ids)), model.layers[-1]
    np.testing.assert_allclose(model(longer), found, atol=1e-6)
    np.testing.assert_allclose(layer(np.array(embedding(ids)), ids > 0), found)
    np.testing.assert_allclose(
        layer(embedding(longer), labels=np.array([3, 0])), found[:, [3, 0]], atol=1e-6
    )
    assert not hasattr(layer(embedding(ids)), "_keras_mask")
    assert layer(np.array(embedding(ids))).shape == (2, 11)
    assert layer.compute_output_shape((None, None, 8)) == (None, 11)
    model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(ids, np.eye(11)[:2], verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again(longer), model(ids), atol=1e-6)
