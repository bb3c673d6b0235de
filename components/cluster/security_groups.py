"""What passes between nodes, the cluster's own interfaces and the world.

EKS makes one group for the control plane's interfaces and for pods on Fargate, with everything open inside it. Nodes
are in the network's group, which is closed until here. Pods share their node's interfaces: what keeps them apart are
NetworkPolicies, so this only says what a node needs at all.
"""

from dataclasses import dataclass

import pulumi
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Door:
    """A way in from one group to another."""

    word: str
    description: str
    protocol: str
    ports: tuple[int, int] | None


TO_CLUSTER = (
    Door("api", "Kubernetes API for nodes", "tcp", (443, 443)),
    Door("dns-udp", "CoreDNS on Fargate for nodes", "udp", (53, 53)),
    Door("dns-tcp", "CoreDNS on Fargate for nodes", "tcp", (53, 53)),
    Door("metrics", "Metrics of the controllers on Fargate", "tcp", (8080, 8080)),
    Door("dns-metrics", "Metrics of CoreDNS", "tcp", (9153, 9153)),
    # A pod on Fargate has a kubelet of its own, which the metrics server asks as it asks those of nodes.
    Door("kubelet", "Kubelets of pods on Fargate", "tcp", (10250, 10250)),
)
TO_NODES = (
    Door("kubelet", "Kubelets and the metrics API for the control plane", "tcp", (10250, 10251)),
    Door("webhooks", "Webhooks and extension APIs for the control plane", "tcp", (443, 443)),
    Door("webhooks-high", "Webhooks and extension APIs for the control plane", "tcp", (8443, 9443)),
)


@dataclass(frozen=True)
class Doors:
    """The groups that doors are between, and how their rules are made."""

    nodes: pulumi.Input[str]
    cluster: pulumi.Input[str]
    endpoints: pulumi.Input[str] | None
    labels: Labels
    child: ChildOptions

    def open(self) -> list[pulumi.Resource]:
        """Let through what nodes, control plane and Fargate need of each other; returns the rules."""
        made: list[pulumi.Resource] = []
        for door in TO_CLUSTER:
            made += self._both_ways(f"nodes-to-{door.word}", door, self.nodes, self.cluster)
        for door in TO_NODES:
            # The cluster's group may speak to everybody already: EKS makes it so and puts back what is taken away.
            made.append(self._inwards(f"cluster-to-{door.word}", door, self.cluster, self.nodes))
        among = Door("nodes", "Pods on nodes among each other, as NetworkPolicies allow", "-1", None)
        made += self._both_ways("among-nodes", among, self.nodes, self.nodes)
        made.append(
            rules.SecurityGroupEgressRule(
                f"{self.labels.base}-nodes-out",
                security_group_id=self.nodes,
                cidr_ipv4=ANYWHERE,
                ip_protocol="-1",
                description="Images and AWS for nodes; for pods what NetworkPolicies allow",
                tags=self.labels.tags("nodes-out"),
                opts=self.child(),
            )
        )
        if self.endpoints is not None:
            services = Door("endpoints", "AWS services for pods on Fargate", "tcp", (443, 443))
            made.append(self._inwards("fargate-to-endpoints", services, self.cluster, self.endpoints))
        return made

    def _both_ways(
        self, suffix: str, door: Door, source: pulumi.Input[str], target: pulumi.Input[str]
    ) -> list[pulumi.Resource]:
        outwards = self._rule(rules.SecurityGroupEgressRule, suffix, door, source, target)
        return [outwards, self._inwards(suffix, door, source, target)]

    def _inwards(
        self, suffix: str, door: Door, source: pulumi.Input[str], target: pulumi.Input[str]
    ) -> pulumi.Resource:
        return self._rule(rules.SecurityGroupIngressRule, suffix, door, target, source)

    def _rule(
        self,
        kind: type[rules.SecurityGroupEgressRule] | type[rules.SecurityGroupIngressRule],
        suffix: str,
        door: Door,
        mine: pulumi.Input[str],
        theirs: pulumi.Input[str],
    ) -> pulumi.Resource:
        return kind(
            f"{self.labels.base}-{suffix}",
            security_group_id=mine,
            referenced_security_group_id=theirs,
            ip_protocol=door.protocol,
            from_port=door.ports[0] if door.ports else None,
            to_port=door.ports[1] if door.ports else None,
            description=door.description,
            tags=self.labels.tags(suffix),
            opts=self.child(),
        )
