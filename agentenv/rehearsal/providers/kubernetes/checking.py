"""Checking inputs: what has to be there, a name and a namespace put in, and what stays secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentenv.rehearsal.providers.kubernetes import checkpoint, conditions, empties, naming, objects
from agentenv.rehearsal.providers.kubernetes.objects import Object
from agentenv.rehearsal.providers.kubernetes.settings import Problem
from agentenv.rehearsal.providers.kubernetes.urns import Resource
from agentenv.rehearsal.providers.kubernetes.values import UNKNOWN, Bag, to_api, to_sdk

Scope = Callable[[Mapping[str, object]], bool | None]  # whether an object's kind has a namespace, if that is known


@dataclass(frozen=True)
class Naming:
    """What the engine says about names: a seed that makes them repeatable, one it proposes, or that there be none."""

    seed: bytes = b""
    proposed: str = ""
    off: bool = False


def check(
    resource: Resource, news: Bag, olds: Bag, naming_rules: Naming, *, scope: Scope, default: str
) -> tuple[Bag, list[Problem]]:
    """The inputs to keep, and what is wrong with them. `default` is the namespace of objects that name none."""
    obj, old = objects.without_read_only(to_api(news.values)), to_api(olds.values)
    problems = _malformed(obj)
    if problems:
        return news, problems
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    obj, problems = _named(resource, obj, old, naming_rules)
    obj = empties.without_empties(_placed(obj, scope, default))
    kept = to_sdk(obj)
    return Bag(kept, checkpoint.hidden(news.secrets, kept)), problems


def _malformed(obj: Object) -> list[Problem]:
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
    wanted = objects.annotation(obj, objects.WAIT_FOR)
    try:
        if wanted:
            conditions.parse(wanted)
    except conditions.BadCondition as error:
        problems.append(("metadata.annotations", str(error)))
    return problems


def _named(resource: Resource, obj: Object, old: Object, rules: Naming) -> tuple[Object, list[Problem]]:
    if naming.generated(obj):
        told = "server-side apply needs a name: use metadata.name, or leave both out"
        return obj, [("metadata.generateName", told)]
    if naming.named(obj):
        return obj, []
    if resource.patches(objects.kind(obj)):
        return obj, [("metadata.name", "a patch needs the name of the object it is laid over")]
    if naming.autonamed(old):
        return naming.keep(obj, old), []
    if rules.off:
        return obj, [("metadata.name", "automatic naming is switched off: give a name")]
    return naming.assign(obj, resource.name, rules.seed, rules.proposed), []


def _placed(obj: Object, scope: Scope, default: str) -> Object:
    """The object with the default namespace, if it has none and its kind wants one."""
    if obj.get("metadata") is UNKNOWN or objects.metadata(obj).get("namespace") or scope(obj) is False:
        return obj
    return objects.with_metadata(obj, namespace=default)
