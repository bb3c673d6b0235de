"""What the rules say of both graphs, joined: what is new, what was there before, what is mended, what is waived.

The same rules, today's, judge both graphs, so that a finding is new only if the change brings it. `identity` says what
a finding is known again by.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, Final, Literal

from agentenv.cli.review.fingerprints import Key, by_place, key, mended, state
from agentenv.cli.review.formats.values import masked
from agentenv.cli.review.graph import STACK_TYPE, Graph, Resource, is_unknown
from agentenv.cli.review.locations import Spot, spots
from agentenv.cli.stack_yaml import Document
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.offline import findings_of
from agentenv.policies.packs.enforcement import Enforcement
from agentenv.policies.packs.planned_documents import with_planned_documents
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import SEVERITIES, Finding, Verdict
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.resource import Resource as Judgeable
from agentenv.policies.waivers import Waived, Waiver, Waivers, used_ids

State = Literal["new", "existing", "waived", "fixed"]
STATES: Final[tuple[State, ...]] = ("new", "existing", "waived", "fixed")
WAIVERS: Final = "policies/waivers.yaml"
ABOUT_WAIVERS: Final = "docs/policies.md#waivers"
REFERENCE: Final = "docs/reference/policies.md"
SECRET: Final = "[secret]"  # noqa: S105 - what the engine writes in place of one
_BAD: Final = frozenset({Verdict.FAIL, Verdict.INDETERMINATE})
_ABOUT_WAIVERS: Final = f"mend what it was for, or remove the entry in {WAIVERS}"


@dataclass(frozen=True)
class Judged:
    """A finding with everything that a reviewer wants to know of it."""

    finding: Finding
    state: State
    blocks: bool
    title: str = ""
    do: str = ""
    link: str = ""
    spots: list[Spot] = field(default_factory=list)
    waiver: Waiver | None = None
    place: str = ""  # the path by names, where it has some
    number: int = 1  # which of the findings of its rule in that place

    @property
    def fingerprint(self) -> str:
        """What it is known by from one review to the next, whatever its words and whichever line it stands on."""
        said = self.finding
        parts = [said.rule, said.urn, self.place or said.path, *([str(self.number)] if self.number > 1 else [])]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def name(self) -> str:
        """The resource's name in the program, or what stands for the whole stack."""
        return self.finding.urn.rsplit("::", 1)[-1] or "the stack"

    def as_json(self) -> dict[str, Any]:
        """The finding in the words of the command's contract, and more."""
        return {
            **self.finding.plain(),
            "state": self.state,
            "blocks": self.blocks,
            "title": self.title,
            "do": self.do,
            "reference": self.link,
            "fingerprint": self.fingerprint,
            "places": [str(spot) for spot in self.spots],
            "waiver": self.waiver.id if self.waiver else None,
        }


