"""Security groups of classes on Fargate, where no NetworkPolicy is enforced: what a sandbox reaches is what these say.

The cluster's own group is not among a sandbox's: everything is open inside that one, and to everywhere. So what a
sandbox needs of the cluster stands here on both sides: its kubelet's way to the control plane, names from CoreDNS where
it was granted them, and the control plane's way back for logs, commands and probes.
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
from agentenv.core.capabilities.policies.class_security_groups import CLUSTER

# What AWS lets an interface be in.
MOST_GROUPS = 5


class PodGroupRule(TypedDict):
    """What passes: in one direction, with one range or one group."""

    protocol: str
    """`tcp`, `udp`, a protocol's number, or `-1` for all."""

    from_port: NotRequired[int]
    """The first port, where the protocol has ports."""

    to_port: NotRequired[int]
    """The last port."""

    cidr: NotRequired[str]
    """The range of addresses at the other end; either this or `towards`."""

    towards: NotRequired[str]
    """The class at the other end, or `:cluster` for the control plane and CoreDNS."""

    why: str
    """What it is for."""


class PodGroup(TypedDict):
    """One security group."""

    egress: list[PodGroupRule]
    """What its sandboxes may begin."""

    ingress: list[PodGroupRule]
    """What others may begin towards them."""


class FargateClass(TypedDict):
    """A class of sandboxes on Fargate, and what its groups hold together."""

    name: str
    """The class."""

    groups: list[PodGroup]
    """Its groups: five at the most, and no more rules in each than the account's quota."""


@dataclass(frozen=True)
class PodGroups:
    """Where the groups are, and how they are made."""

    vpc_id: pulumi.Input[str]
    cluster: pulumi.Input[str]
    labels: Labels
    child: ChildOptions

    def make(self, classes: Sequence[FargateClass]) -> dict[str, list[ec2.SecurityGroup]]:
        """Make all groups, then the rules between them; returns the groups by class."""
        taken = {one["name"] for one in classes}
        made = {
            one["name"]: [self._group(one["name"], number, taken) for number in range(len(one["groups"]))]
            for one in classes
        }
        for one in classes:
            for number, group in enumerate(one["groups"]):
                self._rules(one["name"], made[one["name"]][number], group, made)
            self._back(one, made[one["name"]][0])
        return made

    def _group(self, name: str, number: int, taken: Collection[str]) -> ec2.SecurityGroup:
        further = f"{name}-{number + 1}"
        # Where another class is called like this one with a number, with a character that no class's name has.
        suffix = (
            f"class-{name}" if number == 0 else f"class-{name}.{number + 1}" if further in taken else f"class-{further}"
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
        self, name: str, group: ec2.SecurityGroup, said: PodGroup, made: Mapping[str, Sequence[ec2.SecurityGroup]]
    ) -> None:
        for direction, kind, passing in (
            ("out", rules.SecurityGroupEgressRule, said["egress"]),
            ("in", rules.SecurityGroupIngressRule, said["ingress"]),
        ):
            for rule in passing:
                suffix = f"class-{name}-{direction}-{_word(rule)}"
                towards = rule.get("towards")
                kind(
                    f"{self.labels.base}-{suffix}",
                    security_group_id=group.id,
                    # A sandbox is in all groups of its class, so the first of them stands for it.
                    referenced_security_group_id=None
                    if towards is None
                    else self.cluster
                    if towards == CLUSTER
                    else made[towards][0].id,
                    cidr_ipv4=rule.get("cidr"),
                    ip_protocol=rule["protocol"],
                    from_port=rule.get("from_port"),
                    to_port=rule.get("to_port"),
                    description=rule["why"],
                    tags=self.labels.tags(suffix),
                    opts=self.child(),
                )

    def _back(self, one: FargateClass, first: ec2.SecurityGroup) -> None:
        """Let the class in where it may go to the cluster; out of there everything is open, which EKS sees to."""
        for rule in _towards_cluster(one):
            suffix = f"cluster-from-{one['name']}-{_word(rule)}"
            rules.SecurityGroupIngressRule(
                f"{self.labels.base}-{suffix}",
                security_group_id=self.cluster,
                referenced_security_group_id=first.id,
                ip_protocol=rule["protocol"],
                from_port=rule.get("from_port"),
                to_port=rule.get("to_port"),
                description=f"Class {one['name']}: {rule['why']}",
                tags=self.labels.tags(suffix),
                opts=self.child(),
            )


def group_ids(made: Mapping[str, Sequence[ec2.SecurityGroup]]) -> pulumi.Output[dict[str, list[str]]]:
    """The groups of each class, as its pods are put into them."""
    return pulumi.Output.all(**{of: pulumi.Output.all(*[group.id for group in some]) for of, some in made.items()})


def read_fargate_classes(reader: ArgumentReader, key: str) -> list[FargateClass]:
    """The classes as they were told, with their shapes checked."""
    found: list[FargateClass] = reader.values.get(key) or []
    known = {CLUSTER, *(one.get("name") for one in found)}
    for number, one in enumerate(found):
        path = f"{reader.path}.{key}[{number}]"
        name = ArgumentReader.of(path, one, FargateClass).text("name")
        if [other["name"] for other in found].count(name) > 1:
            raise ArgumentError(f"{path}.name", f"{name} more than once", "each class once")
        if not 1 <= len(one["groups"]) <= MOST_GROUPS:
            raise ArgumentError(f"{path}.groups", f"{len(one['groups'])}", f"1 to {MOST_GROUPS} groups of an interface")
        for place, group in enumerate(one["groups"]):
            ArgumentReader.of(f"{path}.groups[{place}]", group, PodGroup)
            for direction in ("egress", "ingress"):
                for index, rule in enumerate(group[direction]):
                    _check(f"{path}.groups[{place}].{direction}[{index}]", rule, known)
    return found


def _check(path: str, rule: PodGroupRule, known: set[str]) -> None:
    ArgumentReader.of(path, rule, PodGroupRule)
    towards = rule.get("towards")
    if ("cidr" in rule) == (towards is not None):
        raise ArgumentError(path, "both or neither of cidr and towards", "one of them")
    if towards is not None and towards not in known:
        raise ArgumentError(f"{path}.towards", f"'{towards}'", f"{CLUSTER}, or a class on Fargate")


def _towards_cluster(one: FargateClass) -> Iterable[PodGroupRule]:
    return (rule for group in one["groups"] for rule in group["egress"] if rule.get("towards") == CLUSTER)


def _word(rule: PodGroupRule) -> str:
    """A rule's name: what it says, so that another rule beside it renames none."""
    ports = f"-{rule.get('from_port')}-{rule.get('to_port')}" if "from_port" in rule else ""
    towards = rule.get("towards", "")
    # A class may be called like the cluster; a dot is in no class's name.
    end = rule.get("cidr") or (f".{towards}" if f":{towards}" == CLUSTER else towards.lstrip(":"))
    return f"{rule['protocol'].replace('-1', 'all')}{ports}-{end.replace('/', '-')}"
