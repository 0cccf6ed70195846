"""LabelClassifier: from labelled texts to a SavedModel that names labels."""

import cases
import keras
import numpy as np
import pytest
from label_cases import ENCODER, documents

import bat_tf
from bat_tf.data import Example, LabelSpace, TextDataset
from bat_tf.data.preprocessors import LabelPreprocessor
from bat_tf.models import LabelClassifier
from bat_tf.training import backbone_cache

SETTINGS = ["micro_f1", "macro_f1", "average_precision", "precision_at_1"]


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    model = LabelClassifier.for_data(documents(), words=True, **ENCODER)
    model.compile(bat_tf.optimizers.Adam(0.01), loss="zlpr", metrics=SETTINGS)
    model.fit(documents(), epochs=12, batch_size=16, verbose=0)
    return model


def test_learns_what_words_mean(model):
    report = model.evaluate_report(documents(40, seed=1))
    assert report.values["micro_f1"] > 0.95
    logs = model.evaluate(documents(40, seed=1), return_dict=True, verbose=0)
    assert logs["micro_f1"] == pytest.approx(report.values["micro_f1"], abs=1e-6)


def test_label_names_scores_and_order(model):
    found = model.label(["oil and gas", "bank loan, wheat harvest", ""])
    assert [name for name, _ in found[0]] == ["energy"]
    assert {name for name, _ in found[1]} == {"grain", "money"}
    for row in found:
        scores = [score for _, score in row]
        assert scores == sorted(scores, reverse=True)
        assert all(0.5 < score <= 1 for score in scores)
    assert model.label("oil and gas") == found[0]
    assert len(model.label("oil", top_k=2)) == 2


@pytest.mark.slow
def test_a_quantized_model_answers_and_reloads(tmp_path):
    data, texts = documents(24), ["oil and gas", "bank loan"]
    settings = {"hidden_width": 8, "pooling": "attention"}
    model = LabelClassifier.for_data(data, **settings, **ENCODER)
    model.compile("adam", loss="zlpr")
    before = model.predict(texts, verbose=0), model.label(texts, top_k=3)
    model.quantize("int8")
    after = model.predict(texts, verbose=0)
    assert 0 < np.abs(after - before[0]).max() < 0.2 * np.abs(before[0]).max()
    label = model.label(texts, top_k=3)
    assert label != before[1]
    model.save(tmp_path / "small.keras")
    again = bat_tf.load(tmp_path / "small.keras")
    np.testing.assert_allclose(again.predict(texts, verbose=0), after, atol=1e-5)


TLPR = bat_tf.losses.get("tlpr", threshold=0.5)


@pytest.mark.parametrize(
    ("loss", "scale"),
    [("zlpr", 2.0), (TLPR, 2.0), ("bce", 1.0), ("dl1", 1.0), ("lsep", None)],
)
def test_probabilities_follow_the_loss(loss, scale):
    model = LabelClassifier.for_data(documents(16), **ENCODER)
    model.compile("adam", loss=loss)
    assert model.score_scale == 1.0  # compiling changes no answer
    model.fit(documents(16), verbose=0)
    assert model.score_scale == scale
    logits = model.scores(["oil"])
    if scale is None:
        assert model.probabilities(logits) is None
        with pytest.raises(ValueError, match="only ranks labels.*fit_thresholds"):
            model.label("oil")
        with pytest.raises(ValueError, match="only ranks labels"):
            model.serving_function()
        report = model.evaluate_report(documents(16))
        assert not {"micro_f1", "macro_f1", "jaccard"} & set(report.values)
        model.fit_thresholds(documents(16))
        assert isinstance(model.label("oil"), list)
    else:
        expected = 1 / (1 + np.exp(-scale * (logits - model.score_threshold)))
        np.testing.assert_allclose(model.probabilities(logits), expected, rtol=1e-5)


def test_tlpr_moves_the_threshold():
    model = LabelClassifier.for_data(documents(16), **ENCODER)
    model.compile("adam", loss=bat_tf.losses.ZLPR(threshold=1.5))
    model.fit(documents(16), verbose=0)
    assert model.cut == 1.5
    np.testing.assert_allclose(model.probabilities(np.array([[1.5]])), 0.5)
    with pytest.raises(ValueError, match="learnt threshold is one more score"):
        model.compile("adam", loss=bat_tf.losses.ZLPR(threshold="learnt"))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["cb", "db", "cb-ntr", "r-fl"])
