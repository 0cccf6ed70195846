"""`bat-tf serve`: TF Serving's REST and gRPC APIs and a page, without Docker."""

import asyncio
import base64
import contextlib
import hashlib
import html
import json
import logging
import re
import socket
import threading
from importlib import resources

import uvicorn
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bat_tf.serving import rest
from bat_tf.serving.engine import Refusal

logger = logging.getLogger(__name__)

STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "TIMED_OUT": 408,
    "TOO_LARGE": 413,
    "UNAVAILABLE": 503,
}
# What is read of a body that is too large, so that the client hears the answer.
PATIENCE = 16
# Requests that a connection may send before the first of them is answered.
AHEAD = 100


def make_app(engine, lifespan=None):
    """The ASGI application that answers for an `Engine`.

    Args:
        engine: the `Engine`.
        lifespan: as in Starlette.
    """
    page = make_page(engine)

    async def home(request):
        return page

    async def status(request):
        _check_model(engine, request, "Could not find any versions of model {}")
        fine = {"error_code": "OK", "error_message": ""}
        version = {"version": str(engine.version), "state": "AVAILABLE", "status": fine}
        return _json({"model_version_status": [version]})

    async def metadata(request):
        _check_model(engine, request)
        return _json(describe(engine))

    async def predict(request):
        _check_model(engine, request)
        body = await read_body(request, engine.limits)
        signature, inputs, rows = rest.read_request(body, engine.inputs)
        answer = await engine.ask(
            signature, inputs, lambda found: rest.write_answer(found, rows)
        )
        return Response(answer, media_type="application/json")

    routes = [Route("/", home)]
    for model in ("/v1/models/{model}", "/v1/models/{model}/versions/{version}"):
        routes += [
            Route(f"{model}:predict", predict, methods=["POST"]),
            Route(f"{model}/metadata", metadata),
            Route(model, status),
        ]
    handlers = {
        Refusal: _refuse,
        HTTPException: _malformed,
        ClientDisconnect: _nobody,
        Exception: _failed,
    }
    app = Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)
    app.router.redirect_slashes = False  # TF Serving redirects nobody
    return app


def _check_model(engine, request, unknown=None):
    name, version = request.path_params["model"], request.path_params.get("version")
    if ":" in name:  # of a method that does not exist, or is not for GET
        raise HTTPException(400)
    # Not by Starlette's `int`, which fails on a number of a thousand digits.
    if version is not None and not re.fullmatch("[0-9]{1,19}", version):
        raise HTTPException(400)
    if unknown and name != engine.name:
        raise Refusal("NOT_FOUND", unknown.format(name))
    engine.check_model(name, None if version is None else int(version))


