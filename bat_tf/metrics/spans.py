"""F scores of whole spans: right only if start, end and kind are right."""

import keras
import numpy as np
from keras import ops

from bat_tf._internal.validation import check_choice, check_number, sentence
from bat_tf.metrics._counts import CountedFScore, tags_and_predictions

SCHEMES = ("bio", "plain")


@keras.saving.register_keras_serializable(package="bat_tf")
class SpanF1(CountedFScore):
    """F1 of spans; strict IOB2, equal to seqeval's strict mode.

    In the scheme `"bio"` a span is a `B-x` and the `I-x` that follow it without a gap;
    an `I-x` that follows anything else belongs to no span, in the truth as in the
    prediction. In the scheme `"plain"` a span is a run of tokens of one class other
    than the first, which is "none". Tokens with tag `ignore_index` or under a Keras
    mask are taken out before spans are read, so the pieces of a word and padding
    neither end a span nor lengthen it.

    The state is three counts per kind. `scores()` gives precision and recall besides,
    `per_class()` all of them for every kind, in the order of `kinds`.

    Args:
        tag_names: names of the tags in the order of their ids, such as
            `["O", "B-name", "I-name"]` or `["none", "name"]`.
        scheme: `"bio"` or `"plain"`.
        average: `"micro"` (seqeval's usual score), `"macro"` or `"weighted"`; kinds
            that neither occur nor are predicted are left out of the mean, as in
            seqeval.
        beta: weight of recall against precision; 1 makes it F1.
        ignore_index: tag of tokens that do not count.
        zero_division: score if there is no span at all.
        name: name of the metric.
        dtype: dtype of the result.

    Call arguments:
        y_true: integer tags `[B, T]`, or one-hot `[B, T, C]`, one text per row.
        y_pred: logits or probabilities `[B, T, C]`, or predicted tags `[B, T]`.
        sample_weight: optional, one weight per row `[B]`.

    Example:
        >>> from bat_tf.metrics import SpanF1
        >>> metric = SpanF1(["O", "B-name", "I-name", "B-place", "I-place"])
        >>> metric.update_state([[1, 2, 0, 3, -1]], [[1, 2, 0, 1, 2]])
        >>> round(float(metric.result()), 2)
        0.5
        >>> metric.kinds, metric.per_class()["recall"].tolist()
        (['name', 'place'], [1.0, 0.0])
    """

    def __init__(
        self,
        tag_names,
        *,
        scheme="bio",
        average="micro",
        beta=1.0,
        ignore_index=-1,
        zero_division=0.0,
        name="span_f1",
        dtype=None,
    ):
        self.scheme = check_choice("scheme", scheme, SCHEMES)
        kinds, kind, opens, continues = _read_tags(tag_names, scheme)
        super().__init__(len(kinds), beta, average, zero_division, name, dtype)
        self.tag_names, self.kinds = list(tag_names), kinds
        self.ignore_index = check_number("ignore_index", ignore_index, integer=True)
        # Per tag: its kind (0 = none), may it open a span, may it continue one.
        self._tables = np.array([kind, opens, continues], dtype="int32")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Counts the spans of a batch."""
        y_true, y_pred, _ = tags_and_predictions(
            y_true, y_pred, len(self.tag_names), self.ignore_index
        )
        if len(y_true.shape) != 2:
            raise ValueError(sentence("y_true", "of shape [B, T]", y_true.shape))
        valid = ops.not_equal(y_true, self.ignore_index)
        true_kind, true_cut, true_span = self._read_spans(y_true, valid)
        kind, cut, span = self._read_spans(y_pred, valid)

        # Cut each row wherever the truth or the prediction cuts it. A span is found if
        # it begins in both and the next piece begins in both as well.
        in_both = ops.logical_and(true_cut, cut)
        piece = ops.cumsum(ops.cast(ops.logical_or(true_cut, cut), "int32"), axis=1) - 1
        same = ops.logical_and(ops.logical_and(true_span, span), true_kind == kind)
        same_kind = _to_columns(ops.where(same, kind, 0), piece)
        in_both = _to_columns(ops.cast(in_both, "int32"), piece)
        found = ops.roll(in_both, -1, axis=1) > 0

        weight = self._row_weight(sample_weight)
        self.count(
            true_positives=self._sum_by_kind(found, same_kind, weight),
            predicted=self._sum_by_kind(span, kind, weight),
            actual=self._sum_by_kind(true_span, true_kind, weight),
        )

    def _read_spans(self, tags, valid):
        """Returns, per token, its kind, whether a piece and whether a span begins.

        All are [B, T + 1]: the valid tokens moved to the front, and at least one column
        behind them that is in no span.
        """
        tags = ops.where(valid, tags + 1, 0)
        tags = ops.pad(tags, ((0, 0), (0, 1)))
        place = ops.cumsum(ops.cast(valid, "int32"), axis=1) - 1
        tags = _to_columns(tags, ops.pad(ops.maximum(place, 0), ((0, 0), (0, 1))))
        kind, opens, continues = ops.unstack(ops.take(self._tables, tags, axis=1), 3)
        goes_on = ops.logical_and(continues > 0, kind == ops.roll(kind, 1, axis=1))
        cut = ops.logical_not(goes_on)
        return kind, cut, ops.logical_and(cut, opens > 0)

    def _row_weight(self, sample_weight):
        if sample_weight is None:
            return 1.0
        weight = ops.cast(sample_weight, "float32")
        if len(weight.shape) > 1 and weight.shape[1:] != (1,):
            raise ValueError(
                sentence(
                    "sample_weight",
                    "one weight per row, of shape [B] or [B, 1]",
                    tuple(weight.shape),
                    "A span has no weight of its own; mark tokens that do not count "
                    "with `ignore_index`.",
                )
            )
        return ops.reshape(weight, (-1, 1))

    def _sum_by_kind(self, flags, kind, weight):
        """Sums the flags over each kind; kind 0 is none."""
        values = ops.cast(flags, "float32") * weight
        sums = ops.segment_sum(
            ops.reshape(values, (-1,)), ops.reshape(kind, (-1,)), len(self.kinds) + 1
        )
        return sums[1:]

    def counted_classes(self):
        """Returns 1 for every kind that occurs or is predicted, else 0."""
        return ops.cast(self.actual + self.predicted > 0, "float32")


def _to_columns(values, columns):
    """Adds `values[b, t]` into column `columns[b, t]` of row b; shapes [B, T]."""
    rows, width = ops.shape(values)
    place = ops.expand_dims(ops.arange(rows), 1) * width + columns
    sums = ops.segment_sum(
        ops.reshape(values, (-1,)), ops.reshape(place, (-1,)), rows * width
    )
    return ops.reshape(sums, (rows, width))


def _read_tags(tag_names, scheme):
    """Returns the kinds and, for no tag and then each tag, three properties.

    The properties are the kind (0 for none, else 1 + its index), whether the tag may
    open a span, and whether it may continue one.
    """
    kinds, properties = [], [(0, 0, 0)]
    for index, name in enumerate(tag_names):
        bio = scheme == "bio"
        outside = name == "O" if bio else index == 0
        if outside:
            properties.append((0, 0, 0))
            continue
        prefix, _, kind = name.partition("-") if bio else ("", "", name)
        if bio and (prefix not in ("B", "I") or not kind):
            raise ValueError(
                sentence(
                    "tag_names",
                    '"O", "B-…" and "I-…" in the scheme "bio"',
                    name,
                    'Classes without B and I have the scheme "plain".',
                )
            )
        if kind not in kinds:
            kinds.append(kind)
        properties.append((1 + kinds.index(kind), prefix != "I", prefix != "B"))
    if not kinds:
        raise ValueError(sentence("tag_names", "names of one kind or more", tag_names))
    return kinds, *zip(*properties, strict=True)


NAMES = {"span_f1": (SpanF1, {})}
