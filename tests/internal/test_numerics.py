import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bat_tf._internal import numerics as _numerics


def log_pair(logits):
    logits = tf.constant(logits)
    return _numerics.log_softmax_and_complement(logits, _numerics.top_class(logits))


@settings(deadline=None)
@given(
    st.lists(
        st.floats(-1e4, 1e4, width=32, allow_subnormal=False), min_size=2, max_size=8
    )
)
def test_log_softmax_and_complement_against_float64(logits):
    logits = np.array(logits, "float32")
    z = logits.astype("float64")
    log_p = z - np.logaddexp.reduce(z)
    rest = [np.logaddexp.reduce(np.delete(z, j)) for j in range(len(z))]
    got = log_pair(logits)
    np.testing.assert_allclose(got[0], log_p, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(
        got[1], rest - np.logaddexp.reduce(z), rtol=2e-6, atol=2e-6
    )


def test_probability_that_rounds_to_one_keeps_its_complement():
    log_p, log_not_p = log_pair([40.0, 0.0, 0.0])
    np.testing.assert_allclose(log_not_p[0], np.log(2) - 40, rtol=1e-6)
    np.testing.assert_allclose(log_p[0], -2 * np.exp(-40.0), rtol=1e-5)


def test_top_class_takes_the_lowest_of_equals():
    scores = tf.constant([[1.0, 3.0, 3.0], [0.0, -0.0, 0.0], [-5.0, -5.0, -6.0]])
    np.testing.assert_array_equal(np.argmax(_numerics.top_class(scores), 1), [1, 0, 0])


def test_masked_logsumexp_and_its_empty_set():
    x = tf.constant([[1.0, 2.0, 1e4], [5.0, 6.0, 7.0]])
    mask = tf.constant([[True, True, False], [False, False, False]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = _numerics.masked_logsumexp(x, mask)
    np.testing.assert_allclose(value[0], np.logaddexp(1, 2), rtol=1e-6)
    assert value[1] <= -1e29
    gradient = tape.gradient(value, x).numpy()
    np.testing.assert_allclose(gradient[0], [0.268941, 0.731059, 0], atol=1e-6)
    np.testing.assert_array_equal(gradient[1], 0)


@pytest.mark.parametrize(
    "dtype, expected",
    [("float16", "float32"), ("bfloat16", "float32"), ("float64", "float64")],
)
def test_at_least_float32(dtype, expected):
    assert _numerics.at_least_float32(tf.zeros(2, dtype)).dtype == expected
