"""Security groups of sandbox classes on Fargate, which does not enforce network policies.

A sandbox is not in the cluster security group, which allows all traffic inside it and all egress. So the rules for what
a sandbox needs of the cluster are explicit on both sides: its kubelet to the control plane, DNS to CoreDNS if its class
has the capability, and the control plane to the kubelet for logs, exec and probes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import pulumi
from pulumi_aws import ec2
from pulumi_aws import vpc as rules

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.capabilities.policies.class_security_groups import CLUSTER, NODES

# Groups of the platform, by names that no class can have.
PLATFORM = (CLUSTER, NODES)
# The quota of security groups per network interface.
MOST_GROUPS = 5


class PodGroupRule(TypedDict):
    """A rule in one direction, for one CIDR block or one security group."""

    protocol: str
    """`tcp`, `udp`, a protocol number, or `-1` for all."""

    from_port: NotRequired[int]
    """The first port, if the protocol has ports."""

    to_port: NotRequired[int]
    """The last port."""

    cidr: NotRequired[str]
    """The CIDR block at the other end; either this or `towards`."""

    towards: NotRequired[str]
    """The class at the other end, `:cluster` for the control plane and CoreDNS, or `:nodes` for pods on nodes."""

    why: str
    """Its description."""


class PodGroup(TypedDict):
    """One security group."""

    egress: list[PodGroupRule]
    """The egress rules."""

    ingress: list[PodGroupRule]
    """The ingress rules."""


class FargateClass(TypedDict):
    """A sandbox class on Fargate, and its security groups."""

    name: str
    """The name of the class."""

    groups: list[PodGroup]
    """Its security groups: at most five, each with at most as many rules as the account's quota."""


@dataclass(frozen=True)
class PodGroups:
    """Creates the security groups of Fargate classes."""

    vpc_id: pulumi.Input[str]
    cluster: pulumi.Input[str]
    nodes: pulumi.Input[str]
    labels: Labels
    child: ChildOptions

    def make(self, classes: Sequence[FargateClass]) -> dict[str, list[ec2.SecurityGroup]]:
        """Create all groups, then the rules between them; return the groups by class."""
        class_names = {fargate_class["name"] for fargate_class in classes}
        groups_by_class = {
            fargate_class["name"]: [
                self._group(fargate_class["name"], number, class_names)
                for number in range(len(fargate_class["groups"]))
            ]
            for fargate_class in classes
        }
        for fargate_class in classes:
            for number, group in enumerate(fargate_class["groups"]):
                self._rules(
                    fargate_class["name"], groups_by_class[fargate_class["name"]][number], group, groups_by_class
                )
            self._create_cluster_rules(fargate_class, groups_by_class[fargate_class["name"]][0])
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
        pod_group: PodGroup,
        groups_by_class: Mapping[str, Sequence[ec2.SecurityGroup]],
    ) -> None:
        for direction, kind, rules_of_direction in (
            ("out", rules.SecurityGroupEgressRule, pod_group["egress"]),
            ("in", rules.SecurityGroupIngressRule, pod_group["ingress"]),
        ):
            for rule in rules_of_direction:
                suffix = f"class-{name}-{direction}-{_rule_name(rule)}"
                towards = rule.get("towards")
                kind(
                    f"{self.labels.base}-{suffix}",
                    security_group_id=group.id,
                    referenced_security_group_id=None if towards is None else self._group_id(towards, groups_by_class),
                    cidr_ipv4=rule.get("cidr"),
                    ip_protocol=rule["protocol"],
                    from_port=rule.get("from_port"),
                    to_port=rule.get("to_port"),
                    description=rule["why"],
                    tags=self.labels.tags(suffix),
                    opts=self.child(),
                )

    def _group_id(self, towards: str, groups_by_class: Mapping[str, Sequence[ec2.SecurityGroup]]) -> pulumi.Input[str]:
        if towards in PLATFORM:
            return self.cluster if towards == CLUSTER else self.nodes
        # A sandbox is in all groups of its class, so a rule can refer to the first one.
        return groups_by_class[towards][0].id

    def _create_cluster_rules(self, fargate_class: FargateClass, first: ec2.SecurityGroup) -> None:
        """Create the cluster's ingress rules for the class; EKS itself allows the cluster's egress."""
        for rule in _towards_cluster(fargate_class):
            suffix = f"cluster-from-{fargate_class['name']}-{_rule_name(rule)}"
            rules.SecurityGroupIngressRule(
                f"{self.labels.base}-{suffix}",
                security_group_id=self.cluster,
                referenced_security_group_id=first.id,
                ip_protocol=rule["protocol"],
                from_port=rule.get("from_port"),
                to_port=rule.get("to_port"),
                description=f"Class {fargate_class['name']}: {rule['why']}",
                tags=self.labels.tags(suffix),
                opts=self.child(),
            )


def group_ids(groups_by_class: Mapping[str, Sequence[ec2.SecurityGroup]]) -> pulumi.Output[dict[str, list[str]]]:
    """Return the ids of the security groups of each class."""
    return pulumi.Output.all(
        **{of: pulumi.Output.all(*[group.id for group in groups]) for of, groups in groups_by_class.items()}
    )


def read_fargate_classes(reader: ArgumentReader, key: str) -> list[FargateClass]:
    """Return the Fargate classes of an argument, checked."""
    classes: list[FargateClass] = reader.values.get(key) or []
    known = {*PLATFORM, *(fargate_class.get("name") for fargate_class in classes)}
    for number, fargate_class in enumerate(classes):
        path = f"{reader.path}.{key}[{number}]"
        name = ArgumentReader.of(path, fargate_class, FargateClass).text("name")
        if [other["name"] for other in classes].count(name) > 1:
            raise ArgumentError(f"{path}.name", f"{name} more than once", "each class once")
        if not 1 <= len(fargate_class["groups"]) <= MOST_GROUPS:
            raise ArgumentError(
                f"{path}.groups", f"{len(fargate_class['groups'])}", f"1 to {MOST_GROUPS} groups of an interface"
            )
        for group_index, group in enumerate(fargate_class["groups"]):
            ArgumentReader.of(f"{path}.groups[{group_index}]", group, PodGroup)
            for direction in ("egress", "ingress"):
                for index, rule in enumerate(group[direction]):
                    _check(f"{path}.groups[{group_index}].{direction}[{index}]", rule, known)
    return classes


def _check(path: str, rule: PodGroupRule, known: set[str]) -> None:
    ArgumentReader.of(path, rule, PodGroupRule)
    towards = rule.get("towards")
    if ("cidr" in rule) == (towards is not None):
        raise ArgumentError(path, "both or neither of cidr and towards", "one of them")
    if towards is not None and towards not in known:
        raise ArgumentError(f"{path}.towards", f"'{towards}'", f"{' or '.join(PLATFORM)}, or a class on Fargate")


def _towards_cluster(fargate_class: FargateClass) -> Iterable[PodGroupRule]:
    return (rule for group in fargate_class["groups"] for rule in group["egress"] if rule.get("towards") == CLUSTER)


def _rule_name(rule: PodGroupRule) -> str:
    """Return a rule's part of a resource name, built from its content, so that adding a rule renames no other."""
    ports = f"-{rule.get('from_port')}-{rule.get('to_port')}" if "from_port" in rule else ""
    towards = rule.get("towards", "")
    # A class may have the name `cluster` or `nodes`; no class name contains a dot.
    end = rule.get("cidr") or (f".{towards}" if f":{towards}" in PLATFORM else towards.lstrip(":"))
    return f"{rule['protocol'].replace('-1', 'all')}{ports}-{end.replace('/', '-')}"
