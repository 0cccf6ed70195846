"""Sparse features of tokens: which there are, what they weigh, how they are learnt."""

import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny
from bert_folders import write_folder

import bat_tf
from bat_tf.heads import SparseTagHead
from bat_tf.heads.sparse_tags import (
    GAIN,
    count_features,
    feature_keys,
    templates_for,
)
from bat_tf.runs.build import new_model
from bat_tf.runs.settings import Settings
from bat_tf.text.features import FEATURES
from bat_tf.training.optimizers import ROW_START

SIZES = {"token_ids": 7, "case": 4}
TEMPLATES = [
    [["token_ids", 0]],
    [["token_ids", -1], ["token_ids", 0]],
    [["case", 1], ["token_ids", 0]],
    [["case", 0]],
    [["case", -2]],
]


def drawn(seed=0, rows=4, length=6):
    random = np.random.default_rng(seed)
    mask = np.arange(length) < random.integers(1, length + 1, (rows, 1))
    return {
        "token_ids": random.integers(0, 7, (rows, length)) * mask,
        "case": random.integers(0, 4, (rows, length)) * mask,
        "padding_mask": mask,
    }


def by_hand(inputs):
    """Of each token, its features as tuples: template, then what stands there."""
    found = {}
    for row, mask in enumerate(inputs["padding_mask"]):
        for place in np.flatnonzero(mask):
            found[row, place] = []
            for template in TEMPLATES:
                parts = []
                for name, offset in template:
                    at = place + offset
                    here = 0 <= at < mask.sum()
                    parts.append(int(inputs[name][row, at]) if here else None)
                found[row, place].append((str(template), *parts))
    return found


def test_features_are_those_written_out():
    inputs = drawn()
    keys = feature_keys(inputs, TEMPLATES, SIZES).numpy()
    names = {}
    for (row, place), features in by_hand(inputs).items():
        for key, feature in zip(keys[row, place], features, strict=True):
            assert names.setdefault(key, feature) == feature
    assert len(set(names.values())) == len(names)


def test_padding_and_company_change_no_feature():
    inputs = drawn()
    keys = feature_keys(inputs, TEMPLATES, SIZES).numpy()
    wide = {name: np.pad(x, [(0, 1), (0, 5)]) for name, x in inputs.items()}
    mask = inputs["padding_mask"]
    found = feature_keys(wide, TEMPLATES, SIZES).numpy()[:4, :6]
    assert (found[mask] == keys[mask]).all()


def head_with_features(**settings):
    inputs = drawn()
    keys = count_features([inputs], TEMPLATES, SIZES)
    head = SparseTagHead(3, len(keys), SIZES, TEMPLATES, **settings)
    head.set_features(keys)
    head.kernel.assign(np.random.default_rng(1).normal(size=head.kernel.shape))
    head.bias.assign([1.0, 2.0, 3.0])
    return head, inputs


def test_logits_are_sums_of_weights():
    head, inputs = head_with_features()
    other = drawn(5)
    keys, kernel = head.keys.numpy(), head.kernel.numpy()
    for given in (inputs, other):
        found, logits = feature_keys(given, TEMPLATES, SIZES).numpy(), head([], given)
        for row, place in np.argwhere(given["padding_mask"]):
            wanted = head.bias.numpy()
            for key in found[row, place]:
                (at,) = np.nonzero(keys == key)
                wanted = wanted + GAIN * kernel[at].sum(0)
            np.testing.assert_allclose(logits[row, place], wanted, rtol=1e-4)


def test_frequent_features_are_chosen():
    inputs = drawn()
    counts = {}
    for features in by_hand(inputs).values():
        for feature in features:
            counts[feature] = counts.get(feature, 0) + 1
    twice = count_features([inputs], TEMPLATES, SIZES, min_count=2)
    assert len(twice) == sum(count > 1 for count in counts.values())
    parts = [{name: x[part] for name, x in inputs.items()} for part in ([0, 1], [2, 3])]
    again = count_features(parts, TEMPLATES, SIZES, min_count=2)
    assert again.tolist() == twice.tolist()
    most = count_features([inputs], TEMPLATES, SIZES, most=4)
    assert len(most) == 4 and set(most) <= set(twice)


def test_training_hides_features_and_answers_do_not():
    head, inputs = head_with_features(dropout=0.5)
    sure = head([], inputs).numpy()
    np.testing.assert_array_equal(head([], inputs).numpy(), sure)
    drawn_twice = [head([], inputs, training=True).numpy() for _ in range(2)]
    assert (drawn_twice[0] != drawn_twice[1]).any()


