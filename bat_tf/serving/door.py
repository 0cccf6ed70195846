"""Who may ask, and what is written down about it: never a text."""

import ipaddress
import logging
import re
import secrets
import time
import traceback
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

log = logging.getLogger(__name__)
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Door:
    """What each request passes on its way to the application, and back.

    Args:
        app: the ASGI application behind it.
        hosts: names that a request may call this server, beside IP addresses and
            localhost. Any other is that of a page that had it resolve to this address.
        origins: addresses of other sites, such as "https://example.com", whose pages
            may ask.
        metrics: `Metrics`.
    """

    def __init__(self, app, hosts, origins, metrics):
        self._app, self._metrics = app, metrics
        self._hosts = {"localhost", *map(str.lower, hosts)}
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        self.is_full = lambda: False

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers, began, status = Headers(scope=scope), time.perf_counter(), 499
        name = headers.get("x-request-id", "")
        name = name if REQUEST_ID.fullmatch(name) else secrets.token_hex(8)

        async def send_on(message):
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = name
            await send(message)

        try:
            self._check(headers)
            await self._app(scope, receive, send_on)
        except HTTPException as error:
            await refusal(error)(scope, receive, send_on)
        except Exception as error:
            # Its message may have a text in it; where it happened has none.
            place = "".join(traceback.format_tb(error.__traceback__)[-5:])
            log.error("%s failed: %s\n%s", name, type(error).__name__, place)
        finally:
            seconds = time.perf_counter() - began
            what = getattr(scope.get("endpoint"), "__name__", "none")
            self._metrics.requests.labels(what, status).inc()
            self._metrics.seconds.labels(what).observe(seconds)
            log.info("%s %s %s %.1f ms", name, what, status, 1000 * seconds)

    def _check(self, headers):
        if self.is_full():
            sentence = "The server has too many connections. Try again in a moment."
            again = {"retry-after": "1", "connection": "close"}
            raise HTTPException(503, sentence, again)
        host = headers.get("host", "")
        if not self._is_ours(host):
            sentence = f"This server is not called {host[:100]!r}. If it is, start it "
            raise HTTPException(403, f"{sentence}with --allow-host and that name.")
        origin = headers.get("origin")
        if origin is None or origin.lower() in self._origins:
            return
        if urlsplit(origin).netloc.lower() != host.lower():
            sentence = f"Pages of {origin[:100]!r} may not ask. If they shall, start "
            raise HTTPException(403, f"{sentence}the server with --allow-origin.")

    def _is_ours(self, host):
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name.rstrip(".") in self._hosts or is_address(name)


def is_address(name):
    """Whether a host is an IP address, which no other site can stand for.

    >>> is_address("127.0.0.1"), is_address("::1"), is_address("example.com")
    (True, True, False)
    """
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def refusal(error):
    """The response that says what an `HTTPException` says."""
    # What it quotes of a request may hold half of a surrogate pair, which is no text.
    detail = error.detail.encode("utf-8", "replace").decode("utf-8")
    return JSONResponse({"error": detail}, error.status_code, error.headers)
