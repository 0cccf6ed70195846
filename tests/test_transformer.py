import keras
import layer_cases
from layer_cases import inputs

from bat_tf.encoders import TransformerEncoder

SMALL = {"d_model": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2}


def build(**settings):
    return TransformerEncoder(20, **{**SMALL, **settings})


def test_parameters_are_those_of_the_comparison():
    encoder = TransformerEncoder(50)
    encoder(inputs(3))
    head = keras.layers.Dense(3)
    head.build((None, None, 128))
    assert encoder.count_params() + head.count_params() - 50 * 128 == 793_475


def test_padding_changes_nothing():
    layer_cases.check_padding(build(), inputs(5, 3, 1))


def test_compiled_equals_eager():
    encoder = build()
    encoder(inputs(5, 3))
    layer_cases.check_compiled(encoder, inputs(5, 3))


def test_half_precision():
    layer_cases.check_half_precision(build, inputs(5, 3))


def test_saves_and_loads(tmp_path):
    encoder = build(feature_sizes={"case": 7})
    batch = inputs(5, 3, case=7)
    layer_cases.check_saving(encoder, batch, tmp_path / "transformer.keras")
