"""The security group rules between nodes, the control plane and the internet.

EKS creates the cluster security group, for the control plane's network interfaces and for pods on Fargate; all traffic
inside it is allowed. Nodes are in the network's security group, which has no rules before these. Pods share the network
interfaces of their node, and network policies separate them; so these rules allow only what a node needs at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.security_group_rules import Group, GroupRules, Traffic
from agentenv.components._lib.tags import Labels

ANYWHERE = "0.0.0.0/0"


TO_CLUSTER = {
    "api": Traffic("Kubernetes API for nodes", "tcp", (443, 443)),
    "dns-udp": Traffic("CoreDNS on Fargate for nodes", "udp", (53, 53)),
    "dns-tcp": Traffic("CoreDNS on Fargate for nodes", "tcp", (53, 53)),
    "metrics": Traffic("Metrics of the controllers on Fargate", "tcp", (8080, 8080)),
    "dns-metrics": Traffic("Metrics of CoreDNS", "tcp", (9153, 9153)),
    # A pod on Fargate has its own kubelet, which the metrics server scrapes like those of nodes.
    "kubelet": Traffic("Kubelets of pods on Fargate", "tcp", (10250, 10250)),
}
TO_NODES = {
    "kubelet": Traffic("Kubelets and the metrics API for the control plane", "tcp", (10250, 10251)),
    "webhooks": Traffic("Webhooks and extension APIs for the control plane", "tcp", (443, 443)),
    "webhooks-high": Traffic("Webhooks and extension APIs for the control plane", "tcp", (8443, 9443)),
}


@dataclass(frozen=True)
class SecurityGroupRules:
    """Creates the rules between the security groups of nodes, cluster and endpoints."""

    nodes: pulumi.Input[str]
    cluster: pulumi.Input[str]
    endpoints: pulumi.Input[str] | None
    labels: Labels
    child: ChildOptions

    def create(self) -> list[pulumi.Resource]:
        """Create the rules for the traffic between nodes, control plane and Fargate, and return them."""
        created: list[pulumi.Resource] = []
        for name, traffic in TO_CLUSTER.items():
            created += self._both_ways(f"nodes-to-{name}", traffic, self.nodes, self.cluster)
        for name, traffic in TO_NODES.items():
            # EKS keeps an egress rule to everywhere in the cluster security group, so only ingress is missing.
            created.append(self._rules.ingress(f"cluster-to-{name}", self.nodes, self.cluster, traffic))
        between_nodes = Traffic("Pods on nodes among each other, as NetworkPolicies allow", "-1")
        created += self._both_ways("among-nodes", between_nodes, self.nodes, self.nodes)
        created.append(
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
            services = Traffic("AWS services for pods on Fargate", "tcp", (443, 443))
            created.append(self._rules.ingress("fargate-to-endpoints", self.endpoints, self.cluster, services))
        return created

    def admit(self, ranges: Sequence[str]) -> list[pulumi.Resource]:
        """Create the rules for clients of the API server outside of the VPC, and return them."""
        suffixes = {cidr: f"cluster-from-{cidr.replace('.', '-').replace('/', '-')}" for cidr in ranges}
        return [
            rules.SecurityGroupIngressRule(
                f"{self.labels.base}-{suffix}",
                security_group_id=self.cluster,
                cidr_ipv4=cidr,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                description="The API server for clients outside of the VPC",
                tags=self.labels.tags(suffix),
                opts=self.child(),
            )
            for cidr, suffix in suffixes.items()
        ]

    @property
    def _rules(self) -> GroupRules:
        return GroupRules(self.labels, self.child)

    def _both_ways(self, suffix: str, traffic: Traffic, source: Group, target: Group) -> list[pulumi.Resource]:
        return [
            self._rules.egress(suffix, source, target, traffic),
            self._rules.ingress(suffix, target, source, traffic),
        ]
