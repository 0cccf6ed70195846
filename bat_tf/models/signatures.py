"""The functions a SavedModel answers with: named tensors in, named tensors out.

| signature | takes | gives |
|---|---|---|
| `serving_default` | raw strings | keywords or labels |
| `serve_options` | raw strings, `top_k`, `threshold` | labels |
| `serve_tokens` | what `TextTokenizer` gives | tags of tokens, or labels |
| `metadata` | any strings | what the model is |

The input of `metadata` is there because TF Serving's REST API and its batching refuse a
signature without one; for the same reason every output has a row for each row of the
input.
"""

import tensorflow as tf

from bat_tf import answers
from bat_tf._internal.version import VERSION
from bat_tf.data.pipeline import LETTERS, input_names, pack_inputs, text_rows
from bat_tf.text import windows

ROWS = 32  # windows the encoder reads at once: bounds the memory of a long text
TEXT = tf.TensorSpec([None], tf.string, name="text")
OPTIONS = (
    tf.TensorSpec([None], tf.int32, name="top_k"),
    tf.TensorSpec([None], tf.float32, name="threshold"),
)


def signatures(model):
    """The functions of a model's export, by name."""
    if model.task == "spans":
        found = {
            "serving_default": model.serving_function(),
            "serve_tokens": tag_tokens(model),
        }
    else:
        found = {
            "serving_default": model.serving_function(),
            "serve_options": labelling_signature(model, options=True),
        }
        # Tokens alone do not say what the letters are that some heads read.
        if not model.preprocessor.letters:
            found["serve_tokens"] = label_tokens(model)
    return {**found, "metadata": metadata(model)}


def tagging_signature(model):
    """Strings [B] → the keywords of each, see `answers.tag_answers`."""
    made, tokenizer = model.preprocessor, model.tokenizer

    @tf.function(input_signature=[TEXT])
    def serve(text):
        tokens = tokenizer.tokenize(text)
        parts, book = windows.split(tokens, made.size, made.overlap)
        logits = _logits(model, tokenizer.pack(parts))
        logits = windows.merge(logits, book, tokenizer.num_special).to_tensor()
        places = {
            name: tokens[name].to_tensor(-1) for name in ("starts", "ends", "word_ids")
        }
        how = (made.scheme, model.transitions)
        return answers.tag_answers(logits, places, model.names, *how)

    return serve


def label_answers(model):
    """The function from inputs, `top_k` and `threshold` to labels.

    It is traced once, for all that call it.
    """
    inputs = _token_spec(model.tokenizer)
    if model.preprocessor.letters:
        inputs[LETTERS] = tf.TensorSpec([None, None], tf.int32, name=LETTERS)

    @tf.function(input_signature=[inputs, *OPTIONS])
    def choose(inputs, top_k, threshold):
        logits = model.combined(model(inputs, training=False))
        meaning = (model.cut, model.score_scale, model.score_threshold)
        return answers.label_answers(logits, model.names, *meaning, top_k, threshold)

    return choose


def _usual(rows):
    """`top_k` and `threshold` of rows that ask for nothing of their own."""
    options = answers.option_inputs(1)
    return [tf.fill([rows], options[name][0]) for name in ("top_k", "threshold")]


def labelling_signature(model, options=False):
    """Strings [B] → the labels of each, see `answers.label_answers`.

    Args:
        model: a `LabelClassifier`.
        options: whether the function takes `top_k` and `threshold` too.
    """
    choose, made = model.choosing_function(), model.preprocessor

    @tf.function(input_signature=[TEXT, *OPTIONS] if options else [TEXT])
    def serve(text, top_k=None, threshold=None):
        if not options:
            top_k, threshold = _usual(tf.shape(text)[0])
        rows = text_rows(text, made.tokenizer, made.max_length, made.letters)
        return choose(pack_inputs(rows, made.tokenizer), top_k, threshold)

    return serve


def tag_tokens(model):
    """Tokens [B, T] → the tag of each, see `answers.token_answers`.

    Tags are what can be said without the text: characters are not known here.
    Padding, special tokens and pieces that continue a word have none.
    """
    silent = tf.constant(_silent_tokens(model.tokenizer))

    @tf.function(input_signature=[_token_spec(model.tokenizer)])
    def serve(inputs):
        inputs = _checked_tokens(model, inputs)
        mask = inputs["padding_mask"]
        logits = model(inputs, training=False)
        speaks = mask & ~tf.gather(silent, inputs["token_ids"])
        how = (model.tags, model.preprocessor.scheme, model.transitions)
        return answers.token_answers(logits, speaks, mask, *how)

    return serve


def label_tokens(model):
    """Tokens [B, T] → the labels of each row, as in `labelling_signature`."""
    choose = model.choosing_function()

    @tf.function(input_signature=[_token_spec(model.tokenizer)])
    def serve(inputs):
        usual = _usual(tf.shape(inputs["token_ids"])[0])
        return choose(_checked_tokens(model, inputs), *usual)

    return serve


def metadata(model):
    """Any strings [B] → what the model is, in each row.

    Returns:
        A `tf.function` whose result has the strings `task`, `tokenizer`, `bat_tf` and
        `tensorflow` (versions) and the integer `max_length`, each [B], and `labels`
        (names) and `thresholds` (logits above which they are chosen; none for a
        tagger), each [B, L].
    """
    cut = model.cut if model.task == "labels" else None
    cut = [] if cut is None else tf.broadcast_to(tf.constant(cut), [len(model.names)])
    about = {
        "task": tf.constant(model.task),
        "tokenizer": tf.constant(model.tokenizer.kind),
        "bat_tf": tf.constant(VERSION),
        "tensorflow": tf.constant(tf.__version__),
        "max_length": tf.constant(model.max_length, tf.int32),
        "labels": tf.constant(model.names),
        "thresholds": tf.constant(cut, tf.float32),
    }

    @tf.function(input_signature=[TEXT])
    def serve(text):
        rows = tf.shape(text)
        return {
            name: tf.broadcast_to(value, tf.concat([rows, value.shape], 0))
            for name, value in about.items()
        }

    return serve


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
