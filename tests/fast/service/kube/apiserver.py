"""An API server for fast tests: objects by path, resource versions, conflicts and watches.

Only for decisions of the client. The behaviour of a real API server is tested in `tests/live`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from datetime import datetime
from email.utils import format_datetime
from typing import Any

import httpx2

Object = dict[str, Any]
_PATH = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+)(?:/resize)?)?")


class ApiServer:
    """Objects by kind, namespace and name, and the requests for them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.requests: list[tuple[str, str]] = []
        self.failing: list[int | Exception] = []  # statuses or errors of the next requests
        self.conflicts = 0  # the next creations that a quota refuses
        self.time: datetime | None = None  # the `Date` header of responses
        self.on_create: Callable[[Object], None] = lambda _: None
        self._versions = itertools.count(1)
        self._events: list[tuple[str, str, Object]] = []
        self._changed_event = asyncio.Event()

    def client(self) -> httpx2.AsyncClient:
        """Return a client of the server."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer), base_url="http://kubernetes")

    def put(self, plural: str, thing: Object) -> Object:
        """Create or update an object."""
        about = thing["metadata"]
        about.setdefault("uid", f"uid-{next(self._versions)}")
        about["resourceVersion"] = str(next(self._versions))
        key = (plural, about.get("namespace", ""), about["name"])
        self._record("MODIFIED" if key in self.objects else "ADDED", plural, thing)
        self.objects[key] = thing
        return thing

    def drop(self, plural: str, namespace: str, name: str) -> None:
        """Delete an object."""
        thing = self.objects.pop((plural, namespace, name))
        thing["metadata"]["resourceVersion"] = str(next(self._versions))
        self._record("DELETED", plural, thing)

    def _record(self, what: str, plural: str, thing: Object) -> None:
        self._events.append((what, plural, deepcopy(thing)))
        self._changed_event.set()
        self._changed_event = asyncio.Event()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._handle(request)
        if self.time is not None:
            answer.headers["Date"] = format_datetime(self.time, usegmt=True)
        return answer

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:  # noqa: PLR0911 - a row a verb
        self.requests.append((request.method, request.url.path))
        if self.failing:
            failure = self.failing.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return _status(failure, "TooBusy")
        found = _PATH.fullmatch(request.url.path)
        assert found is not None, request.url.path
        namespace, plural, name = found[1] or "", found[2], found[3]
        body = json.loads(request.content) if request.content else {}
        if request.method == "GET" and name is None:
            return self._list(request, namespace, plural)
        if request.method == "POST":
            return self._create(namespace, plural, body)
        thing = self.objects.get((plural, namespace, name or ""))
        if thing is None:
            return _status(404, "NotFound")
        if request.method == "GET":
            return httpx2.Response(200, json=thing)
        expected = body.get("preconditions") or body.get("metadata") or {}
        for key in ("uid", "resourceVersion"):
            if key in expected and expected[key] != thing["metadata"][key]:
                return _status(409, "Conflict")
        if request.method == "DELETE":
            self.drop(plural, namespace, name or "")
            return httpx2.Response(200, json={})
        merged = _merged(thing, body)
        return httpx2.Response(200, json=self.put(plural, merged))

    def _create(self, namespace: str, plural: str, body: Object) -> httpx2.Response:
        if plural == "tokenreviews":
            return httpx2.Response(201, json={**body, "status": {"authenticated": False}})
        if (plural, namespace, body["metadata"]["name"]) in self.objects:
            return _status(409, "AlreadyExists")
        if self.conflicts:
            self.conflicts -= 1
            return _status(409, "Conflict")
        body["metadata"]["creationTimestamp"] = "2026-11-18T20:00:00Z"
        created = self.put(plural, body)
        answer = httpx2.Response(201, json=created)
        self.on_create(created)
        return answer

    def _list(self, request: httpx2.Request, namespace: str, plural: str) -> httpx2.Response:
        fields = dict(part.split("=") for part in request.url.params.get("fieldSelector", "").split(",") if part)

        labels = [part.split("=") for part in request.url.params.get("labelSelector", "").split(",") if "=" in part]

        def chosen(thing: Object) -> bool:
            about = thing["metadata"]
            named = fields.get("metadata.name")
            here = namespace in {"", about.get("namespace", "")} and named in {None, about["name"]}
            return here and all((about.get("labels") or {}).get(key) == value for key, value in labels)

        if request.url.params.get("watch"):
            return httpx2.Response(200, content=self._watch(plural, chosen, request.url.params["resourceVersion"]))
        items = [thing for (kind, _, _), thing in sorted(self.objects.items()) if kind == plural and chosen(thing)]
        version = str(next(self._versions))
        return httpx2.Response(200, json={"metadata": {"resourceVersion": version}, "items": items})

    async def _watch(self, plural: str, chosen: Callable[[Object], bool], since: str) -> AsyncIterator[bytes]:
        place = 0
        while True:
            changed = self._changed_event
            for what, kind, thing in self._events[place:]:
                if kind == plural and chosen(thing) and int(thing["metadata"]["resourceVersion"]) > int(since):
                    yield json.dumps({"type": what, "object": thing}).encode() + b"\n"
            place = len(self._events)
            await changed.wait()


def _merged(thing: Object, changes: Object) -> Object:
    found = dict(thing)
    for key, value in changes.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict):
            found[key] = _merged(found.get(key) or {}, value)
        else:
            found[key] = value
    return found


def _status(code: int, reason: str) -> httpx2.Response:
    return httpx2.Response(code, json={"kind": "Status", "code": code, "reason": reason, "message": reason})
