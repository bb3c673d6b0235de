"""One pack at work: it collects the resources as they come, judges them, and tells the engine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pulumi
from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from agentenv.policies.evaluate import judge_graph, judge_resource
from agentenv.policies.packs.configuration import Configuration, read, schema
from agentenv.policies.packs.planned_documents import broken, kept
from agentenv.policies.packs.remedies import remedied
from agentenv.policies.packs.reporting import Report, guarded, tell
from agentenv.policies.packs.sdk_values import Later, plain_mapping
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import OWN, Finding, Verdict
from agentenv.policies.view.environment import Situation
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource
from agentenv.policies.waivers import Waived, Waivers, read_waivers, used_by

if TYPE_CHECKING:
    from agentenv.config import Settings

Name = Literal["isolation", "cost"]
WRONG_CONFIGURATION = "PACK-01"
NAMESPACE = "agent-environment"


class Pack:
    """What a pack knows of the run it is in."""

    def __init__(self, name: Name) -> None:
        self.name = name
        self.rules: tuple[Rule, ...] = tuple(rule for rule in all_rules() if rule.pack == name)
        self._inputs: dict[str, Mapping[str, object]] = {}
        self._told: dict[str, list[Finding]] = {}
        self._waived: dict[str, list[Waived]] = {}
        self._open: dict[str, list[Finding]] = {}
        self._given: Mapping[str, object] = {}
        self._complained = False
        self._current: tuple[Mapping[str, object], str, Configuration, tuple[Rule, ...]] | None = None

    def collect(self, args: ResourceValidationArgs, report: Report) -> None:
        """See one resource, and say what is wrong with it by itself."""
        self._given = args.get_config() or {}
        configuration, rules = self.configuration(args.urn)
        if not self._complained:
            self._complained = True
            self._complain(configuration, report)
        inputs = plain_mapping(args.props)
        self._inputs[args.urn] = inputs
        resource = Resource(
            args.urn,
            args.resource_type,
            args.name,
            inputs,
            parent=args.opts.parent or "",
            protect=args.opts.protect,
            situation=configuration.situation,
        )
        found = list(judge_resource(rules, resource))
        if pulumi.runtime.is_dry_run():
            # What cannot be told yet may be told by what others say, once everything is here
            self._open[args.urn] = [one for one in found if one.verdict is Verdict.INDETERMINATE]
            found = [one for one in found if one.verdict is not Verdict.INDETERMINATE]
        self._report(args.urn, found, configuration, report)

    def conclude(self, args: StackValidationArgs, report: Report) -> None:
        """See the whole stack, say what is wrong with that, and keep a record of everything where one is wanted."""
        stack = next((one.urn for one in args.resources if one.resource_type == "pulumi:pulumi:Stack"), "")
        configuration, rules = self.configuration(stack or next((one.urn for one in args.resources), ""))
        situation = configuration.situation
        graph = Graph(kept(self._resource(one, situation) for one in args.resources), situation)
        found = [*self._settled(graph, rules), *judge_graph(rules, graph)]
        if self.name == "isolation":
            found += broken(graph.resources.values())
        self._report("", (one if one.urn else replace(one, urn=stack) for one in found), configuration, report)
        # What was seen in an earlier run of the same process is not in this stack any more
        for seen in (self._inputs, self._told, self._waived, self._open):
            for urn in set(seen) - {"", *graph.resources}:
                del seen[urn]
        self._judge_waivers(configuration, stack, report)
        if configuration.record is not None:
            self._write(configuration.record)
        self._complained = False

    def _settled(self, graph: Graph, rules: tuple[Rule, ...]) -> Iterator[Finding]:
        """What was left open, judged again with what others say of it."""
        for urn, left in self._open.items():
            resource = graph.resources.get(urn)
            if resource is None or not left:
                continue
            if resource.inputs is self._inputs.get(urn):
                yield from left
                continue
            told = {(one.rule, one.path) for one in self._told.get(urn, [])}
            again = judge_resource(tuple(rule for rule in rules if rule.id in {one.rule for one in left}), resource)
            yield from (one for one in again if (one.rule, one.path) not in told)

    def remedy(self, args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        """Add the tags and labels that are configured and missing; None where nothing is."""
        self._given = args.get_config() or {}
        configuration, _ = self.configuration(args.urn)
        return remedied(args.resource_type, args.props, configuration.tags, configuration.labels)

    def configuration(self, urn: str) -> tuple[Configuration, tuple[Rule, ...]]:
        """How the pack is configured, and the rules that are on; the environment is the stack's unless it is said.

        Read again only where something is new: this is asked for every resource.
        """
        stack, current = stack_of(urn), self._current
        if current is None or current[1] != stack or current[0] != self._given:
            configuration = read(self._given, stack, settings_of(stack))
            levels = configuration.enforcement.by_rule
            wanted = tuple(rule for rule in self.rules if levels.get(rule.id) != "disabled")
            current = self._current = (self._given, stack, configuration, wanted)
        return current[2], current[3]

    @cached_property
    def today(self) -> date:
        """The day of the run, by which waivers expire."""
        return datetime.now(UTC).date()

    @cached_property
    def _files(self) -> dict[Path, Waivers]:
        return {}

    def waivers(self, configuration: Configuration) -> Waivers:
        """The waivers of a file, read once."""
        path = configuration.waivers
        if path not in self._files:
            self._files[path] = read_waivers(path, {rule.id: rule.severity for rule in all_rules()})
        return self._files[path]

    def _resource(self, seen: PolicyResource, situation: Situation) -> Resource:
        """A resource of the whole stack, with the inputs it came with: outputs may say less at a first preview."""
        inputs = self._inputs.get(seen.urn)
        return Resource(
            seen.urn,
            seen.resource_type,
            seen.name,
            plain_mapping(seen.props) if inputs is None else inputs,
            parent=seen.parent.urn if seen.parent else "",
            dependencies=frozenset(one.urn for one in seen.dependencies),
            property_dependencies={
                key: frozenset(one.urn for one in many) for key, many in seen.property_dependencies.items()
            },
            outputs=Later(seen.props),
            protect=seen.opts.protect,
            situation=situation,
        )

    def _report(self, urn: str, findings: Iterable[Finding], configuration: Configuration, report: Report) -> None:
        found = configuration.enforcement.told(findings)
        left, waived = self.waivers(configuration).split(found, configuration.situation.environment, self.today)
        self._told[urn] = list(left)
        self._waived[urn] = list(waived)
        for finding in left:
            if finding.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}:
                tell(report, finding, configuration.enforcement.level(finding))
        for one in waived:
            tell(report, one.finding, "advisory", one.waiver)

    def _complain(self, configuration: Configuration, report: Report) -> None:
        for words in configuration.mistakes:
            told = f"the configuration of the pack {self.name}: {words}"
            tell(
                report,
                Finding(WRONG_CONFIGURATION, OWN[WRONG_CONFIGURATION].severity, Verdict.FAIL, "", "", told),
                "mandatory",
            )

    def _judge_waivers(self, configuration: Configuration, stack: str, report: Report) -> None:
        """Only the isolation pack speaks of wrong waivers, lest each is told twice; each pack of its own rules'."""
        known = {rule.id for rule in self.rules}
        read_ones = self.waivers(configuration)
        mine = Waivers(
            tuple(one for one in read_ones.all if one.rule in known),
            read_ones.wrong if self.name == "isolation" else (),
        )
        used = {name for waived in self._waived.values() for name in used_by(waived)}
        findings = mine.own_findings(configuration.situation.environment, used, self.today, stack)
        findings = self._told["waivers"] = configuration.enforcement.told(findings)
        for finding in findings:
            tell(report, finding, configuration.enforcement.level(finding))

    def _write(self, path: Path) -> None:
        told = [finding for findings in self._told.values() for finding in findings]
        waived = [one for many in self._waived.values() for one in many]
        counts = Counter(finding.verdict for finding in told)
        record = {
            "pack": self.name,
            "passed": counts[Verdict.PASS],
            "failed": counts[Verdict.FAIL],
            "indeterminate": counts[Verdict.INDETERMINATE],
            "waived": len(waived),
            "findings": [one.plain() for one in told if one.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}],
            "waivers": [{**one.finding.plain(), "waiver": one.waiver.id} for one in waived],
        }
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")


