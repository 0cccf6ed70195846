"""Metrics, as classes and by name; they stream, and all of them want to go up."""

from bat_tf._registry import build
from bat_tf.metrics import spans, tagging
from bat_tf.metrics.spans import SpanF1
from bat_tf.metrics.tagging import TokenFScore

__all__ = ["SpanF1", "TokenFScore", "get"]

_NAMES = {**tagging.NAMES, **spans.NAMES}


def get(name, /, *, tag_names=None, scheme=None, **settings):
    """Returns the metric called `name`.

    The metric bears that name, so `"val_token-macro-f2"` is what a callback monitors.

    Args:
        name: `token-macro-f1`, `token-macro-f2`, the same with `-no-none` at the end
            (class 0 left out of the mean), or `span-f1`; in upper or lower case.
        tag_names: names of the tags in the order of their ids. Spans are read by them;
            token scores take their number as `num_classes`.
        scheme: `"bio"` or `"plain"`, for spans.
        **settings: arguments of its class; they win over what the name stands for.

    Returns:
        A `keras.metrics.Metric`.

    Example:
        >>> import bat_tf.metrics
        >>> metric = bat_tf.metrics.get("token-macro-f2-no-none", num_classes=3)
        >>> metric.name, metric.beta, metric.exclude
        ('token-macro-f2-no-none', 2.0, [0])
    """
    if str(name).lower() in tagging.NAMES:
        tags = {} if tag_names is None else {"num_classes": len(tag_names)}
    else:
        tags = {"tag_names": tag_names, "scheme": scheme}
        tags = {key: value for key, value in tags.items() if value is not None}
    return build("metrics.get", _NAMES, name, {**tags, **settings})
