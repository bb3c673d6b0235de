"""Speaks to the API server: objects in and out by path, apply, watch.

Only what the control plane's own parts and its tests need, over the standard library: an attendant has to be up in a
fraction of a second and small.
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
from typing import Any
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

_PATIENCE_SECONDS = 30.0
_APPLY = "application/apply-patch+yaml"  # JSON is YAML, and the server knows no JSON spelling of this type before 1.36
_MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The server said no: its code, its reason, and its own words."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Credentials:
    """Who speaks: a client certificate, or a bearer token that may be renewed meanwhile; and in whose name."""

    certificate: Path | None = None
    key: Path | None = None
    token: Callable[[], str] | None = None
    acting_as: str = ""  # somebody else, for whoever may speak for others
    in_group: str = ""  # of theirs; a service account has its own ones


class Client:
    """One server, one speaker; safe to share between threads, each of which has a connection of its own."""

    def __init__(self, server: str, ca: Path, credentials: Credentials = Credentials()) -> None:
        parts = urlsplit(server)
        self.server = server
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 443
        self._token = credentials.token
        others = {"Impersonate-User": credentials.acting_as, "Impersonate-Group": credentials.in_group}
        self._acting = {name: value for name, value in others.items() if value}
        self._context = ssl.create_default_context(cafile=str(ca))
        if credentials.certificate is not None:
            self._context.load_cert_chain(credentials.certificate, credentials.key)
        self._mine = threading.local()
        self._kinds: dict[str, dict[str, Object]] = {}

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """One request; ApiError unless the server did what was asked."""
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers(content if data is not None else None)
        target = _target(path, query or {})
        kept: http.client.HTTPSConnection | None = getattr(self._mine, "connection", None)
        # Kept only once it has answered: after an answer that never came, nobody could ask by it again
        self._mine.connection = None
        if kept is not None:
            try:
                answered = _exchange(kept, method, target, data, headers)
            except ConnectionError:
                # The server closed it while nobody spoke, and has not heard us: that deserves a second try
                kept.close()
            else:
                self._mine.connection = kept
                return _understood(*answered)
        fresh = self._connect(_PATIENCE_SECONDS)
        answered = _exchange(fresh, method, target, data, headers)
        self._mine.connection = fresh
        return _understood(*answered)

    def get(self, path: str, **query: str) -> Any:
        """What lies at that path."""
        return self.request("GET", path, query=query)

    def find(self, path: str) -> Object | None:
        """What lies at that path, or None."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, thing: Object) -> Object:
        """Make an object where its kind lives."""
        return self.request("POST", self.path(thing, named=False), thing)

    def make(self, thing: Object) -> bool:
        """Make an object; False where one of that name is there, which may be ours, by a try whose answer got lost."""
        try:
            self.create(thing)
        except ApiError as error:
            if error.status != 409:
                raise
            return False
        return True

    def apply(self, thing: Object, manager: str = "rehearsal") -> Object:
        """Server-side apply, taking over what others own."""
        return self.request(
            "PATCH", self.path(thing), thing, content=_APPLY, query={"fieldManager": manager, "force": "true"}
        )

    def merge(self, path: str, change: Object) -> Object:
        """A merge patch."""
        return self.request("PATCH", path, change, content=_MERGE)

    def delete(self, path: str, **options: Any) -> None:
        """Delete; what is gone already is fine."""
        try:
            self.request("DELETE", path, options or None)
        except ApiError as error:
            if error.status != 404:
                raise

    def path(self, thing: Object, *, named: bool = True) -> str:
        """Where an object lives, as the server's own discovery says."""
        version, kind, about = thing["apiVersion"], thing["kind"], thing["metadata"]
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if kind not in self._kinds.get(version, {}):
            found = self.get(base)["resources"]
            self._kinds[version] = {row["kind"]: row for row in found if "/" not in row["name"]}
        row = self._kinds[version].get(kind)
        if row is None:
            raise ApiError(404, "NotFound", f"the server knows no kind {kind} in {version}")
        scope = f"/namespaces/{about.get('namespace', 'default')}" if row["namespaced"] else ""
        return f"{base}{scope}/{row['name']}" + (f"/{about['name']}" if named else "")

    def watch(self, path: str, ended: threading.Event | None = None, **query: str) -> Iterator[tuple[str, Object]]:
        """What is there and then what happens, without end: ("ADDED" | "MODIFIED" | "DELETED", object).

        Survives a server that is away for a while: what is still there is then told again, and what went meanwhile is
        told as deleted.
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
        listed = self.request("GET", path, query=query)
        version = listed["metadata"]["resourceVersion"]
        about = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        there = {item["metadata"]["uid"] for item in listed["items"]}
        for thing in [thing for uid, thing in known.items() if uid not in there]:
            yield "DELETED", thing
        for item in listed["items"]:
            yield "ADDED", {**about, **item}
        while not ended.is_set():
            connection = self._connect(None)
            try:
                asked = {**query, "watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
                connection.request("GET", _target(path, asked), headers=self._headers(None))
                answer = connection.getresponse()
                if answer.status != 200:
                    _understood(answer.status, answer.reason, answer.read())
                for line in answer:
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

    def _connect(self, patience: float | None) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(self._host, self._port, timeout=patience, context=self._context)
        connection.connect()
        # A request is two small writes, and Nagle would hold the second back until the first is acknowledged
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _headers(self, content: str | None) -> dict[str, str]:
        # The last for what has a type of its own, such as the keys of the issuer
        headers = {"Accept": "application/json, */*", "User-Agent": "rehearsal", **self._acting}
        if content is not None:
            headers["Content-Type"] = content
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        return headers


def until(
    question: Callable[[], Any], seconds: float, *, every: float = 0.02, failed: Callable[[], str | None] | None = None
) -> Any:
    """Ask again and again until the answer is true; the answer, or None once the time is up or `failed` has words."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if answer := question():
                return answer
        except (ApiError, http.client.HTTPException, OSError):
            pass  # not there yet, or not yet for us
        if failed is not None and failed():
            return None
        time.sleep(every)
    return None


def _exchange(
    connection: http.client.HTTPSConnection, method: str, target: str, data: bytes | None, headers: dict[str, str]
) -> tuple[int, str, bytes]:
    try:
        connection.request(method, target, body=data, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.reason, answer.read()
    # The first is RemoteDisconnected too, a ConnectionError already; the other is how TLS tells of a closed connection
    except (http.client.BadStatusLine, ssl.SSLEOFError) as error:
        raise ConnectionResetError(str(error)) from error


def _target(path: str, query: Mapping[str, str]) -> str:
    if not query:
        return path
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}"


def _understood(status: int, reason: str, said: bytes) -> Any:
    try:
        answer = json.loads(said)
    except ValueError:
        answer = {"message": said.decode(errors="replace").strip()[:500]}
    if status < 300:
        return answer
    if isinstance(answer, dict):
        raise ApiError(status, str(answer.get("reason") or reason), str(answer.get("message") or ""))
    raise ApiError(status, reason, "")
