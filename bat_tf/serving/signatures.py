"""The functions a SavedModel answers with: named tensors in, named tensors out.

Every export has the same three, by these names:

* `serving_default`: raw strings in, keywords or labels out.
* `serve_tokens`: what `TextTokenizer` gives in, tags of tokens or labels out.
* `metadata`: what the model is. Its input is there because TF Serving's REST API and
  its batching refuse a signature without one; for the same reason every output has a
  row for each row of the input.
"""

import tensorflow as tf

import bat_tf
from bat_tf.data.pipeline import input_names
from bat_tf.text import alignment, windows

ROWS = 32  # windows the encoder reads at once: bounds the memory of a long text


def signatures(model):
    """The functions of a model's export, by name."""
    serve_tokens = tag_tokens if model.task == "spans" else label_tokens
    return {
        "serving_default": model.serving_function(),
        "serve_tokens": serve_tokens(model),
        "metadata": metadata(model),
    }


def label_names(model):
    """The names that the answers of a model are made of."""
    return list((model.kinds if model.task == "spans" else model.labels).names)


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
    choose = _label_chooser(model)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        tokens = tokenizer.tokenize(text)
        tokens = {name: values[:, :size] for name, values in tokens.items()}
        packed = tokenizer.pack(tokens)
        inputs = {name: packed[name] for name in input_names(tokenizer)}
        return choose(model(inputs, training=False))

    return serve


def tag_tokens(model):
    """Tokens [B, T] → the tag of each.

    Tags are what can be said without the text: characters are not known here. In the
    scheme `bio`, they are the best allowed sequence, as in `serving_default`.

    Returns:
        A `tf.function` whose result has `tags` (names such as `B-brand`; "" at padding,
        at special tokens and at pieces that continue a word) and `scores` (how
        probable its kind is), each [B, T], and `num_tags` [B], the tokens of each row.
    """
    names = tf.constant(model.tags)
    silent = tf.constant(_silent_tokens(model.tokenizer))

    @tf.function(input_signature=[_token_spec(model.tokenizer)])
    def serve(inputs):
        inputs = _checked_tokens(model, inputs)
        mask = inputs["padding_mask"]
        probabilities = tf.nn.softmax(model(inputs, training=False))
        speaks = mask & ~tf.gather(silent, inputs["token_ids"])
        # Each token that speaks is a word of its own.
        word_ids = tf.where(speaks, tf.range(tf.shape(mask)[1])[None, :], -1)
        places = {"word_ids": word_ids}
        best = alignment.best_tags(probabilities, places, model.scheme)
        scores = _kind_scores(probabilities, best, model.tags)
        return {
            "tags": tf.where(speaks, tf.gather(names, best), ""),
            "scores": tf.where(speaks, scores, 0.0),
            "num_tags": tf.reduce_sum(tf.cast(mask, tf.int32), axis=-1),
        }

    return serve


def label_tokens(model):
    """Tokens [B, T] → the labels of each row, as in `labelling_signature`."""
    choose = _label_chooser(model)

    @tf.function(input_signature=[_token_spec(model.tokenizer)])
    def serve(inputs):
        return choose(model(_checked_tokens(model, inputs), training=False))

    return serve


def metadata(model):
    """Any strings [B] → what the model is, in each row.

    Returns:
        A `tf.function` whose result has the strings `task`, `tokenizer`, `bat_tf` and
        `tensorflow` (versions) and the integer `max_length`, each [B], and `labels`
        (names) and `thresholds` (logits above which they are chosen; none for a
        tagger), each [B, L].
    """
    names = label_names(model)
    cut = getattr(model, "cut", None)
    cut = [] if cut is None else tf.broadcast_to(tf.constant(cut), [len(names)])
    about = {
        "task": tf.constant(model.task),
        "tokenizer": tf.constant(model.tokenizer.kind),
        "bat_tf": tf.constant(bat_tf.__version__),
        "tensorflow": tf.constant(tf.__version__),
        "max_length": tf.constant(model.max_length, tf.int32),
        "labels": tf.constant(names),
        "thresholds": tf.constant(cut, tf.float32),
    }

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(text):
        rows = tf.shape(text)
        return {
            name: tf.broadcast_to(value, tf.concat([rows, value.shape], 0))
            for name, value in about.items()
        }

    return serve


def _label_chooser(model):
    """The function from what the network puts out to the labels above the threshold."""
    names = tf.constant(model.labels.names)
    thresholds = tf.constant(model.cut, tf.float32)

    def choose(outputs):
        logits = model.combine(outputs)
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

    return choose


def _token_spec(tokenizer):
    """What `serve_tokens` takes: the inputs of the model, each [B, T]."""
    return {
        name: tf.TensorSpec(
            [None, None], tf.bool if name == "padding_mask" else tf.int32, name=name
        )
        for name in input_names(tokenizer)
    }


def _checked_tokens(model, inputs):
    """Refuses tokens that a model would answer with nonsense or out of memory."""
    ids, most = inputs["token_ids"], len(model.tokenizer.vocabulary) - 1
    shape = tf.shape(ids)
    longest = f"`token_ids` must have 1 to {model.max_length} columns."
    known = f"`token_ids` must be between 0 and {most}."
    alike = [tf.reduce_all(tf.equal(tf.shape(x), shape)) for x in inputs.values()]
    checks = [
        tf.debugging.Assert((shape[1] > 0) & (shape[1] <= model.max_length), [longest]),
        tf.debugging.Assert(tf.reduce_all((ids >= 0) & (ids <= most)), [known]),
        tf.debugging.Assert(tf.reduce_all(alike), ["The inputs must have one shape."]),
    ]
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in inputs.items()}


def _silent_tokens(tokenizer):
    """Which token ids have no tag: special tokens, pieces that continue a word."""
    if not tokenizer.num_special:
        return [False] * len(tokenizer.vocabulary)
    special = ("[PAD]", "[CLS]", "[SEP]")
    return [
        token in special or token.startswith("##") for token in tokenizer.vocabulary
    ]


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
