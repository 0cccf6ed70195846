"""ExpertClassifier: experts on several layers, from texts to a SavedModel."""

import keras
import numpy as np
import pytest
from label_cases import ENCODER, documents

import bat_tf
from bat_tf.data import LabelSpace, pipeline
from bat_tf.heads.sparse_words import GAIN, tfidf_matrix
from bat_tf.models import ExpertClassifier

DEEP = {**ENCODER, "num_layers": 2}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(0)
    experts = ["D-(2+0)", "A-1", "S"]
    model = ExpertClassifier.for_data(
        documents(), experts=experts, pooling="mean", expert_width=8, **DEEP
    )
    model.compile(bat_tf.optimizers.Adam(0.01), loss="zlpr", metrics=["micro_f1"])
    model.fit(documents(), epochs=8, batch_size=16, verbose=0)
    return model


def test_learns_and_reports_as_other_models_do(model):
    test = documents(40, seed=1)
    report = model.evaluate_report(test)
    assert report.values["micro_f1"] > 0.95
    more = model.evaluate_report(test, metrics=["precision_at_1", "psp_at_1"]).values
    scores = model.scores(test)
    psp = bat_tf.metrics.get(
        "psp_at_1",
        label_counts=model.labels.counts.tolist(),
        num_examples=model.labels.num_examples,
    )
    psp.update_state(model.labels.csr(test.labels), scores)
    assert more["psp_at_1"] == pytest.approx(float(psp.result()), abs=1e-6)
    hits = model.labels.csr(test.labels).toarray()[range(len(scores)), scores.argmax(1)]
    assert more["precision_at_1"] == pytest.approx(hits.mean(), abs=1e-6)
    logs = model.evaluate(test, return_dict=True, verbose=0)
    assert logs["micro_f1"] == pytest.approx(report.values["micro_f1"], abs=1e-6)
    assert model.loss.epoch == 8 and model.loss.base.name == "zlpr"
    assert [name for name, _ in model.label("oil and gas")] == ["energy"]


def test_experts_read_what_their_names_say(model):
    inputs, _ = next(iter(model.batches(documents(8), 8)))
    assert model(inputs).shape == (8, 3, 3)
    assert model.get_layer("document_1").hidden.kernel.shape == (32, 8)
    assert model.get_layer("attention_2").attention.label_kernel.shape == (3, 16)
    assert model.get_layer("words").kernel.shape[1] == 3


def test_answer_is_the_mean_of_the_experts(vectors):
    case = vectors["experts/inference"]
    logits = np.moveaxis(np.float32(case["inputs"]["expert_logits"]), 0, 1)
    model = ExpertClassifier.for_data(documents(8), experts=["D-1"], **ENCODER)
    found = 1 / (1 + np.exp(-np.asarray(model.combined(logits))))
    (expected,) = case["expected"].values()
    np.testing.assert_allclose(found, expected, atol=2e-5)
    extreme = np.array([[[900.0, -900.0], [900.0, -800.0]]], "float32")
    assert np.isfinite(model.combined(extreme)).all()


def test_answer_is_the_mean_of_the_logits():
    data = documents(8)
    settings = {"experts": ["D-1"], "combine": "logits", **ENCODER}
    model = ExpertClassifier.for_data(data, **settings)
    logits = np.array([[[9.0, -1.0], [-3.0, 2.0]]], "float32")
    np.testing.assert_allclose(model.combined(logits), [[3.0, 0.5]])
    again = ExpertClassifier.from_config(model.get_config())
    assert again.combine.of == "logits"
    with pytest.raises(ValueError, match="`combine` must be"):
        ExpertClassifier.for_data(data, **{**settings, "combine": "votes"})


def test_labels_of_a_word_say_nothing_without_words():
    model = ExpertClassifier.for_data(
        documents(8), experts=["D-1"], pairs_per_word=2, **ENCODER
    )
    assert [head.name for head in model.heads] == ["document_1"]


def test_saved_exported_and_tuned(model, tmp_path):
    texts = documents(6, seed=2).texts
    model.fit_thresholds(documents(40, seed=1))
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.scores(texts), model.scores(texts), atol=1e-5)
    assert again.cut == model.cut
    assert again.loss.epoch == model.loss.epoch
    served = bat_tf.load(model.export(tmp_path / "served" / "1"))
    for ours, theirs in zip(model.label(texts), served.label(texts), strict=True):
        assert [name for name, _ in ours] == [name for name, _ in theirs]


