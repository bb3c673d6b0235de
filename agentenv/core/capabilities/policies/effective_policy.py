"""Compute what a pod may reach, or be reached by, under a set of existing NetworkPolicies.

Policies are additive. A pod that no policy selects may reach everything. A policy that might select it, or whose rules
are unknown, widens the bounds between what is certainly allowed and what is allowed at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agentenv.core.capabilities.policies.policy_rules import read_rule
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.sets.reach import EVERYTHING, NOTHING, Bounds, union_of_reaches
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown, as_list, as_mapping

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Direction = Literal["Egress", "Ingress"]


def effective(
    policies: Iterable[Mapping[str, object]],
    namespace: str,
    labels: Mapping[str, str | Unknown] | Unknown,
    direction: Direction = "Egress",
    *,
    enforced: bool | Unknown = True,
) -> Bounds:
    """Return what a pod of that namespace with those labels may reach; everything where no policy selects it.

    `enforced` is whether the cluster enforces policies for this pod: not on Fargate, not with enforcement disabled.
    """
    if enforced is False:
        return Bounds(EVERYTHING, EVERYTHING)
    sure: list[Bounds] = []
    possible: list[Bounds] = []
    unknown: list[str] = []
    for policy in policies:
        selected = _selects(policy, namespace, labels, direction)
        if selected is False:
            continue
        if selected is None:
            unknown.append(f"whether {_title(policy)} selects the pod")
        (possible if selected is None else sure).append(_allowed(policy, direction))
    unknown += [fact for bounds in (*sure, *possible) for fact in bounds.unknown]
    if enforced is UNKNOWN:
        unknown.append("whether the cluster enforces NetworkPolicies for the pod")
        sure = []
    if not sure and (possible or enforced is UNKNOWN):
        return Bounds(NOTHING, EVERYTHING, tuple(unknown))
    if not sure:
        return Bounds(EVERYTHING, EVERYTHING)
    return Bounds(
        union_of_reaches(bounds.least for bounds in sure),
        union_of_reaches(bounds.most for bounds in (*sure, *possible)),
        tuple(unknown),
    )


def _selects(
    policy: Mapping[str, object], namespace: str, labels: Mapping[str, str | Unknown] | Unknown, direction: Direction
) -> bool | None:
    where = _namespace(policy)
    spec = as_mapping(policy.get("spec"))
    verdicts = (
        None if where is UNKNOWN else where == namespace,
        None if spec is None else matches(spec.get("podSelector"), labels),
        None if spec is None else _governs(spec, direction),
    )
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _governs(spec: Mapping[str, object], direction: Direction) -> bool | None:
    """Return whether a policy applies to that direction; by default to ingress, and to egress if it has such rules."""
    types, rules = as_list(spec.get("policyTypes")), as_list(spec.get("egress"))
    if types is None:
        return None
    if types:
        return True if direction in types else (None if UNKNOWN in types else False)
    return direction == "Ingress" or (None if rules is None else bool(rules))


def _allowed(policy: Mapping[str, object], direction: Direction) -> Bounds:
    path = f"{_title(policy)}: spec.{direction.lower()}"
    spec = as_mapping(policy.get("spec"))
    rules = None if spec is None else as_list(spec.get(direction.lower()))
    if rules is None:
        return Bounds(NOTHING, EVERYTHING, (path,))
    read = [read_rule(rule, direction, _namespace(policy), f"{path}[{index}]") for index, rule in enumerate(rules)]
    return Bounds(
        union_of_reaches(bounds.least for bounds in read),
        union_of_reaches(bounds.most for bounds in read),
        tuple(fact for bounds in read for fact in bounds.unknown),
    )


def _namespace(policy: Mapping[str, object]) -> str | Unknown:
    metadata = as_mapping(policy.get("metadata"))
    found = UNKNOWN if metadata is None else metadata.get("namespace") or "default"
    return found if isinstance(found, str) else UNKNOWN


def _title(policy: Mapping[str, object]) -> str:
    name = (as_mapping(policy.get("metadata")) or {}).get("name")
    return f"NetworkPolicy {name}" if isinstance(name, str) else "a NetworkPolicy"
