"""Helpers for applying objects: the field manager, the fields to send, and the resulting state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentenv.rehearsal.providers.kubernetes import checkpoint, naming, objects, words
from agentenv.rehearsal.providers.kubernetes.cluster import LEGACY_MANAGERS, Cluster
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap, has_unknown, parse_path
from agentenv.rehearsal.providers.kubernetes.words import InitFailed, InvalidRequest


@dataclass(frozen=True)
class AppliedObject:
    """An applied object, with its inputs and its field manager."""

    cluster: Cluster
    inputs: PropertyMap
    desired: Object
    manager: str
    initial: str
    action: str

    def outputs(self, live: Object) -> PropertyMap:
        return checkpoint.outputs(self.inputs, live, self.manager, self.initial)

    def partial(self, live: Object, message: str, reasons: list[str]) -> InitFailed:
        text = f"{words.describe(self.desired)} was {self.action}, but {message}"
        return InitFailed(objects.identity(live), self.outputs(live), self.inputs, text, reasons)


def manager_for(state: Mapping[str, Any], obj: Mapping[str, Any]) -> str:
    """Return the field manager for server-side apply: one per resource, so that each owns its fields."""
    chosen = objects.annotation(obj, objects.FIELD_MANAGER)
    return chosen or checkpoint.field_manager(state) or naming.random_name(naming.MANAGER_PREFIX)


def require_known(obj: Object) -> Object:
    unknown = [key for key, value in obj.items() if has_unknown(value)]
    if unknown:
        raise InvalidRequest(
            f"{words.describe(obj)}: still unknown when it was to be carried out: {', '.join(unknown)}"
        )
    return obj


def importable_inputs(live: Object) -> Object:
    """Return the inputs of an imported object: all fields but those the server sets."""
    bare = objects.without_read_only({k: v for k, v in live.items() if k != "status"})
    annotations = dict(objects.metadata(bare).get("annotations") or {})
    for annotation in ("deployment.kubernetes.io/revision", "kubectl.kubernetes.io/last-applied-configuration"):
        annotations.pop(annotation, None)
    return objects.with_metadata(bare, annotations=annotations or None)


def propagation_policy(desired: Mapping[str, Any]) -> str:
    chosen = objects.annotation(desired, objects.PROPAGATION).lower()
    return {"orphan": "Orphan", "background": "Background"}.get(chosen, "Foreground")


def with_ignored_fields(obj: Object, live: Mapping[str, Any], manager: str, ignored: Iterable[str]) -> Object:
    """Return the object without changes to its ignored fields.

    A field of another manager is not sent, so that there is no conflict. Any other is sent with its current value,
    because leaving it out would remove it.
    """
    other_fields: list[Mapping[str, Any]] = []
    own_fields: list[Mapping[str, Any]] = []
    for entry in objects.metadata(live).get("managedFields") or []:
        own = entry.get("manager") in {manager, *LEGACY_MANAGERS} and not entry.get("subresource")
        (own_fields if own else other_fields).append(entry.get("fieldsV1") or {})
    for text in ignored:
        path = tuple(str(part) for part in parse_path(text))
        if any(_owns(fields, path) for fields in other_fields) and not any(
            _owns(fields, path) for fields in own_fields
        ):
            obj = _set(obj, path, None)
        elif (now := objects.get_field(live, *path)) is not None:
            obj = _set(obj, path, now)
    return obj


def _owns(fields: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Return whether a manager owns fields at or under a path."""
    for part in path:
        inner = fields.get(f"f:{part}")
        if not isinstance(inner, Mapping):
            return False
        fields = inner
    return True


def _set(value: Any, path: tuple[str, ...], new: Any) -> Any:
    """Return a copy with another value at the path, or without it. A path that does not exist changes nothing."""
    if not isinstance(value, Mapping) or not path:
        return value
    key, rest = path[0], path[1:]
    if rest:
        return {**value, key: _set(value[key], rest, new)} if key in value else value
    return {k: v for k, v in value.items() if k != key} if new is None else {**value, key: new}
