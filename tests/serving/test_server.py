import base64
import contextlib
import http.client
import json
import logging
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import served
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

import bat_tf
from bat_tf import cli
from bat_tf.serving.engine import Engine, Limits
from bat_tf.serving.server import Server, listen

PREDICT = "/v1/models/pages:predict"


@pytest.fixture(scope="module")
def server():
    limits = Limits(
        body_bytes=50_000, text_characters=2000, rows=8, seconds=1, idle_seconds=1
    )
    engine = Engine(served.folder("pages").parent, limits=limits)
    names = {
        "allow_hosts": ["Shop.example"],
        "allow_origins": ["https://pages.example"],
    }
    with Server(engine, port=0, **names) as server:
        yield server


@pytest.fixture(scope="module")
def default_server():
    engine = Engine(served.folder("pages").parent)
    with Server(engine, port=0) as server:
        yield server


@pytest.fixture
def slow_server(monkeypatch):
    """A server whose answers wait for a gate, and the gate."""
    limits = Limits(requests=2, held_bytes=900, connections=7)
    engine = Engine(served.folder("pages"), batching=False, limits=limits)
    gate, answer = threading.Event(), engine.model.answer

    def wait(*arguments):
        gate.wait(20)
        return answer(*arguments)

    monkeypatch.setattr(engine.model, "answer", wait)
    with Server(engine, port=0, grace=20) as server:
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
        (PREDICT, b'{"instances": ["\xff"]}', 400, "not JSON"),
        (PREDICT, b"nonsense", 400, "not JSON"),
        (PREDICT, {"instances": ["a"] * 9}, 400, "1 to 8 rows"),
        (PREDICT, {"instances": ["a" * 2001]}, 400, "2000 characters"),
        (PREDICT, {"instances": ["a"], "signature_name": "x"}, 400, 'signature "x"'),
        (PREDICT, b" " * 60_000, 413, "may have 50000 bytes"),
        ("/v1/models/other:predict", {}, 404, "not found. This server has pages, v"),
        ("/v1/models/pages/versions/7:predict", {}, 404, "has pages, version 1."),
        ("/v1/models/other", None, 404, "Servable not found"),
        ("/v1/models/pages/versions/" + "9" * 5000, None, 404, "Servable not found"),
        ("/v1/models/pages:classify", {}, 405, "Method Not Allowed"),
        ("/v1/models/../../../etc/passwd", None, 404, "Not Found"),
        ("/etc/passwd", None, 404, "Not Found"),
        ("/%2e%2e/%2e%2e/etc/passwd", None, 404, "Not Found"),
        ("//etc/passwd", None, 404, "Not Found"),
        ("/page.html", None, 404, "Not Found"),
    ],
)
def test_bad_requests_get_a_sentence(server, path, body, status, reason):
    found, answer = ask(server, path, body)
    assert found == status and list(answer) == ["error"]
    assert reason in answer["error"]


@pytest.mark.fault(
    "10 MB request", '413: "A request may have 1000000 bytes. Send several."'
)
def test_a_request_of_ten_megabytes(default_server, sees):
    status, answer = ask(default_server, PREDICT, b" " * 10_000_000)
    assert status == 413
    sees(answer["error"])
    assert ask(default_server, PREDICT, {"instances": ["a"]})[0] == 200


@pytest.mark.fault(
    "invalid UTF-8 in a request",
    '400: "The request is not JSON: … byte 0xff in position 16: invalid start '
    'byte."; inside base64, what is no UTF-8 counts as the character U+FFFD',
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
    "nothing more is read from it, and its connection ends after `--send-seconds`; "
    "others are answered meanwhile",
)
def test_a_client_that_never_reads(server):
    line = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with deaf:
        deaf.connect((server.host, server.port))
        deaf.settimeout(20)
        with pytest.raises(ConnectionError):
            for _ in range(1000):  # 37 MB
                deaf.sendall(1000 * line)
                assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200


def test_requests_may_be_sent_ahead_of_their_answers(server):
    line = b"GET /v1/models/pages HTTP/1.1\r\nHost: localhost\r\n\r\n"
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
head = "POST /v1/models/pages:predict HTTP/1.1\\r\\nHost: localhost\\r\\n"
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
    assert default_server.engine.held == 0
    assert ask(default_server, PREDICT, {"instances": ["a"]})[0] == 200


