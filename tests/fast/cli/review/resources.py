"""Short constructors of resources, findings and reviews."""

from __future__ import annotations

from datetime import date
from typing import Any

from agentenv.cli.review.changes import Change
from agentenv.cli.review.cost import Costs
from agentenv.cli.review.findings import ReviewFinding
from agentenv.cli.review.formats.report import Comparison, Report
from agentenv.cli.review.graph import Graph, Resource, Source, graph
from agentenv.cli.review.locations import Location
from agentenv.core.capabilities.unknown_values import PLACEHOLDERS
from agentenv.policies.verdicts import Finding, Severity, Verdict
from agentenv.policies.waivers import Waiver

LATER = min(PLACEHOLDERS)  # the mark of some value that is not known yet
TODAY = date(2026, 3, 1)
FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"
ACCESS_POINT = "aws:efs/accessPoint:AccessPoint"


def urn(
    kind: str, name: str, inside: str = "agent-environment:index:Environment$agent-environment:index:Storage"
) -> str:
    """Return the URN of a resource."""
    return f"urn:pulumi:prod::agent-environment::{inside}${kind}::{name}"


def resource(kind: str, name: str, inputs: dict[str, Any] | None = None, **more: Any) -> Resource:
    """Return a resource of the storage component."""
    return Resource(urn(kind, name), kind, inputs or {}, **more)


def of(*resources: Resource) -> Graph:
    """Return a graph of resources."""
    return graph(resources)


def depending(on: Resource, key: str, kind: str, name: str, inputs: dict[str, Any], **more: Any) -> Resource:
    """Return a resource with an unknown input from another one."""
    return resource(
        kind,
        name,
        {**inputs, key: LATER},
        dependencies=(on.urn,),
        property_dependencies={key: (on.urn,)},
        **more,
    )


def judged(
    rule: str = "POD-01", severity: Severity = "Critical", state: Any = "new", *, blocks: bool = True, **more: Any
) -> ReviewFinding:
    """Return a finding on a file system called `fs`."""
    finding = Finding(
        rule,
        severity,
        more.pop("verdict", Verdict.FAIL),
        more.pop("urn", urn(FILE_SYSTEM, "fs")),
        more.pop("path", "encrypted"),
        more.pop("message", "it is not encrypted"),
    )
    values: dict[str, Any] = {
        "title": "Nothing is bad",
        "fix": "Do better.",
        "link": "docs/reference/policies.md#pod-01",
        "locations": [Location("stacks/Pulumi.prod.yaml", 7), Location("components/storage/storage.py", 120)],
        **more,
    }
    return ReviewFinding(finding, state, blocks, **values)


def waiver(**more: Any) -> Waiver:
    """Return a waiver of POD-01 on that file system."""
    values: dict[str, Any] = {
        "id": "for-now",
        "rule": "POD-01",
        "urn": urn(FILE_SYSTEM, "fs"),
        "environment": "prod",
        "reason": "it goes in May",
        "owners": ("storage", "security"),
        "ticket": "OPS-1",
        "created": date(2026, 2, 1),
        "expires": date(2026, 4, 1),
        **more,
    }
    return Waiver(**values)


def report(**more: Any) -> Report:
    """Return a review of prod against main."""
    return Report(Comparison("prod", "main", offline=True), **{"costs": Costs(), **more})


def created(count: int) -> list[Change]:
    """Return creations of resources with different types."""
    return [
        Change("create", urn(f"aws:x/y{number}:Z", f"thing-{number}"), f"aws:x/y{number}:Z") for number in range(count)
    ]


def at(resource_: Resource, file: str, line: int) -> Resource:
    """Return the resource with a source line."""
    return Resource(**{**vars(resource_), "source": Source(file, line)})
