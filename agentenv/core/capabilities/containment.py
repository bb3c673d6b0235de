"""Decides whether a child stays within its parent: yes, no with a counterexample, or not to be told and why.

What is unknown in the child counts as everything, and in the parent as nothing; the answer is "no" only where a
destination is surely the child's and surely not the parent's.
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
    """Whether the child stays within the parent."""

    YES = "yes"
    NO = "no"
    INDETERMINATE = "indeterminate"


@dataclass(frozen=True)
class Finding:
    """What one part of the comparison found, where it is not yes; `exceeds` is all that surely is more."""

    part: str
    answer: Answer
    words: str
    exceeds: Reach = NOTHING


@dataclass(frozen=True)
class Verdict:
    """The answer, and what stands against it."""

    findings: tuple[Finding, ...] = ()

    @property
    def answer(self) -> Answer:
        """No where anything exceeds the parent, else whether everything is known not to."""
        answers = {finding.answer for finding in self.findings}
        if Answer.NO in answers:
            return Answer.NO
        return Answer.INDETERMINATE if answers else Answer.YES

    def __str__(self) -> str:
        return "; ".join(finding.words for finding in self.findings) or "stays within its parent"


def decide(child: Envelope, parent: Envelope, here: ClusterFacts | None = None) -> Verdict:
    """Whether the child stays within the parent in every part; `here` tells what is implied there."""
    found: list[Finding | None] = [
        decide_reach(child.egress, parent.egress, "egress", here),
        decide_reach(child.ingress, parent.ingress, "ingress"),
        _tier(child, parent),
        *_paths(child, parent),
        _identity(child, parent),
        _bound("lifetime", child.lifetime, parent.lifetime, "lives {} seconds", "for ever"),
        _bound("budget", child.budget, parent.budget, "may spend {} dollars a month", "without bound"),
    ]
    return Verdict(tuple(finding for finding in found if finding is not None))


def decide_reach(
    child: Uncertain, parent: Uncertain, part: str = "egress", here: ClusterFacts | None = None
) -> Finding | None:
    """Whether one reach stays within another; None is yes.

    Facts that both follow from are the same facts: the comparison is made in each world, and what is the child's and
    not the parent's in all of them is a counterexample whatever the facts turn out to be.
    """
    facts = child.facts | parent.facts | (here.unknown if here is not None else frozenset[str]())
    exceeding: dict[World, Reach] = {}
    is_open: dict[World, bool] = {}
    unknown: list[str] = []
    for world in worlds(facts):
        mine, theirs = child.at(world), parent.at(world)
        if here is not None:
            theirs = with_implied(theirs, here, world)
        exceeding[world], possible = mine.least - theirs.most, mine.most - theirs.least
        is_open[world] = bool(possible)
        unknown += [
            fact
            for fact in (*mine.unknown, *theirs.unknown)
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
    """The facts by which the answer turns."""
    return frozenset(fact for fact in facts if any(is_open[world] != is_open[world | {fact}] for world in is_open))


def _surely(exceeding: Mapping[World, Reach]) -> Reach:
    """What exceeds the parent in every world; more addresses than the API server can have exceed it in any case."""
    always = _common(exceeding.values())
    if always:
        return always
    apart = _common(found for world, found in exceeding.items() if "api" not in world)
    count = sum(high - low + 1 for version in VERSIONS for low, high in apart.boxes.addresses(version).spans)
    return apart if count > MOST_API_ADDRESSES else NOTHING


def _common(reaches: Iterable[Reach]) -> Reach:
    return reduce(lambda one, other: one & other, reaches)


def _tier(child: Envelope, parent: Envelope) -> Finding | None:
    if child.tier is UNKNOWN or parent.tier is UNKNOWN:
        # The strongest child stays within any parent, and any child within the weakest.
        if child.tier == "untrusted" or parent.tier == "verified":
            return None
        return Finding("tier", Answer.INDETERMINATE, "how strongly it is walled off is not known on both sides")
    if STRENGTH[child.tier] >= STRENGTH[parent.tier]:
        return None
    return Finding("tier", Answer.NO, f"is of tier {child.tier}, walled off less than its parent's {parent.tier}")


def _paths(child: Envelope, parent: Envelope) -> Iterator[Finding]:
    if child.paths is UNKNOWN:
        yield Finding("paths", Answer.INDETERMINATE, "which paths it may use is not known")
        return
    theirs: Iterable[PathRight] = () if parent.paths is UNKNOWN else parent.paths
    for right in sorted(child.paths):
        if any(other.covers(right) for other in theirs):
            continue
        if parent.paths is UNKNOWN:
            yield Finding("paths", Answer.INDETERMINATE, "which paths its parent may use is not known")
            return
        how = "may write" if right.write else "may read"
        path = "/" + "/".join(right.segments)
        yield Finding("paths", Answer.NO, f"{how} {path} of volume {right.volume}, which its parent may not")


def _identity(child: Envelope, parent: Envelope) -> Finding | None:
    found = identity_exceeds(child.identity, parent.identity)
    if found is None:
        return None
    surely, words = found
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
    mine = words.format(child) if child is not None else f"has a {part} {without}"
    return Finding(part, Answer.NO, f"{mine}, and its parent {parent}")


def _listed(words: list[str]) -> str:
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"
