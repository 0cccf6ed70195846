"""The tags of a batch of tokens, as integers or one-hot, as Keras has both.

| what comes                            | what it is                                |
|---------------------------------------|-------------------------------------------|
| integer `[B, T]`, or `[B, T, 1]`      | tags; `ignore_index` where none counts    |
| any type, `[B, T, C]` as the scores   | one-hot; a row of zeros where none counts |

The shape decides, never the values or the type. What does not count is told in three
ways, which add up: a token counts if its tag is not `ignore_index`, its one-hot row is
not empty, and Keras' mask on the scores, where there is one, is True. A mask never
brings back a token whose tag says that it does not count, and where it is False the tag
may be anything, as in a stock pipeline that pads with 0.
"""

from keras import ops

from bat_tf._internal.keras_private import keras_mask
from bat_tf._internal.validation import sentence


def is_one_hot(y_true, y_pred):
    """Whether tags have the shape of the scores `[..., C]`."""
    true, scores = tuple(y_true.shape), tuple(y_pred.shape)
    return len(true) == len(scores) and true[-1] == scores[-1]


def of_one_hot(y_true, ignore_index=-1):
    """Returns one-hot tags `[..., C]` as int32 `[...]`."""
    # Not argmax alone: an empty row would be the first class.
    hot = ops.cast(y_true, "float32")
    tags = ops.cast(ops.argmax(hot, axis=-1), "int32")
    return ops.where(ops.any(hot > 0, axis=-1), tags, ignore_index)


def integer_tags(y_true, y_pred, ignore_index=-1):
    """Returns int32 tags `[...]` for scores `[..., C]`, or says what does not fit.

    Args:
        y_true: see the table at the top of this file.
        y_pred: scores; Keras' mask on them takes tokens out.
        ignore_index: what tokens that do not count get.
    """
    y_true = ops.convert_to_tensor(y_true)
    if is_one_hot(y_true, y_pred):
        tags = of_one_hot(y_true, ignore_index)
    else:
        tags = ops.cast(y_true, "int32")
        if len(tags.shape) == len(y_pred.shape) and tags.shape[-1] == 1:
            tags = ops.squeeze(tags, axis=-1)
    expected, received = tuple(y_pred.shape[:-1]), tuple(tags.shape)
    fits = len(expected) == len(received) and all(
        a == b for a, b in zip(expected, received, strict=True) if a and b
    )
    if not fits:
        raise ValueError(
            sentence(
                "y_true",
                f"integer tags of shape {expected}, that of `y_pred` without its last "
                f"axis, or one-hot tags of shape {tuple(y_pred.shape)}",
                tuple(y_true.shape),
                "The last layer must have one output for each tag.",
            )
        )
    mask = keras_mask(y_pred)
    return tags if mask is None else ops.where(mask, tags, ignore_index)
