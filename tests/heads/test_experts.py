"""The notation of experts, and that each head reads the layers it names."""

import numpy as np
import pytest

from bat_tf.encoders import BATEncoder
from bat_tf.heads.experts import expert_heads, parse_expert

IDS = np.array([[5, 7, 3, 0]])
INPUTS = {"token_ids": IDS, "padding_mask": IDS > 0}


@pytest.fixture(scope="module")
def parts():
    encoder = BATEncoder(10, d_model=8, d_ff=8, num_heads=2, num_layers=2)
    names = ["D-2", "D-(2+0)", "A-1", "S"]
    settings = {"pooling": "mean", "width": 0, "idf": np.ones(10)}
    return encoder(INPUTS), expert_heads(names, encoder, 3, **settings)


@pytest.mark.parametrize(
    "name, match", [("B-1", "like"), ("D-7", "layers 0 to 6"), ("A-", "like")]
)
def test_bad_names(name, match):
    with pytest.raises(ValueError, match=match):
        parse_expert(name, 6)


def test_document_heads_see_the_mean_of_their_layers(parts):
    states, heads = parts
    means = [np.asarray(state)[:, :3].mean(axis=1) for state in states]
    for head, expected in (
        (heads[0], means[2]),
        (heads[1], np.concatenate(means[2::-2], 1)),
    ):
        np.testing.assert_allclose(head.features(states, INPUTS), expected, rtol=1e-5)


def test_some_labels_are_scored_as_among_all(parts):
    states, heads = parts
    for head in heads:
        every = np.asarray(head(states, INPUTS))
        assert every.shape == (1, 3)
        some = head(states, {**INPUTS, "candidates": np.array([2, 0])})
        np.testing.assert_allclose(some, every[:, [2, 0]], rtol=1e-5, atol=1e-6)


def test_a_head_counts_layers_from_both_ends(parts):
    states, (head, *_) = parts
    last = type(head).from_config({**head.get_config(), "layers": [-1]})
    last(states, INPUTS)
    last.set_weights(head.get_weights())
    np.testing.assert_allclose(last(states, INPUTS), head(states, INPUTS), rtol=1e-6)
    deep = type(head).from_config({**head.get_config(), "layers": [3]})
    with pytest.raises(ValueError, match="`layers` must be on layers 0 to 2"):
        deep(states, INPUTS)


def test_cached_states_begin_further_up(parts):
    states, heads = parts
    upper = {2: states[2]}
    assert heads[0](upper, INPUTS).shape == (1, 3)
    with pytest.raises(ValueError, match="reads layer 1, below layer 2"):
        heads[2](upper, INPUTS)