@pytest.mark.parametrize("kind", [bat_tf.optimizers.Adam, bat_tf.optimizers.AdamW])
def test_a_step_touches_rows_that_have_a_gradient_alone(kind):
    """Adagrad with a divisor for each row, one that occurs twice counting once."""
    variable = keras.Variable(np.ones((5, 2), "float32"), name="kernel")
    variable.updates_rows = True
    optimizer = kind(0.1, clipnorm=100.0)
    optimizer.build([variable])
    kernel, squares, usual = np.ones((5, 2)), np.zeros((5, 1)), []
    for rows in ([1, 3, 1], [3, 0, 0]):
        values = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]])
        slices = tf.IndexedSlices(tf.constant(values, tf.float32), rows, [5, 2])
        optimizer.apply([slices], [variable])
        gradient = np.zeros((5, 2))
        np.add.at(gradient, rows, values)
        squares += (gradient**2).sum(-1, keepdims=True)
        usual.append((gradient**2).sum() / 2)  # two rows a step
        kernel -= 0.1 * gradient / np.sqrt(squares + ROW_START * np.mean(usual))
    np.testing.assert_allclose(variable.numpy(), kernel, rtol=1e-5)
    assert (variable.numpy()[[2, 4]] == 1).all()


def alone(**settings):
    bat_tf.training.set_seed(1, deterministic=False)
    settings = {"crf": True, "sparse": True, **settings}
    return bat_tf.BATTagger.for_data(tiny.dataset(), "none", **settings)


def test_without_an_encoder_it_learns_and_is_saved(tmp_path):
    model = alone()
    assert model.tokenizer.features
    model.compile(bat_tf.optimizers.AdamW(1e-3), metrics=["span_f1"])
    history = model.fit(tiny.dataset(), epochs=4, verbose=0).history
    assert history["span_f1"][-1] > 0.8
    texts = [*tiny.dataset(12, "test").texts, ""]
    found = model.tag(texts)
    assert sum(map(len, found)) > 10
    model.save(tmp_path / "model.keras")
    assert bat_tf.load(tmp_path / "model.keras").tag(texts) == found


@pytest.mark.slow
def test_an_export_computes_its_features_itself(tmp_path):
    model = alone()
    model.compile(bat_tf.optimizers.AdamW(1e-3))
    model.fit(tiny.dataset(), epochs=2, verbose=0)
    texts = [*tiny.dataset(12, "test").texts, ""]
    model.export(tmp_path / "1")
    found, served = model.tag(texts), bat_tf.load(tmp_path / "1").tag(texts)
    assert sum(map(len, found)) > 10
    assert [[tag[:3] for tag in row] for row in served] == [
        [tag[:3] for tag in row] for row in found
    ]


@pytest.mark.parametrize(
    "tokenizer", ["characters", pytest.param("words", marks=pytest.mark.slow)]
)
def test_it_stands_beside_an_encoder(tokenizer):
    model = tiny.tagger(tokenizer=tokenizer, sparse=True, sparse_features=500)
    assert [type(head).__name__ for head in model.heads] == ["TagHead", "SparseTagHead"]
    assert model.heads[1].num_features == 500
    losses = model.fit(tiny.dataset(), epochs=2, verbose=0).history["loss"]
    assert losses[1] < losses[0]
    assert model.heads[1].kernel.numpy().any()


def test_characters_have_n_grams_and_words_affixes():
    sizes = bat_tf.text.TextTokenizer("words", features=["case", "suffix3"])
    sizes = {"token_ids": 10, **sizes.feature_sizes}
    words, characters = templates_for(sizes), templates_for(sizes, True)
    assert [("suffix3", 0)] in words
    assert [("token_ids", -1), ("token_ids", 0), ("token_ids", 1)] in characters


def test_settings_reach_it():
    settings = Settings.of(
        data="product_pages/en", encoder="none", heads={"crf": True, "sparse": True}
    )
    model = new_model(
        settings.changed(**{"heads.sparse_features": 50}), tiny.dataset(8)
    )
    assert model.heads[0].num_features == 50 and model.transitions is not None
    with pytest.raises(ValueError, match="`sparse` must be True beside"):
        alone(sparse=False)


def test_beside_a_pretrained_encoder_it_sees_case_and_affixes(tmp_path):
    write_folder(tmp_path)
    pieces = "[PAD] [UNK] [CLS] [SEP] [MASK] a lamp by new old".split()
    pieces += [f"##{letter}" for letter in "abcdefghij"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces))
    settings = {"sparse": True, "crf": True, "max_length": 8, "overlap": 2}
    model = bat_tf.BATTagger.for_data(
        tiny.dataset(8), "bert", backbone=str(tmp_path), **settings
    )
    assert set(model.heads[1].sizes) == {"token_ids", *FEATURES}
    model.compile("adam", "crf")
    model.fit(tiny.dataset(8), epochs=1, verbose=0)
    assert isinstance(model.tag("a new lamp"), list)
