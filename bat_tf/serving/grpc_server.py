"""TF Serving's gRPC `Predict` and `GetModelMetadata`, on grpc.aio."""

import logging
from math import prod

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from bat_tf.serving.engine import DEFAULT, Refusal

logger = logging.getLogger(__name__)


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers with an `Engine`.

    Args:
        engine: the `Engine`.
    """

    def __init__(self, engine):
        self.engine = engine

    async def Predict(self, request, context):
        """Runs a signature; `output_filter` chooses outputs."""
        try:
            signature, inputs = self._read(request)
            outputs = self.engine.signatures[signature].structured_outputs
            for name in request.output_filter:
                if name not in outputs:
                    text = f"output tensor alias not found in signature: {name}"
                    raise Refusal("INVALID_ARGUMENT", text)
            wanted = set(request.output_filter or outputs)

            def write(found):
                response = predict_pb2.PredictResponse()
                self._write_spec(response.model_spec, signature)
                for name in wanted:
                    proto = tf.make_tensor_proto(found[name])
                    response.outputs[name].CopyFrom(proto)
                return response

            return await self.engine.ask(signature, inputs, write)
        except Refusal as refusal:
            await _abort(context, refusal)
        except Exception:
            logger.exception("Predict failed")
            await context.abort(grpc.StatusCode.INTERNAL, "The server failed.")

    def _read(self, request):
        self._check_spec(request.model_spec)
        signature = request.model_spec.signature_name or DEFAULT
        if signature not in self.engine.signatures:
            text = f'Serving signature key "{signature}" not found.'
            raise Refusal("FAILED_PRECONDITION", text)
        for name, proto in request.inputs.items():
            sizes = [dim.size for dim in proto.tensor_shape.dim]
            # One value may stand for a whole tensor: a small request, a large array.
            if min(sizes, default=0) < 0 or prod(sizes) > self.engine.limits.body_bytes:
                text = f"`{name}` has an impossible or too large shape: {sizes}."
                raise Refusal("INVALID_ARGUMENT", text)
        try:
            arrays = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            text = f"An input is not a tensor: {error}"
            raise Refusal("INVALID_ARGUMENT", text) from None
        return signature, arrays

    async def GetModelMetadata(self, request, context):
        """Gives the signatures, the one field TF Serving knows."""
        try:
            self._check_spec(request.model_spec)
            for field in request.metadata_field:
                if field != "signature_def":
                    text = f"Metadata field {field} is not supported"
                    raise Refusal("INVALID_ARGUMENT", text)
        except Refusal as refusal:
            await _abort(context, refusal)
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        self._write_spec(response.model_spec)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        for name, definition in self.engine.signature_defs.items():
            signatures.signature_def[name].CopyFrom(definition)
        response.metadata["signature_def"].Pack(signatures)
        return response

    def _check_spec(self, spec):
        if spec.WhichOneof("version_choice") == "version_label":
            text = "This server has no version labels; name the version's number."
            raise Refusal("INVALID_ARGUMENT", text)
        version = spec.version.value if spec.HasField("version") else None
        self.engine.check_model(spec.name, version)

    def _write_spec(self, spec, signature=""):
        spec.name, spec.signature_name = self.engine.name, signature
        spec.version.value = self.engine.version


async def _abort(context, refusal):
    await context.abort(getattr(grpc.StatusCode, refusal.code), refusal.sentence)


async def start(engine, host, port):
    """Starts the server on the running loop.

    Args:
        engine: an `Engine`.
        host: the address to listen on.
        port: 0 takes a free one.

    Returns:
        (`grpc.aio.Server`, port).
    """
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", engine.limits.body_bytes),
            ("grpc.so_reuseport", 0),  # or a second server would share the port
        ]
    )
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(
        PredictionService(engine), server
    )
    address = f"[{host}]" if ":" in host else host
    port = server.add_insecure_port(f"{address}:{port}")
    await server.start()
    return server, port