def test_cached_states_and_the_experts_above_them(tmp_path):
    data = documents(16)
    encoder = bat_tf.encoders.BertEncoder(
        40, 8, d_ff=8, num_heads=2, num_layers=2, frozen_layers=1
    )
    model = ExpertClassifier.for_data(data, encoder, experts=["D-2", "A-1"])
    model.compile("adam", "bce")
    (inputs, _), (stored, _) = (
        next(iter(model.batches(data, 8, cache=cache))) for cache in (False, True)
    )
    np.testing.assert_allclose(model(inputs), model(stored), atol=5e-3)
    low = ExpertClassifier.for_data(data, encoder, experts=["A-0"])
    low.compile("adam", "bce")
    with pytest.raises(ValueError, match="'attention_1' reads layer 0, below layer 1"):
        low(stored)


@pytest.mark.slow
def test_of_a_frozen_encoder_the_layers_that_are_read_are_kept(tmp_path):
    data, folder = documents(20), tmp_path / "states"
    encoder = bat_tf.encoders.BertEncoder(
        40, 8, d_ff=8, num_heads=2, num_layers=2, frozen_layers=2
    )
    experts = ["A-1", "D-2", "A-0"]
    model = ExpertClassifier.for_data(data, encoder, experts=experts)
    model.compile("adam", "zlpr")
    settings = {"batch_size": 8, "validation_data": data, "verbose": 0}
    model.fit(data, epochs=2, cache_backbone=folder, **settings)
    (path,) = folder.iterdir()
    assert np.load(path).shape[1] == 3 * 8
    kept = model.scores(data, cache_backbone=folder)
    np.testing.assert_allclose(model.scores(data), kept, atol=5e-3)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "jit_compile", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_of_a_frozen_encoder_pooled_states_are_all_that_is_kept(tmp_path, jit_compile):
    data, folder = documents(20), tmp_path / "states"
    encoder = bat_tf.encoders.BertEncoder(
        40, 8, d_ff=8, num_heads=2, num_layers=2, frozen_layers=2, dropout=0.1
    )
    experts = ["D-2", "D-(0+2)", "S"]
    model = ExpertClassifier.for_data(data, encoder, experts=experts, pooling="mean")
    model.compile("adam", "zlpr", jit_compile=jit_compile)
    before = model.scores(data, cache_backbone=folder)
    np.testing.assert_allclose(model.scores(data), before, atol=5e-3)
    (path,) = folder.iterdir()
    assert np.load(path).shape == (20, 2 * 8)  # a text, not a token, of two layers
    kwargs = {"epochs": 2, "batch_size": 8, "validation_data": data, "verbose": 0}
    history = model.fit(data, cache_backbone=folder, **kwargs).history["loss"]
    assert len(list(folder.iterdir())) == 1 and history[1] < history[0]
    after = model.scores(data, cache_backbone=folder)
    np.testing.assert_allclose(model.scores(data), after, atol=5e-3)
    assert np.abs(after - before).max() > 0.01
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.scores(data), model.scores(data), atol=1e-5)
    # Another pooling has other states; below one that learns, those of tokens are kept.
    for pooling in ("max", "attention"):
        other = ExpertClassifier.for_data(
            data, encoder, experts=["D-2"], pooling=pooling
        )
        kept = other.scores(data, cache_backbone=folder)
        np.testing.assert_allclose(other.scores(data), kept, atol=5e-3)
    assert len(list(folder.iterdir())) == 3


@pytest.mark.slow
def test_candidates_learn_what_all_labels_do(tmp_path):
    """Beside three labels that texts have, thirty that none has."""
    data = documents()
    space = LabelSpace.fit(data.labels)
    names = [*space.names, *(f"other {number}" for number in range(30))]
    counts = [*space.counts, *[1] * 30]
    space = LabelSpace(names, counts=counts, num_examples=space.num_examples)
    keras.utils.set_random_seed(0)
    model = ExpertClassifier.for_data(
        data,
        labels=space,
        experts=["D-1", "A-0", "S"],
        candidates=8,
        pairs_per_word=4,
        expert_width=8,
        **ENCODER,
    )
    model.compile(bat_tf.optimizers.Adam(0.01), loss="bce", metrics=["micro_f1"])
    model.fit(data, validation_data=data, epochs=8, batch_size=16, verbose=0)
    inputs, _ = next(iter(model.batches(data, 8)))
    assert model(inputs).shape == (8, 3, 33)
    some = keras.ops.arange(8, dtype="int32")
    assert model(inputs | {"candidates": some}).shape == (8, 3, 8)
    test = documents(40, seed=1)
    assert model.evaluate_report(test).values["micro_f1"] > 0.95
    model.save(tmp_path / "model.keras")
    again = bat_tf.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.scores(test), model.scores(test), atol=1e-5)
    np.testing.assert_array_equal(again.choose.hard, model.choose.hard)
    again.fit(data, epochs=1, verbose=0)


