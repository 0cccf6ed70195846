"""The losses, metrics and the schedule once more, in plain Python and float64.

Written from the formulas, token by token and span by span, with nothing of bat_tf.
"""

import math

import numpy as np


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


def bert_states(tensors, ids, heads, epsilon, offset=0, activation="gelu"):
    """The states of every layer of BERT for one text, [T, D] each, in float64.

    Args:
        tensors: by the names that BERT's own files have, without a prefix.
        ids: of the tokens.
        heads: how many.
        epsilon: of the normalisations.
        offset: the position of the first token.
        activation: `"gelu"`, `"gelu_new"`, `"relu"` or `"silu"`.
    """
    tensors = {name: np.asarray(values, "f8") for name, values in tensors.items()}
    bend = {
        "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        "gelu_new": lambda x: (
            x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        ),
        "relu": lambda x: np.where(x > 0, x, 0),
        "silu": lambda x: x / (1 + np.exp(-x)),
    }[activation]

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        return x * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]

    def linear(x, name):
        return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]

    x = tensors["embeddings.word_embeddings.weight"][ids]
    x = x + tensors["embeddings.position_embeddings.weight"][offset:][: len(ids)]
    if "embeddings.token_type_embeddings.weight" in tensors:
        x = x + tensors["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    states = [x]
    while f"encoder.layer.{len(states) - 1}.output.dense.bias" in tensors:
        layer = f"encoder.layer.{len(states) - 1}."
        query, key, value = (
            linear(x, f"{layer}attention.self.{name}").reshape(len(ids), heads, -1)
            for name in ("query", "key", "value")
        )
        logits = np.einsum("qhd,khd->hqk", query, key) / math.sqrt(key.shape[-1])
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", weights, value).reshape(len(ids), -1)
        mixed = linear(mixed, f"{layer}attention.output.dense")
        x = norm(x + mixed, f"{layer}attention.output.LayerNorm")
        hidden = bend(linear(x, f"{layer}intermediate.dense"))
        x = norm(x + linear(hidden, f"{layer}output.dense"), f"{layer}output.LayerNorm")
        states.append(x)
    return states


def symmetric_kl(s, t, scale):
    """KL in both directions of the labels' probabilities σ(scale · score), summed."""
    total = 0.0
    for a, b in zip(s, t, strict=True):
        p, q = (1 / (1 + math.exp(-scale * x)) for x in (a, b))
        for one, other in ((p, q), (1 - p, 1 - q)):
            total += (one - other) * (math.log(one) - math.log(other))
    return total


def document_loss(name, labels, scores, counts, num_examples, mu):
    """DB or ZLPR of one document or token, whose labels are 0 or 1."""
    if name == "zlpr":
        positive = sum(math.exp(-s) for y, s in zip(labels, scores, strict=True) if y)
        negative = sum(
            math.exp(s) for y, s in zip(labels, scores, strict=True) if not y
        )
        return math.log1p(positive) + math.log1p(negative)
    assert name == "db"
    alpha, beta, kappa, scale, gamma = 0.1, 10.0, 0.05, 2.0, 2.0
    whole = sum(1 / n for y, n in zip(labels, counts, strict=True) if y)
    losses = []
    for y, s, n in zip(labels, scores, counts, strict=True):
        ratio = 1 / n / whole if whole else math.inf
        weight = alpha + 1 / (1 + math.exp(-beta * (ratio - mu)))
        x = s - kappa * math.log(num_examples / n - 1)
        q = 1 / (1 + math.exp(-(x if y else scale * x)))
        if y:
            losses.append(weight * (1 - q) ** gamma * -math.log(q))
        else:
            losses.append(weight * q**gamma * -math.log(1 - q) / scale)
    return math.fsum(losses) / len(losses)


def middle_ratio(rows):
    """Mean of mean and median of r over the pairs of a document and its label."""
    counts = {}
    for row in rows:
        for label in set(row):
            counts[label] = counts.get(label, 0) + 1
    ratios = []
    for row in rows:
        whole = sum(1 / counts[label] for label in set(row))
        ratios += [1 / counts[label] / whole for label in set(row)]
    ratios.sort()
    middle, odd = divmod(len(ratios), 2)
    median = ratios[middle] if odd else (ratios[middle - 1] + ratios[middle]) / 2
    return (math.fsum(ratios) / len(ratios) + median) / 2
