import contextlib
import http.server
import itertools
import socket
import sys
import threading
import time
from typing import NamedTuple

import pytest
import served
import tensorflow as tf
import tf_serving
from starlette.exceptions import HTTPException

import bat_tf
from bat_tf.serving import Client, ServerError
from bat_tf.serving.client import Unavailable
from bat_tf.serving.engine import Engine, Limits
from bat_tf.serving.server import Server

KINDS = ["rest", "grpc"]


class Behind(NamedTuple):
    """What stands behind a client: its name, address and what answers."""

    name: str
    address: str
    answers: object  # has the method `answer(signature, inputs)`
    busy: Exception  # what that raises when it is overloaded

    def client(self, **settings):
        return Client(self.address, self.name, **settings)


@contextlib.contextmanager
def serving(kind, name):
    folder = served.folder(name)
    if kind == "grpc":
        with tf_serving.served(folder) as (service, address):
            busy = tf.errors.UnavailableError(None, None, "Busy.")
            yield Behind(name, address, service, busy)
    else:
        engine = Engine(folder, limits=Limits(requests=8))
        with Server(engine, port=0) as server:
            yield Behind(name, server.url, engine.model, HTTPException(503, "Busy."))


@pytest.fixture(scope="module", params=itertools.product(KINDS, ["pages", "news"]))
def server(request):
    with serving(*request.param) as server:
        yield server


@pytest.fixture(scope="module", params=KINDS)
def options(request):
    with serving(request.param, "news") as server:
        yield server


def same(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        for a, b in zip(one, other, strict=True):
            assert a == (pytest.approx(b, abs=1e-5) if isinstance(b, float) else b)


def test_answers_as_the_model_does(server):
    texts = [*served.TEXTS, "\ud800 lamp", *[text for text, _ in served.NEWS]]
    local = bat_tf.load(served.folder(server.name))
    with server.client(timeout=60) as remote:
        theirs = remote.answer(texts, batch_size=3)
        ask = remote.tag if server.name == "pages" else remote.label
        alone = ask(texts[0])
        assert (remote.task, remote.names) == (local.task, local.names)
    for mine, yours in zip(local.answer(texts), theirs, strict=True):
        same(mine, yours)
    same(alone, theirs[0])
    if server.name == "pages":
        assert all(texts[0][t.start : t.end] == t.text for t in theirs[0])


@pytest.mark.parametrize(
    "settings", [{"top_k": 2}, {"threshold": 0.3}, {"top_k": 3, "threshold": 0.6}, {}]
)
def test_the_options_of_labels(options, settings):
    texts = ["a", "bb", "東京 lamp", "d" * 40]
    local = bat_tf.load(served.folder("news"))
    with options.client(timeout=60) as remote:
        theirs = remote.label(texts, batch_size=3, **settings)
        same(theirs[0], remote.answer(texts[0], **settings))
    for mine, yours in zip(local.label(texts, **settings), theirs, strict=True):
        same(mine, yours)
        assert len(yours) <= settings.get("top_k", 3)
        assert all(score > settings.get("threshold", 0) for _, score in yours)
    if settings == {"top_k": 2}:
        assert [len(found) for found in theirs] == [2, 2, 2, 2]


def test_wrong_options_are_refused_before_they_are_sent():
    remote = Client("http://127.0.0.1:1", "nobody", retries=0)
    for wrong in ({"top_k": 0}, {"threshold": float("nan")}, {"threshold": "high"}):
        with pytest.raises(ValueError, match=f"`{next(iter(wrong))}` must be"):
            remote.label("a", **wrong)
    remote._about = {"task": "spans"}
    with pytest.raises(ValueError, match="a tagger gives all keywords"):
        remote.answer("a", top_k=2)


def test_metadata(server):
    with server.client(version=1) as remote:
        about = remote.metadata()
    assert about["bat_tf"] == bat_tf.__version__
    assert about["task"] == ("spans" if server.name == "pages" else "labels")
    assert "energy" in about["labels"] or about["labels"] == ["brand", "product"]


def test_errors_are_sentences(server):
    with pytest.raises(ServerError, match="Servable not found") as caught:
        Client(server.address, "other").tag("a")
    assert caught.value.status in (404, "NOT_FOUND")
    with server.client() as remote:
        ask = remote.label if server.name == "pages" else remote.tag
        with pytest.raises(ServerError, match="answers have no `num_"):
            ask("a")
        with pytest.raises(ServerError, match='signature "none"|key "none"'):
            remote.predict({}, "none")


def test_a_busy_server_is_asked_again(server, monkeypatch):
    asked, answer = [], server.answers.answer

    def busy_twice(*arguments):
        asked.append(time.monotonic())
        if len(asked) < 3:
            raise server.busy
        return answer(*arguments)

    monkeypatch.setattr(server.answers, "answer", busy_twice)
    with server.client(backoff=0.05) as remote:
        assert remote.metadata()["tokenizer"] == "words"
    first, second = asked[1] - asked[0], asked[2] - asked[1]
    assert len(asked) == 3 and first >= 0.05 and second >= 0.1
    asked.clear()
    with server.client(retries=1, backoff=0) as remote:
        with pytest.raises(Unavailable, match="Busy"):
            remote.metadata()
    assert len(asked) == 2


def test_a_wrong_request_is_not_asked_again(server, monkeypatch):
    asked = []

    def refuse(*arguments):
        asked.append(arguments)
        raise ValueError("No.")

    monkeypatch.setattr(server.answers, "answer", refuse)
    with server.client() as remote, pytest.raises(ServerError):
        remote.metadata()
    assert len(asked) == 1


def test_time_outs(server, monkeypatch):
    monkeypatch.setattr(server.answers, "answer", lambda *_: time.sleep(0.5) or {})
    with server.client(timeout=0.2) as remote:
        began = time.monotonic()
        with pytest.raises(ServerError, match="0.2 seconds|DEADLINE_EXCEEDED"):
            remote.metadata()
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_no_server(scheme):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(Unavailable, match="cannot be reached|UNAVAILABLE"):
        Client(f"{scheme}://127.0.0.1:{port}", "x", retries=1, backoff=0).tag("a")


# gRPC opens its connections itself.
@pytest.mark.parametrize("server", [("rest", "pages")], indirect=True)
def test_a_connection_that_was_closed_is_opened_again(server):
    with server.client() as remote:
        remote.metadata()
        remote._transport._local.connection.sock.shutdown(socket.SHUT_RDWR)
        assert remote.metadata()["labels"]


def test_a_client_may_be_shared_between_threads(server):
    answers = []
    with server.client() as remote:
        ask = lambda: answers.append(remote.metadata()["task"])  # noqa: E731
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 4 and len(set(answers)) == 1


class Proxy(http.server.BaseHTTPRequestHandler):
    """Something in front of a server that answers with a page of its own."""

    def do_POST(self):
        self.send_response(502)
        self.end_headers()
        self.wfile.write(b"<h1>Bad gateway</h1>")

    def log_message(self, *_):
        pass


def test_answers_that_are_no_json():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{proxy.server_port}"
        with pytest.raises(ServerError, match="502: <h1>Bad gateway"):
            Client(url, "x").tag("a")
        proxy.shutdown()


@pytest.mark.parametrize("wrong", ["localhost:8501", "ftp://x", "http://", ""])
def test_addresses_are_checked(wrong):
    with pytest.raises(ValueError, match="`address` must be http://host:port"):
        Client(wrong, "shop")


def test_grpc_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_serving.apis.predict_pb2", None)
    with pytest.raises(ImportError, match=r"bat-tf\[serve\]"):
        Client("grpc://127.0.0.1:8500", "shop")