def test_balanced_losses_get_the_counts(loss):
    model = LabelClassifier.for_data(documents(32), **ENCODER)
    model.compile("adam", loss=loss, metrics=["micro_f1"])
    history = model.fit(documents(32), epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "jit_compile"),
    cases.with_xla(["first", "mean", "max", "attention"], []),
)
def test_trains_with_every_pooling_and_xla(pooling, jit_compile):
    model = LabelClassifier.for_data(documents(20), pooling=pooling, **ENCODER)
    model.compile("adam", "zlpr", metrics=["micro_f1"], jit_compile=jit_compile)
    data = documents(20)
    history = model.fit(data, validation_data=data, epochs=1, verbose=0, batch_size=8)
    assert np.isfinite(history.history["val_loss"]).all()


@pytest.mark.parametrize("kind", [None, "per_label", "by_count"])
def test_reloads_with_thresholds(model, tmp_path, kind):
    valid = documents(60, seed=2)
    model.save(tmp_path / "copy.keras")
    copy = bat_tf.load(tmp_path / "copy.keras")
    fitted = copy.fit_thresholds(valid, **({kind: True} if kind else {}))
    assert np.shape(copy.cut) == np.shape(fitted.values) == ((3,) if kind else ())
    copy.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    expected = copy.evaluate_report(valid).values["micro_f1"]
    for one in (copy, again):
        logs = one.evaluate(valid, return_dict=True, verbose=0)
        assert logs["micro_f1"] == pytest.approx(expected, abs=1e-6)
    assert again.cut == copy.cut == fitted.get_config()["values"]
    assert again.label(valid.texts) == copy.label(valid.texts)


def test_thresholds_by_count_need_counts():
    known = LabelClassifier.for_data(documents(8), **ENCODER)
    names = LabelSpace(known.labels.names)
    made = LabelPreprocessor(known.tokenizer, names)
    model = LabelClassifier(known.encoder, made, known.heads)
    with pytest.raises(ValueError, match="`by_count` must be False for labels whose"):
        model.fit_thresholds(documents(8), by_count=True)


def test_export_answers_as_the_model_does(model, tmp_path):
    folder = model.export(tmp_path / "news" / "1")
    served = bat_tf.load(folder)
    texts = [*documents(20, seed=3).texts, "", "東京 oil"]
    expected = model.label(texts)
    for found, row in zip(served.label(texts), expected, strict=True):
        assert [name for name, _ in found] == [name for name, _ in row]
        np.testing.assert_allclose(
            [score for _, score in found], [score for _, score in row], rtol=1e-4
        )
    assert served.label("oil gas")[0][0] == "energy"


def test_unknown_labels(model):
    strange = TextDataset([Example("oil", labels=["energy", "opera"])])
    with pytest.raises(ValueError, match="no label 'opera'"):
        model.fit(strange, verbose=0)
    report = model.evaluate_report(strange)
    assert report.values["micro_f1"] == pytest.approx(2 / 3)
    assert ("opera", 1) in [(one.name, one.actual) for one in report.labels]


def test_wrong_data_gets_a_sentence(model):
    spans = TextDataset([Example("oil", spans=[(0, 3, "x")])])
    with pytest.raises(TypeError, match="examples have labels"):
        model.fit(spans, verbose=0)
    with pytest.raises(TypeError, match=r"texts\[1\].*str or bytes"):
        model.label(["oil", 3])


def test_long_texts_are_read_from_the_beginning(model):
    text = "oil gas " + "the " * 300
    longer = text + "the " * 5000 + "wheat corn"
    np.testing.assert_allclose(model.scores([text]), model.scores([longer]), rtol=1e-5)


@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_cached_states_of_a_frozen_backbone(tmp_path, capsys, jit_compile):
    backbone = bat_tf.encoders.TransformerEncoder(
        30, d_model=8, d_ff=8, num_heads=2, num_layers=1
    )
    data = documents(20)
    model = LabelClassifier.for_data(data, backbone=backbone, **ENCODER)
    model.compile("adam", "zlpr", jit_compile=jit_compile)
    plain, cached = (list(model.batches(data, 8, cache=c)) for c in (False, True))
    for (inputs, _), (with_states, _) in zip(plain, cached, strict=True):
        np.testing.assert_allclose(model(inputs), model(with_states), atol=5e-3)
    for verbose, given in ((0, (data,)), (2, (data.texts, data.labels))):
        settings = {"cache_backbone": True, "validation_data": data, "verbose": verbose}
        model.fit(*given, epochs=1, **settings)
        assert ("text of the frozen layers" in capsys.readouterr().out) == bool(verbose)
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    assert len(again.variables) == len(model.variables)
    assert again.label(data.texts[:3], top_k=1) == model.label(data.texts[:3], top_k=1)
    plain = LabelClassifier.for_data(data, **ENCODER)
    plain.compile("adam", "zlpr")
    with pytest.raises(ValueError, match="needs an encoder on a frozen backbone"):
        plain.fit(data, cache_backbone=True, verbose=0)


