"""A policy pack: it collects the resources of a deployment, evaluates the rules, and reports to the engine."""

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

from agentenv.policies.evaluate import evaluate_graph, evaluate_resource
from agentenv.policies.packs.configuration import Configuration, read, schema
from agentenv.policies.packs.planned_documents import plan_mismatches, with_planned_documents
from agentenv.policies.packs.remedies import with_missing_tags
from agentenv.policies.packs.reporting import Report, report_errors, report_finding
from agentenv.policies.packs.sdk_values import LazyMapping, plain_mapping
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import PACK_FINDINGS, Finding, Verdict
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource
from agentenv.policies.waivers import Waived, Waivers, read_waivers, used_ids

if TYPE_CHECKING:
    from agentenv.config import Settings

Name = Literal["isolation", "cost"]
INVALID_CONFIGURATION = "PACK-01"
NAMESPACE = "agent-environment"


class Pack:
    """The state of a pack during a deployment."""

    def __init__(self, name: Name) -> None:
        self.name = name
        self.rules: tuple[Rule, ...] = tuple(rule for rule in all_rules() if rule.pack == name)
        self._inputs: dict[str, Mapping[str, object]] = {}
        self._findings: dict[str, list[Finding]] = {}
        self._waived: dict[str, list[Waived]] = {}
        self._deferred: dict[str, list[Finding]] = {}
        self._raw_configuration: Mapping[str, object] = {}
        self._mistakes_reported = False
        self._current: tuple[Mapping[str, object], str, Configuration, tuple[Rule, ...]] | None = None

    def collect(self, args: ResourceValidationArgs, report: Report) -> None:
        """Record one resource, and report the findings of the rules that need no graph."""
        self._raw_configuration = args.get_config() or {}
        configuration, rules = self.configuration(args.urn)
        if not self._mistakes_reported:
            self._mistakes_reported = True
            self._report_mistakes(configuration, report)
        inputs = plain_mapping(args.props)
        self._inputs[args.urn] = inputs
        resource = Resource(
            args.urn,
            args.resource_type,
            args.name,
            inputs,
            parent=args.opts.parent or "",
            protect=args.opts.protect,
            context=configuration.context,
        )
        findings = list(evaluate_resource(rules, resource))
        if pulumi.runtime.is_dry_run():
            # Once all resources are known, a planned document may decide the indeterminate ones
            self._deferred[args.urn] = [each for each in findings if each.verdict is Verdict.INDETERMINATE]
            findings = [each for each in findings if each.verdict is not Verdict.INDETERMINATE]
        self._report(args.urn, findings, configuration, report)

    def conclude(self, args: StackValidationArgs, report: Report) -> None:
        """Report the findings about the whole stack and about waivers, and write the record if one is configured."""
        stack = next((each.urn for each in args.resources if each.resource_type == "pulumi:pulumi:Stack"), "")
        configuration, rules = self.configuration(stack or next((each.urn for each in args.resources), ""))
        context = configuration.context
        graph = Graph(with_planned_documents(self._resource(each, context) for each in args.resources), context)
        findings = [*self._deferred_findings(graph, rules), *evaluate_graph(rules, graph)]
        if self.name == "isolation":
            findings += plan_mismatches(graph.resources.values())
        in_stack = (finding if finding.urn else replace(finding, urn=stack) for finding in findings)
        self._report("", in_stack, configuration, report)
        # Forget the resources of an earlier run of the same process that are no longer in the stack
        for by_urn in (self._inputs, self._findings, self._waived, self._deferred):
            for urn in set(by_urn) - {"", *graph.resources}:
                del by_urn[urn]
        self._report_waivers(configuration, stack, report)
        if configuration.record is not None:
            self._write(configuration.record)
        self._mistakes_reported = False

    def _deferred_findings(self, graph: Graph, rules: tuple[Rule, ...]) -> Iterator[Finding]:
        """Yield the deferred findings, evaluated again for resources that have planned documents."""
        for urn, deferred in self._deferred.items():
            resource = graph.resources.get(urn)
            if resource is None or not deferred:
                continue
            if resource.inputs is self._inputs.get(urn):
                yield from deferred
                continue
            reported = {(finding.rule, finding.path) for finding in self._findings.get(urn, [])}
            ids = {finding.rule for finding in deferred}
            again = evaluate_resource(tuple(rule for rule in rules if rule.id in ids), resource)
            yield from (finding for finding in again if (finding.rule, finding.path) not in reported)

    def remedy(self, args: ResourceValidationArgs) -> Mapping[str, Any] | None:
        """Return the inputs with the configured tags and labels added; None if none is missing."""
        self._raw_configuration = args.get_config() or {}
        configuration, _ = self.configuration(args.urn)
        return with_missing_tags(args.resource_type, args.props, configuration.tags, configuration.labels)

    def configuration(self, urn: str) -> tuple[Configuration, tuple[Rule, ...]]:
        """Return the pack's configuration and its enabled rules. The environment is the stack's name by default.

        Cached, because it is needed for every resource.
        """
        stack, current = stack_of(urn), self._current
        if current is None or current[1] != stack or current[0] != self._raw_configuration:
            configuration = read(self._raw_configuration, stack, settings_of(stack))
            levels = configuration.enforcement.by_rule
            enabled = tuple(rule for rule in self.rules if levels.get(rule.id) != "disabled")
            current = self._current = (self._raw_configuration, stack, configuration, enabled)
        return current[2], current[3]

    @cached_property
    def today(self) -> date:
        """The day of the run, which decides whether waivers are expired."""
        return datetime.now(UTC).date()

    @cached_property
    def _files(self) -> dict[Path, Waivers]:
        return {}

    def waivers(self, configuration: Configuration) -> Waivers:
        """Return the waivers of the configured file, which is read once."""
        path = configuration.waivers
        if path not in self._files:
            self._files[path] = read_waivers(path, {rule.id: rule.severity for rule in all_rules()})
        return self._files[path]

    def _resource(self, registered: PolicyResource, context: PolicyContext) -> Resource:
        """Return a resource of the stack with its inputs, because outputs may have less at a first preview."""
        inputs = self._inputs.get(registered.urn)
        return Resource(
            registered.urn,
            registered.resource_type,
            registered.name,
            plain_mapping(registered.props) if inputs is None else inputs,
            parent=registered.parent.urn if registered.parent else "",
            dependencies=frozenset(each.urn for each in registered.dependencies),
            property_dependencies={
                key: frozenset(each.urn for each in targets)
                for key, targets in registered.property_dependencies.items()
            },
            outputs=LazyMapping(registered.props),
            protect=registered.opts.protect,
            context=context,
        )

    def _report(self, urn: str, findings: Iterable[Finding], configuration: Configuration, report: Report) -> None:
        enabled = configuration.enforcement.enabled(findings)
        remaining, waived = self.waivers(configuration).split(enabled, configuration.context.environment, self.today)
        self._findings[urn] = list(remaining)
        self._waived[urn] = list(waived)
        for finding in remaining:
            if finding.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}:
                report_finding(report, finding, configuration.enforcement.level(finding))
        for each in waived:
            report_finding(report, each.finding, "advisory", each.waiver)

    def _report_mistakes(self, configuration: Configuration, report: Report) -> None:
        severity = PACK_FINDINGS[INVALID_CONFIGURATION].severity
        for mistake in configuration.mistakes:
            text = f"the configuration of the pack {self.name}: {mistake}"
            report_finding(report, Finding(INVALID_CONFIGURATION, severity, Verdict.FAIL, "", "", text), "mandatory")

    def _report_waivers(self, configuration: Configuration, stack: str, report: Report) -> None:
        """Report on the waivers of this pack's rules. Only the isolation pack reports invalid ones, so each once."""
        ids = {rule.id for rule in self.rules}
        every = self.waivers(configuration)
        own = Waivers(
            tuple(waiver for waiver in every.all if waiver.rule in ids),
            every.wrong if self.name == "isolation" else (),
        )
        used = {name for waived in self._waived.values() for name in used_ids(waived)}
        findings = own.own_findings(configuration.context.environment, used, self.today, stack)
        findings = self._findings["waivers"] = configuration.enforcement.enabled(findings)
        for finding in findings:
            report_finding(report, finding, configuration.enforcement.level(finding))

    def _write(self, path: Path) -> None:
        findings = [finding for several in self._findings.values() for finding in several]
        waived = [each for several in self._waived.values() for each in several]
        counts = Counter(finding.verdict for finding in findings)
        record = {
            "pack": self.name,
            "passed": counts[Verdict.PASS],
            "failed": counts[Verdict.FAIL],
            "indeterminate": counts[Verdict.INDETERMINATE],
            "waived": len(waived),
            "findings": [each.plain() for each in findings if each.verdict in {Verdict.FAIL, Verdict.INDETERMINATE}],
            "waivers": [{**each.finding.plain(), "waiver": each.waiver.id} for each in waived],
        }
        path.write_text(json.dumps(record, indent=1), encoding="utf-8")


