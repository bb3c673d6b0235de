"""Evaluate the policy rules on both graphs, and join the findings: new, existing, waived and fixed.

The current rules evaluate both graphs, so that a finding is new only if the change causes it. `fingerprints` identifies
the same finding in both.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Final, Literal

from agentenv.cli.main import CommandError
from agentenv.cli.review.fingerprints import Key, finding_key, finding_state, fixed_findings, group_by_key
from agentenv.cli.review.formats.values import mask_secrets
from agentenv.cli.review.graph import STACK_TYPE, Graph, Resource, is_unknown
from agentenv.cli.review.locations import Location, locations
from agentenv.cli.stack_yaml import Document
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.offline import findings_of
from agentenv.policies.packs.enforcement import Enforcement
from agentenv.policies.packs.planned_documents import with_planned_documents
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import SEVERITIES, Finding, Verdict
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.resource import Resource as PolicyResource
from agentenv.policies.waivers import Waived, Waiver, Waivers, used_ids

State = Literal["new", "existing", "waived", "fixed"]
STATES: Final[tuple[State, ...]] = ("new", "existing", "waived", "fixed")
WAIVERS: Final = "policies/waivers.yaml"
WAIVER_DOCS: Final = "docs/policies.md#waivers"
REFERENCE: Final = "docs/reference/policies.md"
SECRET: Final = "[secret]"  # noqa: S105 - the engine's placeholder
_BAD: Final = frozenset({Verdict.FAIL, Verdict.INDETERMINATE})
_WAIVER_FIX: Final = f"fix what it was for, or remove the entry in {WAIVERS}"


@dataclass(frozen=True)
class ReviewFinding:
    """A finding with its state, its remedy and its locations."""

    finding: Finding
    state: State
    blocks: bool
    title: str = ""
    fix: str = ""
    link: str = ""
    locations: list[Location] = field(default_factory=list)
    waiver: Waiver | None = None
    stable_path: str = ""  # the path with names instead of indexes
    number: int = 1  # among the findings of its rule with the same path

    @property
    def fingerprint(self) -> str:
        """Return an id that stays the same from one review to the next, if only the message or the line changes."""
        finding = self.finding
        parts = [finding.rule, finding.urn, self.stable_path or finding.path]
        parts += [str(self.number)] if self.number > 1 else []
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    @property
    def name(self) -> str:
        """Return the resource's name in the program, or a name for the whole stack."""
        return self.finding.urn.rsplit("::", 1)[-1] or "the stack"

    def as_json(self) -> dict[str, Any]:
        """Return the finding as the command's JSON has it."""
        return {
            **self.finding.plain(),
            "state": self.state,
            "blocks": self.blocks,
            "title": self.title,
            "do": self.fix,
            "reference": self.link,
            "fingerprint": self.fingerprint,
            "places": [str(location) for location in self.locations],
            "waiver": self.waiver.id if self.waiver else None,
        }


