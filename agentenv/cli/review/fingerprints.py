"""Identify the same finding in two graphs, by its rule, its resource and its stable path.

A stable path has the names of list elements instead of their indexes, so that an inserted container does not change
the findings of the others. Several findings can have the same path, and each of them counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from agentenv.cli.review.graph import Graph
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.rehearsal.providers.kubernetes.values import parse_path

Key = tuple[str, str, str]
FindingsByKey = Mapping[Key, list[Finding]]
# The keys with the names of list elements: in Kubernetes objects, and in policy statements
_NAMES: Final = ("name", "Sid")


def finding_key(finding: Finding, graph: Graph) -> Key:
    """Return the rule, the resource and the stable path of a finding."""
    resource = graph.get(finding.urn)
    return finding.rule, finding.urn, stable_path(finding.path, resource.inputs) if resource else finding.path


def stable_path(path: str, inputs: Any) -> str:
    """Return a path with names instead of indexes, for elements with names."""
    text, value = "", inputs
    for step in parse_path(path):
        if isinstance(value, str):
            value = _document(value)
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
            name = next((value[key] for key in _NAMES if key in value), None) if isinstance(value, Mapping) else None
            text += f'["{name}"]' if isinstance(name, str) else f"[{step}]"
        else:
            value = value.get(step) if isinstance(value, Mapping) else None
            text += f".{step}" if text else step
    return text


def _document(text: str) -> Any:
    """Parse a JSON document in a string: paths of findings continue in it."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def group_by_key(findings: Iterable[Finding], graph: Graph) -> dict[Key, list[Finding]]:
    """Group findings by their key without duplicates, and failures before indeterminate findings."""
    groups: dict[Key, list[Finding]] = {}
    for finding in findings:
        group = groups.setdefault(finding_key(finding, graph), [])
        if all((finding.verdict, finding.message) != (other.verdict, other.message) for other in group):
            group.append(finding)
    for group in groups.values():
        group.sort(key=lambda finding: finding.verdict is not Verdict.FAIL)
    return groups


def finding_state(finding: Finding, previous: Iterable[Finding]) -> Literal["new", "existing"]:
    """Return whether a finding existed before. A failure that was indeterminate before is new."""
    if finding.verdict is Verdict.FAIL:
        previous = [row for row in previous if (row.verdict, row.message) == (Verdict.FAIL, finding.message)]
    return "existing" if list(previous) else "new"


def fixed_findings(then: FindingsByKey, now: FindingsByKey) -> Iterator[Finding]:
    """Yield the findings that no longer exist. A finding with only another message is not fixed."""
    for key, before in then.items():
        after = now.get(key, [])
        missing = [row for row in before if row.message not in {other.message for other in after}]
        yield from missing[: max(0, len(before) - len(after))]
