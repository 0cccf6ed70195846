"""`bat-tf serve`: TF Serving's REST API and a page, on this machine."""

import asyncio
import base64
import contextlib
import functools
import hashlib
import html
import logging
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import uvicorn
from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from bat_tf.serving import rest
from bat_tf.serving.connection import Connection
from bat_tf.serving.door import Door, refusal
from bat_tf.serving.engine import RETRY
from bat_tf.serving.versions import read_signature_defs

LARGE = 20_000  # bytes of JSON, or values: what takes longer than a switch of threads
log = logging.getLogger(__name__)


def make_app(engine, hosts=(), origins=()):
    """The ASGI application that answers for an `Engine`.

    Args:
        engine: the `Engine`.
        hosts: see `Door`.
        origins: see `Door`.
    """
    room = Room(engine.limits)
    aside = ThreadPoolExecutor(1)

    async def run(function, size):
        """Calls a function, aside if there is much to do."""
        if size < LARGE:
            return function()
        return await asyncio.get_running_loop().run_in_executor(aside, function)

    async def home(request):
        return make_page(engine)

    async def metrics(request):
        return Response(engine.metrics.page(), media_type=engine.metrics.TYPE)

    async def status(request):
        model = find_model(engine, **request.path_params)
        fine = {"error_code": "OK", "error_message": ""}
        version = {"version": str(model.number), "state": "AVAILABLE", "status": fine}
        return JSONResponse({"model_version_status": [version]})

    async def metadata(request):
        model = find_model(engine, **request.path_params)
        return JSONResponse(describe(engine.name, model))

    async def predict(request):
        model = find_model(engine, **request.path_params)
        async with room.body(request) as body:
            given = body, model.inputs, engine.limits.rows
            read = functools.partial(rest.read_request, *given)
            signature, inputs, rows = await run(read, len(body))
            answering = engine.ask(signature, inputs, model)
            found = await unless_gone(request, answering)
            write = functools.partial(rest.write_answer, found, rows)
            text = await run(write, sum(value.size for value in found.values()))
        return Response(text, media_type="application/json")

    routes = [Route("/", home), Route("/metrics", metrics)]
    for path in ("/v1/models/{model}", "/v1/models/{model}/versions/{version}"):
        routes += [
            Route(f"{path}:predict", predict, methods=["POST"]),
            Route(f"{path}/metadata", metadata),
            Route(path, status),
        ]
    handlers = {HTTPException: _refused, ClientDisconnect: _gone, Exception: _failed}
    cors = Middleware(
        CORSMiddleware,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=["content-type"],
    )
    app = Starlette(
        routes=routes, exception_handlers=handlers, middleware=[cors] if origins else []
    )
    app.router.redirect_slashes = False  # TF Serving says 404, and so do we
    return Door(app, hosts, origins, engine.metrics)


async def _refused(request, error):
    return refusal(error)


async def _gone(request, error):
    return Response(status_code=499)  # nobody reads it; the log does


async def _failed(request, error):
    return JSONResponse({"error": "The server failed on this request."}, 500)


def find_model(engine, model, version=None):
    """The engine's model, if it is this one, and this version of it, that is meant."""
    found = engine.model
    if model != engine.name or version not in (None, str(found.number)):
        this = f"{engine.name}, version {found.number}"
        raise HTTPException(404, f"Servable not found. This server has {this}.")
    return found


