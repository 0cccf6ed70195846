import http.server
import socket
import sys
import threading
import time

import pytest
import served

import bat_tf
from bat_tf.serving import Client, ServerError
from bat_tf.serving.client import Unavailable
from bat_tf.serving.engine import Engine, Limits, Refusal
from bat_tf.serving.server import Server

KINDS = ["rest", "grpc"]


@pytest.fixture(scope="module", params=["pages", "news"])
def server(request):
    engine = Engine(served.folder(request.param), limits=Limits(requests=8))
    with Server(engine, port=0, grpc_port=0) as server:
        yield server


def address(server, kind):
    grpc = f"grpc://{server.host}:{server.grpc_port}"
    return server.url if kind == "rest" else grpc


def client(server, kind, **settings):
    return Client(address(server, kind), server.engine.name, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_answers_as_the_model_does(server, kind):
    texts = [*served.TEXTS, "\ud800 lamp", *[text for text, _ in served.NEWS]]
    local = bat_tf.load(served.folder(server.engine.name))
    with client(server, kind, timeout=60) as remote:
        if server.engine.name == "pages":
            ours, theirs = local.tag(texts), remote.tag(texts, batch_size=3)
            assert remote.tag(texts[0])[0].text == theirs[0][0].text
            text = texts[0]
            assert all(text[t.start : t.end] == t.text for t in theirs[0])
        else:
            ours, theirs = local.label(texts), remote.label(texts)
    for mine, yours in zip(ours, theirs, strict=True):
        assert len(mine) == len(yours)
        for one, other in zip(mine, yours, strict=True):
            for a, b in zip(one, other, strict=True):
                assert a == (pytest.approx(b, abs=1e-5) if isinstance(b, float) else b)


@pytest.mark.parametrize("kind", KINDS)
def test_metadata(server, kind):
    with client(server, kind, version=1) as remote:
        about = remote.metadata()
    assert about["bat_tf"] == bat_tf.__version__
    assert about["task"] == ("spans" if server.engine.name == "pages" else "labels")
    assert "energy" in about["labels"] or about["labels"] == ["brand", "product"]


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_sentences(server, kind):
    with pytest.raises(ServerError, match="Servable not found") as caught:
        Client(address(server, kind), "other").tag("a")
    assert caught.value.status in (404, "NOT_FOUND")
    with client(server, kind) as remote:
        ask = remote.label if server.engine.name == "pages" else remote.tag
        with pytest.raises(ServerError, match="answers have no `num_"):
            ask("a")
        with pytest.raises(ServerError, match="1 to 64 rows"):
            remote.label(["a"] * 65, batch_size=65)


@pytest.mark.parametrize("kind", KINDS)
def test_a_busy_server_is_asked_again(server, kind, monkeypatch):
    asked, answer = [], server.engine.answer

    def busy_twice(*arguments):
        asked.append(time.monotonic())
        if len(asked) < 3:
            raise Refusal("UNAVAILABLE", "Busy.")
        return answer(*arguments)

    monkeypatch.setattr(server.engine, "answer", busy_twice)
    with client(server, kind, backoff=0.05) as remote:
        assert remote.metadata()["tokenizer"] == "words"
    first, second = asked[1] - asked[0], asked[2] - asked[1]
    assert len(asked) == 3 and first >= 0.05 and second >= 0.1
    asked.clear()
    with client(server, kind, retries=1, backoff=0) as remote:
        with pytest.raises(Unavailable, match="Busy"):
            remote.metadata()
    assert len(asked) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_request_is_not_asked_again(server, kind, monkeypatch):
    asked = []

    def refuse(*arguments):
        asked.append(arguments)
        raise Refusal("INVALID_ARGUMENT", "No.")

    monkeypatch.setattr(server.engine, "answer", refuse)
    with client(server, kind) as remote, pytest.raises(ServerError, match="No"):
        remote.metadata()
    assert len(asked) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_time_outs(server, kind, monkeypatch):
    monkeypatch.setattr(server.engine, "answer", lambda *_: time.sleep(0.5) or {})
    with client(server, kind, timeout=0.2) as remote:
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


def test_a_connection_that_was_closed_is_opened_again(server):
    with client(server, "rest") as remote:
        remote.metadata()
        remote._transport._local.connection.sock.shutdown(socket.SHUT_RDWR)
        assert remote.metadata()["labels"]


def test_a_client_may_be_shared_between_threads(server):
    answers = []
    with client(server, "rest") as remote:
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
