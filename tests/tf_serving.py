"""A stand-in for TF Serving over gRPC, in this process: `Predict`, and nothing more."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

import grpc
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers for one exported model.

    Args:
        folder: the SavedModel, `<name>/<version>`.
    """

    def __init__(self, folder):
        self.name, self.version = folder.parent.name, int(folder.name)
        self._model = tf.saved_model.load(str(folder))

    def answer(self, signature, inputs):
        """Runs a signature; a test may put something else here."""
        return self._model.signatures[signature](**inputs)

    def Predict(self, request, context):
        spec = request.model_spec
        version = spec.version.value if spec.HasField("version") else self.version
        if (spec.name, version) != (self.name, self.version):
            context.abort(grpc.StatusCode.NOT_FOUND, "Servable not found for request")
        signature = spec.signature_name or "serving_default"
        if signature not in self._model.signatures:
            text = f'Serving signature key "{signature}" not found.'
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        inputs = {
            name: tf.constant(tf.make_ndarray(value))
            for name, value in request.inputs.items()
        }
        try:
            found = self.answer(signature, inputs)
        except tf.errors.UnavailableError as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, error.message)
        except tf.errors.OpError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, error.message)
        response = predict_pb2.PredictResponse()
        for name, value in found.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response


@contextlib.contextmanager
def served(folder):
    """The service and its address, while the block runs."""
    service = PredictionService(folder)
    server = grpc.server(ThreadPoolExecutor(4))
    add = prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server
    add(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield service, f"grpc://127.0.0.1:{port}"
    finally:
        server.stop(0)
