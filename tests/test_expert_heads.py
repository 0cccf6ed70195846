"""The notation of experts, and that each reads the layers it names."""

import numpy as np
import pytest

from bat_tf.encoders import BATEncoder
from bat_tf.models.expert_heads import ExpertHeads, parse_expert, words_head

IDS = np.array([[5, 7, 3, 0]])
INPUTS = {"token_ids": IDS, "padding_mask": IDS > 0}


@pytest.fixture
def heads():
    encoder = BATEncoder(10, d_model=8, d_ff=8, num_heads=2, num_layers=2)
    names = ["D-2", "D-(2+0)", "A-1", "S"]
    return ExpertHeads(
        names, encoder, 3, "mean", 0, 0.0, lambda: words_head(3, np.ones(10))
    )


@pytest.mark.parametrize(
    "name, match", [("B-1", "like"), ("D-7", "layers 0 to 6"), ("A-", "like")]
)
def test_bad_names(name, match):
    with pytest.raises(ValueError, match=match):
        parse_expert(name, 6)


def test_document_experts_see_the_mean_of_their_layers(heads):
    states = heads.encoder(INPUTS)
    means = [np.asarray(state)[:, :3].mean(axis=1) for state in states]
    heads.logits(INPUTS)
    for number, expected in ((0, means[2]), (1, np.concatenate(means[2::-2], 1))):
        found = heads.features(INPUTS, number)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="the place of a document expert"):
        heads.features(INPUTS, 2)


def test_some_labels_are_scored_as_among_all(heads):
    every = np.asarray(heads.logits(INPUTS))
    assert every.shape == (1, 4, 3)
    some = heads.logits({**INPUTS, "candidates": np.array([2, 0])})
    np.testing.assert_allclose(some, every[:, :, [2, 0]], rtol=1e-5, atol=1e-6)
