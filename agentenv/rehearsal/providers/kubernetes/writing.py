"""Around a write: who we are to the server, what may be sent, and what is kept of the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.rehearsal.providers.kubernetes import checkpoint, naming, objects, words
from agentenv.rehearsal.providers.kubernetes.cluster import FORERUNNERS, Cluster
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.values import Bag, has_unknown, parse_path
from agentenv.rehearsal.providers.kubernetes.words import Impossible, Partial


@dataclass(frozen=True)
class Written:
    """An object that was just written: what was asked of it, by whom, and what to keep of it."""

    cluster: Cluster
    inputs: Bag
    asked: Object
    manager: str
    initial: str
    done: str

    def outputs(self, live: Object) -> Bag:
        return checkpoint.outputs(self.inputs, live, self.manager, self.initial)

    def partial(self, live: Object, message: str, reasons: list[str]) -> Partial:
        text = f"{words.what(self.asked)} was {self.done}, but {message}"
        return Partial(objects.identity(live), self.outputs(live), self.inputs, text, reasons)


def manager_for(state: Mapping[str, Any], obj: Mapping[str, Any]) -> str:
    """Who we are to server-side apply: one manager a resource, so that each owns its own fields."""
    chosen = objects.annotation(obj, objects.FIELD_MANAGER)
    return chosen or checkpoint.manager_of(state) or naming.random_name(naming.MANAGER_PREFIX)


def known(obj: Object) -> Object:
    unknown = [key for key, value in obj.items() if has_unknown(value)]
    if unknown:
        raise Impossible(f"{words.what(obj)}: still unknown when it was to be carried out: {', '.join(unknown)}")
    return obj


def imported(live: Object) -> Object:
    """The inputs that would make an object what it is: everything but what the server writes."""
    bare = objects.without_read_only({k: v for k, v in live.items() if k != "status"})
    kept = dict(objects.metadata(bare).get("annotations") or {})
    for written in ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"):
        kept.pop(written, None)
    return objects.with_metadata(bare, annotations=kept or None)


def propagation(asked: Mapping[str, Any]) -> str:
    chosen = objects.annotation(asked, objects.PROPAGATION).lower()
    return {"orphan": "Orphan", "background": "Background"}.get(chosen, "Foreground")


def respecting(obj: Object, live: Mapping[str, Any], manager: str, ignored: Iterable[str]) -> Object:
    """The object with its ignored fields left to whoever has them now.

    What another manager owns is not sent, so that there is nothing to fight over; what nobody else owns is sent as it
    is in the cluster, because leaving it out would take it away.
    """
    theirs: list[Mapping[str, Any]] = []
    ours: list[Mapping[str, Any]] = []
    for entry in objects.metadata(live).get("managedFields") or []:
        mine = entry.get("manager") in {manager, *FORERUNNERS} and not entry.get("subresource")
        (ours if mine else theirs).append(entry.get("fieldsV1") or {})
    for text in ignored:
        path = tuple(str(part) for part in parse_path(text))
        if any(_owns(fields, path) for fields in theirs) and not any(_owns(fields, path) for fields in ours):
            obj = _set(obj, path, None)
        elif (now := objects.pluck(live, *path)) is not None:
            obj = _set(obj, path, now)
    return obj


def _owns(fields: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether a manager's fields hold something at or under a path."""
    for part in path:
        inner = fields.get(f"f:{part}")
        if not isinstance(inner, Mapping):
            return False
        fields = inner
    return True


def _set(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """A copy with another value at the path, or without it; paths that do not lead through objects change nothing."""
    if not isinstance(value, Mapping) or not path:
        return value
    key, rest = path[0], path[1:]
    if rest:
        return {**value, key: _set(value[key], rest, new)} if key in value else value
    return {k: v for k, v in value.items() if k != key} if new is None else {**value, key: new}
