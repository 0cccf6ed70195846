"""One connection: how much may come before a request is whole, and how slowly."""

import json
import re

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

END_OF_HEAD = re.compile(rb"\n\r?\n")
REFUSALS = {
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
}


class Connection(H11Protocol):
    """uvicorn's connection with bounds that it has no settings for.

    A clock runs from when a request could come until all of it is there, and another
    one while a client does not read.

    Args:
        limits: `Limits`.
        **settings: what uvicorn gives.
    """

    def __init__(self, limits, **settings):
        super().__init__(**settings)
        self._limits, self._arrival, self._reading = limits, None, None

    def connection_made(self, transport):
        """Begins to wait, unless there are far too many connections."""
        super().connection_made(transport)
        # Those above the limit hear about it; those far above it have no room for that.
        if len(self.connections) > 1.5 * self._limits.connections:
            transport.abort()
        self._watch()

    def connection_lost(self, error):
        """Stops the clocks."""
        self._arrival = _stop(self._arrival)
        self._reading = _stop(self._reading)
        super().connection_lost(error)

    def handle_events(self):
        """Looks at a request's headers before they are taken apart."""
        if self.conn.their_state is h11.IDLE and self._head_is_too_large():
            most = f"{self._limits.header_bytes} bytes in {self._limits.headers} lines"
            self._refuse(431, f"The headers of a request may have {most}.")
            return
        super().handle_events()
        self._watch()

    def _head_is_too_large(self):
        head = self.conn.trailing_data[0]
        end = END_OF_HEAD.search(head)
        head = head[: end.start()] if end else head
        limits = self._limits
        return len(head) > limits.header_bytes or head.count(b"\n") > limits.headers

    def _watch(self):
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not waits:
            self._arrival = _stop(self._arrival)
        elif self._arrival is None:
            self._arrival = self.loop.call_later(self._limits.seconds, self._too_slow)

    def _too_slow(self):
        answered = self.cycle is not None and self.cycle.response_started
        if self.conn.their_state is h11.SEND_BODY and answered:
            self.transport.abort()
            return
        seconds = self._limits.seconds
        self._refuse(408, f"The request did not arrive within {seconds} seconds.")

    def _refuse(self, status, sentence):
        """Answers in place of the application, and closes."""
        body = json.dumps({"error": sentence}).encode()
        head = f"HTTP/1.1 {status} {REFUSALS[status]}\r\nconnection: close\r\n"
        head += "content-type: application/json\r\n"
        head += f"content-length: {len(body)}\r\n\r\n"
        self.transport.write(head.encode() + body)
        self.transport.close()

    def pause_writing(self):
        """Gives the client time to read what it was sent."""
        super().pause_writing()
        seconds = self._limits.seconds
        self._reading = self.loop.call_later(seconds, self.transport.abort)

    def resume_writing(self):
        """Goes on."""
        super().resume_writing()
        self._reading = _stop(self._reading)


def _stop(clock):
    if clock is not None:
        clock.cancel()
