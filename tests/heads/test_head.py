"""What every head does: builds from its settings, reloads, reads states of any form."""

import keras
import numpy as np
import pytest
import scipy.sparse

from bat_tf.encoders import BATEncoder
from bat_tf.heads import (
    AttentionHead,
    DocumentHead,
    NeighbourHead,
    TagHead,
    WordsHead,
)

IDS = np.array([[5, 7, 3, 0], [2, 1, 0, 0]])
INPUTS = {"token_ids": IDS, "padding_mask": IDS > 0}
LABELS = scipy.sparse.csr_matrix([[1, 0, 0], [0, 1, 1]])


def neighbours():
    return NeighbourHead(3, 2, 3, layers=[1], neighbours=1)


HEADS = {
    "tags": (lambda: TagHead(3, dropout=0.1), (2, 4, 3)),
    "document": (lambda: DocumentHead(3, layers=[2, 0], width=4), (2, 3)),
    "attention": (lambda: AttentionHead(3, layers=[1]), (2, 3)),
    "words": (lambda: WordsHead(3, np.ones(10)), (2, 3)),
    "neighbours": (neighbours, (2, 3)),
}


@pytest.fixture(scope="module")
def encoder():
    encoder = BATEncoder(10, d_model=8, d_ff=8, num_heads=2, num_layers=2)
    encoder.build(None)
    return encoder


def built(name, encoder):
    head = HEADS[name][0]()
    head.build_on(encoder)
    if name == "neighbours":
        head.remember(np.random.default_rng(0).normal(size=(2, 8)), LABELS)
    return head


@pytest.mark.parametrize("name", HEADS)
def test_is_built_by_its_settings_and_not_by_a_batch(name, encoder):
    head = built(name, encoder)
    weights = [(w.path.rpartition("/")[2], tuple(w.shape)) for w in head.weights]
    found = head(encoder(INPUTS), INPUTS)
    assert found.shape == HEADS[name][1] and np.isfinite(found).all()
    after = [(w.path.rpartition("/")[2], tuple(w.shape)) for w in head.weights]
    assert weights == after and (weights or name == "neighbours")


@pytest.mark.parametrize("name", HEADS)
def test_reloads_with_its_weights(name, encoder):
    head, states = built(name, encoder), encoder(INPUTS)
    again = keras.layers.deserialize(keras.layers.serialize(head))
    assert again.get_config() == head.get_config()
    again.build_on(encoder)
    again.set_weights(head.get_weights())
    np.testing.assert_allclose(again(states, INPUTS), head(states, INPUTS), atol=1e-6)
    # Keras looks for layers inside, as models have them, under this name.
    assert not hasattr(head, "layers")


@pytest.mark.parametrize("name", HEADS)
def test_states_by_the_number_of_their_layer(name, encoder):
    head, states = built(name, encoder), encoder(INPUTS)
    found = head(dict(enumerate(states)), INPUTS)
    np.testing.assert_allclose(found, head(states, INPUTS), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in HEADS if name != "tags"])
def test_padding_changes_nothing(name, encoder):
    head = built(name, encoder)
    wide = {key: np.pad(value, [(0, 0), (0, 5)]) for key, value in INPUTS.items()}
    found = head(encoder(wide), wide)
    np.testing.assert_allclose(found, head(encoder(INPUTS), INPUTS), atol=1e-5)


def test_what_stands_in_for_a_text_is_one_token(encoder):
    head = DocumentHead(3, layers=[1], pooling="mean")
    states = encoder(INPUTS)
    expected = head(states, INPUTS)
    document = head.document(states, INPUTS)
    given = {**INPUTS, "states_mask": np.ones((2, 1), bool)}
    found = head({1: document[:, None]}, given)
    np.testing.assert_allclose(found, expected, atol=1e-6)
