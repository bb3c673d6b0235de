"""Check the inputs of objects: required fields, name, namespace and secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import checkpoint, conditions, naming, objects
from agentenv.rehearsal.providers.kubernetes.discovery import canonical
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.settings import Problem
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, PropertyMap, to_api, to_sdk

Scope = Callable[[Mapping[str, object]], bool | None]  # whether an object's kind has a namespace, if that is known


# Empty fields that the official plugin omits at check, by version and kind, because the types of k8s.io/api leave them
# out: they are neither declared nor compared. The components declare these ones empty; a test finds new ones.
OMITTED: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], ...]]] = {
    ("networking.k8s.io/v1", "NetworkPolicy"): (("spec", "egress"), ("spec", "ingress")),
    ("scheduling.k8s.io/v1", "PriorityClass"): (("globalDefault",),),
    ("v1", "PersistentVolume"): (("spec", "storageClassName"),),
}


@dataclass(frozen=True)
class Naming:
    """The engine's options for automatic names: a seed, a proposed name, or none at all."""

    seed: bytes = b""
    proposed: str = ""
    off: bool = False


def check(
    resource: Resource, news: PropertyMap, olds: PropertyMap, naming_rules: Naming, *, scope: Scope, default: str
) -> tuple[PropertyMap, list[Problem]]:
    """Return the checked inputs and their problems. `default` is the namespace of objects without one."""
    obj, old = objects.without_read_only(to_api(news.values)), to_api(olds.values)
    problems = _shape_problems(obj)
    if problems:
        return news, problems
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    obj, problems = _named(resource, obj, old, naming_rules)
    obj = without_empties(_with_namespace(obj, scope, default))
    checked = to_sdk(obj)
    return PropertyMap(checked, checkpoint.secret_paths(news.secrets, checked)), problems


def _shape_problems(obj: Object) -> list[Problem]:
    problems = [
        (name, f"{name} is required and has to be known, found {obj.get(name)!r}")
        for name in ("apiVersion", "kind")
        if not isinstance(obj.get(name), str) or not obj[name]
    ]
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, Mapping) and metadata is not UNKNOWN:
        problems.append(("metadata", "metadata has to be an object"))
    if not problems and objects.kind(obj).endswith("List") and isinstance(obj.get("items"), list):
        problems.append(("kind", f"{obj['kind']} is a list: create its items instead"))
    wait_for = objects.annotation(obj, objects.WAIT_FOR)
    try:
        if wait_for:
            conditions.parse(wait_for)
    except conditions.InvalidCondition as error:
        problems.append(("metadata.annotations", str(error)))
    return problems


def _named(resource: Resource, obj: Object, old: Object, rules: Naming) -> tuple[Object, list[Problem]]:
    if naming.has_generate_name(obj):
        message = "server-side apply needs a name: use metadata.name, or leave both out"
        return obj, [("metadata.generateName", message)]
    if naming.has_name(obj):
        return obj, []
    if resource.patches(objects.kind(obj)):
        return obj, [("metadata.name", "a patch needs the name of the object it is laid over")]
    if naming.is_autonamed(old):
        return naming.with_existing_name(obj, old), []
    if rules.off:
        return obj, [("metadata.name", "automatic naming is switched off: give a name")]
    return naming.with_generated_name(obj, resource.name, rules.seed, rules.proposed), []


def _with_namespace(obj: Object, scope: Scope, default: str) -> Object:
    """Return the object with the default namespace, if its kind is namespaced and it has none."""
    if obj.get("metadata") is UNKNOWN or objects.metadata(obj).get("namespace") or scope(obj) is False:
        return obj
    return objects.with_metadata(obj, namespace=default)


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