def describe(engine):
    """The answer to `/metadata`: the signatures as JSON."""
    signatures = {
        name: json_format.MessageToDict(
            definition,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        for name, definition in engine.signature_defs.items()
    }
    version = str(engine.version)
    spec = {"name": engine.name, "signature_name": "", "version": version}
    found = {"signature_def": {"signature_def": signatures}}
    return {"model_spec": spec, "metadata": found}


async def read_body(request, limits):
    """The body of a request, unless it is too large or too slow."""
    most, size, body = limits.body_bytes, 0, bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > PATIENCE * most:
                    break
                if size <= most:
                    body += chunk
    except TimeoutError:
        raise Refusal(
            "TIMED_OUT", f"The request did not arrive within {limits.seconds} seconds."
        ) from None
    if size > most:
        raise Refusal("TOO_LARGE", f"A request may have {most} bytes. Send several.")
    return bytes(body)


def _json(value, status=200, headers=None):
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
    return Response(body, status, headers, media_type="application/json")


async def _refuse(request, refusal):
    status = STATUS[refusal.code]
    headers = {"retry-after": "1"} if status == 503 else {}
    if status in (408, 413):
        headers["connection"] = "close"
    return _json({"error": refusal.sentence}, status, headers)


async def _malformed(request, error):
    text = f"Malformed request: {request.method} {request.url.path}"
    served = request.url.path.startswith("/v1/")
    return _json({"error": text}, 400 if served else error.status_code)


async def _nobody(request, error):
    return Response(status_code=400)


async def _failed(request, error):
    return _json({"error": "The server failed on this request."}, 500)


def make_page(engine):
    """The page at `/`, which may load nothing but itself and ask nobody but us."""
    text = (resources.files("bat_tf.serving") / "page.html").read_text("utf-8")
    text = text.replace("{{model}}", html.escape(engine.name, quote=True))
    text = text.replace("{{version}}", str(engine.version))
    policy = ["default-src 'none'", "connect-src 'self'", "img-src data:"]
    policy.append("frame-ancestors 'none'")
    for tag in ("script", "style"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        policy.append(f"{tag}-src 'sha256-{digest}'")
    headers = {
        "content-security-policy": "; ".join(policy),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }
    return HTMLResponse(text, headers=headers)


def listen(host, port, option="--port"):
    """A socket that listens, or a sentence why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=1024)
        # Connections inherit it. Without, an answer in two writes waits 40 ms between
        # them, and asyncio sets it only for sockets that it makes itself.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
    except (OSError, OverflowError) as error:
        raise OSError(
            f"Port {port} of {host} cannot be listened on: {error}. Another server may "
            f"be using it; choose another with {option}."
        ) from error


def check_ports(host, port, grpc_port):
    """Raises if a port is taken, before time is spent on loading a model."""
    for number, option in ((port, "--port"), (grpc_port, "--grpc-port")):
        if number:
            listen(host, number, option).close()


class _Connection(HttpToolsProtocol):
    """Cuts off a client that sends on and on and does not wait for its answers.

    uvicorn alone would keep all of its requests in memory.
    """

    def on_headers_complete(self):
        super().on_headers_complete()
        if len(self.pipeline) > AHEAD:
            self.transport.abort()


class Server:
    """Serves an `Engine` until it is told to stop; then it finishes what it holds.

    Args:
        engine: the `Engine`; it is closed at the end.
        host: the address to listen on; by default this machine alone can reach it.
        port: of REST and the page; 0 takes a free one.
        grpc_port: of gRPC; 0 takes a free one, None leaves gRPC out.
        grace: seconds that requests have to finish when it is stopped.
        ready: function of the server, called when it listens.

    Example:
    ```python
    with Server(Engine("saved_models/shop"), port=0) as server:
        print(server.url)
    ```
    """

    def __init__(
        self, engine, host="127.0.0.1", port=8501, grpc_port=8500, grace=30, ready=None
    ):
        self.engine, self.host, self.grace = engine, host, grace
        self.grpc_port, self._ready = grpc_port, ready
        check_ports(host, None, grpc_port)
        self._socket = listen(host, port)
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(
            make_app(engine, self._lifespan),
            loop="asyncio",  # the one that grpc.aio is made for
            http=_Connection,
            log_level="warning",
            access_log=False,
            proxy_headers=False,  # who asks makes no difference
            timeout_graceful_shutdown=grace,
            limit_concurrency=4 * engine.limits.requests,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = None

    @property
    def url(self):
        """Where REST and the page are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @contextlib.asynccontextmanager
    async def _lifespan(self, app):
        grpc_server = None
        if self.grpc_port is not None:
            from bat_tf.serving import grpc_server as service

            grpc_server, self.grpc_port = await service.start(
                self.engine, self.host, self.grpc_port
            )
        if self._ready:
            self._ready(self)
        yield
        if grpc_server:
            await grpc_server.stop(self.grace)
        self.engine.close()

    def run(self):
        """Serves in this thread until a signal comes."""
        with contextlib.suppress(KeyboardInterrupt):
            self._server.run([self._socket])

    def __enter__(self):
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)
        if not self._thread.is_alive():
            raise RuntimeError("The server did not start.")
        return self

    def stop(self):
        """Takes no more requests, finishes those it holds, and ends."""
        self._server.should_exit = True
        if self._thread:
            self._thread.join()

    def __exit__(self, *error):
        self.stop()
