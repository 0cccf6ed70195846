import threading
import time

import grpc
import numpy as np
import pytest
import served
import tensorflow as tf
from served import TEXTS
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from bat_tf.serving.engine import Engine, Limits
from bat_tf.serving.server import Server


@pytest.fixture(scope="module")
def server():
    engine = Engine(served.folder("pages"), limits=Limits(body_bytes=50_000))
    with Server(engine, port=0, grpc_port=0) as server:
        yield server


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        yield prediction_service_pb2_grpc.PredictionServiceStub(channel)


def request(texts=("a lamp",), name="pages", signature="", version=None):
    made = predict_pb2.PredictRequest()
    made.model_spec.name = name
    made.model_spec.signature_name = signature
    if version is not None:
        made.model_spec.version.value = version
    made.inputs["text"].CopyFrom(tf.make_tensor_proto(list(texts)))
    return made


def test_predict_answers_as_the_signature(stub):
    response = stub.Predict(request(TEXTS), timeout=60)
    spec = response.model_spec
    assert (spec.name, spec.signature_name) == ("pages", "serving_default")
    assert spec.version.value == 1
    expected = served.call("pages", "serving_default", text=TEXTS)
    assert set(response.outputs) == set(expected)
    for name, value in expected.items():
        found = tf.make_ndarray(response.outputs[name])
        if name == "scores":
            np.testing.assert_allclose(found, value, atol=1e-5)
        else:
            assert found.tolist() == value.tolist()


@pytest.mark.fault(
    "invalid UTF-8 in a gRPC request",
    "it is answered: what is no UTF-8 counts as the character U+FFFD",
)
def test_bytes_that_are_no_text(stub):
    raw = b"Soft \xff\xfe towel by Veloria"
    whole = raw.decode("utf-8", "replace")
    answers = [stub.Predict(request([text]), timeout=60) for text in (raw, whole)]
    starts = [tf.make_ndarray(answer.outputs["starts"]) for answer in answers]
    assert starts[0].tolist() == starts[1].tolist() and starts[0].size


def test_output_filter_and_version(stub):
    asked = request(version=1)
    asked.output_filter.append("num_tags")
    assert list(stub.Predict(asked, timeout=60).outputs) == ["num_tags"]


def test_metadata_has_the_signatures(stub):
    asked = get_model_metadata_pb2.GetModelMetadataRequest()
    asked.model_spec.name = "pages"
    asked.metadata_field.append("signature_def")
    response = stub.GetModelMetadata(asked, timeout=60)
    found = get_model_metadata_pb2.SignatureDefMap()
    assert response.metadata["signature_def"].Unpack(found)
    assert {"serving_default", "serve_tokens", "metadata"} <= set(found.signature_def)
    asked.metadata_field.append("other")
    with pytest.raises(grpc.RpcError, match="other is not supported"):
        stub.GetModelMetadata(asked, timeout=60)


def filtered(name):
    asked = request()
    asked.output_filter.append(name)
    return asked


def labelled():
    asked = request()
    asked.model_spec.version_label = "stable"
    return asked


def overflowing():
    asked = request()
    asked.inputs["text"].dtype = tf.uint8.as_datatype_enum
    asked.inputs["text"].int_val.append(70_000)
    return asked


def of_shape(size):
    asked = request()
    asked.inputs["text"].tensor_shape.dim[0].size = size
    return asked


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        (request(name="x"), "NOT_FOUND", r"Servable not found .* Latest\(x\)"),
        (request(version=3), "NOT_FOUND", r"Specific\(pages, 3\)"),
        (request(signature="x"), "FAILED_PRECONDITION", 'key "x" not found'),
        (request(["a"] * 65), "INVALID_ARGUMENT", "1 to 64 rows"),
        (request([1.0]), "INVALID_ARGUMENT", "must be strings"),
        (filtered("x"), "INVALID_ARGUMENT", "alias not found in signature: x"),
        (labelled(), "INVALID_ARGUMENT", "no version labels"),
        (overflowing(), "INVALID_ARGUMENT", "An input is not a tensor"),
        (of_shape(10**12), "INVALID_ARGUMENT", "too large shape"),
        (of_shape(-5), "INVALID_ARGUMENT", "impossible"),
        (request(["a" * 60_000]), "RESOURCE_EXHAUSTED", "larger than max"),
    ],
)
def test_errors_as_tf_serving_has_them(stub, asked, code, reason):
    with pytest.raises(grpc.RpcError, match=reason) as caught:
        stub.Predict(asked, timeout=60)
    assert caught.value.code().name == code


def test_what_breaks_inside_is_an_internal_error(server, stub, monkeypatch):
    monkeypatch.setattr(server.engine, "answer", lambda *_: 1 / 0)
    with pytest.raises(grpc.RpcError, match="The server failed") as caught:
        stub.Predict(request(), timeout=60)
    assert caught.value.code() == grpc.StatusCode.INTERNAL


def test_stopping_finishes_what_it_holds(monkeypatch):
    engine = Engine(served.folder("pages"), batching=False)
    gate, answer = threading.Event(), engine.answer
    monkeypatch.setattr(engine, "answer", lambda *x: gate.wait(20) and answer(*x))
    server = Server(engine, port=0, grpc_port=0, grace=20).__enter__()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        held = stub.Predict.future(request(), timeout=60)
        while not engine._held:
            time.sleep(0.01)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        time.sleep(0.3)
        assert stopping.is_alive() and not held.done()
        gate.set()
        assert "num_tags" in held.result().outputs
        stopping.join()
