"""What a namespace's own pods on nodes may speak with.

The network is in strict mode: a pod that no policy selects reaches nothing and is reached by nobody. So every namespace
with pods on nodes has a policy that selects them all, names both directions, and lets its own work through.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.networking import v1 as networking

from agentenv.components._lib.options import Child

ANYWHERE = "0.0.0.0/0"
# Where nodes hand out identities to pods; no other address of the link is let through.
IDENTITY_AGENT = "169.254.170.23/32"

Rule = dict[str, Any]


@dataclass(frozen=True)
class Ports:
    """Ports of one protocol, from the first to the last."""

    first: int
    last: int | None = None
    protocol: str = "TCP"

    def rule(self) -> dict[str, Any]:
        """As a policy has them."""
        told: dict[str, Any] = {"protocol": self.protocol, "port": self.first}
        return {**told, "endPort": self.last} if self.last else told


DNS = (Ports(53, protocol="UDP"), Ports(53))
API = (Ports(443),)


def work(incoming: Sequence[Ports], outgoing: Sequence[Ports], *, identities: bool = False) -> Rule:
    """The policy's specification; without ports in a direction, nothing passes in it."""
    inward: list[Rule] = [{"ports": [ports.rule() for ports in incoming]}] if incoming else []
    outward: list[Rule] = []
    if outgoing:
        # The metadata address and its like are no part of any namespace's work.
        everybody = {"ipBlock": {"cidr": ANYWHERE, "except": ["169.254.0.0/16"]}}
        outward.append({"to": [everybody], "ports": [ports.rule() for ports in outgoing]})
    if identities:
        outward.append({"to": [{"ipBlock": {"cidr": IDENTITY_AGENT}}], "ports": [Ports(80).rule()]})
    return {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": inward, "egress": outward}


def let_through(base: str, namespace: pulumi.Input[str], spec: Rule, child: Child) -> networking.NetworkPolicy:
    """The policy of a namespace; `base` is the first part of its resource's name."""
    return networking.NetworkPolicy(
        f"{base}-own-work",
        metadata={"name": "own-work", "namespace": namespace},
        spec=spec,  # pyright: ignore[reportArgumentType] - plain data of its shape
        opts=child(),
    )
