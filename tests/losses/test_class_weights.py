import numpy as np
import oracles
import pytest

from bat_tf.losses import class_weights


@pytest.mark.parametrize("size", ["c3", "c5"])
def test_vectors(vectors, size):
    case = vectors[f"token/weights/{size}"]
    counts, expected = case["inputs"]["class_counts"], case["expected"]
    ee, standard = class_weights(counts, "ee"), class_weights(counts, "standard")
    np.testing.assert_allclose(np.diag(ee), expected["alpha_ee"], rtol=1e-7)
    np.testing.assert_allclose(np.diag(standard), expected["alpha_standard"], rtol=1e-7)
    array = class_weights(counts, "array")
    np.testing.assert_allclose(array, expected["array"], rtol=1e-7)
    for true in range(len(counts)):
        others = np.arange(len(counts)) != true
        for weights, name in ((ee, "beta_ee"), (standard, "beta_standard")):
            np.testing.assert_allclose(
                weights[others, true], np.array(expected[name])[others], rtol=1e-7
            )
    np.testing.assert_allclose(
        ee / standard,
        np.tile(expected["ee_over_standard"], (len(counts), 1)).T,
        rtol=1e-7,
    )


@pytest.mark.parametrize("weighting", ["none", "standard", "ee", "array"])
@pytest.mark.parametrize("counts", [[3, 4], [1, 0, 9, 2], [7, 0]])
def test_equals_the_oracle(weighting, counts):
    expected = [
        [
            oracles.positive_weight(counts, true, weighting)
            if component == true
            else oracles.negative_weight(counts, component, true, weighting)
            for true in range(len(counts))
        ]
        for component in range(len(counts))
    ]
    np.testing.assert_allclose(class_weights(counts, weighting), expected)


def test_negatives_of_array_weights_sum_up_to_the_positive():
    weights = class_weights([900, 60, 25, 10, 5], "array")
    np.testing.assert_allclose(weights.sum(axis=0), 2 * np.diag(weights))


@pytest.mark.parametrize(
    "counts, words",
    [
        ([5, -1], "whole numbers of training tokens >= 0"),
        ([5, float("nan")], "whole numbers of training tokens >= 0"),
        ([0.9, 0.1], "Pass counts, not frequencies"),
        ([[1, 2]], "one for each class"),
        ([4], "two or more classes"),
        ("many", "Received: 'many'"),
        ([0, 0, 0], "not all of them 0"),
    ],
)
def test_bad_counts_get_a_sentence(counts, words):
    with pytest.raises(ValueError, match="`class_counts` must be") as error:
        class_weights(counts)
    assert words in str(error.value)


def test_unknown_weighting_gets_the_list():
    with pytest.raises(ValueError, match="'standard', 'ee', 'array'"):
        class_weights([1, 2], "balanced")
