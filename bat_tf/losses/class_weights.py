"""How much each class counts in a token loss.

N_j is the number of labelled training tokens of class j, N their sum, C the number of
classes. A token of true class c weighs its own component with a_c and every other
component j with b_j:

| weighting  | a_c             | b_j                  |
|------------|-----------------|----------------------|
| `none`     | 1               | 1                    |
| `standard` | (N - N_c) / N   | N_j / N              |
| `ee`       | N / N_c         | N / (N - N_j)        |
| `array`    | N / N_c         | N / ((C - 1) N_c)    |

`standard` and the paper's `ee` weigh a negative by its own class, `array` by the true
class of the token: the negatives of a token together weigh as much as its positive.
"""

import keras
import numpy as np
from keras import ops

from bat_tf._internal import validation
from bat_tf._internal.validation import check_choice, check_length, sentence

WEIGHTINGS = ("none", "standard", "ee", "array")


def check_counts(class_counts):
    """Returns `class_counts` as a list of whole numbers, or says what is wrong."""
    remedy = "A class without tokens counts 0."
    settings = {"whole": True, "of": "tokens", "each": "class"}
    counts = validation.check_counts(
        "class_counts", class_counts, None, remedy, **settings
    )
    if len(counts) < 2:
        expected = "of two or more classes"
        raise ValueError(sentence("class_counts", expected, class_counts))
    return [int(count) for count in counts]


@keras.saving.register_keras_serializable(package="bat_tf")
def class_weights(class_counts, weighting="ee"):
    """Returns the weight of every component for every true class.

    The table is at the top of this file. A count of 0 is taken as 1 where it would be
    a denominator: the weight of a class that never occurs in training is large but
    finite, and has no effect there.

    Args:
        class_counts: labelled training tokens per class, length C.
        weighting: `"none"`, `"standard"`, `"ee"` or `"array"`.

    Returns:
        float64 array `[C, C]`, row = component, column = true class: a on the diagonal,
        b off it.

    Example:
        >>> import numpy as np
        >>> from bat_tf.losses import class_weights
        >>> np.round(class_weights([80, 15, 5], "array"), 2)
        array([[ 1.25,  3.33, 10.  ],
               [ 0.62,  6.67, 10.  ],
               [ 0.62,  3.33, 20.  ]])

    Reference:
        Born for Auto-Tagging, appendix A.2.1. The ratio of `ee` to `standard` is
        N²/((N - N_i) N_i) for both a and b; the paper's N is a misprint.
    """
    check_choice("weighting", weighting, WEIGHTINGS)
    counts = np.asarray(check_counts(class_counts), dtype="float64")
    return _weights(counts, weighting, np)


def _weights(counts, weighting, xp):
    """The table [C, C] of float counts [C]; `xp` is NumPy or `keras.ops`."""
    total = xp.maximum(xp.sum(counts), 1.0)
    positive = by_component = by_true_class = xp.ones_like(counts)
    if weighting == "standard":
        positive, by_component = (total - counts) / total, counts / total
    elif weighting != "none":
        positive = total / xp.maximum(counts, 1.0)
        if weighting == "ee":
            by_component = total / xp.maximum(total - counts, 1.0)
        else:
            by_true_class = positive / (counts.shape[0] - 1)
    on_diagonal = np.eye(counts.shape[0], dtype=bool)
    return xp.where(on_diagonal, positive, xp.outer(by_component, by_true_class))


def weight_table(counts, weighting, negatives, positive_scale):
    """Returns λ a and b as an array [true class, component], for checked counts.

    Args:
        counts: float array or tensor [C].
        weighting: see `class_weights`.
        negatives: `"none"` if the other components do not count.
        positive_scale: λ.
    """
    xp = np if isinstance(counts, np.ndarray) else ops
    table = xp.transpose(_weights(counts, weighting, xp))
    others = xp.zeros_like(table) if negatives == "none" else table
    return xp.where(np.eye(table.shape[0], dtype=bool), positive_scale * table, others)


def is_batch(class_counts):
    """Whether the tokens of each batch are to be counted."""
    return isinstance(class_counts, str) and class_counts == "batch"


def counts_for(num_classes, class_counts, weighting):
    """Returns counts as a float array, or says that they do not fit the classes."""
    if weighting == "none":
        class_counts = [1] * num_classes
    elif class_counts is None:
        raise ValueError(counts_needed(weighting))
    remedy = (
        "Count the training tokens of every class of the model, also of those that "
        "never occur."
    )
    check_length("class_counts", class_counts, num_classes, "classes", remedy)
    return np.asarray(check_counts(class_counts), dtype="float64")


def counts_needed(weighting):
    """Returns the sentence for a weighting that has no counts to weigh by."""
    return sentence(
        "class_counts",
        f"given with weighting={weighting!r}",
        None,
        'Pass the labelled training tokens per class, or weighting="none".',
    )