@dataclass(frozen=True)
class Bench:
    """Who judges: the rules, what the platform says about itself, who answers for what, and the day."""

    context: PolicyContext
    enforcement: Enforcement
    waivers: Waivers
    today: date
    stack_file: str
    document: Document
    links: str = ""  # what stands before the path of the reference
    waivers_before: Waivers | None = None  # those of the base, where there is one
    waiver_lines: Mapping[str, int] = field(default_factory=dict)  # by the waiver's id
    rules: Sequence[Rule] | None = None  # all of them, unless told

    def judged(self, before: Graph | None, after: Graph) -> list[Judged]:
        """Every finding of both graphs, the worst first; without a graph before, all are new."""
        environment = self.context.environment
        were = self._findings(before)
        left, waived = self.waivers.split(self._findings(after), environment, self.today)
        own = self._own(self.waivers, waived, after)
        if before and self.waivers_before is not None:
            answered = self.waivers_before.split(were, environment, self.today)[1]
            were += self._own(self.waivers_before, answered, before)
        else:
            were += own  # nobody can tell whether the change brings them
        then = by_place(were, before or after)
        found = [self._one(one, state(one, then.get(key(one, after), ())), after) for one in [*left, *own]]
        found += [self._one(one.finding, "waived", after, one.waiver) for one in waived]
        now = by_place([*left, *(one.finding for one in waived), *own], after)
        found += [self._one(one, "fixed", before or {}) for one in mended(then, now)]
        return sorted(_numbered(found), key=_order)

    def _findings(self, graph: Graph | None) -> list[Finding]:
        # Providers and the stack itself too, as the packs see them: who depends on whom goes through them
        resources = with_planned_documents(judgeable(one, self.context) for one in (graph or {}).values())
        wanted = [one for one in self.rules or all_rules() if self.enforcement.by_rule.get(one.id) != "disabled"]
        stack = _stack(graph or {})
        # What is wrong with the whole is said of the stack, as the packs say it
        found = [one if one.urn else replace(one, urn=stack) for one in findings_of(resources, self.context, wanted)]
        bad = by_place((one for one in found if one.verdict in _BAD), graph or {})
        return [one for there in bad.values() for one in there]

    def _own(self, waivers: Waivers, waived: Sequence[Waived], graph: Graph) -> list[Finding]:
        """What is said of waivers themselves, those of which waived something set aside."""
        environment = self.context.environment
        return self.enforcement.enabled(waivers.own_findings(environment, used_ids(waived), self.today, _stack(graph)))

    def _one(self, found: Finding, told: State, graph: Graph, waiver: Waiver | None = None) -> Judged:
        rule = next((rule for rule in self.rules or all_rules() if rule.id == found.rule), None)
        said = Finding(found.rule, found.severity, found.verdict, found.urn, found.path, masked(found.message))
        return Judged(
            said,
            told,
            told in {"new", "existing"} and self.enforcement.level(found) == "mandatory",
            rule.title if rule else "",
            rule.fix if rule else _ABOUT_WAIVERS,
            f"{self.links}{f'{REFERENCE}#{found.rule.lower()}' if rule else ABOUT_WAIVERS}",
            [self.waiver_spot(found)] if rule is None else self._spots(found, graph),
            waiver,
            key(found, graph)[2],
        )

    def _spots(self, found: Finding, graph: Graph) -> list[Spot]:
        return spots(graph.get(found.urn), found.path, self.stack_file, self.document)

    def waiver_spot(self, found: Finding) -> Spot:
        """The line of the waiver that a finding about waivers names."""
        return Spot(WAIVERS, self.waiver_lines.get(found.path.removeprefix("waivers."), 1))


def judgeable(resource: Resource, context: PolicyContext) -> Judgeable:
    """A resource as the rules see it: what is not known yet, and what the engine hides, is unknown to them too."""
    return Judgeable(
        resource.urn,
        resource.type,
        resource.name,
        _plain(resource.inputs),
        parent=resource.parent,
        outputs=_plain(resource.outputs),
        dependencies=frozenset(resource.dependencies),
        property_dependencies={key: frozenset(urns) for key, urns in resource.property_dependencies.items()},
        protect=resource.protect,
        context=context,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return UNKNOWN if is_unknown(value) or value == SECRET else value


def _stack(graph: Graph) -> str:
    return next((one.urn for one in graph.values() if one.type == STACK_TYPE), "")


def _numbered(found: list[Judged]) -> Iterator[Judged]:
    """Each with its number in its place: what was there before keeps the number that it had."""
    seen: Counter[Key] = Counter()
    for one in sorted(found, key=lambda one: ("existing", "waived", "new", "fixed").index(one.state)):
        where = (one.finding.rule, one.finding.urn, one.place)
        seen[where] += 1
        yield replace(one, number=seen[where])


def _order(judged: Judged) -> tuple[Any, ...]:
    found = judged.finding
    return (
        not judged.blocks,
        STATES.index(judged.state),
        SEVERITIES.index(found.severity),
        found.rule,
        found.urn,
        found.path,
    )


def worst(findings: Iterable[Judged]) -> str:
    """How many of each severity, the worst first."""
    every = [judged.finding.severity for judged in findings]
    return ", ".join(f"{every.count(one)} {one}" for one in SEVERITIES if one in every)
