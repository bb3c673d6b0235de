"""Names for objects that are given none: the resource's name and eight random digits, kept over updates."""

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
    """A name nobody else has; the same seed gives the same name."""
    digits = hashlib.sha256(seed + prefix.encode()).hexdigest() if seed else secrets.token_hex(DIGITS)
    return prefix + digits[:DIGITS]


def named(obj: Mapping[str, Any]) -> bool:
    """Whether the program chose the name, be it known yet or not."""
    found = objects.metadata(obj).get("name")
    return obj.get("metadata") is UNKNOWN or found is UNKNOWN or bool(found)


def generated(obj: Mapping[str, Any]) -> bool:
    return not named(obj) and bool(objects.metadata(obj).get("generateName"))


def autonamed(obj: Mapping[str, Any]) -> bool:
    return objects.flagged(obj, objects.AUTONAMED)


def assign(obj: Mapping[str, Any], logical: str, seed: bytes, proposed: str = "") -> Object:
    """The object with a name of its own, marked as not chosen by the program."""
    called = proposed or random_name(f"{logical}-", seed)
    return objects.with_annotation(objects.with_metadata(obj, name=called), objects.AUTONAMED, "true")


def keep(obj: Mapping[str, Any], old: Mapping[str, Any]) -> Object:
    """The object with the name it was given when it was made, if it still has none of its own."""
    if named(obj) or not autonamed(old):
        return dict(obj)
    return objects.with_annotation(objects.with_metadata(obj, name=objects.name(old)), objects.AUTONAMED, "true")


def keeps_its_name(obj: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether old and new cannot exist at once: the program chose the same name in the same place again."""
    return (
        named(obj)
        and not autonamed(obj)
        and objects.name(obj) == objects.name(live)
        and (objects.namespace(obj) or "default") == (objects.namespace(live) or "default")
    )