@pytest.mark.slow
def test_words_are_fitted_first_and_stay(tmp_path):
    data, test = documents(), documents(60, seed=3)
    model = ExpertClassifier.for_data(
        data, experts=["D-1", "S"], words_fitted=True, **ENCODER
    )
    tokens = pipeline.text_examples(test.texts, model.tokenizer, model.max_length)
    words = model.get_layer("words")
    inputs = pipeline.pack_inputs(tokens, model.tokenizer)
    logits = words([], inputs).numpy()
    features = tfidf_matrix(tokens["token_ids"], words.idf)
    kernel = GAIN * words.kernel.numpy()
    np.testing.assert_allclose(
        logits, features @ kernel + words.label_bias.numpy(), atol=1e-4
    )
    # Probabilities, of texts that were not fitted to: as often right as they say.
    truth = model.labels.multi_hot(test.labels)
    chances = 1 / (1 + np.exp(-logits))
    assert abs(chances.mean() - truth.mean()) < 0.05
    assert ((chances > 0.5) == truth).mean() > 0.95
    before = words.kernel.numpy()
    model.compile("adam", "bce")
    model.save(tmp_path / "model.keras")
    for one in (model, bat_tf.load(tmp_path / "model.keras")):
        one.fit(data, epochs=1, verbose=0)
        np.testing.assert_array_equal(one.get_layer("words").kernel, before)


@pytest.mark.parametrize("more", [{"experts": ["D-1"]}, {"pairs_per_word": 2}])
def test_words_that_cannot_be_fitted_first(more):
    settings = {"experts": ["S"], **ENCODER, **more}
    with pytest.raises(ValueError, match="`words_fitted` must be with an expert `S`"):
        ExpertClassifier.for_data(documents(16), words_fitted=True, **settings)


def test_begins_at_how_frequent_labels_are():
    model = ExpertClassifier.for_data(
        documents(), experts=["D-1", "A-1", "S"], name_strength=0, **ENCODER
    )
    share = model.labels.counts / model.labels.num_examples
    for head in (model.get_layer("document_1"), model.get_layer("words")):
        found = 1 / (1 + np.exp(-head.label_bias.numpy()))
        np.testing.assert_allclose(found, share, rtol=1e-5)


def test_bad_experts_and_losses():
    with pytest.raises(ValueError, match="one at least"):
        ExpertClassifier.for_data(documents(8), experts=[], **ENCODER)
    model = ExpertClassifier.for_data(documents(8), experts=["D-1"], **ENCODER)
    with pytest.raises(ValueError, match="a loss for document labels"):
        model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))


def test_names_of_labels_are_known_before_training(minilm):
    names = ["astronomy", "cookery", "shipbuilding"]
    data = bat_tf.TextDataset(
        bat_tf.data.Example(f"nothing to go by {n}", labels=[n]) for n in names
    )
    model = ExpertClassifier.for_data(
        data,
        "bert",
        backbone=str(minilm),
        experts=["D-6"],
        pooling="mean",
        expert_width=0,
        name_likeness=12.0,
    )
    texts = ["Stars and planets", "A hundred soups and stews", "How ferries were made"]
    assert model.scores(texts).argmax(axis=1).tolist() == [
        model.labels.names.index(name) for name in names
    ]
    with pytest.raises(ValueError, match="name_likeness"):
        model.start_from_names(-1)


@pytest.mark.slow
def test_disagreement_is_the_divergence_of_the_experts(model):
    test = documents(20, seed=2)
    ((rows, inputs),) = _whole(model, test)
    logits = np.asarray(model(inputs, training=False))
    chance = 1 / (1 + np.exp(-2.0 * logits.astype("float64")))  # of ZLPR

    def kl(p, q):
        return (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).sum(-1).mean()

    pairs = [(i, j) for i in range(3) for j in range(3) if i != j]
    expected = np.mean([kl(chance[:, i], chance[:, j]) for i, j in pairs])
    assert model.disagreement(test, 8) == pytest.approx(expected, rel=1e-4)
    hot = model.labels.csr(test.labels).toarray()[rows]

    def kl_true(p, q):
        apart = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
        return (hot * apart).sum(-1).mean()

    expected = np.mean([kl_true(chance[:, i], chance[:, j]) for i, j in pairs])
    found = model.disagreement(test, 8, true_labels=True)
    assert found == pytest.approx(expected, rel=1e-4)
    ranking = ExpertClassifier.for_data(documents(8), experts=["D-1", "S"], **ENCODER)
    ranking.compile("adam", "rl")
    ranking.fit(documents(8), verbose=0)
    with pytest.raises(ValueError, match="have no probabilities"):
        ranking.disagreement(test)


def _whole(model, data):
    tokens = pipeline.text_examples(data.texts, model.tokenizer, model.max_length)
    return pipeline.text_batches(tokens, model.tokenizer, len(data))