def test_states_that_memory_has_no_room_for_are_not_kept(monkeypatch, capsys, tmp_path):
    data = documents(20)
    encoder = bat_tf.encoders.BertEncoder(
        40, 8, d_ff=8, num_heads=2, num_layers=2, frozen_layers=1
    )
    model = LabelClassifier.for_data(data, encoder)
    model.compile("adam", "zlpr")
    settings = {"cache_backbone": True, "epochs": 1, "verbose": 2}
    inputs = next(iter(model.batches(data, 8, cache=True)))[0]
    assert "backbone_states" in inputs
    monkeypatch.setattr(backbone_cache, "MOST_BYTES", 100)
    inputs = next(iter(model.batches(data, 8, cache=True)))[0]
    assert "backbone_states" not in inputs
    model.fit(data, **settings)
    assert "GiB of memory: they are computed in every epoch" in capsys.readouterr().out
    # On disk there is room.
    inputs = next(iter(model.batches(data, 8, cache=str(tmp_path))))[0]
    assert "backbone_states" in inputs


def test_states_on_disk_are_those_of_the_weights_and_the_texts(tmp_path):
    data, folder = documents(20), tmp_path / "states"
    encoder = bat_tf.encoders.BertEncoder(
        40, 8, d_ff=8, num_heads=2, num_layers=2, frozen_layers=1, dropout=0.1
    )
    model = LabelClassifier.for_data(data, encoder, words=True)
    model.compile("adam", "db")
    model.fit(data, epochs=1, cache_backbone=folder, verbose=0)
    (path,) = folder.iterdir()
    stamp = path.stat().st_mtime_ns
    model.fit(data, epochs=1, cache_backbone=folder, verbose=0)
    assert [p.stat().st_mtime_ns for p in folder.iterdir()] == [stamp]
    for (inputs, _), (stored, _) in zip(
        model.batches(data, 8), model.batches(data, 8, cache=folder), strict=True
    ):
        np.testing.assert_allclose(model(inputs), model(stored), atol=5e-3)
    encoder.blocks[0].hidden_dense.bias.assign_add(np.ones(8))
    model.fit(documents(12), epochs=1, cache_backbone=folder, verbose=0)
    assert len(list(folder.iterdir())) == 2


def test_a_rare_label_is_found_by_its_name():
    """No text has the label "zinc" but one."""
    rows = [("copper is dear", ["copper"]), ("wheat is cheap", ["wheat"])] * 20
    rows += [("a mine of metals", ["zinc"])]
    data = TextDataset([Example(t, labels=y) for t, y in [*rows, ("zinc", [])]])
    model = LabelClassifier.for_data(data, words=True, **ENCODER)
    assert model.label("zinc", top_k=1)[0][0] == "zinc"
    # Or by what it means, if its name is a code.
    coded = TextDataset([Example(e.text, labels=["C7"] * len(e.labels)) for e in data])
    labels = LabelSpace.fit(coded.labels, names=["C7", "C8"], texts={"C7": "zinc"})
    by_text = LabelClassifier.for_data(coded, labels=labels, words=True, **ENCODER)
    assert by_text.label("zinc", top_k=1)[0][0] == "C7"
    plain = LabelClassifier.for_data(data, words=True, name_strength=0, **ENCODER)
    assert not plain.get_layer("words").kernel.numpy().any()


def test_a_learnt_threshold_is_one_more_score(tmp_path):
    data = documents(40)
    loss = bat_tf.losses.get("tlpr", threshold="learnt")
    model = LabelClassifier.for_data(data, learnt_threshold=True, **ENCODER)
    model.compile("adam", loss=loss)
    inputs, labels = next(iter(model.batches(data, 8)))
    (head,) = model.heads
    assert head.label_kernel.shape[0] == len(model.labels) + 1
    # The loss of the L + 1 scores themselves, as for a model of one's own.
    states, _ = model.states(inputs)
    rows = np.transpose(head.label_kernel)
    scores = head.features(states, inputs) @ rows + head.label_bias
    expected = float(loss(labels, scores))
    found = float(model.compute_loss(None, labels, model(inputs)))
    assert found == pytest.approx(expected, rel=1e-5)
    model.fit(data, epochs=2, verbose=0)
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    assert again.label(data.texts[:3]) == model.label(data.texts[:3])


def test_metrics_of_the_validation_data_alone(tmp_path):
    data = documents(20)
    model = LabelClassifier.for_data(data, **ENCODER)
    model.compile("adam", "zlpr", metrics=["micro_f1"], train_metrics=False)
    logs = model.fit(data, validation_data=data, epochs=1, verbose=0).history
    assert {"loss", "val_loss", "val_micro_f1"} == set(logs)
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    assert set(again.fit(data, epochs=1, verbose=0).history) == {"loss"}
