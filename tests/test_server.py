import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import served
from typer.testing import CliRunner

import bat_tf
from bat_tf import cli
from bat_tf.serving.engine import Engine, Limits
from bat_tf.serving.server import Server, listen

PREDICT = "/v1/models/pages:predict"


@pytest.fixture(scope="module")
def server():
    limits = Limits(body_bytes=50_000, text_characters=2000, rows=8, seconds=1)
    engine = Engine(served.folder("pages").parent, limits=limits)
    with Server(engine, port=0, grpc_port=None) as server:
        yield server


@pytest.fixture
def slow_server(monkeypatch):
    """A server whose answers wait for a gate, and the gate."""
    engine = Engine(served.folder("pages"), batching=False, limits=Limits(requests=2))
    gate, answer = threading.Event(), engine.answer

    def wait(*arguments):
        gate.wait(20)
        return answer(*arguments)

    monkeypatch.setattr(engine, "answer", wait)
    with Server(engine, port=0, grpc_port=None, grace=20) as server:
        yield server, gate
        gate.set()


def ask(server, path, body=None, method=None):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    if isinstance(body, dict):
        body = json.dumps(body).encode()
    connection.request(method or ("GET" if body is None else "POST"), path, body)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    kind = response.getheader("content-type")
    return response.status, json.loads(text) if kind == "application/json" else text


