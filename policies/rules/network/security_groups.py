"""NET rules about security groups, which isolate pods on Fargate and others with a SecurityGroupPolicy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentenv.core.capabilities.sets.address_ranges import OPEN_ADDRESS_COUNT, is_open_range, parse_network, spans
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, BoxSet, Protocol, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.unknown_values import as_mapping
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.forbidden_addresses import forbidden_part, forbidden_spans
from agentenv.policies.view.tenants.security_groups import (
    COMBINED_RULE,
    GROUPS,
    SEPARATE_RULES,
    GroupRule,
    group_rules,
    pod_groups,
    rule_of_unknown_group,
    rules_declared_in,
)
from agentenv.policies.view.tenants.tenants import tenants

CLUSTER: Final = "aws:eks/cluster:Cluster"
ALL_ADDRESSES: Final = frozenset({"0.0.0.0/0", "::/0"})
# Ports that a load balancer may open to everybody
WEB: Final = frozenset({(80, 80), (443, 443)})
ECHO: Final = frozenset({"icmp", "icmpv6", "1", "58", 1, 58})
PROTOCOL_NAMES: Final[dict[str, tuple[Protocol, ...]]] = {
    "tcp": ("TCP",),
    "6": ("TCP",),
    "udp": ("UDP",),
    "17": ("UDP",),
}


@rule(
    id="NET-11",
    title="Sandboxes on Fargate have their own security groups",
    severity="Critical",
    why="NetworkPolicies do not apply on Fargate. Without its own groups, a sandbox is in the cluster security group,"
    " which allows all traffic among its members and all egress.",
    fix="Add a SecurityGroupPolicy whose podSelector matches the labels of the template, with groups that allow only"
    " what the class may reach.",
    equivalents={"AWS": ("EKS documents: AWS Fargate considerations",)},
    applies_to=GRAPH,
    defaults="A pod on Fargate is in the cluster security group if no SecurityGroupPolicy selects it (EKS documents).",
)
def fargate_groups(graph: Graph) -> Iterator[Outcome]:
    """Compare the selectors of Fargate profiles with the labels that the pods will have."""
    for tenant in tenants(graph):
        fargate = on_fargate(graph, tenant)
        if fargate.answer is False:
            continue
        answers = {pods: pods.selects(tenant) for pods in pod_groups(graph)}
        if True in answers.values():
            continue
        doubt = next((pods.owner.at("spec") for pods, answer in answers.items() if answer is None), None)
        if fargate.answer is None and fargate.reason is not None:
            yield unknown(fargate.reason, "whether a sandbox without its own groups runs on Fargate is not known yet")
        elif doubt is not None:
            yield unknown(doubt, "whether it selects a sandbox on Fargate is not known yet")
        else:
            yield fail(
                tenant.root,
                "runs on Fargate, where NetworkPolicies do not apply, and no SecurityGroupPolicy selects it",
            )


@rule(
    id="NET-12",
    title="Security groups of sandboxes restrict egress",
    severity="High",
    why="Groups only add to each other. One open group lets the pods reach metadata, the VPC and the internet"
    " regardless of the others.",
    fix="Write an egress rule for each range and port that the class may reach, and none for all protocols or all"
    " addresses.",
    equivalents={"Checkov": ("CKV_AWS_382",), "AWS": ("EC2 security group rules",)},
    applies_to=GRAPH,
    defaults="The aws provider removes AWS's default rule, which allows all egress, from a group that it creates"
    " (provider documents, aws.ec2.SecurityGroup).",
)
def open_groups(graph: Graph) -> Iterator[Outcome]:
    """Check each rule of each group in a SecurityGroupPolicy."""
    checked: set[str] = set()
    for pods in pod_groups(graph):
        if pods.ids.missing or (pods.ids.known and not pods.ids.elements()):
            yield fail(pods.ids, "assigns no group to pods")
            continue
        groups = pods.groups(graph)
        if not groups and pods.ids.holds_unknown():
            yield unknown(pods.ids)
        for group in groups:
            if group.urn in checked:
                continue
            checked.add(group.urn)
            for group_rule in group_rules(graph, group, "egress"):
                yield from _open_egress(graph, group_rule)
            if field := rule_of_unknown_group(graph, "egress"):
                yield unknown(field, "the group of the rule is not known yet")


@rule(
    id="NET-16",
    title="Sandboxes are not in the cluster security group",
    severity="High",
    why="The cluster security group allows all traffic among its members, to the control plane, and all egress. Other"
    " groups cannot restrict that.",
    fix="Remove the groups of the cluster and the nodes from the SecurityGroupPolicy, and allow what a sandbox needs by"
    " rules.",
    equivalents={"AWS": ("EKS documents: cluster security group",)},
    applies_to=GRAPH,
    defaults="EKS opens the group that it creates for a cluster to itself, and allows all egress (EKS documents).",
)
def cluster_group(graph: Graph) -> Iterator[Outcome]:
    """Compare ids, and the dependencies of unknown ids."""
    cluster_group_ids = _cluster_group_ids(graph)
    for pods in pod_groups(graph):
        clusters = graph.targets(pods.owner.resource, "spec", CLUSTER)
        named = [element for element in pods.ids.elements() if is_one_of(element, cluster_group_ids)]
        answers = [_allows_members(graph, group) for group in pods.groups(graph)]
        yield from (answer for answer in answers if isinstance(answer, Outcome))
        if named:
            yield from (fail(element, "is the cluster security group") for element in named)
        elif True in answers:
            yield fail(pods.ids, "has a group that allows all traffic among its members")
        elif clusters and pods.ids.holds_unknown():
            # A list that also depends on other groups may use only the name of the cluster
            unknown_ids = len([element for element in pods.ids.elements() if element.unknown])
            if pods.ids.unknown and pods.groups(graph):
                yield unknown(pods.ids)
            elif unknown_ids > len(pods.groups(graph)):
                yield fail(pods.ids, "has the cluster security group")
        elif pods.ids.holds_unknown() and not pods.groups(graph):
            yield unknown(pods.ids)


@rule(
    id="NET-20",
    title="The internet reaches only ports 80 and 443",
    severity="High",
    why="Open ports of a node, a cluster or a file system are attacked all the time. Logins, kubelets and file shares"
    " are only for known clients.",
    fix="Remove 0.0.0.0/0 and ::/0 from ingress, and name a group or the ranges of the clients. A load balancer may be"
    " open on ports 80 and 443.",
    equivalents={
        "Checkov": ("CKV_AWS_24", "CKV_AWS_25", "CKV_AWS_277"),
        "Security Hub": ("EC2.13", "EC2.14", "EC2.18", "EC2.19"),
    },
    applies_to=resources(*GROUPS, COMBINED_RULE, SEPARATE_RULES["ingress"]),
    defaults="No ingress by default, and for the default group of a VPC, ingress from itself (EC2 API reference,"
    " CreateSecurityGroup; VPC user guide, default security groups).",
)
def open_to_internet(resource: Resource) -> Iterator[Outcome]:
    """Check each rule, for any group. ICMP is allowed."""
    for group_rule in rules_declared_in(resource, "ingress"):
        protocol = group_rule.protocol
        web = is_one_of(protocol, PROTOCOL_NAMES) and group_rule.port_range in WEB
        if web or is_one_of(protocol, ECHO):
            continue
        fields = [resource.at("type")] if resource.type == COMBINED_RULE else []
        fields += [] if group_rule.all_ports else [protocol, group_rule.first, group_rule.last]
        doubt = next((field for field in fields if field.unknown), None)
        addresses = 0
        for cidr in group_rule.ranges:
            network = parse_network(cidr.raw)
            if network is None:
                yield unknown(cidr)
            elif is_open_range(network) and doubt is not None:
                yield unknown(doubt)
            elif is_open_range(network):
                yield fail(group_rule.field, f"allows {network} to reach {_ports(group_rule)}")
            elif network.version == 4:
                addresses += network.num_addresses
        if addresses >= OPEN_ADDRESS_COUNT:
            message = f"allows a quarter of the internet or more to reach {_ports(group_rule)}"
            yield fail(group_rule.field, message) if doubt is None else unknown(doubt)


def _ports(group_rule: GroupRule) -> str:
    if group_rule.all_ports:
        return "all ports"
    if group_rule.port_range is None:
        return f"{group_rule.protocol.raw} on invalid ports"
    first, last = group_rule.port_range
    return f"{group_rule.protocol.raw} {first}" if first == last else f"{group_rule.protocol.raw} {first}-{last}"


def _open_egress(graph: Graph, group_rule: GroupRule) -> Iterator[Outcome]:
    for cidr in group_rule.ranges:
        if cidr.unknown:
            yield unknown(cidr)
            continue
        all_ports = group_rule.all_ports
        if is_one_of(cidr, ALL_ADDRESSES) and all_ports is not False:
            yield fail(group_rule.field, "allows all egress") if all_ports else unknown(group_rule.protocol)
        elif _has_forbidden_address(graph, cidr) and (part := forbidden_part(graph, _boxes(cidr, group_rule))):
            yield fail(group_rule.field, f"allows sandboxes to reach {part}")


def _has_forbidden_address(graph: Graph, cidr: Field) -> bool:
    """Return whether a range has a forbidden address. This is a quick check, because almost none has."""
    network = parse_network(str(cidr.raw))
    if network is None:
        return False
    return bool(forbidden_spans(graph)[network.version] & Intervals.single(int(network[0]), int(network[-1])))


def _boxes(cidr: Field, group_rule: GroupRule) -> BoxSet:
    """Return what a rule allows; all ports if they are not known."""
    network = parse_network(str(cidr.raw))
    if network is None:
        return BoxSet()
    port_range = group_rule.port_range
    ports = (
        ALL_PORTS
        if group_rule.all_ports or port_range is None
        else Intervals.of([(min(max(port_range[0], 1), 65535), min(max(port_range[1], 1), 65535))])
    )
    protocols = PROTOCOL_NAMES.get(str(group_rule.protocol.raw), PROTOCOLS)
    by_version = spans((str(network),)).items()
    return union([product((version,), protocols, addresses, ports) for version, addresses in by_version])


def _cluster_group_ids(graph: Graph) -> frozenset[object]:
    """Return the known ids of the groups that EKS created for clusters."""
    configs = [as_mapping(cluster.outputs.get("vpcConfig")) or {} for cluster in graph.of_type(CLUSTER)]
    ids = [config.get("clusterSecurityGroupId") for config in configs]
    return frozenset(each for each in ids if isinstance(each, str))


def _allows_members(graph: Graph, group: Resource) -> bool | Outcome:
    """Return whether a group allows all traffic among its members; an unknown outcome if that is not known."""
    result: Outcome | bool = False
    for group_rule in group_rules(graph, group, "ingress"):
        itself = group_rule.field.at("self")
        if itself.raw is not True and not itself.unknown:
            continue
        if group_rule.all_ports is True and itself.raw is True:
            return True
        if group_rule.all_ports is not False:
            result = unknown(itself if itself.unknown else group_rule.protocol)
    return result