# Connections that ask for the labels of a book, over and over.
LONG = """
import http.client, json, sys, threading, time

port, ends = int(sys.argv[1]), time.time() + float(sys.argv[2])
body = json.dumps({"instances": [("lamp by Veloria " * 1000)[:15000]] * 64})
statuses = []

def ask():
    while time.time() < ends:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        line.request("POST", "/v1/models/pages:predict", body)
        statuses.append(line.getresponse().status)
        line.close()

threads = [threading.Thread(target=ask) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps(statuses))
"""


@pytest.mark.fault(
    "four connections that send 64 texts of 15,000 characters over and over",
    "short requests are answered as before: of a hundred, 99 within half a second",
)
@pytest.mark.slow
def test_long_requests_do_not_starve_short_ones(default_server):
    def times(count):
        found = []
        for _ in range(count):
            began = time.perf_counter()
            assert ask(default_server, PREDICT, {"instances": ["a lamp"]})[0] == 200
            found.append(time.perf_counter() - began)
        return sorted(found)

    idle, before = times(200), memory()
    command = [sys.executable, "-c", LONG, str(default_server.port), "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        time.sleep(2)
        beside = times(200)
        statuses = json.loads(process.communicate()[0])
    assert set(statuses) == {200} and memory() - before < 200e6
    assert beside[197] < max(0.5, 20 * idle[100])


@pytest.mark.fault(
    "slow client",
    '408: "The request did not arrive within … seconds." (30 by default); others are '
    "answered meanwhile",
)
def test_a_slow_client_is_told_and_keeps_nobody_waiting(server, sees):
    with socket.create_connection((server.host, server.port)) as slow:
        head = (
            f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
        )
        slow.sendall(head.encode() + b'{"insta')
        assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200
        slow.settimeout(20)
        answer = slow.recv(10_000)
        assert b" 408 " in answer.splitlines()[0]
        sees((answer + slow.recv(10_000)).decode())


def talk(server, *parts, pause=0.0):
    """What the server answers to pieces of a request, until it closes."""
    with socket.create_connection((server.host, server.port), timeout=20) as line:
        with contextlib.suppress(ConnectionError):  # it may close before all is sent
            for part in parts:
                line.sendall(part)
                time.sleep(pause)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while part := line.recv(100_000):
                found += part
    return found.decode()


@pytest.mark.fault(
    "headers that come slowly, a byte now and then (slowloris)",
    '408: "The request did not arrive within … seconds.", and the connection ends',
)
def test_headers_have_their_time(server, sees):
    began = time.monotonic()
    drops = [b"GET / HTTP/1.1\r\nHost: localhost\r\n", *[b"X: y\r\n"] * 8]
    answer = talk(server, *drops, pause=0.25)
    assert answer.startswith("HTTP/1.1 408 ") and time.monotonic() - began < 10
    sees(answer)
    # The clock starts anew after each answer, and does not wait for a body to be read.
    first = b"GET /v1/models/pages HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = talk(server, first, *drops, pause=0.25)
    assert answer.startswith("HTTP/1.1 200 ") and "HTTP/1.1 408 " in answer
    unread = b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    assert talk(server, unread, *[b"x"] * 8, pause=0.25).startswith("HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        b"X: " + b"y" * 200_000,
        b"X: y\r\n" * 2_000,
        b"X: y\r\n" * 200,
        b"X: " + b"y" * 200_000 + b"\r\n\r\n",
    ],
)
@pytest.mark.fault(
    "headers without end, or thousands of them",
    '431: "The headers of a request may have 16384 bytes in 100 lines."; memory stays '
    "as it is",
)
def test_headers_are_bounded(server, head, sees):
    start = b"GET / HTTP/1.1\r\nHost: localhost\r\n"
    answer = talk(server, start + head)
    assert answer.startswith("HTTP/1.1 431 ")
    sees(answer)


def test_megabytes_of_headers_take_no_memory(server):
    before = memory()
    start = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
    assert " 431 " in talk(server, start, *[b"y" * 1_000_000] * 100)
    assert memory() - before < 50e6


