"""A client of TF Serving over REST or gRPC, and of `bat-tf serve` over REST."""

import functools
import http.client
import json
import threading
import time
from urllib.parse import quote, urlsplit

import numpy as np

from bat_tf._internal.validation import check_number, import_optional, sentence
from bat_tf.answers import COUNTS, ask, option_inputs

DEFAULT = "serving_default"


class ServerError(RuntimeError):
    """A server refused a request or could not be reached.

    Args:
        text: what it said.
        status: HTTP status or name of the gRPC status; None if it did not answer.
    """

    def __init__(self, text, status=None):
        super().__init__(text)
        self.status = status


class Unavailable(ServerError):
    """A server that is overloaded, starting or not there: worth another try."""


class Client:
    """Asks an exported model behind a server.

    Requests that a server is too busy for, or that find no server, are tried again
    with exponential backoff; everything else that goes wrong is raised at once as a
    `ServerError`. A client may be shared between threads.

    Args:
        address: `http://host:8501` or `https://…` for REST, `grpc://host:8500` for
            gRPC (which needs the extra `serve`).
        model: the model's name.
        version: which version; None for the one that the server takes.
        timeout: seconds to wait for an answer.
        retries: how often to try again.
        backoff: seconds before the second try.

    Example:
    ```python
    client = bat_tf.serving.Client("http://127.0.0.1:8501", "shop")
    client.tag("Zorv desk lamp, warm white")   # [Tag(start=0, end=4, kind='brand', …
    client.metadata()["labels"]                # ['brand', 'product']
    ```
    """

    def __init__(
        self, address, model, version=None, timeout=10.0, retries=3, backoff=0.1
    ):
        check_number("timeout", timeout, low=0.001)
        check_number("retries", retries, low=0, integer=True)
        check_number("backoff", backoff, low=0)
        self._retries, self._backoff = retries, backoff
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https", "grpc") or not parts.hostname:
            expected = "http://host:port, https://host:port or grpc://host:port"
            raise ValueError(sentence("address", expected, address))
        transport = _Grpc if parts.scheme == "grpc" else _Rest
        self._transport = transport(parts, model, version, timeout)

    exported = True

    def tag(self, texts, batch_size=32):
        """Finds the keywords of a text or of several, as `BATTagger.tag` does."""
        return self._ask("spans", texts, batch_size)

    def label(self, texts, top_k=None, threshold=None, batch_size=32):
        """Chooses the labels of a text or of several, as `LabelClassifier.label`."""
        options = {"top_k": top_k, "threshold": threshold}
        return self._ask("labels", texts, batch_size, **options)

    def answer(self, texts, batch_size=32, top_k=None, threshold=None):
        """Tags or labels a text or several, whichever the model does."""
        options = {"top_k": top_k, "threshold": threshold}
        return self._ask(self.task, texts, batch_size, **options)

    @property
    def task(self):
        """`"spans"` or `"labels"`."""
        return self._about["task"]

    @property
    def names(self):
        """The kinds or labels that the model knows."""
        return self._about["labels"]

    @functools.cached_property
    def _about(self):
        return self.metadata()

    def metadata(self):
        """Asks what the model is.

        Returns:
            dict: `task`, `labels`, `thresholds`, `tokenizer`, `max_length`, and the
            versions `bat_tf` and `tensorflow` it was exported with.
        """
        found = self.predict({"text": np.array([b""], object)}, "metadata")
        return {name: _plain(value[0]) for name, value in found.items()}

    def predict(self, inputs, signature=DEFAULT):
        """Asks any signature.

        Args:
            inputs: name → array; strings are bytes in an array of objects.
            signature: its name.

        Returns:
            dict: name → array, strings as bytes.
        """
        wait = self._backoff
        for tries_left in reversed(range(self._retries + 1)):
            try:
                return self._transport.predict(inputs, signature)
            except Unavailable:
                if not tries_left:
                    raise
            time.sleep(wait)
            wait *= 2

    def _ask(self, task, texts, batch_size, **options):
        def serve(text, **options):
            inputs, signature = {"text": text.numpy()}, DEFAULT
            if options:
                inputs |= option_inputs(len(text), **options)
                signature = "serve_options"
            found = self.predict(inputs, signature)
            if COUNTS[task] not in found:
                method = "tag" if task == "spans" else "label"
                raise ServerError(
                    f"The model's answers have no `{COUNTS[task]}`, so `{method}` "
                    f"cannot read them. They have: {', '.join(sorted(found))}."
                )
            return found

        return ask(serve, task, texts, batch_size, **options)

    def close(self):
        """Closes the connections."""
        self._transport.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class _Rest:
    def __init__(self, parts, model, version, timeout):
        secure = parts.scheme == "https"
        self._connect = (
            http.client.HTTPSConnection if secure else http.client.HTTPConnection
        )
        self._host, self._port = parts.hostname, parts.port
        self._timeout = timeout
        which = "" if version is None else f"/versions/{version}"
        self._path = f"{parts.path.rstrip('/')}/v1/models/{quote(model)}{which}"
        self._local = threading.local()  # a connection answers one thread at a time

    def predict(self, inputs, signature):
        columns = {name: _plain(value) for name, value in inputs.items()}
        body = json.dumps({"signature_name": signature, "inputs": columns})
        answer = self._post(f"{self._path}:predict", body.encode())
        found = answer["outputs"]
        if not isinstance(found, dict):
            raise ServerError(f"Expected outputs by name. Received: {str(found)[:100]}")
        return {name: _array(value) for name, value in found.items()}

    def _post(self, path, body):
        kept = getattr(self._local, "connection", None)
        try:
            try:
                status, text = self._exchange(kept or self._new(), path, body)
            except (ConnectionError, http.client.BadStatusLine):
                if kept is None:
                    raise
                # The server may have closed it in the meantime; a new one tells.
                status, text = self._exchange(self._new(), path, body)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        try:
            answer = json.loads(text)
        except ValueError:
            answer = {"error": text[:200].decode("utf-8", "replace")}
        if status == 200:
            return answer
        kind = Unavailable if status == 503 else ServerError
        reason = answer.get("error") if isinstance(answer, dict) else answer
        raise kind(f"The server answered {status}: {reason}", status)

    def _new(self):
        self._local.connection = self._connect(
            self._host, self._port, timeout=self._timeout
        )
        return self._local.connection

    def _exchange(self, connection, path, body):
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self.close()  # it is of no use any more
            raise

    def _unreachable(self, error):
        where = f"http://{self._host}:{self._port or 80}"
        if isinstance(error, TimeoutError):
            text = f"{where} did not answer within {self._timeout} seconds."
            return ServerError(f"{text} Raise `timeout` or send fewer texts.")
        return Unavailable(f"{where} cannot be reached: {error}. Does the server run?")

    def close(self):
        connection = getattr(self._local, "connection", None)
        if connection:
            connection.close()
            self._local.connection = None


