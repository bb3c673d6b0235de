"""Requests to the API server, with persistent connections, retries and the server's error messages."""

from __future__ import annotations

import contextlib
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, MaxRetryError, NewConnectionError

from agentenv.rehearsal.providers.kubernetes.credentials import Credentials
from agentenv.rehearsal.providers.kubernetes.kubeconfig import Access

CONNECTIONS: Final = 64  # the engine runs as many operations at once, each with a watch
ATTEMPTS: Final = 5
PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0
BUSY: Final = frozenset({429, 502, 503, 504})
APPLY: Final = "application/apply-patch+yaml"
JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class ApiError(Exception):
    """The API server returned an error, with its message."""

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        return [c for c in self.details.get("causes") or [] if isinstance(c, Mapping)]

    @property
    def not_found(self) -> bool:
        return self.status == 404

    @property
    def conflict(self) -> bool:
        return self.status == 409 and self.reason == "Conflict"

    @property
    def already_exists(self) -> bool:
        return self.status == 409 and self.reason == "AlreadyExists"


class Unreachable(Exception):
    """The API server did not respond."""


class Client:
    """A client of one API server, shared by many threads."""

    def __init__(self, access: Access, *, timeout: float = 30.0, attempts: int = ATTEMPTS) -> None:
        self.access = access
        self.credentials = Credentials(access)
        self._timeout = timeout
        self._attempts = attempts
        self._lock = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        self._watches: set[urllib3.BaseHTTPResponse] = set()
        self._stopped = False

    def request(
        self,
        method: Method,
        path: str,
        query: Mapping[str, str] | None = None,
        body: object = None,
        *,
        content: str = JSON,
        attempts: int | None = None,
    ) -> dict[str, Any]:
        """Send a request. Error responses are raised as `ApiError`, no response as `Unreachable`."""
        data = None if body is None else json.dumps(body).encode()
        response = self._send(method, _target(path, query), data, content=content, attempts=attempts)
        return _document(response.data)

    @contextlib.contextmanager
    def watch(self, path: str, query: Mapping[str, str], seconds: float) -> Iterator[Iterator[dict[str, Any]]]:
        """Yield the events of a watch for some seconds, or until the connection ends."""
        watch_query = {**query, "watch": "true", "timeoutSeconds": str(max(1, int(seconds)))}
        response = self._send("GET", _target(path, watch_query), stream=seconds + 10)
        with self._lock:
            self._watches.add(response)
            stopped = self._stopped
        try:
            yield iter(()) if stopped else _events(response)
        finally:
            with self._lock:
                self._watches.discard(response)
            response.close()

    def stop(self) -> None:
        """End every watch; its readers are cancelled."""
        with self._lock:
            self._stopped = True
            for response in self._watches:
                with contextlib.suppress(Exception):  # it may be closing by itself this moment
                    response.shutdown()

    def _send(
        self,
        method: Method,
        target: str,
        data: bytes | None = None,
        *,
        content: str = JSON,
        attempts: int | None = None,
        stream: float | None = None,
    ) -> urllib3.BaseHTTPResponse:
        """Return a response with a status below 400. `stream` is the read timeout of a response that stays open."""
        pause, renewed = PAUSE, False
        for left in range((attempts or self._attempts) - 1, -1, -1):
            headers = self.credentials.headers()
            headers.update({"Accept": JSON, "User-Agent": "agentenv-rehearsal"})
            if data is not None:
                headers["Content-Type"] = content
            try:
                response = self._manager().request(
                    method,
                    self.access.server + target,
                    body=data,
                    headers=headers,
                    retries=False,
                    redirect=False,
                    timeout=urllib3.Timeout(connect=min(5.0, self._timeout), read=stream or self._timeout),
                    preload_content=stream is None,
                )
            except (HTTPError, LocationParseError, ssl.SSLError, OSError) as error:
                if left and not self._stopped and (method != "POST" or isinstance(error, NewConnectionError)):
                    time.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)
                    continue
                raise Unreachable(f"{self.access.server}: {_unreachable_reason(error)}") from None
            if response.status < 400:
                return response
            api_error = _api_error(response)
            if response.status == 401 and self.credentials.renewable and not renewed:
                renewed = True
                self._renew()
                continue
            if left and not self._stopped and _is_retryable(response, api_error, method):
                time.sleep(_retry_after(response) or pause)
                pause = min(pause * 2, LONGEST_PAUSE)
                continue
            raise api_error
        raise AssertionError("every attempt either answers or raises")

    def _renew(self) -> None:
        self.credentials.refused()
        with self._lock:
            self._pool = None  # a client certificate belongs to the connection

    def _manager(self) -> urllib3.PoolManager:
        with self._lock:
            if self._pool is None:
                self._pool = self._make()
            return self._pool

    def _make(self) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": CONNECTIONS, "block": False, "num_pools": 2}
        if self.access.server.startswith("https:"):
            options["ssl_context"] = _tls(self.access, self.credentials)
            if self.access.tls_name:
                options["server_hostname"] = options["assert_hostname"] = self.access.tls_name
            if self.access.insecure:
                urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the kubeconfig asks for it
                options["cert_reqs"] = "CERT_NONE"
                options["assert_hostname"] = False
        if self.access.proxy:
            return urllib3.ProxyManager(self.access.proxy, **options)
        return urllib3.PoolManager(**options)


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _tls(access: Access, credentials: Credentials) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif access.ca:
        context = ssl.create_default_context(cadata=access.ca.decode(errors="replace"))
    # Cluster authorities seldom carry the extensions that newer Pythons insist on.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    pair = credentials.certificate()
    if pair is not None:
        with tempfile.TemporaryDirectory(prefix="agentenv-") as folder:  # ssl reads certificates from files only
            certificate, key = Path(folder) / "certificate.pem", Path(folder) / "key.pem"
            certificate.write_bytes(pair[0])
            key.touch(mode=0o600)
            key.write_bytes(pair[1])
            context.load_cert_chain(certificate, key)
    return context


