import layer_cases
import numpy as np
import pytest
from layer_cases import inputs

from bat_tf.encoders import CNNEncoder
from bat_tf.encoders.cnn import Convolutions

SMALL = {"filters": 4, "embedding_width": 6, "num_layers": 2}


def build(**settings):
    return CNNEncoder(20, **{**SMALL, **settings})


def test_sizes_are_those_of_xml_cnn():
    encoder = CNNEncoder(50)
    embeddings, states = encoder(inputs(9))
    assert embeddings.shape == (1, 9, 300) and states.shape == (1, 9, 384)
    assert encoder.d_model == 384
    assert encoder.count_params() - 50 * 300 == (2 + 4 + 8) * 300 * 128 + 3 * 128


def test_convolutions_are_along_time():
    layer = Convolutions(2, [1, 4])
    x = layer_cases.states(1, 7, 3)
    real = np.ones((1, 7), bool)
    found = np.array(layer(x, real))
    padded = np.pad(x[0], [(1, 2), (0, 0)])  # a width of 4 sees one before, two after
    for width, rows, part in ((1, x[0], slice(0, 2)), (4, padded, slice(2, 4))):
        kernel = layer.convolutions[layer.kernel_sizes.index(width)].kernel
        kernel = np.array(kernel).reshape(width * 3, 2)
        windows = np.stack([rows[t : t + width].ravel() for t in range(7)])
        expected = np.maximum(windows @ kernel, 0)
        np.testing.assert_allclose(found[0, :, part], expected, atol=1e-5)


def test_padding_changes_nothing():
    layer_cases.check_padding(build(), inputs(9, 3, 1))


def test_compiled_equals_eager():
    encoder = build()
    encoder(inputs(5, 3))
    layer_cases.check_compiled(encoder, inputs(5, 3))


def test_half_precision():
    layer_cases.check_half_precision(build, inputs(5, 3))


def test_saves_and_loads(tmp_path):
    encoder = build(feature_sizes={"case": 7})
    batch = inputs(5, 3, case=7)
    layer_cases.check_saving(encoder, batch, tmp_path / "cnn.keras")


def test_bad_widths_are_refused():
    for widths in ((), (2, 0)):
        with pytest.raises(ValueError, match="`kernel_sizes` must be one width"):
            CNNEncoder(20, kernel_sizes=widths)