class _Grpc:
    def __init__(self, parts, model, version, timeout):
        purpose = "A client of gRPC"
        grpc = import_optional("grpc", "serve", purpose)
        import_optional("tensorflow_serving.apis.predict_pb2", "serve", purpose)
        from tensorflow_serving.apis import prediction_service_pb2_grpc

        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._address = f"{host}:{parts.port or 8500}"
        self._model, self._version, self._timeout = model, version, timeout
        # Ours is the policy of tries, not the channel's.
        options = [("grpc.enable_retries", 0), ("grpc.max_receive_message_length", -1)]
        self._channel = grpc.insecure_channel(self._address, options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self._channel)

    def predict(self, inputs, signature):
        import grpc
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.name = self._model
        request.model_spec.signature_name = signature
        if self._version is not None:
            request.model_spec.version.value = self._version
        for name, value in inputs.items():
            request.inputs[name].CopyFrom(tf.make_tensor_proto(value))
        try:
            response = self._stub.Predict(request, timeout=self._timeout)
        except grpc.RpcError as error:
            code = error.code().name
            kind = Unavailable if code == "UNAVAILABLE" else ServerError
            text = f"{self._address} answered {code}: {error.details()}"
            raise kind(text, code) from error
        return {
            name: tf.make_ndarray(value) for name, value in response.outputs.items()
        }

    def close(self):
        self._channel.close()


def _plain(value):
    """An array as nested lists, bytes as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    value = value.tolist() if hasattr(value, "tolist") else value
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _array(value):
    """Nested lists of JSON as an array, text as bytes."""
    array = np.array(value)
    if array.dtype.kind == "U":
        encoded = [text.encode() for text in array.ravel().tolist()]
        return np.array(encoded, object).reshape(array.shape)
    return array
