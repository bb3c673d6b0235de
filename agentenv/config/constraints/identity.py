"""Refusals of what a sandbox is to AWS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.classes import on_nodes
from agentenv.config.constraints.constraint import Finding, Row
from agentenv.core.nodes.tier_rules import rule_of

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


def _pod_identity(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        if one.identity.kind not in rule_of(one.tier).identities:
            found = f"{one.identity.kind} in tier {one.tier}"
            yield Finding((*place, "identity", "kind"), found, also=((*place, "tier"), (*place, "compute")))


def _closed(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        if one.identity.kind == "exchange" and "identity" not in {grant.word for grant in one.capabilities}:
            also = ((*place, "capabilities"), (*place, "compute"))
            yield Finding((*place, "identity", "kind"), "exchange without the capability identity", also=also)


def _unfound(settings: Settings) -> Iterator[Finding]:
    for place, one in on_nodes(settings):
        words = {grant.word for grant in one.capabilities}
        if one.identity.kind == "exchange" and "identity" in words and "dns" not in words:
            also = ((*place, "identity", "kind"), (*place, "compute"))
            yield Finding((*place, "capabilities"), "identity without dns", also=also)


def _on_fargate(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        if one.compute == "fargate" and one.identity.kind == "exchange":
            yield Finding((*place, "identity", "kind"), "exchange", also=((*place, "compute"),))


def _of_nobody(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index, "identity")
        if one.identity.kind == "none" and one.identity.policies:
            yield Finding((*place, "policies"), f"{len(one.identity.policies)} of them", also=((*place, "kind"),))


def _twice(settings: Settings) -> Iterator[Finding]:
    for index, one in enumerate(settings.sandbox_classes):
        for position, arn in enumerate(one.identity.policies):
            if arn in one.identity.policies[:position]:
                yield Finding(("sandboxClasses", index, "identity", "policies", position), f"{arn} twice")


ROWS = (
    Row(
        "gvisor-pod-identity",
        "the Pod Identity agent cannot be reached from under gVisor",
        "identity irsa or exchange in tier standard",
        "set identity.kind: irsa",
        _pod_identity,
    ),
    Row(
        "exchange-without-capability",
        "the exchange is reached over the network like everything else",
        "identity.kind: exchange with the capability identity",
        "add identity to capabilities",
        _closed,
    ),
    Row(
        "exchange-without-dns",
        "the exchange is found by the name of its service",
        "identity.kind: exchange with the capability dns",
        "add dns to capabilities",
        _unfound,
    ),
    Row(
        "fargate-exchange",
        "tokens are exchanged by the workspace service, whose pods are in no security group that a rule could name",
        "identity irsa on Fargate",
        "set identity.kind: irsa, or compute: karpenter",
        _on_fargate,
    ),
    Row(
        "policies-of-nobody",
        "a class that is nobody to AWS has no role that policies could be of",
        "policies with identity.kind irsa, pod-identity or exchange",
        "name the kind, or leave the policies out",
        _of_nobody,
    ),
    Row(
        "policy-twice",
        "a role has a policy or has it not",
        "each policy once",
        "leave it out the second time",
        _twice,
    ),
)
