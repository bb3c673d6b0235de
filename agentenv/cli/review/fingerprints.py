"""What a finding is known by from one review to the next: its rule, its resource, its place, and which it is there.

A place is a path with the names of a list's elements for their numbers: a container that is put before another one
makes neither of them another one. Several things may be wrong in one place, and each of them counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

from agentenv.cli.review.graph import Graph
from agentenv.policies.verdicts import Finding, Verdict
from agentenv.rehearsal.providers.kubernetes.values import parse_path

Key = tuple[str, str, str]
Places = Mapping[Key, list[Finding]]
# What elements of a list are called by where they have names: Kubernetes' objects, and statements of policies
_NAMES: Final = ("name", "Sid")


def key(finding: Finding, graph: Graph) -> Key:
    """The rule, the resource and the place."""
    resource = graph.get(finding.urn)
    return finding.rule, finding.urn, place(finding.path, resource.inputs) if resource else finding.path


def place(path: str, inputs: Any) -> str:
    """A path, with names for numbers where the elements have some."""
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
    """What a text of JSON says; rules read on in it."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def by_place(findings: Iterable[Finding], graph: Graph) -> dict[Key, list[Finding]]:
    """Findings by their place, in each what is sure to be wrong first; what is said twice is there once."""
    found: dict[Key, list[Finding]] = {}
    for one in findings:
        there = found.setdefault(key(one, graph), [])
        if all((one.verdict, one.message) != (other.verdict, other.message) for other in there):
            there.append(one)
    for there in found.values():
        there.sort(key=lambda one: one.verdict is not Verdict.FAIL)
    return found


def state(finding: Finding, there: Iterable[Finding]) -> Literal["new", "existing"]:
    """Existing only if it was as bad in its place before: what was not known and now is wrong is new."""
    if finding.verdict is Verdict.FAIL:
        there = [one for one in there if (one.verdict, one.message) == (Verdict.FAIL, finding.message)]
    return "existing" if list(there) else "new"


def mended(then: Places, now: Places) -> Iterator[Finding]:
    """What is no longer found; what only is said otherwise in its place is not mended."""
    for where, there in then.items():
        here = now.get(where, [])
        gone = [one for one in there if one.message not in {other.message for other in here}]
        yield from gone[: max(0, len(there) - len(here))]