def describe(name, model):
    """The answer to `/metadata`: the signatures as JSON."""
    signatures = {
        signature: json_format.MessageToDict(
            definition,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        for signature, definition in read_signature_defs(model.folder).items()
    }
    spec = {"name": name, "version": str(model.number), "signature_name": ""}
    found = {"signature_def": {"signature_def": signatures}}
    return {"model_spec": spec, "metadata": found}


class Room:
    """Memory for requests: each has its limit, and all together have one.

    Args:
        limits: `Limits`.
    """

    def __init__(self, limits):
        self._limits, self._held = limits, 0

    @contextlib.asynccontextmanager
    async def body(self, request):
        """The body of a request, which takes up room until the block ends."""
        size, body, most = 0, bytearray(), self._limits.body_bytes
        error = None
        try:
            # To its end, or the client would not hear the answer.
            async for part in request.stream():
                size += len(part)
                if size > most:
                    sentence = f"A request may have {most} bytes. Send several."
                    error = HTTPException(413, sentence)
                elif self._held + len(part) > self._limits.held_bytes:
                    sentence = "The server has no room for more requests now."
                    error = HTTPException(
                        503, f"{sentence} Try again in a moment.", RETRY
                    )
                if error:
                    self._held -= len(body)
                    body.clear()
                else:
                    self._held += len(part)
                    body += part
            if error:
                raise error
            yield body
        finally:
            self._held -= len(body)


async def unless_gone(request, work):
    """What a coroutine returns, unless the client leaves before."""
    working = asyncio.ensure_future(work)
    # After the body, nothing comes but the end of the connection.
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


def make_page(engine):
    """The page at `/`, which may load nothing but itself and ask nobody but us."""
    text = (resources.files("bat_tf.serving") / "page.html").read_text("utf-8")
    text = text.replace("{{model}}", html.escape(engine.name, quote=True))
    text = text.replace("{{version}}", str(engine.model.number))
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


def listen(host, port):
    """A socket that listens, or a sentence why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        made = socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise OSError(
            f"Port {port} of {host} cannot be listened on: {error}. Another server may "
            "be using it; choose another with --port."
        ) from error
    # Connections inherit it. Without, an answer in two writes waits 40 ms between
    # them, and asyncio sets it only for sockets that it makes itself.
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Server:
    """Serves an `Engine` until it is told to stop; then it finishes what it holds.

    Args:
        engine: the `Engine`; it is closed at the end.
        host: the address to listen on; by default this machine alone can reach it.
        port: of REST and the page; 0 takes a free one.
        grace: seconds that requests have to finish when it is stopped.
        allow_hosts: names that it may be called, beside IP addresses, localhost and
            `host`.
        allow_origins: addresses of sites whose pages may ask.
        poll_seconds: how often it looks for a newer version; 0 for never.

    Example:
    ```python
    with Server(Engine("saved_models/shop"), port=0) as server:
        print(server.url)
    ```
    """

    def __init__(
        self,
        engine,
        host="127.0.0.1",
        port=8501,
        grace=30,
        *,
        allow_hosts=(),
        allow_origins=(),
        poll_seconds=2,
    ):
        self.engine, self.host, limits = engine, host, engine.limits
        self._socket = listen(host, port)
        self.port = self._socket.getsockname()[1]
        door = make_app(engine, [host, *allow_hosts], allow_origins)
        config = uvicorn.Config(
            door,
            # h11 reads no further than it answers.
            http=functools.partial(Connection, limits),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,  # who asks makes no difference
            timeout_graceful_shutdown=grace,
            timeout_keep_alive=limits.idle_seconds,
            h11_max_incomplete_event_size=limits.header_bytes,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        connections = self._server.server_state.connections
        door.is_full = lambda: len(connections) > limits.connections
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._poll_seconds, self._stopped = poll_seconds, threading.Event()

    @property
    def url(self):
        """Where REST and the page are."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def run(self):
        """Serves in this thread until a signal comes."""
        looking = threading.Thread(target=self._look_for_newer, daemon=True)
        if self._poll_seconds:
            looking.start()
        with contextlib.suppress(KeyboardInterrupt):
            self._server.run([self._socket])
        self._stopped.set()
        self.engine.close()

    def _look_for_newer(self):
        said = ""
        while not self._stopped.wait(self._poll_seconds):
            try:
                self.engine.look_for_newer()
            except Exception as error:  # such as a folder that goes while it looks
                if str(error) != said:
                    log.warning("No newer version could be looked for: %s", error)
                said = str(error)

    def __enter__(self):
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            self._thread.join(0.01)
        if not self._thread.is_alive():
            raise RuntimeError("The server did not start.")
        return self

    def stop(self):
        """Takes no more requests, finishes those it holds, and ends."""
        self._server.should_exit = True
        self._thread.join()

    def __exit__(self, *error):
        self.stop()
