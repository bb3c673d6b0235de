"""An in-memory API server: documents with versions, where a change of an old version is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from agentenv.service.kube.sync_client import Document, KubeApi


class Killed(Exception):
    """Simulates that the process is killed."""


class FakeApiServer(KubeApi):
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
            deepcopy(document)
            for (kind_, namespace_, _), document in sorted(self.objects.items(), key=lambda item: item[0][1:])
            if kind_ is kind and namespace in {None, namespace_} and _matches(document, labels or {})
        ]
        return iter(documents)

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        return deepcopy(self.objects.get((kind, namespace or "", name)))

    def create(self, kind: Any, document: Document) -> bool:
        self._count_change()
        if (kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]) in self.objects:
            return False
        self.put(kind, deepcopy(document))
        return True

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        self._count_change()
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
        version = existing["metadata"]["resourceVersion"]
        return current is not None and current["metadata"]["resourceVersion"] == version


def _key(kind: Any, document: Document) -> tuple[Any, str, str]:
    return kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _matches(document: Document, labels: Mapping[str, str | None]) -> bool:
    existing = document["metadata"].get("labels") or {}
    return all(key in existing and value in {None, existing[key]} for key, value in labels.items())


def _merged(old: Any, new: Any) -> Any:
    """Return a JSON merge patch applied (RFC 7386)."""
    if not isinstance(new, dict):
        return new
    merged = deepcopy(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
