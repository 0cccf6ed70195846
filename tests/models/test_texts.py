"""`fit`, `evaluate` and `predict` on texts, in every form that people have them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from label_cases import ENCODER, documents

import bat_tf
from bat_tf.models import LabelClassifier

QUIET = {"verbose": 0}


def classifier(seed=0, **settings):
    keras.utils.set_random_seed(seed)
    model = LabelClassifier.for_data(documents(), **{**ENCODER, **settings})
    model.compile(bat_tf.optimizers.Adam(0.01), "zlpr", metrics=["micro_f1"])
    return model


def forms(model):
    """The same texts and targets, as people have them."""
    data = documents(40)
    hot = model.labels.multi_hot(data.labels)
    return {
        "data set": (data, None),
        "names": (data.texts, [list(names) for names in data.labels]),
        "multi-hot": (np.array(data.texts), hot.astype(int)),
        "pipeline": (tf.data.Dataset.from_tensor_slices((data.texts, hot)), None),
        "batches": (
            tf.data.Dataset.from_tensor_slices((data.texts, hot)).batch(7),
            None,
        ),
    }


def test_every_form_trains_alike():
    losses = []
    for name in ("data set", "names", "multi-hot", "pipeline", "batches"):
        model = classifier()
        x, y = forms(model)[name]
        history = model.fit(x, y, epochs=2, batch_size=8, seed=3, **QUIET).history
        found = model.evaluate(x, y, return_dict=True, **QUIET)
        losses.append([*history["loss"], found["loss"], found["micro_f1"]])
    np.testing.assert_allclose(losses, [losses[0]] * len(losses), rtol=1e-6)


def test_predict_gives_logits_in_the_order_of_the_texts():
    model, texts = classifier(), documents(30, seed=1).texts
    logits = model.predict(texts)
    assert logits.shape == (30, 3)
    for text, row in zip(texts[:4], logits, strict=False):
        np.testing.assert_allclose(model.predict([text])[0], row, atol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch(texts), logits, atol=1e-5)
    inputs = model.preprocessor(texts)
    np.testing.assert_allclose(model.predict(inputs, **QUIET), logits, atol=1e-5)


def test_predict_of_tags_reads_the_first_tokens():
    model = tiny.tagger(max_length=16, overlap=4)
    texts = ["a lamp", "a lamp " * 30]
    logits = model.predict(texts)
    assert logits.shape == (2, 16, len(model.tags))
    assert not logits[0, 2:].any() and logits[1].any(axis=-1).all()
    # `tag` reads the whole text.
    assert model.tag("x " * 40 + "Veloria") is not None


@pytest.mark.slow
def test_validation_split_takes_the_last_texts():
    model, data = classifier(), documents(40)
    split = model.fit(data, validation_split=0.25, seed=1, **QUIET).history
    other = classifier()
    parts = {"validation_data": data[30:], "seed": 1}
    whole = other.fit(data[:30], **parts, **QUIET).history
    assert split == whole
    pairs = (data[30:].texts, [list(names) for names in data[30:].labels])
    again = classifier().fit(data[:30], validation_data=pairs, seed=1, **QUIET).history
    assert again == whole
    with pytest.raises(ValueError, match="`validation_split` must be"):
        model.fit(data[:2], validation_split=0.01, **QUIET)


def test_spans_as_lists_and_long_texts_as_several_rows():
    data = tiny.dataset(12)
    spans = [[list(span) for span in row] for row in data.spans]
    found = []
    for x, y in ((data, None), (data.texts, spans)):
        model = tiny.tagger(data, max_length=32, overlap=4)
        history = model.fit(x, y, epochs=1, validation_split=0.25, **QUIET).history
        found.append([history["loss"], history["val_loss"]])
    assert found[0] == found[1]
    rows = len(model.preprocessor.encode(data)["token_ids"].row_lengths())
    assert rows > len(data)


def test_weights_of_texts_count():
    data = documents(24)
    losses = []
    for weights in (None, np.ones(24), np.r_[np.ones(12), np.zeros(12)]):
        model = classifier()
        losses.append(model.evaluate(data, sample_weight=weights, **QUIET)[0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    half = classifier().evaluate(data[:12], **QUIET)[0]
    assert losses[2] == pytest.approx(half / 2, rel=1e-4)


def test_weighted_metrics_and_summaries():
    model, data = classifier(), documents(24)
    names = {"metrics": ["macro_f1"], "weighted_metrics": ["micro_f1"]}
    model.compile("adam", "zlpr", **names)
    settings = {"return_dict": True, **QUIET}
    weights = np.r_[np.ones(12), np.zeros(12)]
    found = model.evaluate(data, sample_weight=weights, **settings)
    half, whole = (model.evaluate(x, **settings) for x in (data[:12], data))
    assert found["micro_f1"] == half["micro_f1"]
    assert found["macro_f1"] == whole["macro_f1"]
    lines = []
    settings = {"expand_nested": True, "show_trainable": True}
    model.summary(print_fn=lambda text, **_: lines.append(text), **settings)
    assert "document" in "\n".join(lines) and "unbuilt" not in "\n".join(lines)


def test_keras_words_keep_their_meaning():
    data, seen = documents(24), []
    for seed in (1, 2):
        model = classifier()
        # One callback is a list of one.
        stop = keras.callbacks.EarlyStopping(monitor="val_micro_f1")
        settings = {"validation_split": 0.25, "shuffle": False, "callbacks": stop}
        seen.append(model.fit(data, seed=seed, **settings, **QUIET).history)
    assert seen[0] == seen[1]
    for model, x in ((classifier(), data), (tiny.tagger(), tiny.dataset(8))):
        # Keras would read the class of a row off the largest of its ids or tags.
        with pytest.raises(ValueError, match="`class_weight` must be None"):
            model.fit(x, class_weight={0: 5.0, 1: 1.0}, **QUIET)


def test_losses_and_metrics_of_keras_see_what_they_expect():
    model, data = classifier(), documents(24)
    hot, logits = model.labels.multi_hot(data.labels), model.predict(data.texts)
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    metrics = [keras.metrics.BinaryAccuracy(threshold=0.0), "micro_f1"]
    model.compile("adam", loss, metrics)
    settings = {"return_dict": True, **QUIET}
    found = model.evaluate(data.texts, hot, **settings)
    assert found["loss"] == pytest.approx(float(loss(hot, logits)), rel=1e-5)
    assert found["binary_accuracy"] == pytest.approx(np.mean((logits > 0) == hot))
    assert np.isfinite(model.fit(data, **QUIET).history["micro_f1"]).all()

    data = tiny.dataset(8)
    tagger = tiny.tagger(data, max_length=16, overlap=4)
    expected = tagger.evaluate(data, **settings)["loss"]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metrics = [keras.metrics.SparseCategoricalAccuracy(), "token_macro_f1"]
    for jit_compile in (False, True):
        tagger.compile("adam", loss, metrics, jit_compile=jit_compile)
        found = tagger.evaluate(data, **settings)
        assert found["loss"] == pytest.approx(expected, rel=1e-5)
        # Padding is neither right nor wrong.
        examples = tagger.preprocessor.encode(data)
        right = total = 0
        for x, tags in tagger.preprocessor.batches(examples):
            real = tags >= 0
            best = tf.argmax(tagger.predict_on_batch(x), -1, tf.int32)
            right += np.sum(best[real] == tags[real])
            total += np.sum(real)
        accuracy = found["sparse_categorical_accuracy"]
        assert accuracy == pytest.approx(right / total, rel=1e-5)
    assert np.isfinite(tagger.fit(data, **QUIET).history["loss"]).all()


def test_batches_of_texts():
    model, data = classifier(), documents(8)
    names = [list(row) for row in data.labels]
    before = model.test_on_batch(data.texts, names, return_dict=True)["loss"]
    for _ in range(5):
        model.train_on_batch(data.texts, names)
    model.reset_metrics()
    assert model.test_on_batch(data.texts, names, return_dict=True)["loss"] < before


def test_texts_without_targets_get_a_sentence():
    with pytest.raises(
        ValueError, match="`y` must be given beside texts: their labels"
    ):
        classifier().fit(documents(8).texts, **QUIET)


@pytest.mark.slow
@pytest.mark.filterwarnings("error:Model doesn't support `jit_compile")
def test_xla_stays_on_after_training_and_reload(tmp_path):
    model = classifier()
    model.compile("adam", "zlpr", jit_compile=True)
    model.fit(
        documents(16).texts, model.labels.multi_hot(documents(16).labels), **QUIET
    )
    assert model.jit_compile is True
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.jit_compile is True
    assert again.label("oil and gas") == model.label("oil and gas")


def test_compiling_changes_no_answer():
    model, texts = classifier(), documents(6).texts
    model.fit(documents(16), **QUIET)
    before = model.label(texts)
    for loss in ("bce", "rl", "dl2"):
        model.compile("adam", loss)
        assert model.label(texts) == before
    assert type(model.optimizer) is keras.optimizers.Adam


def test_training_that_never_began_changes_no_answer():
    model, data = classifier(), documents(16)
    model.fit(data, **QUIET)
    before = model.label(data.texts)
    model.compile("adam", "bce")
    with pytest.raises(ValueError, match="no label 'unknown'"):
        model.fit(data.texts, [["unknown"]] * 16, **QUIET)
    assert model.label(data.texts) == before


def test_no_texts_and_what_is_no_text():
    model = classifier()
    assert model.scores([]).shape == (0, 3)
    assert tiny.tagger().scores([]).shape[0] == 0
    with pytest.raises(TypeError, match=r"`texts\[0\]` must be a str or bytes"):
        model.fit([None, "oil"], [["energy"], ["energy"]], **QUIET)


def test_xla_compiles_no_program_for_every_batch_that_is_scored():
    data = documents(40)
    data = bat_tf.TextDataset(
        bat_tf.data.Example(row.text * (1 + number % 9), labels=row.labels)
        for number, row in enumerate(data)
    )
    model = classifier()
    model.compile("adam", "zlpr", jit_compile=True)
    shapes = {x["token_ids"].shape for x, _ in model.batches(data, batch_size=4)}
    assert len({columns for _, columns in shapes}) <= 5
    expected = classifier().predict(data.texts)
    np.testing.assert_allclose(model.predict(data.texts), expected, atol=1e-5)
    assert not model._predict._jit_compile
