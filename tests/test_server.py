import base64
import contextlib
import http.client
import json
import os
import resource
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


@pytest.fixture(scope="module")
def default_server():
    engine = Engine(served.folder("pages").parent)
    engine.warm_up()
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
        ("/v1/models/other:predict", {}, 404, "not found for request: Latest(other)"),
        ("/v1/models/pages/versions/7:predict", {}, 404, "Specific(pages, 7)"),
        ("/v1/models/other", None, 404, "Could not find any versions of model other"),
        ("/v1/models/pages/versions/" + "9" * 5000, None, 400, "Malformed request"),
        ("/v1/models/pages/", None, 400, "Malformed request"),
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
    found, answer = ask(server, path, body)
    assert found == status and list(answer) == ["error"]
    assert reason in answer["error"]


@pytest.mark.fault(
    "10 MB request",
    '413: "A request may have 1000000 bytes. Send several."; the client that goes on '
    "beyond 16 MB is cut off",
)
def test_a_request_of_ten_megabytes(default_server, server, sees):
    status, answer = ask(default_server, PREDICT, b" " * 10_000_000)
    assert status == 413
    sees(answer["error"])
    # So much more than this one allows that it need not wait for its end.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert ask(server, PREDICT, b" " * 10_000_000)[0] == 413
    assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200


@pytest.mark.fault(
    "invalid UTF-8 in a request",
    '400: "JSON Parse error: not UTF-8 at offset: 16"; inside base64, what is no UTF-8 '
    "counts as the character U+FFFD",
)
def test_bytes_that_are_no_text(server, sees):
    status, answer = ask(server, PREDICT, b'{"instances": ["\xff"]}')
    assert status == 400
    sees(answer["error"])
    raw = b"Soft \xff\xfe towel by Veloria"
    texts = [{"b64": base64.b64encode(raw).decode()}, raw.decode("utf-8", "replace")]
    found = ask(server, PREDICT, {"instances": texts})[1]["predictions"]
    assert found[0]["starts"] == found[1]["starts"]


@pytest.mark.fault(
    "client that sends and never reads",
    "it is cut off when 100 of its requests wait; others are answered meanwhile",
)
def test_a_client_that_never_reads(server):
    line = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with deaf:
        deaf.connect((server.host, server.port))
        deaf.settimeout(10)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(1000):  # 28 MB
                deaf.sendall(1000 * line)
        assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200


def test_requests_may_be_sent_ahead_of_their_answers(server):
    line = b"GET /v1/models/pages HTTP/1.1\r\nHost: x\r\n\r\n"
    with socket.create_connection((server.host, server.port), timeout=20) as eager:
        eager.sendall(50 * line)
        found = b""
        while found.count(b"HTTP/1.1 200 OK") < 50:
            part = eager.recv(100_000)
            assert part, "the connection was closed before all were answered"
            found += part


# In a process of its own, which the server's does not hold up.
CROWD = """
import asyncio, collections, json, re, sys

port, connections, each = map(int, sys.argv[1:])
body = json.dumps({"instances": ["Soft cotton towel by Veloria"]})
head = "POST /v1/models/pages:predict HTTP/1.1\\r\\nHost: x\\r\\n"
asked = f"{head}Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode()
statuses = collections.Counter()

async def one():
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(each):
        writer.write(asked)
        answer = await reader.readuntil(b"\\r\\n\\r\\n")
        size = re.search(rb"content-length: (\\d+)", answer)
        await reader.readexactly(int(size[1]))
        statuses[int(answer[9:12])] += 1
    writer.close()

async def crowd():
    await asyncio.gather(*(one() for _ in range(connections)))

asyncio.run(crowd())
print(json.dumps(statuses))
"""


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.fault(
    "10,000 requests over 256 connections",
    "each gets 200, or 503 if the server is full; memory stays bounded, and it answers "
    "afterwards",
)
@pytest.mark.slow
def test_ten_thousand_requests(default_server):
    assert ask(default_server, PREDICT, {"instances": ["a"]})[0] == 200
    before = memory()
    command = [sys.executable, "-c", CROWD, str(default_server.port), "256", "40"]
    output = subprocess.run(command, stdout=subprocess.PIPE, timeout=300, check=True)
    statuses = json.loads(output.stdout)
    assert sum(statuses.values()) == 256 * 40 and set(statuses) <= {"200", "503"}
    assert statuses["200"] > 5000
    assert memory() - before < 500e6
    assert default_server.engine._held == 0
    assert ask(default_server, PREDICT, {"instances": ["a"]})[0] == 200


@pytest.mark.fault(
    "slow client",
    '408: "The request did not arrive within … seconds." (30 by default); others are '
    "answered meanwhile",
)
def test_a_slow_client_is_told_and_keeps_nobody_waiting(server, sees):
    with socket.create_connection((server.host, server.port)) as slow:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n"
        slow.sendall(head.encode() + b'{"insta')
        assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200
        slow.settimeout(20)
        answer = slow.recv(10_000)
        assert b" 408 " in answer.splitlines()[0]
        sees((answer + slow.recv(10_000)).decode())


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


@pytest.mark.fault(
    "more requests at a time than `--max-requests`",
    '503 with `Retry-After`: "The server holds … requests, all it may. Try again in a '
    'moment."',
)
def test_overload_gets_a_503(slow_server, sees):
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
    assert list(refused) == ["error"]
    sees(refused["error"])


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


@pytest.mark.fault(
    "port in use",
    'before the model is loaded: "Port … cannot be listened on: … Another server may '
    'be using it; choose another with --port."',
)
def test_a_port_in_use_is_a_sentence(sees):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=rf"Port {port} of 127\.0\.0\.1") as caught:
            listen("127.0.0.1", port)
        sees(str(caught.value))
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
