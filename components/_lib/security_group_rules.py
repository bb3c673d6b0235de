"""Rules of a security group about the traffic with another security group."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels

Group = pulumi.Input[str]


@dataclass(frozen=True)
class Traffic:
    """Traffic between two security groups; without ports it is that of every port."""

    description: str
    protocol: str = "tcp"
    ports: tuple[int, int] | None = None


@dataclass(frozen=True)
class GroupRules:
    """Creates rules of a component, each with a suffix in its name and tags."""

    labels: Labels
    child: ChildOptions

    def ingress(self, suffix: str, group: Group, source: Group, traffic: Traffic) -> pulumi.Resource:
        """Let a group receive traffic from another."""
        return self._create(rules.SecurityGroupIngressRule, suffix, group, source, traffic)

    def egress(self, suffix: str, group: Group, target: Group, traffic: Traffic) -> pulumi.Resource:
        """Let a group send traffic to another."""
        return self._create(rules.SecurityGroupEgressRule, suffix, group, target, traffic)

    def _create(
        self,
        kind: type[rules.SecurityGroupEgressRule] | type[rules.SecurityGroupIngressRule],
        suffix: str,
        group: Group,
        other: Group,
        traffic: Traffic,
    ) -> pulumi.Resource:
        return kind(
            f"{self.labels.base}-{suffix}",
            security_group_id=group,
            referenced_security_group_id=other,
            ip_protocol=traffic.protocol,
            from_port=traffic.ports[0] if traffic.ports else None,
            to_port=traffic.ports[1] if traffic.ports else None,
            description=traffic.description,
            tags=self.labels.tags(suffix),
            opts=self.child(),
        )
