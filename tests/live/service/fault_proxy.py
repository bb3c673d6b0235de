"""A proxy that injects faults: it refuses requests, or calls a function between a write and its response.

It forwards requests and watches with the credentials of a kubeconfig, so its clients need none. It counts the requests
that a test selects, and injects the fault at a chosen one.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

Document = dict[str, Any]
# Headers of one connection, which a proxy does not forward
_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})
_PATIENCE = 60.0


@dataclass(frozen=True)
class ProxiedRequest:
    """A forwarded request."""

    method: str
    path: str  # with the query
    headers: Mapping[str, str]
    body: bytes

    @property
    def operation(self) -> str:
        """The operation of a request to DynamoDB."""
        return self.headers.get("X-Amz-Target", "").rpartition(".")[2]

    @property
    def what(self) -> str:
        """A key that a request and its retries have in common."""
        return f"{self.method} {self.operation or urlsplit(self.path).path}"


@dataclass(frozen=True)
class Answer:
    """A response in place of the server's."""

    code: int
    document: Document
    headers: Mapping[str, str]


class FaultProxy:
    """A proxy in front of one server."""

    def __init__(
        self,
        url: str,
        counts: Callable[[ProxiedRequest], bool],
        context: ssl.SSLContext | None = None,
        folder: Path | None = None,
    ) -> None:
        split = urlsplit(url)
        self._host, self._port, self._context = split.hostname or "", split.port or 443, context
        self._counts, self._lock = counts, threading.Lock()
        self._folder = folder
        self._left, self._end = 0, _nothing
        self._refused: Counter[str] = Counter()
        self._times, self._refusal = 0, Answer(500, {}, {})
        self.refusals = 0
        self.off = timedelta(0)  # the offset of the Date header from the server's clock
        proxy = self

        class Passing(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                # The client may have been killed.
                with contextlib.suppress(OSError, http.client.HTTPException):
                    super().handle()

            def pass_on(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                proxy._pass(self, ProxiedRequest(self.command, self.path, dict(self.headers), self.rfile.read(length)))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on  # noqa: N815 - the library's names

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
                """Log nothing."""

        class Threads(ThreadingHTTPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 64

        self._server = Threads(("127.0.0.1", 0), Passing)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    @classmethod
    def of_cluster(cls, kubeconfig: Path, folder: Path) -> Self:
        """Create a proxy in front of an API server that counts changes."""
        read: Document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = read["clusters"][0]["cluster"], read["users"][0]["user"]
        context = ssl.create_default_context(cafile=cluster["certificate-authority"])
        context.load_cert_chain(user["client-certificate"], user["client-key"])
        return cls(cluster["server"], lambda request: request.method != "GET", context, folder)

    @classmethod
    def of_table(cls, url: str, *operations: str) -> Self:
        """Create a proxy in front of AWS that counts these operations of DynamoDB."""
        return cls(url, lambda request: request.operation in operations)

    def kubeconfig(self) -> Path:
        """Return a kubeconfig whose server is the proxy."""
        assert self._folder is not None
        path = self._folder / f"proxy-{self._server.server_port}.yaml"
        check_exists_once = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
        path.write_text(json.dumps(check_exists_once))
        return path

    def end_after(self, number: int, end: Callable[[], object]) -> None:
        """Call a function after the nth counted request from now on was applied, before its response is sent."""
        with self._lock:
            self._left, self._end = number, end

    def refuse(self, times: int, answer: Answer) -> None:
        """Refuse each counted request so many times before it is forwarded, also when it is repeated later."""
        with self._lock:
            self._times, self._refusal = times, answer
            self._refused.clear()

    def close(self) -> None:
        """Stop the proxy."""
        self._server.shutdown()
        self._server.server_close()

    def _pass(self, to: BaseHTTPRequestHandler, request: ProxiedRequest) -> None:
        if self._counts(request) and self._is_refused(request):
            body = json.dumps(self._refusal.document).encode()
            _respond(to, self._refusal.code, {"Content-Type": "application/json", **self._refusal.headers}, body)
            return
        server = self._connect()
        try:
            headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
            server.request(request.method, request.path, request.body or None, headers)
            answer = server.getresponse()
            if "watch=true" in request.path:
                _stream(to, answer)
                return
            body = answer.read()
            if answer.status < http.client.BAD_REQUEST and self._counts(request):
                self._done()
            _respond(to, answer.status, self._timed(answer), body)
        finally:
            server.close()

    def _timed(self, answer: http.client.HTTPResponse) -> dict[str, str]:
        headers = dict(answer.getheaders())
        if not self.off:
            return headers
        time = parsedate_to_datetime(headers["Date"])
        return {**headers, "Date": format_datetime(time + self.off, usegmt=True)}

    def _connect(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE)
        # Without a timeout: watches end by themselves, or with their thread
        return http.client.HTTPSConnection(self._host, self._port, timeout=None, context=self._context)

    def _is_refused(self, request: ProxiedRequest) -> bool:
        with self._lock:
            if self._refused[request.what] >= self._times:
                self._refused[request.what] = 0
                return False
            self._refused[request.what] += 1
            self.refusals += 1
            return True

    def _done(self) -> None:
        with self._lock:
            self._left -= 1
            end = self._end if self._left == 0 else _nothing
        end()


def _nothing() -> None:
    """Do nothing."""


def _respond(to: BaseHTTPRequestHandler, code: int, headers: Mapping[str, str], body: bytes) -> None:
    to.send_response_only(code)
    for key, value in headers.items():
        if key.lower() not in _HOP:
            to.send_header(key, value)
    to.send_header("Content-Length", str(len(body)))
    to.end_headers()
    to.wfile.write(body)


def _stream(to: BaseHTTPRequestHandler, answer: http.client.HTTPResponse) -> None:
    """Forward the lines of a watch as they arrive."""
    to.send_response_only(answer.status)
    to.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
    to.send_header("Transfer-Encoding", "chunked")
    to.end_headers()
    for part in _parts(answer):
        to.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
    to.wfile.write(b"0\r\n\r\n")


def _parts(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    while part := answer.read1(65536):
        yield part


TOO_MANY = Answer(
    429,
    {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Too many requests, please try again later.",
        "reason": "TooManyRequests",
        "details": {"retryAfterSeconds": 1},
        "code": 429,
    },
    {"Retry-After": "1"},
)
CONFLICT = Answer(
    409,
    {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "Operation cannot be fulfilled: the object has been modified",
        "reason": "Conflict",
        "code": 409,
    },
    {},
)
THROTTLED = Answer(
    400,
    {
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "The level of configured provisioned throughput for the table was exceeded.",
    },
    {"x-amzn-RequestId": "throttled"},
)
