"""What an object says of itself: name, namespace, kind, annotations; and walks through its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN

AUTONAMED: Final = "pulumi.com/autonamed"
SKIP_AWAIT: Final = "pulumi.com/skipAwait"
WAIT_FOR: Final = "pulumi.com/waitFor"
TIMEOUT: Final = "pulumi.com/timeoutSeconds"
REPLACE_UNREADY: Final = "pulumi.com/replaceUnready"
PATCH_FORCE: Final = "pulumi.com/patchForce"
FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
PROPAGATION: Final = "pulumi.com/deletionPropagationPolicy"

# What the server alone writes.
READ_ONLY: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)

Object = dict[str, Any]


def pluck(value: Any, *path: str) -> Any:
    """The field at a path, or None when it is not there (or not known yet)."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    found = obj.get("metadata")
    return found if isinstance(found, Mapping) else {}


def name(obj: Mapping[str, Any]) -> str:
    """Its name; nothing while it is unknown."""
    found = metadata(obj).get("name")
    return found if isinstance(found, str) else ""


def namespace(obj: Mapping[str, Any]) -> str:
    found = metadata(obj).get("namespace")
    return found if isinstance(found, str) else ""


def kind(obj: Mapping[str, Any]) -> str:
    found = obj.get("kind")
    return found if isinstance(found, str) else ""


def api_version(obj: Mapping[str, Any]) -> str:
    found = obj.get("apiVersion")
    return found if isinstance(found, str) else ""


def annotation(obj: Mapping[str, Any], key: str) -> str:
    found = pluck(obj, "metadata", "annotations", key)
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found) if isinstance(found, str | int | float) else ""


def flagged(obj: Mapping[str, Any], key: str) -> bool:
    return annotation(obj, key) == "true"


def with_metadata(obj: Mapping[str, Any], **fields: Any) -> Object:
    """A copy with these metadata fields; a None takes the field away. Unknown metadata stays unknown."""
    if obj.get("metadata") is UNKNOWN:
        return dict(obj)
    merged = {**metadata(obj), **fields}
    return {**obj, "metadata": {k: v for k, v in merged.items() if v is not None}}


def with_annotation(obj: Mapping[str, Any], key: str, value: str) -> Object:
    found = metadata(obj).get("annotations")
    if found is UNKNOWN:
        return dict(obj)
    return with_metadata(obj, annotations={**(found or {}), key: value})


def without_read_only(obj: Mapping[str, Any]) -> Object:
    """A copy without what the server alone writes."""
    if not isinstance(obj.get("metadata"), Mapping):
        return dict(obj)
    return {**obj, "metadata": {k: v for k, v in metadata(obj).items() if k not in READ_ONLY}}


def identity(obj: Mapping[str, Any]) -> str:
    """The id in the state: `namespace/name`, or the name alone where there is no namespace."""
    place = namespace(obj)
    return f"{place}/{name(obj)}" if place else name(obj)


def split_identity(text: str) -> tuple[str, str]:
    place, slash, called = text.partition("/")
    return (place, called) if slash else ("", place)


def is_definition(obj: Mapping[str, Any]) -> bool:
    return kind(obj) == "CustomResourceDefinition" and api_version(obj).startswith("apiextensions.k8s.io/")


def is_secret(obj: Mapping[str, Any]) -> bool:
    return kind(obj) == "Secret" and api_version(obj) in {"v1", "core/v1"}


def conditions(obj: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = pluck(obj, "status", "conditions")
    return [c for c in found if isinstance(c, Mapping)] if isinstance(found, list) else []


def condition(obj: Mapping[str, Any], kind_of: str) -> Mapping[str, Any]:
    return next((c for c in conditions(obj) if c.get("type") == kind_of), {})


def settled(obj: Mapping[str, Any]) -> bool:
    """Whether its controller has seen the latest change; true where controllers do not say."""
    generation, observed = pluck(obj, "metadata", "generation"), pluck(obj, "status", "observedGeneration")
    return not isinstance(observed, int) or not isinstance(generation, int) or observed >= generation
