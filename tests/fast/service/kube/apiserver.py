"""An API server small enough for fast tests: things by path, versions, conflicts, and watches that tell of changes.

Only for what is decided on this side of it; how the real one behaves is asked of the real one, in `tests/live`.
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
_PATH = re.compile(r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)(?:/([^/]+))?")


class ApiServer:
    """What it holds, by kind, namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.requests: list[tuple[str, str]] = []
        self.failing: list[int | Exception] = []  # what is answered first, instead
        self.conflicts = 0  # so many things that are made are refused first, for whatever else was counted with them
        self.time: datetime | None = None  # what it says; nothing else
        self.on_made: Callable[[Object], None] = lambda _: None
        self._versions = itertools.count(1)
        self._told: list[tuple[str, str, Object]] = []
        self._news = asyncio.Event()

    def client(self) -> httpx2.AsyncClient:
        """A client of it."""
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer), base_url="http://kubernetes")

    def put(self, plural: str, thing: Object) -> Object:
        """A thing is there, or another by now."""
        about = thing["metadata"]
        about.setdefault("uid", f"uid-{next(self._versions)}")
        about["resourceVersion"] = str(next(self._versions))
        key = (plural, about.get("namespace", ""), about["name"])
        self._tell("MODIFIED" if key in self.objects else "ADDED", plural, thing)
        self.objects[key] = thing
        return thing

    def drop(self, plural: str, namespace: str, name: str) -> None:
        """A thing is gone."""
        thing = self.objects.pop((plural, namespace, name))
        thing["metadata"]["resourceVersion"] = str(next(self._versions))
        self._tell("DELETED", plural, thing)

    def _tell(self, what: str, plural: str, thing: Object) -> None:
        self._told.append((what, plural, deepcopy(thing)))
        self._news.set()
        self._news = asyncio.Event()

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._done(request)
        if self.time is not None:
            answer.headers["Date"] = format_datetime(self.time, usegmt=True)
        return answer

    async def _done(self, request: httpx2.Request) -> httpx2.Response:  # noqa: PLR0911 - a row a verb
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
            return self._listed(request, namespace, plural)
        if request.method == "POST":
            return self._made(namespace, plural, body)
        thing = self.objects.get((plural, namespace, name or ""))
        if thing is None:
            return _status(404, "NotFound")
        if request.method == "GET":
            return httpx2.Response(200, json=thing)
        wanted = body.get("preconditions") or body.get("metadata") or {}
        for key in ("uid", "resourceVersion"):
            if key in wanted and wanted[key] != thing["metadata"][key]:
                return _status(409, "Conflict")
        if request.method == "DELETE":
            self.drop(plural, namespace, name or "")
            return httpx2.Response(200, json={})
        merged = _merged(thing, body)
        return httpx2.Response(200, json=self.put(plural, merged))

    def _made(self, namespace: str, plural: str, body: Object) -> httpx2.Response:
        if plural == "tokenreviews":
            return httpx2.Response(201, json={**body, "status": {"authenticated": False}})
        if (plural, namespace, body["metadata"]["name"]) in self.objects:
            return _status(409, "AlreadyExists")
        if self.conflicts:
            self.conflicts -= 1
            return _status(409, "Conflict")
        body["metadata"]["creationTimestamp"] = "2026-11-18T20:00:00Z"
        made = self.put(plural, body)
        answer = httpx2.Response(201, json=made)
        self.on_made(made)
        return answer

    def _listed(self, request: httpx2.Request, namespace: str, plural: str) -> httpx2.Response:
        fields = dict(part.split("=") for part in request.url.params.get("fieldSelector", "").split(",") if part)

        labels = [part.split("=") for part in request.url.params.get("labelSelector", "").split(",") if "=" in part]

        def chosen(thing: Object) -> bool:
            about = thing["metadata"]
            named = fields.get("metadata.name")
            here = namespace in {"", about.get("namespace", "")} and named in {None, about["name"]}
            return here and all((about.get("labels") or {}).get(key) == value for key, value in labels)

        if request.url.params.get("watch"):
            return httpx2.Response(200, content=self._watched(plural, chosen, request.url.params["resourceVersion"]))
        items = [thing for (kind, _, _), thing in sorted(self.objects.items()) if kind == plural and chosen(thing)]
        version = str(next(self._versions))
        return httpx2.Response(200, json={"metadata": {"resourceVersion": version}, "items": items})

    async def _watched(self, plural: str, chosen: Callable[[Object], bool], since: str) -> AsyncIterator[bytes]:
        place = 0
        while True:
            news = self._news
            for what, kind, thing in self._told[place:]:
                if kind == plural and chosen(thing) and int(thing["metadata"]["resourceVersion"]) > int(since):
                    yield json.dumps({"type": what, "object": thing}).encode() + b"\n"
            place = len(self._told)
            await news.wait()


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
