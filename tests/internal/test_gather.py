"""Rows of ragged values and columns of logits."""

import numpy as np
import pytest
import tensorflow as tf

from bat_tf._internal.gather import of_some, owners, rows_of

COUNTS = [2, 0, 3, 1]


@pytest.mark.parametrize("rows", [[2, 0, 2, 1], [1], []])
def test_rows_are_those_of_a_loop(rows):
    splits = np.cumsum([0, *COUNTS]).astype("int32")
    values = np.arange(6, dtype="float32")
    found = rows_of(values, splits, tf.constant(rows, tf.int32))
    expected = [values[splits[row] : splits[row + 1]] for row in rows]
    np.testing.assert_array_equal(found, np.concatenate([[], *expected]))


@pytest.mark.parametrize("counts", [COUNTS, [0, 0], [0, 4], []])
def test_owners_are_repeated_numbers(counts):
    found = owners(tf.constant(counts, tf.int32))
    np.testing.assert_array_equal(found, np.repeat(np.arange(len(counts)), counts))


def test_columns_of_all_and_of_some():
    logits = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(of_some(logits, None), logits)
    np.testing.assert_array_equal(of_some(logits, [2, 0]), logits[:, [2, 0]])