@dataclass(frozen=True)
class RuleEvaluator:
    """Evaluates the rules on both graphs, with the enforcement and the waivers of an environment."""

    context: PolicyContext
    enforcement: Enforcement
    waivers: Waivers
    today: date
    stack_file: str
    document: Document
    links: str = ""  # the prefix of links to the reference
    waivers_before: Waivers | None = None  # those of the base revision
    waiver_lines: Mapping[str, int] = field(default_factory=dict)  # by the waiver's id
    rules: Sequence[Rule] | None = None  # the default is all rules

    def evaluate(self, before: Graph | None, after: Graph) -> list[ReviewFinding]:
        """Return every finding of both graphs, the most severe first. Without a graph before, all are new."""
        environment = self.context.environment
        previous = self._findings(before)
        open_, waived = self.waivers.split(self._findings(after), environment, self.today)
        about_waivers = self._waiver_findings(self.waivers, waived, after)
        if before and self.waivers_before is not None:
            waived_before = self.waivers_before.split(previous, environment, self.today)[1]
            previous += self._waiver_findings(self.waivers_before, waived_before, before)
        else:
            previous += about_waivers  # without a base it is unknown whether the change causes them
        then = group_by_key(previous, before or after)
        found: list[ReviewFinding] = []
        for finding in [*open_, *about_waivers]:
            state = finding_state(finding, then.get(finding_key(finding, after), ()))
            found.append(self._review_finding(finding, state, after))
        found += [self._review_finding(row.finding, "waived", after, row.waiver) for row in waived]
        now = group_by_key([*open_, *(row.finding for row in waived), *about_waivers], after)
        found += [self._review_finding(finding, "fixed", before or {}) for finding in fixed_findings(then, now)]
        return sorted(_with_numbers(found), key=_order)

    def _findings(self, graph: Graph | None) -> list[Finding]:
        # Providers and the stack are included, as in the packs: dependencies go through them
        resources = with_planned_documents(
            policy_resource(resource, self.context) for resource in (graph or {}).values()
        )
        rules = [rule for rule in self.rules or all_rules() if self.enforcement.by_rule.get(rule.id) != "disabled"]
        stack = _stack_urn(graph or {})
        # A finding without a resource belongs to the stack, as in the packs
        found = [row if row.urn else replace(row, urn=stack) for row in findings_of(resources, self.context, rules)]
        groups = group_by_key((row for row in found if row.verdict in _BAD), graph or {})
        return [row for group in groups.values() for row in group]

    def _waiver_findings(self, waivers: Waivers, waived: Sequence[Waived], graph: Graph) -> list[Finding]:
        """Return the findings about the waivers themselves: expired, invalid or unused."""
        environment = self.context.environment
        return self.enforcement.enabled(
            waivers.own_findings(environment, used_ids(waived), self.today, _stack_urn(graph))
        )

    def _review_finding(
        self, found: Finding, state: State, graph: Graph, waiver: Waiver | None = None
    ) -> ReviewFinding:
        rule = next((rule for rule in self.rules or all_rules() if rule.id == found.rule), None)
        return ReviewFinding(
            replace(found, message=mask_secrets(found.message)),
            state,
            state in {"new", "existing"} and self.enforcement.level(found) == "mandatory",
            rule.title if rule else "",
            rule.fix if rule else _WAIVER_FIX,
            f"{self.links}{f'{REFERENCE}#{found.rule.lower()}' if rule else WAIVER_DOCS}",
            [self.waiver_location(found)] if rule is None else self._locations(found, graph),
            waiver,
            finding_key(found, graph)[2],
        )

    def _locations(self, found: Finding, graph: Graph) -> list[Location]:
        return locations(graph.get(found.urn), found.path, self.stack_file, self.document)

    def waiver_location(self, found: Finding) -> Location:
        """Return the line of the waiver that a finding about waivers names."""
        return Location(WAIVERS, self.waiver_lines.get(found.path.removeprefix("waivers."), 1))


def policy_resource(resource: Resource, context: PolicyContext) -> PolicyResource:
    """Return a resource as the rules see it. Values that the engine does not know, or hides, are unknown to them."""
    return PolicyResource(
        resource.urn,
        resource.type,
        resource.name,
        _policy_value(resource.inputs),
        parent=resource.parent,
        outputs=_policy_value(resource.outputs),
        dependencies=frozenset(resource.dependencies),
        property_dependencies={key: frozenset(urns) for key, urns in resource.property_dependencies.items()},
        protect=resource.protect,
        context=context,
    )


def _policy_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _policy_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_policy_value(inner) for inner in value]
    return UNKNOWN if is_unknown(value) or value == SECRET else value


def _stack_urn(graph: Graph) -> str:
    return next((resource.urn for resource in graph.values() if resource.type == STACK_TYPE), "")


def _with_numbers(findings: list[ReviewFinding]) -> Iterator[ReviewFinding]:
    """Number the findings of a rule with the same path. An existing finding keeps the number that it had."""
    counts: Counter[Key] = Counter()
    for row in sorted(findings, key=lambda row: ("existing", "waived", "new", "fixed").index(row.state)):
        key = (row.finding.rule, row.finding.urn, row.stable_path)
        counts[key] += 1
        yield replace(row, number=counts[key])


def _order(row: ReviewFinding) -> tuple[Any, ...]:
    finding = row.finding
    return (
        not row.blocks,
        STATES.index(row.state),
        SEVERITIES.index(finding.severity),
        finding.rule,
        finding.urn,
        finding.path,
    )


def severity_counts(findings: Iterable[ReviewFinding]) -> str:
    """Return the number of findings by severity, the most severe first."""
    severities = [row.finding.severity for row in findings]
    return ", ".join(f"{severities.count(row)} {row}" for row in SEVERITIES if row in severities)


def read_packs_config(path: Path | None) -> Mapping[str, Any] | None:
    """Return the configuration of the packs in a JSON file, which both share; None without a file."""
    if path is None:
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CommandError(f"{path} is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise CommandError(f"{path} must contain one JSON object: the packs' configuration")
    return document
