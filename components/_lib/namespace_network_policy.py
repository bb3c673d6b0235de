"""The network policy of a platform namespace with pods on nodes.

The VPC CNI enforces network policies in strict mode: a pod that no policy selects has no traffic in either direction.
So each namespace with pods on nodes has one policy that selects all of them and allows the ports that they need.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.networking import v1 as networking

from agentenv.components._lib.options import ChildOptions

ANYWHERE = "0.0.0.0/0"
# The EKS Pod Identity agent of the node; every other link-local address stays blocked.
IDENTITY_AGENT = "169.254.170.23/32"

Rule = dict[str, Any]


@dataclass(frozen=True)
class Ports:
    """A range of ports of one protocol."""

    first: int
    last: int | None = None
    protocol: str = "TCP"

    def rule(self) -> dict[str, Any]:
        """Return the range as a network policy spells it."""
        port: dict[str, Any] = {"protocol": self.protocol, "port": self.first}
        return {**port, "endPort": self.last} if self.last else port


DNS = (Ports(53, protocol="UDP"), Ports(53))
API = (Ports(443),)


def network_policy_spec(
    incoming: Sequence[Ports],
    outgoing: Sequence[Ports],
    *,
    identities: bool = False,
    applications: Sequence[str] = (),
) -> Rule:
    """Return the policy's spec; a direction without ports is denied. `identities` allows the Pod Identity agent.

    With `applications`, only pods with one of these names (`app.kubernetes.io/name`) are selected.
    """
    ingress: list[Rule] = [{"ports": [ports.rule() for ports in incoming]}] if incoming else []
    egress: list[Rule] = []
    if outgoing:
        # No platform namespace needs the instance metadata service or another link-local address.
        anywhere = {"ipBlock": {"cidr": ANYWHERE, "except": ["169.254.0.0/16"]}}
        egress.append({"to": [anywhere], "ports": [ports.rule() for ports in outgoing]})
    if identities:
        egress.append({"to": [{"ipBlock": {"cidr": IDENTITY_AGENT}}], "ports": [Ports(80).rule()]})
    named = {"key": "app.kubernetes.io/name", "operator": "In", "values": list(applications)}
    selector = {"matchExpressions": [named]} if applications else {}
    return {"podSelector": selector, "policyTypes": ["Ingress", "Egress"], "ingress": ingress, "egress": egress}


def create_network_policy(
    base: str, namespace: pulumi.Input[str], spec: Rule, child: ChildOptions
) -> networking.NetworkPolicy:
    """Create the policy of a namespace; `base` is the first part of its resource's name."""
    return networking.NetworkPolicy(
        f"{base}-own-work",
        metadata={"name": "own-work", "namespace": namespace},
        spec=spec,  # pyright: ignore[reportArgumentType] - plain data of its shape
        opts=child(),
    )