def _document(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {"text": data.decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}


def _events(response: urllib3.BaseHTTPResponse) -> Iterator[dict[str, Any]]:
    rest = b""
    # A watch that breaks off is an ordinary thing: whoever follows starts it again from where it was.
    with contextlib.suppress(HTTPError, OSError, ValueError, AttributeError):
        for chunk in response.stream(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                if line.strip():
                    yield json.loads(line)


def _api_error(response: urllib3.BaseHTTPResponse) -> ApiError:
    document = _document(response.read() if not response.data else response.data)
    if document.get("kind") == "Status":
        message = str(document.get("message") or document.get("reason") or f"HTTP {response.status}")
        return ApiError(response.status, str(document.get("reason") or ""), message, document.get("details") or {})
    text = str(document.get("text") or document).strip()[:300]
    return ApiError(response.status, "", f"HTTP {response.status}: {text}", {})


def _is_retryable(response: urllib3.BaseHTTPResponse, api_error: ApiError, method: Method) -> bool:
    """Return whether a retry can help and is safe."""
    if response.status == 500:
        return method != "POST" and ("Retry-After" in response.headers or api_error.message.startswith("etcdserver: "))
    if response.status == 504 and method == "POST":
        return False
    return response.status in BUSY


def _retry_after(response: urllib3.BaseHTTPResponse) -> float | None:
    try:
        return min(float(response.headers["Retry-After"]), LONGEST_PAUSE)
    except (KeyError, ValueError):
        return None


def _unreachable_reason(error: BaseException) -> str:
    inner = error.reason if isinstance(error, MaxRetryError) and error.reason else error
    # urllib3 puts the object's address and the pool in front of what happened.
    return str(inner).rsplit(">: ", maxsplit=1)[-1] or type(inner).__name__
