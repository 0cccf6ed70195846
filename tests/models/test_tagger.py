import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

import bat_tf
from bat_tf.data import Example, Span, TextDataset
from bat_tf.data.preprocessors import TagPreprocessor


@pytest.fixture(scope="module")
def model():
    model = tiny.tagger()
    model.fit(tiny.dataset(), epochs=1, verbose=0)
    return model


def test_learns_a_simple_rule():
    """After "by" comes a brand: a few epochs must be enough to see it."""
    words = ["Azel", "Borin", "Cadu", "Devo", "Emri", "Fanu", "Golt", "Hirn"]
    rows = [f"{colour} lamp by {word}" for word in words for colour in ("red", "blue")]
    data = TextDataset(
        [Example(row, (Span(row.index("by") + 3, len(row), "brand"),)) for row in rows]
    )
    model = tiny.tagger(data)
    model.compile(keras.optimizers.Adam(0.01), loss="ce")
    model.fit(data, epochs=30, verbose=0)
    tags = model.tag("green lamp by Unseen")
    assert [(tag.text, tag.kind) for tag in tags] == [("Unseen", "brand")]
    assert 0.5 < tags[0].score <= 1


def test_offsets_are_those_of_the_callers_text(model):
    texts = tiny.dataset(20, "test").texts
    for text, tags in zip(texts, model.tag(texts), strict=True):
        assert all(text[tag.start : tag.end] == tag.text for tag in tags)


def test_batch_answers_as_one_by_one(model):
    texts = [*tiny.dataset(6, "test").texts, "", "x " * 600]
    together = model.tag(texts)
    for text, tags in zip(texts, together, strict=True):
        alone = model.tag(text)
        assert [tag[:3] for tag in alone] == [tag[:3] for tag in tags]
        np.testing.assert_allclose(
            [tag.score for tag in alone], [tag.score for tag in tags], atol=1e-5
        )


