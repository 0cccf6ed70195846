"""The functions a SavedModel answers with: raw strings in, named tensors out."""

import tensorflow as tf

from bat_tf.data.pipeline import input_names
from bat_tf.text import alignment, windows

ROWS = 32  # windows the encoder reads at once: bounds the memory of a long text


def tagging_signature(model):
    """Strings [B] → the keywords of each, padded to the batch.

    Returns:
        A `tf.function` whose result has `tags` (names), `starts` and `ends`
        (characters), `scores` (probabilities), each [B, K], and `num_tags` [B].
    """
    tokenizer, scheme = model.tokenizer, model.scheme
    size = model.max_length - tokenizer.num_special
    kinds = tf.constant(model.kinds.names)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        tokens = tokenizer.tokenize(text)
        parts, book = windows.split(tokens, size, model.overlap)
        probabilities = tf.nn.softmax(_logits(model, tokenizer.pack(parts)))
        probabilities = windows.merge(probabilities, book, tokenizer.num_special)
        probabilities = probabilities.to_tensor()
        places = {
            name: tokens[name].to_tensor(-1) for name in ("starts", "ends", "word_ids")
        }
        best = alignment.best_tags(probabilities, places, scheme)
        scores = _kind_scores(probabilities, best, model.tags)
        found = alignment.decode_tags(best, scores, places, scheme)
        names = found["kinds"].with_flat_values(
            tf.gather(kinds, found["kinds"].flat_values)
        )
        return {
            "tags": names.to_tensor(""),
            "starts": found["starts"].to_tensor(0),
            "ends": found["ends"].to_tensor(0),
            "scores": found["scores"].to_tensor(0.0),
            "num_tags": tf.cast(names.row_lengths(), tf.int32),
        }

    return serve


def labelling_signature(model):
    """Strings [B] → the labels of each, best first, padded to the batch.

    Returns:
        A `tf.function` whose result has `labels` (names) and `scores` (probabilities,
        or logits of a loss that has none), each [B, K], and `num_labels` [B].
    """
    tokenizer = model.tokenizer
    size = model.max_length - tokenizer.num_special
    names = tf.constant(model.labels.names)
    thresholds = tf.constant(model.cut, tf.float32)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        tokens = tokenizer.tokenize(text)
        tokens = {name: values[:, :size] for name, values in tokens.items()}
        packed = tokenizer.pack(tokens)
        inputs = {name: packed[name] for name in input_names(tokenizer)}
        logits = model.combine(model(inputs, training=False))
        chosen = logits > thresholds
        count = tf.reduce_sum(tf.cast(chosen, tf.int32), axis=-1)
        # `top_k` puts what was not chosen last; a batch may have none at all.
        most = tf.reduce_max(tf.concat([count, [0]], 0))
        lowest = tf.fill(tf.shape(logits), logits.dtype.min)
        best, ids = tf.math.top_k(tf.where(chosen, logits, lowest), most)
        scores = best
        if model.score_scale is not None:
            scores = tf.sigmoid(model.score_scale * (best - model.score_threshold))
        given = tf.range(most)[None, :] < count[:, None]
        return {
            "labels": tf.where(given, tf.gather(names, ids), ""),
            "scores": tf.where(given, scores, 0.0),
            "num_labels": count,
        }

    return serve


def _logits(model, packed):
    """Logits of all windows, a bounded number of rows at a time."""
    inputs = {name: packed[name] for name in input_names(model.tokenizer)}
    total, width = tf.unstack(tf.shape(packed["token_ids"]))
    steps = (total + ROWS - 1) // ROWS
    parts = tf.TensorArray(tf.float32, steps, infer_shape=False)

    def step(number, parts):
        rows = slice(number * ROWS, (number + 1) * ROWS)
        part = {name: values[rows] for name, values in inputs.items()}
        return number + 1, parts.write(number, model(part, training=False))

    _, parts = tf.while_loop(lambda number, _: number < steps, step, [0, parts])
    return tf.reshape(parts.concat(), [total, width, len(model.tags)])


def _kind_scores(probabilities, best, tags):
    """How probable the KIND of each token's tag is.

    B-brand and I-brand say the same of a keyword, so their probabilities add up.
    """
    kind_of = [name.split("-", 1)[-1] for name in tags]
    same_kind = tf.constant([[float(a == b) for a in kind_of] for b in kind_of])
    per_kind = tf.linalg.matmul(probabilities, same_kind)
    return tf.gather(per_kind, best, batch_dims=2)
