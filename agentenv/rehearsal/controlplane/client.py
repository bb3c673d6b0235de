"""A client of the API server: read and write objects by path, apply, watch.

It has only what the control plane's own parts and its tests need, and uses the standard library: the controllers have
to start in a fraction of a second and stay small.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

_TIMEOUT_SECONDS = 30.0
_APPLY = "application/apply-patch+yaml"  # JSON is YAML, and the server knows no JSON spelling of this type before 1.36
_MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The server refused a request: its status, its reason and its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Credentials:
    """A client certificate or a bearer token that may be renewed, and an optional impersonated user."""

    certificate: Path | None = None
    key: Path | None = None
    token: Callable[[], str] | None = None
    acting_as: str = ""  # the impersonated user
    in_group: str = ""  # the impersonated group; a service account has its own groups


class PodApi(Protocol):
    """The requests to an API server that running a pod needs."""

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; ApiError unless it succeeds."""
        ...

    def find(self, path: str) -> Object | None:
        """Return the object at a path, or None."""
        ...

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object; one that does not exist is no error."""
        ...


class Client:
    """A client of one server with one identity; safe to share between threads, each with its own connection."""

    def __init__(self, server: str, ca: Path, credentials: Credentials = Credentials()) -> None:
        parts = urlsplit(server)
        self.server = server
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 443
        self._token = credentials.token
        others = {"Impersonate-User": credentials.acting_as, "Impersonate-Group": credentials.in_group}
        self._impersonation = {name: value for name, value in others.items() if value}
        self._context = ssl.create_default_context(cafile=str(ca))
        if credentials.certificate is not None:
            self._context.load_cert_chain(credentials.certificate, credentials.key)
        self._local = threading.local()
        self._kinds: dict[str, dict[str, Object]] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and port of the server."""
        return self._host, self._port

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Send a request; ApiError unless it succeeds."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers(content if data is not None else None)
        target = _target(path, query or {})
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        # Reused only after a response: a connection without one cannot carry another request
        self._local.connection = None
        if connection is not None:
            try:
                response = _exchange(connection, method, target, data, headers)
            except ConnectionError:
                # The server closed the idle connection before it read the request: retry once
                connection.close()
            else:
                self._local.connection = connection
                return _parse_response(*response)
        connection = self._connect(_TIMEOUT_SECONDS)
        response = _exchange(connection, method, target, data, headers)
        self._local.connection = connection
        return _parse_response(*response)

    def get(self, path: str, **query: str) -> Any:
        """Return the object or list at a path."""
        return self.request("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """Return the object or list at a path, or None."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, thing: Object) -> Object:
        """Create an object."""
        return self.request("POST", self.path(thing, named=False), thing)

    def create_if_missing(self, thing: Object) -> bool:
        """Create an object; False if the name exists, possibly from an earlier attempt whose response got lost."""
        try:
            self.create(thing)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    def apply(self, thing: Object, manager: str = "rehearsal") -> Object:
        """Apply an object server-side, taking over fields that others own."""
        return self.request(
            "PATCH", self.path(thing), thing, content=_APPLY, query={"fieldManager": manager, "force": "true"}
        )

    def merge(self, path: str, change: Object) -> Object:
        """Send a merge patch."""
        return self.request("PATCH", path, change, content=_MERGE)

    def delete(self, path: str, **options: Any) -> None:
        """Delete an object; one that does not exist is no error."""
        try:
            self.request("DELETE", path, options or None)
        except ApiError as error:
            if error.status != 404:
                raise

    def path(self, thing: Object, *, named: bool = True) -> str:
        """Return the path of an object, from the server's discovery."""
        version, kind, metadata = thing["apiVersion"], thing["kind"], thing["metadata"]
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if kind not in self._kinds.get(version, {}):
            resources = self.get(base)["resources"]
            self._kinds[version] = {row["kind"]: row for row in resources if "/" not in row["name"]}
        row = self._kinds[version].get(kind)
        if row is None:
            raise ApiError(404, "NotFound", f"the server has no kind {kind} in {version}")
        scope = f"/namespaces/{metadata.get('namespace', 'default')}" if row["namespaced"] else ""
        return f"{base}{scope}/{row['name']}" + (f"/{metadata['name']}" if named else "")

    def watch(self, path: str, ended: threading.Event | None = None, **query: str) -> Iterator[tuple[str, Object]]:
        """Yield the existing objects and then every change: ("ADDED" | "MODIFIED" | "DELETED", object).

        Survives an unavailable server: existing objects are then yielded again, and those deleted meanwhile as
        deleted.
        """
        ended = ended or threading.Event()
        known: dict[str, Object] = {}
        while not ended.is_set():
            try:
                for kind, thing in self._watch_once(path, query, known, ended):
                    uid = thing["metadata"]["uid"]
                    if kind == "DELETED":
                        known.pop(uid, None)
                    else:
                        known[uid] = thing
                    yield kind, thing
            except (ApiError, http.client.HTTPException, OSError, ValueError):
                ended.wait(0.2)

    def _watch_once(
        self, path: str, query: Mapping[str, str], known: Mapping[str, Object], ended: threading.Event
    ) -> Iterator[tuple[str, Object]]:
        response_list = self.request("GET", path, query=query)
        version = response_list["metadata"]["resourceVersion"]
        type_fields = {"apiVersion": response_list["apiVersion"], "kind": response_list["kind"].removesuffix("List")}
        uids = {item["metadata"]["uid"] for item in response_list["items"]}
        for thing in [thing for uid, thing in known.items() if uid not in uids]:
            yield "DELETED", thing
        for item in response_list["items"]:
            yield "ADDED", {**type_fields, **item}
        while not ended.is_set():
            connection = self._connect(None)
            try:
                parameters = {**query, "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
                connection.request("GET", _target(path, parameters), headers=self._headers(None))
                response = connection.getresponse()
                if response.status != 200:
                    _parse_response(response.status, response.reason, response.read())
                for line in response:
                    if ended.is_set():
                        return
                    event = json.loads(line)
                    kind, thing = event["type"], event["object"]
                    if kind == "ERROR":
                        raise ApiError(thing.get("code", 410), thing.get("reason", "Expired"), thing.get("message", ""))
                    version = thing["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        yield kind, thing
            finally:
                connection.close()

    def _connect(self, timeout: float | None) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        connection.connect()
        # A request is two small writes, and Nagle would hold the second back until the first is acknowledged
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _headers(self, content: str | None) -> dict[str, str]:
        # The last is for responses with a type of their own, such as the keys of the issuer
        headers = {"Accept": "application/json, */*", "User-Agent": "rehearsal", **self._impersonation}
        if content is not None:
            headers["Content-Type"] = content
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        return headers


def has_condition(resource: Object, condition: str = "Ready") -> bool:
    """Return whether a condition of an object is true."""
    rows = (resource.get("status") or {}).get("conditions") or ()
    return any((row["type"], row["status"]) == (condition, "True") for row in rows)


def until(
    condition: Callable[[], Any], seconds: float, *, every: float = 0.02, failed: Callable[[], str | None] | None = None
) -> Any:
    """Call a function until its result is true; return it, or None after a timeout or once `failed` returns a text."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if result := condition():
                return result
        except (ApiError, http.client.HTTPException, OSError):
            pass  # not available yet, or not yet permitted
        if failed is not None and failed():
            return None
        time.sleep(every)
    return None


def _exchange(
    connection: http.client.HTTPSConnection, method: str, target: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, str, bytes]:
    try:
        connection.request(method, target, body=data, headers=headers)
        response = connection.getresponse()
        return response.status, response.reason, response.read()
    # BadStatusLine includes RemoteDisconnected; SSLEOFError is how TLS reports a closed connection
    except (http.client.BadStatusLine, ssl.SSLEOFError) as error:
        raise ConnectionResetError(str(error)) from error


def _target(path: str, query: Mapping[str, str]) -> str:
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def _parse_response(status: int, reason: str, body: bytes) -> Any:
    try:
        content = json.loads(body)
    except ValueError:
        content = {"message": body.decode(errors="replace").strip()[:500]}
    if status < 300:
        return content
    if isinstance(content, dict):
        raise ApiError(status, str(content.get("reason") or reason), str(content.get("message") or ""))
    raise ApiError(status, reason, "")
