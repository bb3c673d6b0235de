"""Promises about the stack itself: it comes up, settles, passes its policies, notices drift, and leaves nothing."""

from __future__ import annotations

from agentenv.cli.prove.deployment import Deployment
from agentenv.cli.prove.promises import Broken, Promise
from agentenv.core.values.errors import first_of
from agentenv.rehearsal.scenario import destroy_check, drift

_TAG = "environment"


def comes_up(deployment: Deployment) -> str:
    """Create the stack, with both policy packs."""
    outcome = deployment.engine.up(*deployment.packs.options)
    if not deployment.packs.completed:
        raise Broken("a policy pack did not evaluate the whole stack")
    return f"{outcome.resources} resources in {outcome.seconds:.0f} s"


def settles(deployment: Deployment) -> str:
    """Update again, which must change nothing."""
    outcome = deployment.engine.up()
    if outcome.changed:
        changed = ", ".join(urn.rpartition("::")[2] for _, urn, _ in outcome.changed_resources()[:10])
        raise Broken(f"a second up changed {outcome.changed} resources: {changed}")
    return f"0 of {outcome.resources} resources changed in {outcome.seconds:.0f} s"


def passes_policies(deployment: Deployment) -> str:
    """Read the verdicts of the packs in the first update."""
    counts = deployment.packs.counts_by_verdict()
    if counts["failed"]:
        failed = [row for row in deployment.packs.findings() if row["verdict"] == "fail"]
        named = [f"{row['id']} of {row['urn'].rpartition('::')[2]}: {row['message']}" for row in failed]
        raise Broken(f"{counts['failed']} failed: {first_of(named)}")
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def notices_drift(deployment: Deployment) -> str:
    """Change resources outside the engine; a refresh must notice each change, and an update revert it."""
    applied = drift.apply_changes(deployment.client, deployment.engine.state())
    noticed = {urn for _, urn, _ in deployment.engine.refresh().changed_resources()}
    deployment.engine.up()
    reverted = drift.reverted(deployment.client, applied)
    missed = [change.row.description for change in applied if change.urn not in noticed]
    left = [change.row.description for change in applied if change not in reverted]
    if missed or left:
        raise Broken(f"not noticed: {', '.join(missed) or 'none'}; not reverted: {', '.join(left) or 'none'}")
    return f"{len(applied)} changes noticed and reverted: " + ", ".join(row.row.description for row in applied)


def leaves_nothing(deployment: Deployment) -> str:
    """Destroy the stack; a stack with protected resources must refuse first."""
    state = deployment.engine.state()
    evidence: list[str] = []
    if protected := destroy_check.protected(state):
        if not deployment.engine.destroy_with_preview().code:
            raise Broken(f"a destroy of {len(protected)} protected resources was not refused")
        evidence.append(f"a destroy of {len(protected)} protected resources was refused")
        deployment.engine.unprotect()
    destroy_check.disable_deletion_protection(deployment.client, state)
    deployment.engine.destroy()
    if rest := deployment.engine.state():
        raise Broken(f"{len(rest)} resources remain in the state, first {rest[0]['urn']}")
    # The tagging API lists resources for hours after the engine has deleted them.
    managed = {str(value) for row in state for value in (row.get("id"), row.get("outputs", {}).get("arn")) if value}
    unexpected = [arn for arn in _tagged(deployment) if not {arn, arn.rpartition("/")[2]} & managed]
    if unexpected:
        raise Broken(f"{len(unexpected)} resources with the environment's tag remain: {', '.join(unexpected[:10])}")
    count = sum(bool(row.get("retainOnDelete")) for row in state)
    evidence.append(
        f"nothing left but {count} resources that outlive the stack on purpose" if count else "nothing left"
    )
    return "; ".join(evidence)


def _tagged(deployment: Deployment) -> list[str]:
    """Return the ARNs with the tag of the environment."""
    pages = deployment.client("resourcegroupstaggingapi").get_paginator("get_resources")
    filters = [{"Key": _TAG, "Values": [deployment.settings.environment]}]
    return [row["ResourceARN"] for page in pages.paginate(TagFilters=filters) for row in page["ResourceTagMappingList"]]


UP = Promise("up", "one `pulumi up` creates the environment", comes_up)
FIRST = (
    Promise("second-up", "a second `up` changes nothing", settles),
    Promise("policies", "the stack passes its own policy packs", passes_policies),
)
DRIFT = Promise("drift", "a refresh notices what was changed by hand, and `up` reverts it", notices_drift)
DESTROY = Promise("destroy", "a destroy leaves nothing but what outlives the stack on purpose", leaves_nothing)
