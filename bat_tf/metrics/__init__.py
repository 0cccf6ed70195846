"""Metrics, as classes and by name.

They stream, and callbacks see in which direction they get better: up, except for the
ranking loss.
"""

import re

from bat_tf._internal.registry import build
from bat_tf.metrics import multilabel, ranking, spans, tagging
from bat_tf.metrics.label_report import LabelReport
from bat_tf.metrics.multilabel import (
    LabelFScore,
    SampleF1,
    SampleJaccard,
    SubsetAccuracy,
)
from bat_tf.metrics.ranking import (
    LabelRankingAveragePrecision,
    LabelRankingLoss,
    MacroTopK,
    PropensityScoredTopK,
    TopK,
)
from bat_tf.metrics.spans import SpanF1
from bat_tf.metrics.tagging import TokenFScore

__all__ = [
    "LabelFScore",
    "LabelRankingAveragePrecision",
    "LabelRankingLoss",
    "LabelReport",
    "MacroTopK",
    "PropensityScoredTopK",
    "SampleF1",
    "SampleJaccard",
    "SpanF1",
    "SubsetAccuracy",
    "TokenFScore",
    "TopK",
    "get",
]

_NAMES = {**tagging.NAMES, **spans.NAMES, **multilabel.NAMES, **ranking.NAMES}
# What is known of the data, and which metrics want to know it.
_FACTS = {
    **{name: ("tag_names",) for name in tagging.NAMES},
    **{name: ("tag_names", "scheme") for name in spans.NAMES},
    **{name: ("num_labels",) for name in multilabel.NAMES},
    **{name: ("label_counts",) for name in ranking.NAMES if "macro" in name},
    "psp_at_k": ("label_counts", "num_examples"),
}


def get(
    name,
    /,
    *,
    tag_names=None,
    scheme=None,
    num_labels=None,
    label_counts=None,
    num_examples=None,
    **settings,
):
    """Returns the metric called `name`.

    The metric keeps the name as it is written, so `"val_token_macro_f2"` is what a
    callback monitors. The named arguments say what the data are like; a metric takes
    those that it needs, and finds out by itself how many labels or classes there are.

    Args:
        name: in upper or lower case, one of

            - for tags: `token_macro_f1`, `token_macro_f2`, the same with `_no_none` at
              the end (class 0 left out of the mean), or `span_f1`;
            - for chosen labels: `subset_accuracy mlc_f1 jaccard micro_f1 macro_f1
              macro_f2`;
            - for scores of labels: `average_precision ranking_loss`, and with any
              number for 5: `precision_at_5 recall_at_5 ndcg_at_5 psp_at_5`,
              `macro_precision_at_5 macro_recall_at_5 macro_f_at_5`, the last three also
              with `_few`, `_medium` or `_many` at the end.
        tag_names: names of the tags in the order of their ids. Spans are read by them;
            token scores take their number as `num_classes`.
        scheme: `"bio"` or `"plain"`, for spans.
        num_labels: number of labels.
        label_counts: training documents per label.
        num_examples: number of training documents.
        **settings: arguments of its class; they win over what the name stands for.

    Returns:
        A `keras.metrics.Metric`.

    Example:
        >>> import bat_tf.metrics
        >>> metric = bat_tf.metrics.get("token_macro_f2_no_none")
        >>> metric.name, metric.beta, metric.exclude
        ('token_macro_f2_no_none', 2.0, [0])
        >>> metric = bat_tf.metrics.get("precision_at_5")
        >>> metric.name, metric.k, metric.score
        ('precision_at_5', 5, 'precision')
    """
    written, name = str(name), str(name).lower()
    general = re.sub(r"_at_[1-9]\d*(?=$|_)", "_at_k", name)
    known = {
        "tag_names": tag_names,
        "scheme": scheme,
        "num_labels": num_labels,
        "label_counts": label_counts,
        "num_examples": num_examples,
    }
    wanted = _FACTS.get(general, ())
    facts = {key: known[key] for key in wanted if known[key] is not None}
    if general in tagging.NAMES and facts:
        facts = {"num_classes": len(tag_names)}
    names = _NAMES
    if general != name and general in _NAMES:
        cls, named = _NAMES[general]
        k = int(re.search(r"_at_(\d+)", name).group(1))
        names = {**_NAMES, name: (cls, {**named, "k": k})}
    return build("metrics.get", names, name, {"name": written, **facts, **settings})