def test_idle_connections_end(server):
    began = time.monotonic()
    first = b"GET /v1/models/pages HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert talk(server, first).count("HTTP/1.1") == 1
    assert "HTTP/1.1 408 " in talk(server)
    assert time.monotonic() - began < 10


def ask_with(server, headers, method="GET", path="/v1/models/pages", body=None):
    """Status and answer to a request with headers of its own."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    answer = response.status, response.read().decode(), dict(response.getheaders())
    connection.close()
    return answer


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8501", 200),
        ("[::1]:8501", 200),
        ("192.168.7.9", 200),
        ("LOCALHOST:1", 200),
        ("shop.example", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil@127.0.0.1x", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
@pytest.mark.fault(
    "request for another host (DNS rebinding)",
    '403: "This server is not called … If it is, start it with --allow-host and that '
    'name."',
)
def test_only_our_names_are_answered(server, host, status, sees):
    found, answer, _ = ask_with(server, {"Host": host})
    assert found == status
    refusals = [ask_with(server, {"Host": "evil.example"})[1], answer]
    sees(refusals[status == 403])


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:8501", 200),
        ("https://pages.example", 200),
        ("http://localhost:9000", 403),
        ("https://evil.example", 403),
        ("null", 403),
    ],
)
@pytest.mark.fault(
    "request by a page of another site",
    '403: "Pages of … may not ask. If they shall, start the server with '
    '--allow-origin."',
)
def test_pages_of_others_may_not_ask(server, origin, status, sees):
    body = json.dumps({"instances": ["a"]})
    headers = {"Host": "localhost:8501", "Origin": origin, "Content-Type": "text/plain"}
    found, _, given = ask_with(server, headers, "POST", PREDICT, body)
    assert found == status
    allowed = given.get("access-control-allow-origin")
    assert allowed == ("https://pages.example" if "pages" in origin else None)
    headers["Origin"] = "https://evil.example"
    sees(ask_with(server, headers, "POST", PREDICT, body)[1])


def test_pages_that_may_ask_may_ask_json(server):
    headers = {"Origin": "https://pages.example", "Host": "localhost"}
    headers |= {"Access-Control-Request-Method": "POST"}
    headers |= {"Access-Control-Request-Headers": "content-type"}
    status, _, given = ask_with(server, headers, "OPTIONS", PREDICT)
    assert status == 200 and "POST" in given["access-control-allow-methods"]


def wait_for(condition, seconds=20):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "nothing happened"
        time.sleep(0.01)


def test_the_log_has_requests_and_no_texts(server, caplog):
    caplog.set_level(logging.INFO, "bat_tf.serving")
    secret = "4929 lamps of Mrs. Secret"
    for body in ({"instances": [secret]}, {"instances": [[secret]]}):
        headers = {"X-Request-Id": "order-7"}
        path = PREDICT + "?q=Secret"
        _, _, given = ask_with(server, headers, "POST", path, json.dumps(body))
        assert given["x-request-id"] == "order-7"
    _, _, given = ask_with(server, {"X-Request-Id": "a\tb"}, path="/Secret")
    assert re.fullmatch("[0-9a-f]{16}", given["x-request-id"])
    last = given["x-request-id"] + " none 404"

    def lines():  # among those of earlier tests that came late
        return {line.rpartition(" ms")[0].rsplit(" ", 1)[0] for line in caplog.messages}

    wait_for(lambda: {"order-7 predict 200", "order-7 predict 400", last} <= lines())
    assert "Secret" not in caplog.text


def test_a_failure_is_logged_without_the_text(server, caplog, monkeypatch):
    def fail(signature, inputs):
        raise RuntimeError(inputs["text"][0])

    monkeypatch.setattr(server.engine.model, "answer", fail)
    assert ask(server, PREDICT, {"instances": ["Secret"]}) == (
        500,
        {"error": "The server failed on this request."},
    )
    wait_for(lambda: caplog.messages)
    assert "failed: RuntimeError" in caplog.text and "in _answer" in caplog.text
    assert "Secret" not in caplog.text


def test_metrics_for_prometheus(server):
    ask(server, PREDICT, {"instances": ["a", "b"]})
    _, text = ask(server, "/metrics")
    found = {
        sample.name + "".join(sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
    assert found["bat_tf_requests_totalpredict200"] >= 1
    assert found["bat_tf_request_seconds_countpredict"] >= 1
    assert found["bat_tf_batch_rows_sum"] >= 2
    assert found["bat_tf_model_versionpages"] == 1
    assert found["bat_tf_requests_held"] == 0


@pytest.mark.fault(
    "more connections than `--max-connections`, or no memory for more requests "
    "(`--max-held`)",
    '503 with `Retry-After`: "The server has too many connections. Try again in a '
    'moment." or "The server has no room for more requests now. Try again in a '
    'moment."; what it holds is answered',
)
def test_connections_and_memory_are_bounded(slow_server, sees):
    server, gate = slow_server
    body = json.dumps({"instances": ["lamp"] * 60})  # 500 bytes
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as idle:
        job = pool.submit(ask_with, server, {}, "POST", PREDICT, body)
        while not server.engine.held:
            time.sleep(0.01)
        refused = [ask_with(server, {}, "POST", PREDICT, body)]
        for _ in range(7):
            address = (server.host, server.port)
            idle.enter_context(socket.create_connection(address))
        refused.append(ask_with(server, {}))
        gate.set()
        assert job.result()[0] == 200
    assert [status for status, _, _ in refused] == [503, 503]
    assert all(headers["retry-after"] == "1" for _, _, headers in refused)
    sees(" ".join(text for _, text, _ in reversed(refused)))


def test_a_new_version_answers_without_a_lost_request(tmp_path):
    shutil.copytree(served.folder("pages"), tmp_path / "shop" / "1")
    engine, statuses = Engine(tmp_path / "shop"), []
    with Server(engine, port=0, poll_seconds=0.1) as server:
        path, body = "/v1/models/shop:predict", {"instances": ["a lamp"]}
        shutil.copytree(served.folder("pieces"), tmp_path / "shop" / "2")
        until = time.monotonic() + 60
        while engine.model.number == 1 and time.monotonic() < until:
            statuses.append(ask(server, path, body)[0])
        assert ask(server, "/v1/models/shop/versions/2")[0] == 200
        assert ask(server, "/v1/models/shop/versions/1")[0] == 404
        assert b"version 2" in ask(server, "/")[1]
        statuses.append(ask(server, path, body)[0])
    assert set(statuses) == {200}


def test_a_long_request_whose_caller_leaves_is_not_finished(default_server):
    engine, rows = default_server.engine, []
    observe = engine.metrics.batch_rows.observe
    with pytest.MonkeyPatch.context() as patch:
        watch = lambda count: rows.append(count) or observe(count)  # noqa: E731
        patch.setattr(engine.metrics.batch_rows, "observe", watch)
        body = json.dumps({"instances": ["long lamp " * 1500] * 60}).encode()
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        address = (default_server.host, default_server.port)
        with socket.create_connection(address) as client:
            client.sendall(head.encode() + body)
            while not rows:
                time.sleep(0.01)
        while engine.held:
            time.sleep(0.01)
        assert ask(default_server, PREDICT, {"instances": ["a"]})[0] == 200
    assert sum(rows) < 30


def test_clients_that_go_away_leave_nothing_behind(server):
    head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n"
    for _ in range(20):
        with socket.create_connection((server.host, server.port)) as client:
            client.sendall(head.encode() + b'{"insta')
    assert ask(server, PREDICT, {"instances": ["a"]})[0] == 200
    assert server.engine.held == 0


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
    with Server(engine, port=0) as server:
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
        while not server.engine.held:
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
        command = ["serve", "-m", folder, "--port", str(port)]
        result = CliRunner().invoke(cli.app, command)
        assert "choose another with --port" in str(result.exception)


def test_the_command_serves_and_ends_on_a_signal():
    code = "from bat_tf.cli import main; main()"
    options = ["--port", "0", "--name", "shop"]
    command = ["serve", "-m", str(served.folder("pages").parent), *options]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("shop, version 1: http://127.0.0.1:")
        port = int(line.split("127.0.0.1:")[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        body = json.dumps({"instances": ["a lamp"]})
        connection.request("POST", "/v1/models/shop:predict", body)
        assert connection.getresponse().status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
