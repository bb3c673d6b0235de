"""Compile a class's reach into security groups on Fargate, where NetworkPolicies are not enforced.

The rules of all groups on an interface are additive, so rules that exceed one group's quota are split among several.
The cluster security group is never one of them: its open egress would apply to every class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, DAEMON_PORT, ClusterFacts
from agentenv.core.capabilities.grants import RefusedGrantError
from agentenv.core.capabilities.policies.network_policy import through_proxy
from agentenv.core.capabilities.policies.security_group_rules import GroupRule, group_rules
from agentenv.core.capabilities.sets.boxes import VERSIONS, Version
from agentenv.core.capabilities.sets.reach import NOTHING, Reach

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from agentenv.core.capabilities.sets.pods import Pods


@dataclass(frozen=True)
class Quota:
    """The account's quotas: rules per group in each direction and IP version, and groups per interface."""

    rules: int = 60
    groups: int = 5


DEFAULT_QUOTA = Quota()


@dataclass(frozen=True)
class Platform:
    """The rules that every sandbox on Fargate needs, whatever its capabilities."""

    control_plane: str  # the group of the control plane's interfaces
    probe_ports: tuple[int, ...] = ()
    # The group of the nodes, for classes with a daemon: the gateway and the service run there, in no group of their own
    daemon_callers: str | None = None

    def egress(self) -> tuple[GroupRule, ...]:
        """Return the rule for its kubelet, which shares the sandbox's interface."""
        return (GroupRule("tcp", (443, 443), group=self.control_plane, why="the kubelet of this sandbox"),)

    def ingress(self) -> tuple[GroupRule, ...]:
        """Return the rules for logs and commands through the control plane, for probes, and for the daemon."""
        kubelet = GroupRule("tcp", (10250, 10250), group=self.control_plane, why="logs and commands")
        probes = (GroupRule("tcp", (port, port), group=self.control_plane, why="probes") for port in self.probe_ports)
        if self.daemon_callers is None:
            return (kubelet, *probes)
        why = "the gateway and the workspace service"
        return (kubelet, *probes, GroupRule("tcp", (DAEMON_PORT, DAEMON_PORT), group=self.daemon_callers, why=why))


@dataclass(frozen=True)
class Group:
    """The rules of one security group."""

    egress: tuple[GroupRule, ...]
    ingress: tuple[GroupRule, ...]


def security_groups(
    egress: Reach,
    cluster: ClusterFacts,
    members: Mapping[Pods, str],
    platform: Platform,
    *,
    ingress: Reach = NOTHING,
    quota: Quota = DEFAULT_QUOTA,
) -> tuple[Group, ...]:
    """Return the fewest groups that fit the rules of a class; raise `RefusedGrantError` beyond the quota.

    `members` maps sets of pods to the group that they are in, such as the resolver's pods.
    """
    if ingress.names:
        raise RefusedGrantError("ingress by name", "ranges and pods", "callers have addresses and labels, no names")
    egress_rules = (*platform.egress(), *group_rules(through_proxy(egress, cluster), members))
    ingress_rules = (*platform.ingress(), *group_rules(ingress, members))
    egress_groups, ingress_groups = _divide(egress_rules, quota, "outbound"), _divide(ingress_rules, quota, "inbound")
    count = max(len(egress_groups), len(ingress_groups))
    egress_groups += [()] * (count - len(egress_groups))
    ingress_groups += [()] * (count - len(ingress_groups))
    return tuple(Group(outbound, inbound) for outbound, inbound in zip(egress_groups, ingress_groups, strict=True))


def security_group_policy(class_name: str, group_ids: Iterable[str], name: str = "capabilities") -> dict[str, Any]:
    """Return the SecurityGroupPolicy that assigns a class's pods to exactly its groups."""
    return {
        "apiVersion": "vpcresources.k8s.aws/v1beta1",
        "kind": "SecurityGroupPolicy",
        "metadata": {"name": name, "namespace": f"sandbox-{class_name}", "labels": {CLASS_LABEL: class_name}},
        "spec": {
            "podSelector": {"matchLabels": {CLASS_LABEL: class_name}},
            "securityGroups": {"groupIds": list(group_ids)},
        },
    }


def _divide(rules: tuple[GroupRule, ...], quota: Quota, direction: str) -> list[tuple[GroupRule, ...]]:
    """Split the rules into the fewest groups; AWS counts IPv4 and IPv6 separately, and group references in both."""
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
        candidates = (
            group for group in groups if all(_fits(rule, group, ip_version, quota) for ip_version in VERSIONS)
        )
        group = next(candidates, None)
        if group is None:
            groups.append(group := [])
        group.append(rule)
    return [tuple(group) for group in groups]


def _fits(rule: GroupRule, group: list[GroupRule], version: Version, quota: Quota) -> bool:
    return not _counts(rule, version) or sum(_counts(other, version) for other in group) < quota.rules


def _counts(rule: GroupRule, version: Version) -> bool:
    return rule.cidr is None or (":" in rule.cidr) == (version == 6)
