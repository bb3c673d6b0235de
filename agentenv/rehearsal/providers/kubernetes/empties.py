"""Empty fields that the inputs of built-in kinds do not keep.

The official plugin reads a built-in kind into the types of k8s.io/api and writes it again at check. Those leave out
an empty value where the type has no pointer for it, so such a field is neither declared nor compared: what somebody
puts there by hand is not noticed. The table has the fields that the components declare empty; a test finds new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.discovery import canonical
from agentenv.rehearsal.providers.kubernetes.objects import Object

# By version and kind.
OMITTED: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], ...]]] = {
    ("networking.k8s.io/v1", "NetworkPolicy"): (("spec", "egress"), ("spec", "ingress")),
    ("scheduling.k8s.io/v1", "PriorityClass"): (("globalDefault",),),
    ("v1", "PersistentVolume"): (("spec", "storageClassName"),),
}


def without_empties(obj: Object) -> Object:
    """Return the object without the empty fields that its type leaves out."""
    for path in OMITTED.get((canonical(objects.api_version(obj)), objects.kind(obj)), ()):
        obj = _without(obj, path)
    return obj


def _without(value: Object, path: tuple[str, ...]) -> Object:
    first, *rest = path
    inner: Any = value.get(first)
    if rest:
        return {**value, first: _without(inner, tuple(rest))} if isinstance(inner, dict) else value
    return {key: part for key, part in value.items() if key != first} if inner is False or inner in ("", []) else value