def stack_of(urn: str) -> str:
    """The stack that a URN is of: the engine tells a pack that replays a state of none."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]


def settings_of(environment: str) -> Settings | None:
    """The stack's own settings, where it is one of ours and they are sound."""
    from agentenv.config import Mistakes
    from agentenv.config import read as read_settings

    config: dict[str, str] = pulumi.runtime.get_config_env()
    ours = {key: value for key, value in config.items() if key.startswith((f"{NAMESPACE}:", "aws:region"))}
    if not any(key.startswith(NAMESPACE) for key in ours):
        return None
    try:
        return read_settings(ours, environment)
    except Mistakes:
        return None


def serve(name: Name, description: str) -> None:
    """Build the pack and answer the engine until it goes; it never returns, so only a pack's `__main__` may call it."""
    pack = Pack(name)
    policies: list[Policy] = [
        ResourceValidationPolicy(
            name=name,
            description=f"What is wrong with a resource by itself ({description})",
            validate=guarded(pack.collect),
            # The SDK's own type wants an awaitable, and its documentation and code take a mapping too
            remediate=cast("Any", pack.remedy),
            config_schema=PolicyConfigSchema(schema()),
        ),
        StackValidationPolicy(
            name=f"{name}-of-the-stack",
            description=f"What is wrong between resources ({description})",
            validate=guarded(pack.conclude),
        ),
    ]
    PolicyPack(
        name=f"agent-environment-{name}",
        description=description,
        enforcement_level=EnforcementLevel.MANDATORY,
        policies=policies,
    )
