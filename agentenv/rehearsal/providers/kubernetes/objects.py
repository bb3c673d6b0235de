"""Accessors of an object's name, namespace, kind, annotations and other fields."""

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


def get_field(value: Any, *path: str) -> Any:
    """Return the field at a path, or None if it is absent or not known yet."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    value = obj.get("metadata")
    return value if isinstance(value, Mapping) else {}


def name(obj: Mapping[str, Any]) -> str:
    """Return the name, or an empty text while it is unknown."""
    value = metadata(obj).get("name")
    return value if isinstance(value, str) else ""


def namespace(obj: Mapping[str, Any]) -> str:
    value = metadata(obj).get("namespace")
    return value if isinstance(value, str) else ""


def kind(obj: Mapping[str, Any]) -> str:
    value = obj.get("kind")
    return value if isinstance(value, str) else ""


def api_version(obj: Mapping[str, Any]) -> str:
    value = obj.get("apiVersion")
    return value if isinstance(value, str) else ""


def annotation(obj: Mapping[str, Any], key: str) -> str:
    value = get_field(obj, "metadata", "annotations", key)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""


def has_flag(obj: Mapping[str, Any], key: str) -> bool:
    return annotation(obj, key) == "true"


def with_metadata(obj: Mapping[str, Any], **fields: Any) -> Object:
    """Return a copy with these metadata fields. None removes a field. Unknown metadata stays unknown."""
    if obj.get("metadata") is UNKNOWN:
        return dict(obj)
    merged = {**metadata(obj), **fields}
    return {**obj, "metadata": {k: v for k, v in merged.items() if v is not None}}


def with_annotation(obj: Mapping[str, Any], key: str, value: str) -> Object:
    annotations = metadata(obj).get("annotations")
    if annotations is UNKNOWN:
        return dict(obj)
    return with_metadata(obj, annotations={**(annotations or {}), key: value})


def without_read_only(obj: Mapping[str, Any]) -> Object:
    """Return a copy without the fields that only the server sets."""
    if not isinstance(obj.get("metadata"), Mapping):
        return dict(obj)
    return {**obj, "metadata": {k: v for k, v in metadata(obj).items() if k not in READ_ONLY}}


def identity(obj: Mapping[str, Any]) -> str:
    """Return the id in the state: `namespace/name`, or the name of a cluster-scoped object."""
    place = namespace(obj)
    return f"{place}/{name(obj)}" if place else name(obj)


def split_identity(text: str) -> tuple[str, str]:
    place, slash, object_name = text.partition("/")
    return (place, object_name) if slash else ("", place)


def is_definition(obj: Mapping[str, Any]) -> bool:
    return kind(obj) == "CustomResourceDefinition" and api_version(obj).startswith("apiextensions.k8s.io/")


def is_secret(obj: Mapping[str, Any]) -> bool:
    return kind(obj) == "Secret" and api_version(obj) in {"v1", "core/v1"}


def conditions(obj: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    value = get_field(obj, "status", "conditions")
    return [c for c in value if isinstance(c, Mapping)] if isinstance(value, list) else []


def condition(obj: Mapping[str, Any], kind_of: str) -> Mapping[str, Any]:
    return next((c for c in conditions(obj) if c.get("type") == kind_of), {})


def is_observed(obj: Mapping[str, Any]) -> bool:
    """Return whether the controller has observed the latest generation; true if it does not report that."""
    generation, observed = get_field(obj, "metadata", "generation"), get_field(obj, "status", "observedGeneration")
    return not isinstance(observed, int) or not isinstance(generation, int) or observed >= generation
