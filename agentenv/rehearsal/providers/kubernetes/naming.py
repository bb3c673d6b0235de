"""Automatic names of objects: the resource's name and eight random digits, unchanged by updates."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN

DIGITS: Final = 8
MANAGER_PREFIX: Final = "pulumi-kubernetes-"


def random_name(prefix: str, seed: bytes = b"") -> str:
    """Return a unique name. The same seed gives the same name."""
    digits = hashlib.sha256(seed + prefix.encode()).hexdigest() if seed else secrets.token_hex(DIGITS)
    return prefix + digits[:DIGITS]


def has_name(obj: Mapping[str, Any]) -> bool:
    """Return whether the program sets the name, even if it is not known yet."""
    value = objects.metadata(obj).get("name")
    return obj.get("metadata") is UNKNOWN or value is UNKNOWN or bool(value)


def has_generate_name(obj: Mapping[str, Any]) -> bool:
    return not has_name(obj) and bool(objects.metadata(obj).get("generateName"))


def is_autonamed(obj: Mapping[str, Any]) -> bool:
    return objects.has_flag(obj, objects.AUTONAMED)


def with_generated_name(obj: Mapping[str, Any], logical: str, seed: bytes, proposed: str = "") -> Object:
    """Return the object with an automatic name, and the annotation that says so."""
    new_name = proposed or random_name(f"{logical}-", seed)
    return objects.with_annotation(objects.with_metadata(obj, name=new_name), objects.AUTONAMED, "true")


def with_existing_name(obj: Mapping[str, Any], old: Mapping[str, Any]) -> Object:
    """Return the object with its existing automatic name, if the program still sets none."""
    if has_name(obj) or not is_autonamed(old):
        return dict(obj)
    return objects.with_annotation(objects.with_metadata(obj, name=objects.name(old)), objects.AUTONAMED, "true")


def keeps_explicit_name(obj: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Return whether the program sets the same name and namespace again, so that old and new cannot coexist."""
    return (
        has_name(obj)
        and not is_autonamed(obj)
        and objects.name(obj) == objects.name(live)
        and (objects.namespace(obj) or "default") == (objects.namespace(live) or "default")
    )
