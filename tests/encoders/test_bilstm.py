import layer_cases
import numpy as np
import pytest
import tensorflow as tf
from label_cases import documents
from layer_cases import inputs

from bat_tf import LabelClassifier
from bat_tf.encoders import BiLSTMEncoder

SMALL = {"d_model": 8, "embedding_width": 6, "num_layers": 2}


def build(**settings):
    return BiLSTMEncoder(20, **{**SMALL, **settings})


def test_sizes_are_those_of_attention_xml():
    encoder = BiLSTMEncoder(50)
    embeddings, states = encoder(inputs(3))
    assert embeddings.shape == (1, 3, 300) and states.shape == (1, 3, 512)
    # Four gates of [300 + 256, 256] and a bias in both directions.
    assert encoder.count_params() - 50 * 300 == 2 * 4 * 256 * (300 + 256 + 1)
    assert encoder.embedding.dropout == 0.2 and encoder.drop.rate == 0.5


def test_each_direction_reads_from_its_own_end():
    encoder = build(num_layers=1)
    batch = inputs(5)
    before = np.array(encoder(batch)[-1])
    batch["token_ids"][0, 2] += 1
    changed = np.any(before != np.array(encoder(batch)[-1]), axis=0)
    assert not changed[:2, :4].any() and changed[2:, :4].all()
    assert changed[:3, 4:].all() and not changed[3:, 4:].any()


def test_padding_changes_nothing():
    encoder = build()
    layer_cases.check_padding(encoder, inputs(5, 3, 1))
    batch = inputs(5, 3)
    assert not np.any(encoder(batch)[-1][1, 3:])


def test_compiled_equals_eager():
    encoder = build(num_layers=1)
    encoder(inputs(5, 3))
    layer_cases.check_compiled(encoder, inputs(5, 3))


def test_half_precision():
    layer_cases.check_half_precision(build, inputs(5, 3))


def test_saves_and_loads(tmp_path):
    encoder = build(feature_sizes={"case": 7})
    batch = inputs(5, 3, case=7)
    layer_cases.check_saving(encoder, batch, tmp_path / "bilstm.keras")


def test_dropout_is_for_training():
    encoder = build(embedding_dropout=0.5)
    batch = inputs(5)
    embeddings, *states = encoder(batch, training=True)
    assert np.any(np.array(embeddings) == 0) and np.any(np.array(states[-1]) == 0)
    np.testing.assert_array_equal(encoder(batch)[-1], encoder(batch)[-1])


def test_steps_from_its_embeddings_are_as_wide_as_they_are():
    data = documents(8)
    model = LabelClassifier.for_data(data, "bilstm", d_model=4, embedding_width=6)
    model.compile("adam", "bce")
    batch, _ = next(iter(model.batches(data, 8)))
    shape = model.step_shape(batch).numpy()
    assert shape[-1] == 6
    still = model.perturbed(batch, tf.zeros(shape))
    np.testing.assert_allclose(model(still), model(batch), atol=1e-6)
    moved = model.perturbed(batch, tf.ones(shape))
    assert np.any(np.abs(model(moved) - model(batch)) > 1e-4)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="`d_model` must be even"):
        BiLSTMEncoder(20, d_model=7)
