"""The reference page of the rules and of the packs' configuration, generated from the rules' headers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields

from pydantic.alias_generators import to_camel

from agentenv.policies.packs.configuration import schema
from agentenv.policies.packs.enforcement import OTHER_ENVIRONMENTS, PRODUCTION, Strictness
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import PACK_FINDINGS
from agentenv.policies.view.environment import PolicyContext

GENERATED_BY = "Written by `python -m agentenv.generate` from the headers in `policies/rules/`; change it there."
FAMILIES = {
    "POD": "Pods",
    "RT": "Runtimes and tiers",
    "NET": "Network",
    "EFS": "Files",
    "IAM": "Identity",
    "CLU": "Cluster",
    "NODE": "Nodes",
    "WP": "Warm pools",
    "IMG": "Images",
    "COST": "Cost",
}


def policies_page() -> str:
    """Return the page of all rules."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    rules = all_rules()
    yield from ("# Rules for isolation and cost", "", f"<!-- {GENERATED_BY} -->", "")
    yield f"{len(rules)} rules in two packs: the family COST is in `policies/cost`, all others are in"
    yield "`policies/isolation`. [docs/policies.md](../policies.md) describes how to run, configure and waive them."
    for family, title in FAMILIES.items():
        chosen = [rule for rule in rules if rule.family == family]
        if chosen:
            yield from ("", f"## {title}", "", "| rule | severity | |", "|---|---|---|")
            yield from (f"| [{rule.id}](#{rule.id.lower()}) | {rule.severity} | {rule.title} |" for rule in chosen)
            for rule in chosen:
                yield from _rule(rule)
    yield from ("", "## Findings about the packs")
    for name, header in PACK_FINDINGS.items():
        yield from ("", f"### {name}", "", f"**{header.title}.** {header.severity}.")
        yield from ("", header.why, "", f"*Fix:* {header.fix}")
    yield from _configuration()


def _rule(rule: Rule) -> Iterator[str]:
    stage = " Evaluated when all resources are known." if rule.with_graph else ""
    yield from ("", f"### {rule.id}", "", f"**{rule.title}.** {rule.severity}.")
    yield from ("", f"Applies to {rule.applies_to.title}.{stage}")
    yield from ("", rule.why, "", f"*Fix:* {rule.fix}")
    if rule.defaults:
        yield from ("", f"*Defaults:* {rule.defaults}")
    if rule.equivalents:
        similar = "; ".join(f"{source} {', '.join(ids)}" for source, ids in rule.equivalents.items())
        yield from ("", f"*Similar rules:* {similar}.")
    yield from ("", f"*Since* {rule.since}, in [{rule.module}](../../{rule.module}).")


def _configuration() -> Iterator[str]:
    yield from ("", "## Configuration", "")
    yield "`--policy-pack-config FILE` names a file such as this. Every key is optional, and paths are absolute."
    yield from (
        "",
        "```json",
        json.dumps(EXAMPLE, indent=2),
        "```",
        "",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
    )
    defaults = {to_camel(field.name): field.default for field in fields(PolicyContext)}
    for key, properties in schema().items():
        # json.dumps shows tuples as lists
        shown = f"`{json.dumps(defaults[key])}`" if key in defaults else ""
        yield f"| `{key}` | {properties['type']} | {shown} | {properties.get('description', '')} |"
    yield from (
        "",
        "These severities stop a deployment by default:",
        "",
        "| environment | a rule fails | a rule is indeterminate |",
    )
    yield "|---|---|---|"
    for environment, strictness in (("production", PRODUCTION), ("all others", OTHER_ENVIRONMENTS)):
        yield f"| {environment} | {_severities(strictness)[0]} | {_severities(strictness)[1]} |"


def _severities(strictness: Strictness) -> tuple[str, str]:
    return ", ".join(strictness.fail) or "nothing", ", ".join(strictness.indeterminate) or "nothing"


EXAMPLE = {
    "isolation": {
        "registries": ["111122223333.dkr.ecr.eu-central-1.amazonaws.com/"],
        "enforcement": {"staging": {"fail": ["Critical", "High", "Medium"], "indeterminate": ["Critical"]}},
        "rules": {"POD-16": "disabled", "POD-15": "mandatory"},
    }
}
