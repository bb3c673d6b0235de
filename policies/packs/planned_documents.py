"""What components promise of documents that are not known yet: the resources with what their documents will say.

A component hands such documents out under `documents`, each for a child of its own. One that is not known is judged as
promised; when it is known, which is before its resource is made, it is judged as it is, and a promise counts for
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from agentenv.core.capabilities.unknown_values import UNKNOWN, as_list, as_mapping
from agentenv.policies.verdicts import OWN, Finding, Verdict
from agentenv.policies.view.resource import Resource

OUTPUT = "documents"
BROKEN = "PACK-02"


def kept(resources: Iterable[Resource]) -> list[Resource]:
    """The resources, those that something was promised of as it was promised."""
    found = list(resources)
    promised: dict[str, list[Mapping[str, object]]] = {}
    for resource, promise in _promised(found):
        promised.setdefault(resource.urn, []).append(promise)
    return [_kept(one, promised.get(one.urn, [])) for one in found]


def _promised(resources: list[Resource]) -> Iterator[tuple[Resource, Mapping[str, object]]]:
    """Each promise with the resource that it is about: a child of whoever promises."""
    known = {(one.parent, one.type, one.name): one for one in resources}
    for resource in resources:
        for promise in _promises(resource):
            about = known.get((resource.urn, str(promise.get("type")), str(promise.get("name"))))
            if about is not None:
                yield about, promise


def broken(resources: Iterable[Resource]) -> Iterator[Finding]:
    """Documents that came otherwise than they were promised: in whom or what they allow or deny, and when.

    What they name may differ, which is all that was missing when the promise was made.
    """
    for resource, promise in _promised(list(resources)):
        key = str(promise.get("property"))
        came, said = resource.at(key).parsed(), promise.get("says")
        if came.known and _shape(came.raw) != _shape(said):
            words = f"{key} does not say what {resource.name}'s component promised at the preview"
            yield Finding(BROKEN, OWN[BROKEN].severity, Verdict.FAIL, resource.urn, key, words)


def _shape(document: object) -> object:
    statements = (as_mapping(document) or {}).get("Statement")
    # One statement may stand without a list
    rows = as_list(statements) or [statements]
    return sorted(repr(_statement(as_mapping(row) or {})) for row in rows)


def _statement(row: Mapping[str, object]) -> list[object]:
    words = [row.get("Effect")]
    for key in ("Action", "NotAction"):
        given = row.get(key)
        words.append(sorted(map(str, cast("list[object]", given))) if isinstance(given, list) else [str(given)])
    words.append(sorted(as_mapping(row.get("Condition")) or {}))
    return [
        *words,
        "NotResource" in row,
        "NotPrincipal" in row,
        row.get("Resource") == "*",
        row.get("Principal") == "*",
    ]


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
