"""Use the planned documents of components in place of documents that a preview does not know yet.

A component lists planned documents in its output `documents`, each for one of its children. An unknown document is
evaluated as planned. Once it is known, which is before its resource is created, it is evaluated as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from agentenv.core.capabilities.unknown_values import UNKNOWN, as_list, as_mapping
from agentenv.policies.verdicts import PACK_FINDINGS, Finding, Verdict
from agentenv.policies.view.resource import Resource

OUTPUT = "documents"
MISMATCH = "PACK-02"


def with_planned_documents(resources: Iterable[Resource]) -> list[Resource]:
    """Return the resources, with unknown documents replaced by the planned ones."""
    every = list(resources)
    plans: dict[str, list[Mapping[str, object]]] = {}
    for resource, plan in _planned(every):
        plans.setdefault(resource.urn, []).append(plan)
    return [_with_plans(resource, plans.get(resource.urn, [])) for resource in every]


def _planned(resources: list[Resource]) -> Iterator[tuple[Resource, Mapping[str, object]]]:
    """Yield each planned document with its resource, a child of the component that planned it."""
    children = {(resource.parent, resource.type, resource.name): resource for resource in resources}
    for component in resources:
        for plan in _plans(component):
            child = children.get((component.urn, str(plan.get("type")), str(plan.get("name"))))
            if child is not None:
                yield child, plan


def plan_mismatches(resources: Iterable[Resource]) -> Iterator[Finding]:
    """Yield a finding for each document that differs from its plan in whom or what it allows or denies, and when.

    The names in it may differ, because they were unknown when the document was planned.
    """
    for resource, plan in _planned(list(resources)):
        key = str(plan.get("property"))
        actual = resource.at(key).parsed()
        if actual.known and _shape(actual.raw) != _shape(plan.get("says")):
            message = f"{key} differs from the document that the component of {resource.name} planned at the preview"
            yield Finding(MISMATCH, PACK_FINDINGS[MISMATCH].severity, Verdict.FAIL, resource.urn, key, message)


def _shape(document: object) -> object:
    statements = (as_mapping(document) or {}).get("Statement")
    # A single statement may be given without a list
    rows = as_list(statements) or [statements]
    return sorted(repr(_statement_shape(as_mapping(row) or {})) for row in rows)


def _statement_shape(row: Mapping[str, object]) -> list[object]:
    parts = [row.get("Effect")]
    for key in ("Action", "NotAction"):
        actions = row.get(key)
        parts.append(sorted(map(str, cast("list[object]", actions))) if isinstance(actions, list) else [str(actions)])
    parts.append(sorted(as_mapping(row.get("Condition")) or {}))
    return [
        *parts,
        "NotResource" in row,
        "NotPrincipal" in row,
        row.get("Resource") == "*",
        row.get("Principal") == "*",
    ]


def _plans(component: Resource) -> Iterator[Mapping[str, object]]:
    for row in as_list(component.outputs.get(OUTPUT)) or []:
        plan = as_mapping(row)
        if plan:
            yield plan


def _with_plans(resource: Resource, plans: list[Mapping[str, object]]) -> Resource:
    changed = {
        str(plan["property"]): plan["says"]
        for plan in plans
        if resource.inputs.get(str(plan.get("property"))) is UNKNOWN and as_mapping(plan.get("says"))
    }
    return replace(resource, inputs={**resource.inputs, **changed}) if changed else resource
