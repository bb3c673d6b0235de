"""Constraints on how sandboxes authenticate to AWS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.classes import on_nodes
from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.nodes.tier_rules import rule_of

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


def _pod_identity(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        if sandbox_class.identity.kind not in rule_of(sandbox_class.tier).identities:
            found = f"{sandbox_class.identity.kind} in tier {sandbox_class.tier}"
            yield Finding((*place, "identity", "kind"), found, also=((*place, "tier"), (*place, "compute")))


def _exchange_not_allowed(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        if sandbox_class.identity.kind == "exchange" and "identity" not in {
            grant.word for grant in sandbox_class.capabilities
        }:
            also = ((*place, "capabilities"), (*place, "compute"))
            yield Finding((*place, "identity", "kind"), "exchange without the capability identity", also=also)


def _exchange_without_dns(settings: Settings) -> Iterator[Finding]:
    for place, sandbox_class in on_nodes(settings):
        words = {grant.word for grant in sandbox_class.capabilities}
        if sandbox_class.identity.kind == "exchange" and "identity" in words and "dns" not in words:
            also = ((*place, "identity", "kind"), (*place, "compute"))
            yield Finding((*place, "capabilities"), "identity without dns", also=also)


def _on_fargate(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        if sandbox_class.compute == "fargate" and sandbox_class.identity.kind == "exchange":
            yield Finding((*place, "identity", "kind"), "exchange", also=((*place, "compute"),))


def _policies_without_role(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index, "identity")
        if sandbox_class.identity.kind == "none" and sandbox_class.identity.policies:
            yield Finding(
                (*place, "policies"), f"{len(sandbox_class.identity.policies)} with kind none", also=((*place, "kind"),)
            )


def _policy_twice(settings: Settings) -> Iterator[Finding]:
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        for position, arn in enumerate(sandbox_class.identity.policies):
            if arn in sandbox_class.identity.policies[:position]:
                yield Finding(("sandboxClasses", index, "identity", "policies", position), f"{arn} twice")


CONSTRAINTS = (
    Constraint(
        "gvisor-pod-identity",
        "sandboxes under gVisor cannot reach the Pod Identity agent",
        "identity irsa or exchange in tier standard",
        "set identity.kind: irsa",
        _pod_identity,
    ),
    Constraint(
        "exchange-without-capability",
        "sandboxes reach the token exchange over the network, which the capabilities control",
        "identity.kind: exchange with the capability identity",
        "add identity to capabilities",
        _exchange_not_allowed,
    ),
    Constraint(
        "exchange-without-dns",
        "sandboxes resolve the token exchange by its DNS name",
        "identity.kind: exchange with the capability dns",
        "add dns to capabilities",
        _exchange_without_dns,
    ),
    Constraint(
        "fargate-exchange",
        "the workspace service exchanges tokens, and its pods have no security group that a rule could refer to",
        "identity irsa on Fargate",
        "set identity.kind: irsa, or compute: karpenter",
        _on_fargate,
    ),
    Constraint(
        "policies-of-nobody",
        "a class without an AWS identity has no role to attach policies to",
        "policies with identity.kind irsa, pod-identity or exchange",
        "set identity.kind, or remove the policies",
        _policies_without_role,
    ),
    Constraint(
        "policy-twice",
        "a policy is attached to a role once",
        "each policy once",
        "remove the duplicate",
        _policy_twice,
    ),
)