def stack_of(urn: str) -> str:
    """Return the stack of a URN. The engine gives none to a pack that analyzes a state file."""
    return urn.removeprefix("urn:pulumi:").partition("::")[0]


def settings_of(environment: str) -> Settings | None:
    """Return the stack's own settings; None if it is not a stack of this project or they are invalid."""
    from agentenv.config import Mistakes
    from agentenv.config import read as read_settings

    config: dict[str, str] = pulumi.runtime.get_config_env()
    own = {key: value for key, value in config.items() if key.startswith((f"{NAMESPACE}:", "aws:region"))}
    if not any(key.startswith(NAMESPACE) for key in own):
        return None
    try:
        return read_settings(own, environment)
    except Mistakes:
        return None


def serve(name: Name, description: str) -> None:
    """Serve a pack to the engine. Only a pack's `__main__` may call this, because it never returns."""
    pack = Pack(name)
    policies: list[Policy] = [
        ResourceValidationPolicy(
            name=name,
            description=f"Rules about single resources: {description}",
            validate=report_errors(pack.collect),
            # The SDK's type is an awaitable, but its documentation and code accept a mapping too
            remediate=cast("Any", pack.remedy),
            config_schema=PolicyConfigSchema(schema()),
        ),
        StackValidationPolicy(
            name=f"{name}-of-the-stack",
            description=f"Rules about the whole stack: {description}",
            validate=report_errors(pack.conclude),
        ),
    ]
    PolicyPack(
        name=f"agent-environment-{name}",
        description=description,
        enforcement_level=EnforcementLevel.MANDATORY,
        policies=policies,
    )
