"""The security groups of a class on Fargate, where no NetworkPolicy is enforced: what they hold, and what they cannot.

The rules of all groups on an interface add up, so that what does not fit into one group is divided among several. The
cluster's own group is never among them: its open egress would be added to every class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, ClusterFacts
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.policies.network_policy import through_proxy
from agentenv.core.capabilities.policies.security_group_rules import GroupRule, group_rules
from agentenv.core.capabilities.sets.boxes import VERSIONS, Version
from agentenv.core.capabilities.sets.reach import NOTHING, Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentenv.core.capabilities.sets.pods import Pods

# What passes whatever the rules say: AWS answers these from the host, and Fargate's own agent shares the interface.
UNFILTERED = (
    "the VPC's DNS resolver (its second address, and 169.254.169.253): only Route 53's DNS Firewall closes it",
    "the time service (169.254.169.123)",
    "the API server's private address on TCP port 443, which the sandbox's kubelet reaches through the same interface",
)


@dataclass(frozen=True)
class Quota:
    """What the account allows: rules a group in each direction and version, and groups an interface."""

    rules: int = 60
    groups: int = 5


DEFAULT_QUOTA = Quota()


@dataclass(frozen=True)
class Platform:
    """What every sandbox on Fargate needs, whatever its capabilities."""

    control_plane: str  # the group of the control plane's interfaces
    storage: str | None = None  # the group of the mount targets, for classes with a volume
    probe_ports: tuple[int, ...] = ()

    def egress(self) -> tuple[GroupRule, ...]:
        """Its kubelet, which shares the sandbox's interface, and its volume."""
        found = [GroupRule("tcp", (443, 443), group=self.control_plane, why="the kubelet of this sandbox")]
        if self.storage is not None:
            found.append(GroupRule("tcp", (2049, 2049), group=self.storage, why="the volume of this sandbox"))
        return tuple(found)

    def ingress(self) -> tuple[GroupRule, ...]:
        """Logs and commands through the control plane, and probes."""
        kubelet = GroupRule("tcp", (10250, 10250), group=self.control_plane, why="logs and commands")
        probes = (GroupRule("tcp", (port, port), group=self.control_plane, why="probes") for port in self.probe_ports)
        return (kubelet, *probes)


@dataclass(frozen=True)
class Group:
    """The rules of one security group."""

    egress: tuple[GroupRule, ...]
    ingress: tuple[GroupRule, ...]


def security_groups(
    egress: Reach,
    here: ClusterFacts,
    members: Mapping[Pods, str],
    platform: Platform,
    *,
    ingress: Reach = NOTHING,
    quota: Quota = DEFAULT_QUOTA,
) -> tuple[Group, ...]:
    """The groups of a class, as few as hold its rules; `RefusedGrantError` beyond the quota, with the count.

    `members` are the groups that stand for sets of pods, such as the one that the resolver's pods are in.
    """
    if ingress.names:
        raise RefusedGrantError("ingress by name", "ranges and pods", "callers have addresses and labels, no names")
    out = (*platform.egress(), *group_rules(through_proxy(egress, here), members))
    back = (*platform.ingress(), *group_rules(ingress, members))
    outward, inward = _divided(out, quota, "outbound"), _divided(back, quota, "inbound")
    count = max(len(outward), len(inward))
    outward += [()] * (count - len(outward))
    inward += [()] * (count - len(inward))
    return tuple(Group(mine, theirs) for mine, theirs in zip(outward, inward, strict=True))


def security_group_policy(class_name: str, group_ids: Iterable[str], name: str = "capabilities") -> dict[str, Any]:
    """The object that puts a class's pods into its groups, and into no other."""
    return {
        "apiVersion": "vpcresources.k8s.aws/v1beta1",
        "kind": "SecurityGroupPolicy",
        "metadata": {"name": name, "namespace": f"sandbox-{class_name}", "labels": {CLASS_LABEL: class_name}},
        "spec": {
            "podSelector": {"matchLabels": {CLASS_LABEL: class_name}},
            "securityGroups": {"groupIds": list(group_ids)},
        },
    }


def _divided(rules: tuple[GroupRule, ...], quota: Quota, direction: str) -> list[tuple[GroupRule, ...]]:
    """The rules over as few groups as hold them; AWS counts IPv4 and IPv6 apart, and a rule towards a group in both."""
    counts = {version: sum(_counts(rule, version) for rule in rules) for version in VERSIONS}
    version, count = max(counts.items(), key=lambda item: item[1])
    if count > quota.rules * quota.groups:
        raise RefusedGrantError(
            f"{count} {direction} rules for IPv{version}",
            f"{quota.rules * quota.groups}, which is {quota.rules} in each of {quota.groups} groups",
            "grant fewer or larger ranges, run the class on karpenter, or raise the quota of rules a security group",
        )
    groups: list[list[GroupRule]] = [[]]
    for rule in rules:
        room = (group for group in groups if all(_fits(rule, group, one, quota) for one in VERSIONS))
        group = next(room, None)
        if group is None:
            groups.append(group := [])
        group.append(rule)
    return [tuple(group) for group in groups]


def _fits(rule: GroupRule, group: list[GroupRule], version: Version, quota: Quota) -> bool:
    return not _counts(rule, version) or sum(_counts(other, version) for other in group) < quota.rules


def _counts(rule: GroupRule, version: Version) -> bool:
    return rule.cidr is None or (":" in rule.cidr) == (version == 6)
