"""What components promise of documents that are not known yet: the resources with what their documents will say.

A component hands such documents out under `documents`, each for a child of its own. One that is not known is judged as
promised; when it is known, which is before its resource is made, it is judged as it is, and a promise counts for
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from model.capabilities.plain import UNKNOWN, as_list, as_mapping
from policies.view.resource import Resource

OUTPUT = "documents"


def kept(resources: Iterable[Resource]) -> list[Resource]:
    """The resources, those that something was promised of as it was promised."""
    found = list(resources)
    promised: dict[tuple[str, str, str], list[Mapping[str, object]]] = {}
    for resource in found:
        for promise in _promises(resource):
            key = (resource.urn, str(promise.get("type")), str(promise.get("name")))
            promised.setdefault(key, []).append(promise)
    return [_kept(one, promised.get((one.parent, one.type, one.name), [])) for one in found]


def _promises(resource: Resource) -> Iterator[Mapping[str, object]]:
    for promise in as_list(resource.outputs.get(OUTPUT)) or []:
        plain = as_mapping(promise)
        if plain:
            yield plain


def _kept(resource: Resource, promises: list[Mapping[str, object]]) -> Resource:
    changed = {
        str(promise["property"]): promise["says"]
        for promise in promises
        if resource.inputs.get(str(promise.get("property"))) is UNKNOWN and as_mapping(promise.get("says"))
    }
    return replace(resource, inputs={**resource.inputs, **changed}) if changed else resource