def test_status_and_metadata_as_tf_serving_writes_them(server):
    for path in ("/v1/models/pages", "/v1/models/pages/versions/1"):
        status, answer = ask(server, path)
        assert status == 200
        assert answer["model_version_status"] == [
            {
                "version": "1",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    status, answer = ask(server, "/v1/models/pages/metadata")
    assert answer["model_spec"]["name"] == "pages"
    signatures = answer["metadata"]["signature_def"]["signature_def"]
    text = signatures["serving_default"]["inputs"]["text"]
    assert text["dtype"] == "DT_STRING"
    assert text["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]


def test_answers_in_rows_and_columns(server):
    texts = served.TEXTS[:3]
    expected = bat_tf.load(served.folder("pages")).tag(texts)
    status, answer = ask(server, PREDICT, {"instances": texts})
    assert status == 200
    for row, tags in zip(answer["predictions"], expected, strict=True):
        count = row["num_tags"]
        assert row["tags"][:count] == [tag.kind for tag in tags]
        assert row["starts"][:count] == [tag.start for tag in tags]
        scores = [tag.score for tag in tags]
        assert row["scores"][:count] == pytest.approx(scores, abs=1e-5)
    path = "/v1/models/pages/versions/1:predict"
    _, columns = ask(server, path, {"inputs": {"text": texts}})
    assert columns["outputs"]["num_tags"] == [len(tags) for tags in expected]


def test_other_signatures(server):
    body = {"signature_name": "metadata", "instances": [""]}
    _, answer = ask(server, PREDICT, body)
    assert answer["predictions"][0]["labels"] == ["brand", "product"]
    body = {"token_ids": [[2, 3]], "padding_mask": [[True, True]]}
    body = {"signature_name": "serve_tokens", "inputs": body}
    assert ask(server, PREDICT, body)[1]["outputs"]["num_tags"] == [2]


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        (PREDICT, b'{"instances": ["\xff"]}', 400, "not UTF-8"),
        (PREDICT, b"nonsense", 400, "JSON Parse error"),
        (PREDICT, {"instances": ["a"] * 9}, 400, "1 to 8 rows"),
        (PREDICT, {"instances": ["a" * 2001]}, 400, "2000 characters"),
        (PREDICT, {"instances": ["a"], "signature_name": "x"}, 400, 'name: "x" not'),
        (PREDICT, b" " * 60_000, 413, "may have 50000 bytes"),
        (PREDICT, b" " * 10_000_000, 413, "may have 50000 bytes"),
        ("/v1/models/other:predict", {}, 404, "not found for request: Latest(other)"),
        ("/v1/models/pages/versions/7:predict", {}, 404, "Specific(pages, 7)"),
        ("/v1/models/other", None, 404, "Could not find any versions of model other"),
        ("/v1/models/pages:classify", {}, 400, "Malformed request: POST /v1/models/pa"),
        (PREDICT, None, 400, "Malformed request: GET"),
        ("/v1/models/../../../etc/passwd", None, 400, "Malformed request"),
        ("/etc/passwd", None, 404, "Malformed request"),
        ("/%2e%2e/%2e%2e/etc/passwd", None, 404, "Malformed request"),
        ("//etc/passwd", None, 404, "Malformed request"),
        ("/page.html", None, 404, "Malformed request"),
    ],
)
def test_bad_requests_get_a_sentence(server, path, body, status, reason):
    try:
        found, answer = ask(server, path, body)
    except (BrokenPipeError, ConnectionResetError):
        # So much more than allowed that the server did not wait for its end.
        assert len(body) > 16 * 50_000
        return
    assert found == status and list(answer) == ["error"]
    assert reason in answer["error"]


def test_a_slow_client_is_told_and_keeps_nobody_waiting(server):
    with socket.create_connection((server.host, server.port)) as slow:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
        slow.sendall(head.encode() + b'{"insta')
        assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200
        slow.settimeout(20)
        answer = slow.recv(10_000)
        assert b" 408 " in answer.splitlines()[0]
        assert b"did not arrive within 1 seconds" in answer + slow.recv(10_000)


def test_clients_that_go_away_leave_nothing_behind(server):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
    for _ in range(20):
        with socket.create_connection((server.host, server.port)) as client:
            client.sendall(head.encode() + b'{"insta')
    assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200
    assert server.engine._held == 0


def test_the_page_stands_alone(server):
    connection = http.client.HTTPConnection(server.host, server.port)
    connection.request("GET", "/")
    response = connection.getresponse()
    page = response.read().decode()
    policy = response.getheader("content-security-policy")
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert 'data-model="pages"' in page and "version 1" in page
    assert "http://" not in page and "https://" not in page


def test_names_are_escaped_in_the_page():
    engine = Engine(served.folder("pages"), name='<b>"x', batching=False)
    with Server(engine, port=0, grpc_port=None) as server:
        _, page = ask(server, "/")
    assert b"&lt;b&gt;&quot;x" in page and b"<b>" not in page


def test_overload_gets_a_503(slow_server):
    server, gate = slow_server
    with ThreadPoolExecutor(6) as pool:
        body = {"instances": ["a"]}
        jobs = [pool.submit(ask, server, PREDICT, body) for _ in range(6)]
        while sum(job.done() for job in jobs) < 4:
            time.sleep(0.01)
        gate.set()
        answers = [job.result() for job in jobs]
    assert sorted(status for status, _ in answers) == [200, 200, 503, 503, 503, 503]
    refused = next(answer for status, answer in answers if status == 503)
    assert refused == {
        "error": "The server holds 2 requests, all it may. Try again in a moment."
    }


def test_stopping_finishes_what_it_holds(slow_server):
    server, gate = slow_server
    with ThreadPoolExecutor(2) as pool:
        job = pool.submit(ask, server, PREDICT, {"instances": ["a lamp"]})
        while not server.engine._held:
            time.sleep(0.01)
        stopping = pool.submit(server.stop)
        time.sleep(0.3)
        assert not job.done() and not stopping.done()
        with pytest.raises(OSError):
            ask(server, "/")
        gate.set()
        assert job.result()[0] == 200
        stopping.result()


def test_a_port_in_use_is_a_sentence():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        sentence = rf"Port {port} of 127\.0\.0\.1 cannot be listened on.*--port"
        with pytest.raises(OSError, match=sentence):
            listen("127.0.0.1", port)
        folder = str(served.folder("pages"))
        for option in ("--port", "--grpc-port"):
            result = CliRunner().invoke(cli.app, ["serve", folder, option, str(port)])
            assert f"choose another with {option}" in str(result.exception)


def test_the_command_serves_and_ends_on_a_signal():
    code = "from bat_tf.cli import main; main()"
    options = ["--port", "0", "--grpc-port", "0", "--name", "shop"]
    command = ["serve", str(served.folder("pages").parent), *options]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("shop, version 1: http://127.0.0.1:") and "gRPC" in line
        port = int(line.split("127.0.0.1:")[1].split(",")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = json.dumps({"instances": ["a lamp"]})
        connection.request("POST", "/v1/models/shop:predict", body)
        assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
