import numpy as np
from layer_cases import inputs

from bat_tf.layers import TokenEmbedding
from bat_tf.layers.embeddings import sinusoid


def test_sinusoid_equals_the_oracle(vectors):
    case = vectors["layers/sinusoid"]
    found = sinusoid(case["inputs"]["T"], case["inputs"]["d"])
    np.testing.assert_allclose(found, case["expected"]["pe"], atol=2e-5)


def test_features_are_added_to_the_token():
    batch = inputs(4, case=7)
    layer = TokenEmbedding(20, 8, feature_sizes={"case": 7}, positions=False)
    found = layer(batch)
    tables = {name: np.array(t.embeddings) for name, t in layer.tables.items()}
    expected = tables["token_ids"][batch["token_ids"]] + tables["case"][batch["case"]]
    expected = expected * 8**0.5
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_word_dropout_hides_tokens_in_training_only():
    batch = inputs(400)
    layer = TokenEmbedding(20, 4, positions=False, word_dropout=0.5)
    quiet = np.array(layer(batch, training=False))
    noisy = np.array(layer(batch, training=True))
    unknown = np.array(layer.tables["token_ids"].embeddings)[1] * 2
    np.testing.assert_array_equal(quiet, np.array(layer(batch, training=False)))
    hidden = np.all(np.isclose(noisy, unknown), axis=-1).mean()
    assert 0.4 < hidden < 0.65
