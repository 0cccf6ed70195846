"""The losses, metrics and the schedule once more, in plain Python and float64.

Written from the formulas, token by token and span by span, with nothing of bat_tf.
"""

import math


def softmax(logits):
    top = max(logits)
    powers = [math.exp(value - top) for value in logits]
    return [power / sum(powers) for power in powers]


def positive_weight(counts, true, weighting):
    total = sum(counts)
    return {
        "none": 1.0,
        "standard": (total - counts[true]) / total,
        "ee": total / max(counts[true], 1),
        "array": total / max(counts[true], 1),
    }[weighting]


def negative_weight(counts, component, true, weighting):
    total = sum(counts)
    return {
        "none": 1.0,
        "standard": counts[component] / total,
        "ee": total / max(total - counts[component], 1),
        "array": total / ((len(counts) - 1) * max(counts[true], 1)),
    }[weighting]


def token_loss(true, logits, counts, weighting, negatives, gamma, positive_scale):
    """Loss of one token."""
    p = softmax(logits)
    # 1 - p without the subtraction, which would round.
    rest = [math.fsum(p[:j] + p[j + 1 :]) for j in range(len(p))]
    loss = (
        -positive_scale
        * positive_weight(counts, true, weighting)
        * rest[true] ** gamma
        * math.log(p[true])
    )
    for j in range(len(p)):
        wanted = {
            "none": False,
            "all": True,
            "predicted": j == logits.index(max(logits)),
        }[negatives]
        if wanted and j != true:
            weight = negative_weight(counts, j, true, weighting)
            loss -= weight * p[j] ** gamma * math.log(rest[j])
    return loss


def mean_token_loss(tags, logits, ignore_index=-1, **settings):
    """Mean over the tokens that are not ignored; 0 if there are none."""
    losses = [
        token_loss(tag, scores, **settings)
        for row, row_scores in zip(tags, logits, strict=True)
        for tag, scores in zip(row, row_scores, strict=True)
        if tag != ignore_index
    ]
    return math.fsum(losses) / len(losses) if losses else 0.0


def spans(names, scheme):
    """The spans (start, end, kind) of one row of tag names."""
    found, start, kind = [], None, None
    for position, name in enumerate([*names, None]):
        if scheme == "bio":
            goes_on = start is not None and name == f"I-{kind}"
            opens = bool(name) and name.startswith("B-")
            new_kind = name[2:] if opens else None
        else:
            goes_on = start is not None and name == kind
            opens = name not in (None, "none")
            new_kind = name
        if goes_on:
            continue
        if start is not None:
            found.append((start, position, kind))
        start, kind = (position, new_kind) if opens else (None, None)
    return found


def span_counts(true_rows, predicted_rows, scheme):
    """kind → [true positives, predicted, actual] over rows of tag names."""
    counts = {}
    for row, (true, predicted) in enumerate(
        zip(true_rows, predicted_rows, strict=True)
    ):
        true = {(row, *span) for span in spans(true, scheme)}
        predicted = {(row, *span) for span in spans(predicted, scheme)}
        for index, group in enumerate((true & predicted, predicted, true)):
            for span in group:
                counts.setdefault(span[-1], [0, 0, 0])[index] += 1
    return counts


def rate(step, d_model, warmup_steps=4000, alpha=0.5, beta=None, scale=1.0):
    """Equation 11; `step` counts from 1."""
    beta = alpha - 0.5 if beta is None else beta
    decay = warmup_steps**beta * step**-alpha
    return scale * d_model**-0.5 * min(decay, warmup_steps**-1.5 * step)
