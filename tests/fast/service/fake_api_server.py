"""An in-memory API server: documents with versions, where a change of an old version is refused.

Tests read and change it directly. `run` calls the service's coroutines with its verbs as coroutines.
"""

from __future__ import annotations

import asyncio
import atexit
import marshal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from agentenv.core.values.object_fields import section, text
from agentenv.service.kube.client import Document, Kind, KubeApi, Labels, collect


class Killed(Exception):
    """Simulates that the process is killed."""


class FakeApiServer:
    """Stores documents by kind, namespace and name; `before` is called with the number of each change, before it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Any, str, str], Document] = {}
        self.before: Callable[[int], None] = lambda _: None
        self._changes = 0
        self._versions = 0

    def put(self, kind: Any, document: Document) -> None:
        """Create or replace a document, as another client would."""
        metadata = document["metadata"]
        key = (kind, metadata.get("namespace", ""), metadata["name"])
        old = self.objects.get(key, {"metadata": {"uid": f"uid-{self._versions}", "generation": 0}})
        self._versions += 1
        metadata.setdefault("uid", old["metadata"]["uid"])
        metadata["generation"] = old["metadata"]["generation"] + (old.get("spec") != document.get("spec"))
        metadata["resourceVersion"] = str(self._versions)
        self.objects[key] = document

    def names(self, kind: Any) -> list[str]:
        return sorted(name for kind_, _, name in self.objects if kind_ is kind)

    def list(
        self, kind: Any, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        documents = [
            _copy(document)
            for (kind_, namespace_, _), document in sorted(self.objects.items(), key=lambda item: item[0][1:])
            if kind_ is kind and namespace in {None, namespace_} and _matches(document, labels or {})
        ]
        return iter(documents)

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        return _copy(self.objects.get((kind, namespace or "", name)))

    def create(self, kind: Any, document: Document) -> bool:
        self._count_change()
        if (kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]) in self.objects:
            return False
        self.put(kind, _copy(document))
        return True

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        self._count_change()
        kind = replace(kind, subresource="")
        if not self._is_current(kind, existing):
            return False
        self.put(kind, _merged(self.objects[_key(kind, existing)], changes))
        return True

    def delete(self, kind: Any, existing: Document) -> bool:
        self._count_change()
        if not self._is_current(kind, existing):
            return False
        del self.objects[_key(kind, existing)]
        return True

    def _count_change(self) -> None:
        self._changes += 1
        self.before(self._changes)

    def _is_current(self, kind: Any, existing: Document) -> bool:
        current = self.objects.get(_key(kind, existing))
        metadata = existing["metadata"]
        pinned = {key: metadata[key] for key in ("uid", "resourceVersion") if key in metadata}
        return current is not None and pinned.items() <= current["metadata"].items()


class Api(KubeApi):
    """The verbs of an in-memory API server, as coroutines."""

    def __init__(self, server: Any) -> None:
        self.server = server

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: Labels | None = None
    ) -> AsyncIterator[Document]:
        for document in self.server.list(kind, namespace, labels):
            yield document

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        return self.server.find(kind, name, namespace)

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        return self._current(kind, document) if self.server.create(kind, dict(document)) else None

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        return self._current(kind, existing) if self.server.patch(kind, dict(existing), dict(changes)) else None

    async def delete(
        self, kind: Kind, existing: Mapping[str, Any], *, any_version: bool = False, policy: str = "Background"
    ) -> bool:
        assert policy in {"Background", "Foreground"}
        metadata = {key: value for key, value in existing["metadata"].items() if key != "resourceVersion"}
        return self.server.delete(kind, {**existing, "metadata": metadata} if any_version else dict(existing))

    def _current(self, kind: Kind, document: Mapping[str, Any]) -> Document:
        metadata = section(document, "metadata")
        key = (kind, text(metadata, "namespace"), text(metadata, "name"))
        return dict(self.server.objects.get(key) or document)


# One event loop for all of them: a new one for each call would take longer than most calls.
_RUNNER = asyncio.Runner()
atexit.register(_RUNNER.close)


def run(operation: Callable[..., Any], /, *arguments: Any, **options: Any) -> Any:
    """Return what a coroutine or an asynchronous iterator of the service returns.

    An in-memory API server among its arguments is passed as its verbs, and a `pause` as a coroutine.
    """

    async def call() -> Any:
        positional = [Api(argument) if isinstance(argument, FakeApiServer) else argument for argument in arguments]
        if (pause := options.get("pause")) is not None:

            async def paused(seconds: float) -> None:
                pause(seconds)

            options["pause"] = paused
        result = operation(*positional, **options)
        return await (collect(result) if isinstance(result, AsyncIterator) else result)

    if not _RUNNER.get_loop().is_running():
        return _RUNNER.run(call())
    # Another client, at a moment that the in-memory API server chose.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, call()).result()


def _key(kind: Any, document: Document) -> tuple[Any, str, str]:
    return kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _matches(document: Document, labels: Mapping[str, str | None]) -> bool:
    existing = document["metadata"].get("labels") or {}
    return all(key in existing and value in {None, existing[key]} for key, value in labels.items())


def _copy(document: Any) -> Any:
    """Return a deep copy of a JSON document, in a fifth of the time of `deepcopy`."""
    return marshal.loads(marshal.dumps(document))  # noqa: S302 - written by ourselves a moment ago


def _merged(old: Any, new: Any) -> Any:
    """Return a JSON merge patch applied (RFC 7386)."""
    return _merge(_copy(old), new)


def _merge(old: Any, new: Any) -> Any:
    if not isinstance(new, dict):
        return new
    merged = old if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
