"""Decide whether a class stays within its parent: yes, no with a counterexample, or indeterminate with the reason.

Unknown parts of the child count as everything, and of the parent as nothing. The answer is "no" only where a
destination is certainly the child's and certainly not the parent's.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import reduce
from typing import TYPE_CHECKING

from agentenv.core.capabilities.authority import identity_exceeds
from agentenv.core.capabilities.cluster_facts import FACTS, MOST_API_ADDRESSES, ClusterFacts
from agentenv.core.capabilities.envelope import STRENGTH, Envelope, PathRight
from agentenv.core.capabilities.implied_reach import PROXY_QUESTION, with_implied
from agentenv.core.capabilities.sets.boxes import VERSIONS
from agentenv.core.capabilities.sets.description import destination
from agentenv.core.capabilities.sets.reach import NOTHING, Reach, Uncertain, World, worlds
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Answer(Enum):
    """The result of a containment check: whether the child stays within the parent."""

    YES = "yes"
    NO = "no"
    INDETERMINATE = "indeterminate"


@dataclass(frozen=True)
class Finding:
    """The result of one part of the comparison that is not yes; `exceeds` is what certainly exceeds the parent."""

    part: str
    answer: Answer
    words: str
    exceeds: Reach = NOTHING


@dataclass(frozen=True)
class Verdict:
    """The answer, with the findings against containment."""

    findings: tuple[Finding, ...] = ()

    @property
    def answer(self) -> Answer:
        """Return no where anything exceeds the parent, else whether everything is known to stay within it."""
        answers = {finding.answer for finding in self.findings}
        if Answer.NO in answers:
            return Answer.NO
        return Answer.INDETERMINATE if answers else Answer.YES

    def __str__(self) -> str:
        return "; ".join(finding.words for finding in self.findings) or "stays within its parent"


def decide(child: Envelope, parent: Envelope, cluster: ClusterFacts | None = None) -> Verdict:
    """Return whether the child stays within the parent in every part; `cluster` adds implied reach."""
    findings: list[Finding | None] = [
        decide_reach(child.egress, parent.egress, "egress", cluster),
        decide_reach(child.ingress, parent.ingress, "ingress"),
        _tier(child, parent),
        *_paths(child, parent),
        _identity(child, parent),
        _bound("lifetime", child.lifetime, parent.lifetime, "lives {} seconds", "for ever"),
        _bound("budget", child.budget, parent.budget, "may spend {} dollars a month", "without bound"),
    ]
    return Verdict(tuple(finding for finding in findings if finding is not None))


def decide_reach(
    child: Uncertain, parent: Uncertain, part: str = "egress", cluster: ClusterFacts | None = None
) -> Finding | None:
    """Return the finding where one reach does not stay within another; None where it does.

    Both depend on the same facts, so the comparison is made in each world. A destination that is the child's and not
    the parent's in every world is a counterexample for any value of the facts.
    """
    facts = child.facts | parent.facts | (cluster.unknown if cluster is not None else frozenset[str]())
    exceeding: dict[World, Reach] = {}
    is_open: dict[World, bool] = {}
    unknown: list[str] = []
    for world in worlds(facts):
        child_bounds, parent_bounds = child.at(world), parent.at(world)
        if cluster is not None:
            parent_bounds = with_implied(parent_bounds, cluster, world)
        exceeding[world], possible = child_bounds.least - parent_bounds.most, child_bounds.most - parent_bounds.least
        is_open[world] = bool(possible)
        unknown += [
            fact
            for fact in (*child_bounds.unknown, *parent_bounds.unknown)
            if possible and fact not in unknown and (possible.names or fact != PROXY_QUESTION)
        ]
    verb = "may reach" if part == "egress" else "may be reached by"
    if surely := _surely(exceeding):
        return Finding(part, Answer.NO, f"{verb} {destination(surely)}, which its parent may not", surely)
    if not any(is_open.values()):
        return None
    deciding = _deciding(facts, is_open) or facts
    words = [FACTS[fact] for fact in FACTS if fact in deciding] + unknown
    return Finding(part, Answer.INDETERMINATE, f"whether it {verb} more than its parent depends on {_listed(words)}")


def _deciding(facts: frozenset[str], is_open: Mapping[World, bool]) -> frozenset[str]:
    """Return the facts that the answer depends on."""
    return frozenset(fact for fact in facts if any(is_open[world] != is_open[world | {fact}] for world in is_open))


def _surely(exceeding: Mapping[World, Reach]) -> Reach:
    """Return what exceeds the parent in every world, or by more addresses than the API server can have."""
    always = _common(exceeding.values())
    if always:
        return always
    apart = _common(findings for world, findings in exceeding.items() if "api" not in world)
    count = sum(high - low + 1 for version in VERSIONS for low, high in apart.boxes.addresses(version).spans)
    return apart if count > MOST_API_ADDRESSES else NOTHING


def _common(reaches: Iterable[Reach]) -> Reach:
    return reduce(lambda left, right: left & right, reaches)


def _tier(child: Envelope, parent: Envelope) -> Finding | None:
    if child.tier is UNKNOWN or parent.tier is UNKNOWN:
        # The strongest child stays within any parent, and any child within the weakest.
        if child.tier == "untrusted" or parent.tier == "verified":
            return None
        return Finding("tier", Answer.INDETERMINATE, "the isolation of one of the two is not known")
    if STRENGTH[child.tier] >= STRENGTH[parent.tier]:
        return None
    return Finding("tier", Answer.NO, f"is of tier {child.tier}, less isolated than its parent's {parent.tier}")


def _paths(child: Envelope, parent: Envelope) -> Iterator[Finding]:
    if child.paths is UNKNOWN:
        yield Finding("paths", Answer.INDETERMINATE, "which paths it may use is not known")
        return
    parent_paths: Iterable[PathRight] = () if parent.paths is UNKNOWN else parent.paths
    for right in sorted(child.paths):
        if any(other.covers(right) for other in parent_paths):
            continue
        if parent.paths is UNKNOWN:
            yield Finding("paths", Answer.INDETERMINATE, "which paths its parent may use is not known")
            return
        how = "may write" if right.write else "may read"
        path = "/" + "/".join(right.segments)
        yield Finding("paths", Answer.NO, f"{how} {path} of volume {right.volume}, which its parent may not")


def _identity(child: Envelope, parent: Envelope) -> Finding | None:
    findings = identity_exceeds(child.identity, parent.identity)
    if findings is None:
        return None
    surely, words = findings
    return Finding("identity", Answer.NO if surely else Answer.INDETERMINATE, words)


def _bound(
    part: str,
    child: float | Decimal | Unknown | None,
    parent: float | Decimal | Unknown | None,
    words: str,
    without: str,
) -> Finding | None:
    if parent is None:
        return None
    if child is UNKNOWN or parent is UNKNOWN:
        return Finding(part, Answer.INDETERMINATE, f"its {part} and its parent's are not both known")
    if child is not None and Decimal(child) <= Decimal(parent):
        return None
    child_text = words.format(child) if child is not None else f"has a {part} {without}"
    return Finding(part, Answer.NO, f"{child_text}, and its parent {parent}")


def _listed(words: list[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"
