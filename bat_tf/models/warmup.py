"""Warm-up requests: TF Serving answers them before it lets the first caller in."""

import warnings
from pathlib import Path

import tensorflow as tf

from bat_tf.data.pipeline import input_names

FILE = Path("assets.extra") / "tf_serving_warmup_requests"
TEXTS = ["Café 東京, a plain word", "x " * 200, ""]
ROWS = (1, 8, 32)  # the first run of a shape is the slow one

LEFT_OUT = (
    "The export has no warm-up requests, so the first request will be slow: they need "
    "the package `tensorflow-serving-api`, which is not installed. "
    'Install it with `pip install "bat-tf[serve]"` and export again.'
)


def write_warmup(model, folder, name):
    """Puts requests for each signature where TF Serving looks for them.

    Args:
        model: the model that was exported.
        folder: the SavedModel.
        name: what the requests call the model.

    Returns:
        How many were written: 0, with a warning, without `tensorflow-serving-api`.
    """
    try:
        from tensorflow_serving.apis import prediction_log_pb2
    except ImportError:
        warnings.warn(LEFT_OUT, stacklevel=2)
        return 0
    count = 0
    with tf.io.TFRecordWriter(str(Path(folder) / FILE)) as writer:
        for signature, inputs in _requests(model):
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name = name
            request.model_spec.signature_name = signature
            for key, value in inputs.items():
                request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
            writer.write(log.SerializeToString())
            count += 1
    return count


def _requests(model):
    """Pairs of a signature's name and what to ask it."""
    for rows in ROWS:
        texts = [TEXTS[row % len(TEXTS)] for row in range(rows)]
        yield "serving_default", {"text": texts}
    packed = model.tokenizer(["a plain word"])
    names = input_names(model.tokenizer)
    yield "serve_tokens", {name: packed[name].numpy() for name in names}
    yield "metadata", {"text": [""]}


def read_warmup(folder):
    """Yields the requests that `write_warmup` wrote, or none.

    Args:
        folder: a SavedModel.

    Yields:
        `PredictRequest`s.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return
    from tensorflow_serving.apis import prediction_log_pb2

    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        yield prediction_log_pb2.PredictionLog.FromString(record).predict_log.request
