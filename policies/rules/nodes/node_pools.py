"""NODE rules about Karpenter's node pools and node classes, and about Fargate profiles."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.nodes.tiers import TIER_LABEL
from agentenv.policies.rules.registry import Outcome, fail, forbid, objects, resources, rule, unknown
from agentenv.policies.view.fields import Field, is_one_of, scalar
from agentenv.policies.view.resource import KubernetesObject, Resource

KARPENTER, NODE_CLASSES = "karpenter.sh", "karpenter.k8s.aws"
PROFILE = "aws:eks/fargateProfile:FargateProfile"
# The label of the platform's own pools
PLATFORM_POOL_LABEL = "sandbox.users.io/pool"
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
WILDCARDS = frozenset("*?")


@rule(
    id="NODE-02",
    title="Node pools have one tier, limits and an expiry",
    severity="High",
    why="Without the taint of its tier, sandboxes of different tiers share a kernel. Without limits, a loop can buy any"
    " number of nodes. A node that never expires never gets fixes.",
    fix=f"Set the taint {TIER_LABEL}=<tier>:NoSchedule and the same label, spec.limits, and expireAfter.",
    applies_to=objects(KARPENTER, "NodePool"),
    defaults="No taint, no limits, and expireAfter 720h by default (Karpenter's NodePool reference).",
)
def tier_of_pool(pool: KubernetesObject) -> Iterator[Outcome]:
    """Check the taint, the limits and the expiry. A pool of the platform has its own label and no tier."""
    if pool.patch:
        return
    template = pool.at("spec", "template")
    yield from _taint(template)
    limits = pool.at("spec", "limits")
    if limits.unknown:
        yield unknown(limits)
    elif limits.at("cpu").missing and limits.at("memory").missing and limits.at("nodes").missing:
        yield fail(limits, "it has no limits")
    expiry = template.at("spec", "expireAfter")
    yield from forbid(expiry, lambda value: value == "Never", "its nodes never expire")


def _taint(template: Field) -> Iterator[Outcome]:
    labels, taints = template.at("metadata", "labels"), template.at("spec", "taints")
    tier = labels.at(TIER_LABEL)
    blocking = [taint for taint in taints.elements() if is_one_of(taint.at("effect"), BLOCKING_EFFECTS)]
    if taints.holds_unknown():
        yield unknown(taints)
    elif labels.unknown and not blocking:
        yield unknown(labels)
    elif not tier.missing:
        own = [taint for taint in blocking if taint.at("key").raw == TIER_LABEL]
        if not own:
            yield fail(taints, "its nodes accept pods of any tier: they have no taint of their tier")
        elif tier.known and scalar(tier) not in {scalar(taint.at("value")) for taint in own}:
            yield fail(own[0].at("value"), "the taint has another tier than the label")
    elif not blocking and labels.at(PLATFORM_POOL_LABEL).missing:
        yield fail(taints, "its nodes accept sandboxes without a tier")


@rule(
    id="NODE-06",
    title="Expired nodes can be replaced",
    severity="Medium",
    why="A pod that blocks disruption keeps an expired node, without fixes, forever.",
    fix="Set terminationGracePeriod of the pool, and budgets that sometimes allow disruption.",
    applies_to=objects(KARPENTER, "NodePool"),
    defaults="Nodes expire after 720h, and wait for their pods without a limit if there is no grace period. By default,"
    " 10% may be disrupted at once (Karpenter's NodePool reference).",
)
def renewable(pool: KubernetesObject) -> Iterator[Outcome]:
    """Check the grace period, and for a budget that never allows disruption."""
    if pool.patch:
        return
    grace = pool.at("spec", "template", "spec", "terminationGracePeriod")
    if grace.missing and pool.at("spec", "template", "spec", "expireAfter").raw != "Never":
        yield fail(grace, "a pod that blocks disruption keeps an expired node forever")
    elif grace.unknown:
        yield unknown(grace)
    for budget in pool.at("spec", "disruption", "budgets").elements():
        nodes = budget.at("nodes")
        if nodes.unknown:
            yield unknown(nodes)
        elif is_one_of(nodes, {"0", "0%"}) and budget.at("schedule").missing and budget.at("reasons").missing:
            yield fail(nodes, "it never allows disruption of a node")


@rule(
    id="NODE-04",
    title="Fargate profiles select namespaces and labels without wildcards",
    severity="High",
    why="NetworkPolicies do not apply on Fargate. A namespace that a wildcard matches by mistake loses its isolation"
    " silently.",
    fix="Write each namespace and label value of a selector in full.",
    applies_to=resources(PROFILE),
)
def fargate_wildcards(profile: Resource) -> Iterator[Outcome]:
    """Check the namespaces and the values of labels."""
    for selector in profile.at("selectors").elements():
        for field in (selector.at("namespace"), *(value for _, value in selector.at("labels").entries())):
            yield from forbid(
                field, lambda value: isinstance(value, str) and bool(WILDCARDS & set(value)), "it has a wildcard"
            )


@rule(
    id="NODE-09",
    title="Node classes select their subnets and security groups by name",
    severity="High",
    why="A selector that matches every subnet or group of the account can place sandboxes in public subnets. Or they"
    " get groups that were opened for other purposes.",
    fix="Select subnets and security groups by ids, or by a tag with a specific value.",
    applies_to=objects(NODE_CLASSES, "EC2NodeClass"),
)
def network_selectors(node_class: KubernetesObject) -> Iterator[Outcome]:
    """Check that each term has an id, a name, or a tag with a value."""
    for key in ("subnetSelectorTerms", "securityGroupSelectorTerms"):
        for term in node_class.at("spec", key).elements():
            if term.unknown:
                yield unknown(term)
            elif not any(_is_specific(value) for value in _criteria(term)):
                yield fail(term, "it selects everything")


def _criteria(term: Field) -> list[Field]:
    return [term.at("id"), term.at("name"), *(value for _, value in term.at("tags").entries())]


def _is_specific(field: Field) -> bool:
    return field.unknown or (isinstance(field.raw, str) and bool(field.raw.strip("*")))
