"""Limit what a connection may use before its caller is known: its header size, the time of its parts, and its number.

uvicorn itself limits none of these. Without limits anybody who reaches the service could fill its memory with headers,
or hold its connections open without sending a request.
"""

from __future__ import annotations

import json
from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from agentenv.service.http.body_limit import MAX_BYTES
from agentenv.service.http.problems import MEDIA_TYPE

# A token may have 16 KiB.
MAX_HEADER_BYTES = 32_768
# From the first byte, or the connection, to the end of the headers; from there to the end of the body
HEADER_SECONDS, BODY_SECONDS = 10.0, 30.0
# From the end of the request to the end of the response; `wait` takes a minute at most
RESPONSE_SECONDS = 300.0
# Beyond this number a new connection replaces the oldest one that waits for its client.
MAX_CONNECTIONS = 1_000


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with these limits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: TimerHandle | None = None
        self._since = 0.0
        self._in_headers = True
        self._header_bytes = self._body_bytes = 0

    def connection_made(self, transport: Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Accept a connection, in place of the oldest one that waits for its client if there are too many."""
        super().connection_made(transport)
        self._start_timer(HEADER_SECONDS)
        if len(self.connections) > MAX_CONNECTIONS:
            others = [other for other in self.connections if isinstance(other, LimitedProtocol) and other is not self]
            min(others, key=LimitedProtocol._age).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer of a closed connection."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse data, and refuse headers beyond the limit."""
        if self._timer is None:
            self._start_timer(HEADER_SECONDS)
        while data and not self.transport.is_closing():
            size = MAX_HEADER_BYTES - self._header_bytes if self._in_headers else len(data)
            part, data = data[:size], data[size:]
            if self._in_headers:
                self._header_bytes += len(part)
            super().data_received(part)
            if self._in_headers and self._header_bytes >= MAX_HEADER_BYTES:
                limit = f"the headers are longer than {MAX_HEADER_BYTES} bytes"
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, limit, "send a shorter token and URL")

    def on_headers_complete(self) -> None:
        """Start the time of the body."""
        self._in_headers, self._body_bytes = False, 0
        self._start_timer(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Store a part of the body; close a connection that goes on sending one that nobody reads."""
        self._body_bytes += len(body)
        super().on_body(body)
        if self.cycle.response_complete and self._body_bytes > MAX_BYTES:
            self.transport.abort()

    def on_message_complete(self) -> None:
        """Start the time of the response."""
        self._in_headers, self._header_bytes = True, 0
        if self.cycle.response_complete:
            self._stop_timer()
        else:
            self._start_timer(RESPONSE_SECONDS)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Stop the time of the response; uvicorn closes a connection without another request."""
        if self._in_headers:
            self._stop_timer()
        super().on_response_complete()

    def _age(self) -> tuple[bool, float]:
        """Return a sort key: first the connections that wait for their client, the oldest first."""
        cycle = self._cycle
        return cycle is not None and not cycle.more_body and not cycle.response_started, self._since

    @property
    def _cycle(self) -> RequestResponseCycle | None:
        """Return the current request and response, or the last ones; None before the first request."""
        return cast("RequestResponseCycle | None", self.cycle)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._since = self.loop.time()
        self._timer = self.loop.call_later(seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        cycle = self._cycle
        is_reading_headers = cycle is None or (self._in_headers and cycle.response_complete)
        if is_reading_headers or (cycle is not None and cycle.more_body and not cycle.response_started):
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, "the request was not complete in time", "send it without pauses")
        else:
            self.transport.abort()

    def _refuse(self, status: HTTPStatus, detail: str, way_out: str) -> None:
        document = {"type": "about:blank", "title": status.phrase, "status": status, "detail": detail}
        body = json.dumps({**document, "way_out": way_out})
        lines = [
            f"HTTP/1.1 {status.value} {status.phrase}",
            f"content-type: {MEDIA_TYPE}",
            f"content-length: {len(body)}",
            "connection: close",
        ]
        self.transport.write("\r\n".join([*lines, "", body]).encode())
        self.transport.close()