def test_saves_and_loads_in_a_fresh_process(model, tmp_path):
    path = tmp_path / "tagger.keras"
    model.save(path)
    text = tiny.dataset(1, "test").texts[0]
    code = (
        "import sys, keras, bat_tf\n"
        "model = keras.saving.load_model(sys.argv[1])\n"
        "print([tuple(tag[:3]) for tag in model.tag(sys.argv[2])])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, path, text], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    expected = str([tuple(tag[:3]) for tag in model.tag(text)])
    assert process.stdout.splitlines()[-1] == expected


def test_padding_changes_neither_loss_nor_gradient(model):
    inputs, tags = next(iter(model.batches(tiny.dataset(4), batch_size=4)))
    wider = {name: tf.pad(values, [[0, 0], [0, 9]]) for name, values in inputs.items()}
    wider_tags = tf.pad(tags, [[0, 0], [0, 9]], constant_values=-1)

    def loss_and_gradient(inputs, tags):
        with tf.GradientTape() as tape:
            loss = model.loss(tags, model(inputs, training=False))
        return loss, tape.gradient(loss, model.trainable_weights[-2].value)

    for one, other in zip(
        loss_and_gradient(inputs, tags),
        loss_and_gradient(wider, wider_tags),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=2e-6)


FORBIDDEN = ("String", "Regex", "Unicode", "Lookup", "HashTable", "PyFunc", "Ragged")


def test_train_step_holds_no_string_lookup_or_python_op():
    model = tiny.tagger(tokenizer="words")
    batch = next(iter(model.batches(tiny.dataset(8), batch_size=4)))
    step = tf.function(lambda *data: model.train_step(data))
    graph = step.get_concrete_function(*batch).graph
    nodes = list(graph.as_graph_def().node)
    for function in graph.as_graph_def().library.function:
        nodes += list(function.node_def)
    ops = {node.op for node in nodes}
    assert "MatMul" in ops  # the whole step is in here
    assert not [op for op in ops if any(word in op for word in FORBIDDEN)]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_trains_in_half_precision(precision):
    model = tiny.tagger(dtype=precision)
    history = model.fit(tiny.dataset(16), epochs=2, verbose=0).history["loss"]
    assert np.isfinite(history).all()
    assert history[1] < history[0]


@pytest.mark.slow
def test_jit_compiled_training_equals_plain_training():
    weights = []
    for jit_compile in (False, True):
        model = tiny.tagger(compiled=False)
        model.compile(keras.optimizers.SGD(1e-3), loss="pbp", jit_compile=jit_compile)
        assert model.jit_compile is jit_compile
        before = model.get_weights()
        model.fit(tiny.dataset(16), epochs=2, verbose=0)
        weights.append(
            [w - b for w, b in zip(model.get_weights(), before, strict=True)]
        )
    # The empty rows that fill up XLA's batches change no step.
    assert max(np.abs(w).max() for w in weights[0]) > 1e-3
    for one, other in zip(*weights, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.slow
def test_two_runs_with_one_seed_give_equal_losses():
    histories = []
    for _ in range(2):
        model = tiny.tagger(dropout=0.1)
        histories.append(model.fit(tiny.dataset(16), epochs=2, verbose=0).history)
    assert histories[0]["loss"] == histories[1]["loss"]


@pytest.mark.slow
def test_every_tag_loss_by_name(model):
    for name in "ce wce fce fwce cecl wcecl cecla pbp pbpa".split():
        model.compile("adam", loss=name)
        assert np.isfinite(model.evaluate(tiny.dataset(8), verbose=0))


def test_a_class_without_examples_is_allowed():
    data = tiny.dataset(16)
    space = bat_tf.LabelSpace([*data.kinds, "unheard_of"])
    tokenizer = bat_tf.TextTokenizer("words")
    tokenizer.adapt(data.texts)
    encoder = bat_tf.encoders.get(
        "bat", vocabulary_size=len(tokenizer.vocabulary), **tiny.ENCODER
    )
    preprocessor = TagPreprocessor(tokenizer, space)
    counts = [900, 40, 20, 30, 10, 0, 0]
    model = bat_tf.BATTagger(encoder, preprocessor, class_counts=counts)
    model.compile("adam", loss="cecla")
    assert np.isfinite(model.fit(data, verbose=0).history["loss"]).all()


def test_unknown_kind_is_named(model):
    data = TextDataset([Example("a b", (Span(0, 1, "flavour"),))])
    with pytest.raises(ValueError, match="flavour"):
        model.fit(data, verbose=0)


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b"])
def test_nothing_to_tag(model, text):
    assert model.tag(text) == []


def test_broken_text(model):
    assert model.tag(b"\xff\xfe Veloria \xe6\x9d") is not None
    text = "lamp \ud800 by Veloria"
    assert all(text[tag.start : tag.end] == tag.text for tag in model.tag(text))
    with pytest.raises(TypeError, match=r"texts\[1\].*str or bytes.*None"):
        model.tag(["fine", None])


@pytest.mark.slow
def test_a_megabyte_of_text(model):
    text = "Soft cotton towel by Veloria. " * 34_000
    tags = model.tag(text)
    assert all(text[tag.start : tag.end] == tag.text for tag in tags[:100])


def test_backbone_gives_the_input(minilm):
    tokenizer = bat_tf.TextTokenizer.from_folder(minilm)
    assert tokenizer.num_special == 2
    model = tiny.tagger(tokenizer=None, backbone="minilm")
    before = [weight.numpy().copy() for weight in model.encoder.backbone.weights[:3]]
    model.fit(tiny.dataset(8), epochs=1, verbose=0)
    after = [weight.numpy() for weight in model.encoder.backbone.weights[:3]]
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_wrong_settings_are_explained(model):
    with pytest.raises(ValueError, match=r"`scheme` must be one of 'plain', 'bio'"):
        tiny.tagger(scheme="bilou")
    with pytest.raises(ValueError, match="`class_counts` must be as long as"):
        preprocessor = TagPreprocessor(model.tokenizer, ["a"])
        bat_tf.BATTagger(model.encoder, preprocessor, class_counts=[1])
    with pytest.raises(TypeError, match="TextDataset"):
        bat_tf.BATTagger.for_data(["just", "texts"])
