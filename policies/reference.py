"""The reference of the rules and of the packs' configuration: pure functions from the rules' headers to text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields

from agentenv.policies.packs.configuration import camel, schema
from agentenv.policies.packs.enforcement import ELSEWHERE, PRODUCTION, Strictness
from agentenv.policies.rules.registry import Rule, all_rules
from agentenv.policies.verdicts import OWN
from agentenv.policies.view.environment import Situation

WRITTEN_BY = "Written by `python -m agentenv.generate` from the headers in `policies/rules/`; change it there."
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
    """The page of all rules."""
    return "\n".join(_lines()).rstrip() + "\n"


def _lines() -> Iterator[str]:
    rules = all_rules()
    yield from ("# Rules about isolation and cost", "", f"<!-- {WRITTEN_BY} -->", "")
    yield f"{len(rules)} rules, in two packs: those of the family COST are in `policies/cost`, all others in"
    yield "`policies/isolation`. [docs/policies.md](../policies.md) says how they are run, configured and waived."
    for family, title in FAMILIES.items():
        chosen = [rule for rule in rules if rule.family == family]
        if chosen:
            yield from ("", f"## {title}", "", "| rule | severity | |", "|---|---|---|")
            yield from (f"| [{rule.id}](#{rule.id.lower()}) | {rule.severity} | {rule.title} |" for rule in chosen)
            for rule in chosen:
                yield from _rule(rule)
    yield from ("", "## Of the packs themselves")
    for name, own in OWN.items():
        yield from ("", f"### {name}", "", f"**{own.title}.** {own.severity}.", "", own.why, "", f"*Do:* {own.do}")
    yield from _configuration()


def _rule(rule: Rule) -> Iterator[str]:
    stage = " Judged when all resources are known." if rule.with_graph else ""
    yield from ("", f"### {rule.id}", "", f"**{rule.title}.** {rule.severity}. About {rule.about.title}.{stage}")
    yield from ("", rule.why, "", f"*Do:* {rule.do}")
    if rule.defaults:
        yield from ("", f"*Defaults:* {rule.defaults}")
    if rule.equivalents:
        same = "; ".join(f"{source} {', '.join(ids)}" for source, ids in rule.equivalents.items())
        yield from ("", f"*Elsewhere:* {same}.")
    yield from ("", f"*Since* {rule.since}.")


def _configuration() -> Iterator[str]:
    yield from ("", "## Configuration", "")
    yield "`--policy-pack-config FILE` names a file such as this; everything may be left out, and paths are absolute."
    yield from (
        "",
        "```json",
        json.dumps(EXAMPLE, indent=2),
        "```",
        "",
        "| key | type | default | meaning |",
        "|---|---|---|---|",
    )
    defaults = {camel(one.name): one.default for one in fields(Situation)}
    for key, said in schema().items():
        # JSON has no tuples, and writes them as lists
        shown = f"`{json.dumps(defaults[key])}`" if key in defaults else ""
        yield f"| `{key}` | {said['type']} | {shown} | {said.get('description', '')} |"
    yield from (
        "",
        "What stops a deployment where nobody says otherwise:",
        "",
        "| environment | a rule fails | it cannot tell |",
    )
    yield "|---|---|---|"
    for where, strictness in (("production", PRODUCTION), ("all others", ELSEWHERE)):
        yield f"| {where} | {_severities(strictness)[0]} | {_severities(strictness)[1]} |"


def _severities(strictness: Strictness) -> tuple[str, str]:
    return ", ".join(strictness.fail) or "nothing", ", ".join(strictness.indeterminate) or "nothing"


EXAMPLE = {
    "isolation": {
        "registries": ["111122223333.dkr.ecr.eu-central-1.amazonaws.com/"],
        "enforcement": {"staging": {"fail": ["Critical", "High", "Medium"], "indeterminate": ["Critical"]}},
        "rules": {"POD-16": "disabled", "POD-15": "mandatory"},
    }
}
