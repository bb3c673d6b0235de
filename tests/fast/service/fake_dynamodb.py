"""An API server of one process: documents with versions, and whoever comes late is told so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from agentenv.service.kube.sync_client import Document, KubeApi


class Killed(Exception):
    """The process ended here."""


class Shelf(KubeApi):
    """Keeps documents by kind, namespace and name; `before` is called with the number of each change to come."""

    def __init__(self) -> None:
        self.things: dict[tuple[Any, str, str], Document] = {}
        self.before: Callable[[int], None] = lambda _: None
        self._changes = 0
        self._versions = 0

    def put(self, kind: Any, document: Document) -> None:
        """As somebody else would."""
        about = document["metadata"]
        key = (kind, about.get("namespace", ""), about["name"])
        old = self.things.get(key, {"metadata": {"uid": f"uid-{self._versions}", "generation": 0}})
        self._versions += 1
        about.setdefault("uid", old["metadata"]["uid"])
        about["generation"] = old["metadata"]["generation"] + (old.get("spec") != document.get("spec"))
        about["resourceVersion"] = str(self._versions)
        self.things[key] = document

    def names(self, kind: Any) -> list[str]:
        return sorted(name for one, _, name in self.things if one is kind)

    def list(
        self, kind: Any, namespace: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> Iterator[Document]:
        found = [
            deepcopy(one)
            for (of, space, _), one in sorted(self.things.items(), key=lambda item: item[0][1:])
            if of is kind and namespace in {None, space} and _matches(one, labels or {})
        ]
        return iter(found)

    def find(self, kind: Any, name: str, namespace: str | None = None) -> Document | None:
        return deepcopy(self.things.get((kind, namespace or "", name)))

    def create(self, kind: Any, document: Document) -> bool:
        self._about_to_change()
        if (kind, document["metadata"].get("namespace", ""), document["metadata"]["name"]) in self.things:
            return False
        self.put(kind, deepcopy(document))
        return True

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        self._about_to_change()
        if not self._still(kind, existing):
            return False
        self.put(kind, _merged(self.things[_key(kind, existing)], changes))
        return True

    def delete(self, kind: Any, existing: Document) -> bool:
        self._about_to_change()
        if not self._still(kind, existing):
            return False
        del self.things[_key(kind, existing)]
        return True

    def _about_to_change(self) -> None:
        self._changes += 1
        self.before(self._changes)

    def _still(self, kind: Any, read: Document) -> bool:
        now = self.things.get(_key(kind, read))
        return now is not None and now["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]


def _key(kind: Any, read: Document) -> tuple[Any, str, str]:
    return kind, read["metadata"].get("namespace", ""), read["metadata"]["name"]


def _matches(one: Document, labels: Mapping[str, str | None]) -> bool:
    has = one["metadata"].get("labels") or {}
    return all(key in has and value in {None, has[key]} for key, value in labels.items())


def _merged(old: Any, new: Any) -> Any:
    """RFC 7386."""
    if not isinstance(new, dict):
        return new
    merged = deepcopy(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value)
    return merged
