"""Security groups of sandbox classes on Fargate, which does not enforce network policies.

A sandbox is not in the cluster security group, which allows all traffic inside it and all egress. So the rules for what
a sandbox needs of the cluster are explicit on both sides: its kubelet to the control plane, DNS to CoreDNS if its class
has the capability, and the control plane to the kubelet for logs, exec and probes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2
from pulumi_aws import vpc as rules

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.capabilities.policies.class_security_groups import CLUSTER, NODES, ClassGroups
from agentenv.core.capabilities.policies.security_group import Group
from agentenv.core.capabilities.policies.security_group_rules import GroupRule

# Groups of the platform, by names that no class can have.
PLATFORM = (CLUSTER, NODES)


@dataclass(frozen=True)
class PodGroups:
    """Creates the security groups of Fargate classes."""

    vpc_id: pulumi.Input[str]
    cluster: pulumi.Input[str]
    nodes: pulumi.Input[str]
    labels: Labels
    child: ChildOptions

    def create(self, classes: Sequence[ClassGroups]) -> dict[str, list[ec2.SecurityGroup]]:
        """Create all groups, then the rules between them; return the groups by class."""
        class_names = {fargate_class.name for fargate_class in classes}
        groups_by_class = {
            fargate_class.name: [
                self._group(fargate_class.name, number, class_names) for number in range(len(fargate_class.groups))
            ]
            for fargate_class in classes
        }
        for fargate_class in classes:
            for number, group in enumerate(fargate_class.groups):
                self._rules(fargate_class.name, groups_by_class[fargate_class.name][number], group, groups_by_class)
            self._create_cluster_rules(fargate_class, groups_by_class[fargate_class.name][0])
        return groups_by_class

    def _group(self, name: str, number: int, class_names: Collection[str]) -> ec2.SecurityGroup:
        numbered = f"{name}-{number + 1}"
        # If another class has this name, use a dot, which no class name contains.
        suffix = (
            f"class-{name}"
            if number == 0
            else f"class-{name}.{number + 1}"
            if numbered in class_names
            else f"class-{numbered}"
        )
        return ec2.SecurityGroup(
            f"{self.labels.base}-{suffix}",
            name=self.labels.name("security-group", suffix),
            description=f"Sandboxes of class {name} on Fargate",
            vpc_id=self.vpc_id,
            tags=self.labels.tags(suffix, **{"sandbox-class": name}),
            opts=self.child(),
        )

    def _rules(
        self,
        name: str,
        group: ec2.SecurityGroup,
        pod_group: Group,
        groups_by_class: Mapping[str, Sequence[ec2.SecurityGroup]],
    ) -> None:
        for direction, kind, rules_of_direction in (
            ("out", rules.SecurityGroupEgressRule, pod_group.egress),
            ("in", rules.SecurityGroupIngressRule, pod_group.ingress),
        ):
            for rule in rules_of_direction:
                suffix = f"class-{name}-{direction}-{_rule_name(rule)}"
                kind(
                    f"{self.labels.base}-{suffix}",
                    security_group_id=group.id,
                    referenced_security_group_id=rule.group and self._group_id(rule.group, groups_by_class),
                    cidr_ipv4=rule.cidr,
                    ip_protocol=rule.protocol,
                    **_ports(rule),
                    description=rule.why,
                    tags=self.labels.tags(suffix),
                    opts=self.child(),
                )

    def _group_id(self, name: str, groups_by_class: Mapping[str, Sequence[ec2.SecurityGroup]]) -> pulumi.Input[str]:
        if name in PLATFORM:
            return self.cluster if name == CLUSTER else self.nodes
        # A sandbox is in all groups of its class, so a rule can refer to the first one.
        return groups_by_class[name][0].id

    def _create_cluster_rules(self, fargate_class: ClassGroups, first: ec2.SecurityGroup) -> None:
        """Create the cluster's ingress rules for the class; EKS itself allows the cluster's egress."""
        for rule in _towards_cluster(fargate_class):
            suffix = f"cluster-from-{fargate_class.name}-{_rule_name(rule)}"
            rules.SecurityGroupIngressRule(
                f"{self.labels.base}-{suffix}",
                security_group_id=self.cluster,
                referenced_security_group_id=first.id,
                ip_protocol=rule.protocol,
                **_ports(rule),
                description=f"Class {fargate_class.name}: {rule.why}",
                tags=self.labels.tags(suffix),
                opts=self.child(),
            )


def group_ids(groups_by_class: Mapping[str, Sequence[ec2.SecurityGroup]]) -> pulumi.Output[dict[str, list[str]]]:
    """Return the ids of the security groups of each class."""
    return pulumi.Output.all(
        **{of: pulumi.Output.all(*[group.id for group in groups]) for of, groups in groups_by_class.items()}
    )


def _ports(rule: GroupRule) -> dict[str, Any]:
    """Return the ports of a rule as arguments of a rule resource."""
    return {key: value for key, value in rule.plain().items() if key in {"from_port", "to_port"}}


def _towards_cluster(fargate_class: ClassGroups) -> Iterable[GroupRule]:
    return (rule for group in fargate_class.groups for rule in group.egress if rule.group == CLUSTER)


def _rule_name(rule: GroupRule) -> str:
    """Return a rule's part of a resource name, built from its content, so that adding a rule renames no other."""
    ports = "".join(f"-{port}" for port in _ports(rule).values())
    # A class may have the name `cluster` or `nodes`; no class name contains a dot.
    group = rule.group or ""
    end = rule.cidr or (f".{group}" if f":{group}" in PLATFORM else group.lstrip(":"))
    return f"{rule.protocol.replace('-1', 'all')}{ports}-{end.replace('/', '-')}"
