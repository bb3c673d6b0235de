"""NET, security groups: what binds a pod on Fargate, and wherever else pods are put into groups of their own."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Final

from agentenv.core.capabilities.sets.address_ranges import OPEN_ADDRESS_COUNT, is_open_range, parse_network, spans
from agentenv.core.capabilities.sets.boxes import ALL_PORTS, PROTOCOLS, BoxSet, Protocol, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, resources, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.forbidden_addresses import example, forbidden, forbidden_spans
from agentenv.policies.view.tenants.security_groups import (
    GROUPS,
    NEW,
    OLD,
    Passing,
    may_have_more,
    passing,
    pod_groups,
    written_in,
)
from agentenv.policies.view.tenants.tenants import tenants

CLUSTER: Final = "aws:eks/cluster:Cluster"
OPEN: Final = frozenset({"0.0.0.0/0", "::/0"})
# What anybody may ask of a load balancer
WEB: Final = frozenset({(80, 80), (443, 443)})
ECHO: Final = frozenset({"icmp", "icmpv6", "1", "58", 1, 58})
NUMBERS: Final[dict[str, tuple[Protocol, ...]]] = {"tcp": ("TCP",), "6": ("TCP",), "udp": ("UDP",), "17": ("UDP",)}


@rule(
    id="NET-11",
    title="A sandbox on Fargate is in security groups of its own",
    severity="Critical",
    why="No NetworkPolicy is enforced on Fargate: such a sandbox is in the cluster's own group, inside which everything"
    " is open, and out of which everything is.",
    do="Add a SecurityGroupPolicy whose podSelector matches the template's labels, with groups that allow what the"
    " class may reach.",
    equivalents={"AWS": ("EKS documents: AWS Fargate considerations",)},
    about=GRAPH,
    defaults="A pod on Fargate is in the cluster security group where no SecurityGroupPolicy selects it (EKS"
    " documents).",
)
def walled_on_fargate(graph: Graph) -> Iterator[Outcome]:
    """By the selectors of profiles, held against the labels that the pods will have."""
    for tenant in tenants(graph):
        where = on_fargate(graph, tenant)
        if where.answer is False:
            continue
        answers = {one: one.selects(tenant) for one in pod_groups(graph)}
        if True in answers.values():
            continue
        doubt = next((one.owner.at("spec") for one, answer in answers.items() if answer is None), None)
        if where.answer is None and where.because is not None:
            yield unknown(where.because, "whether a sandbox runs on Fargate, in no group of its own, is not known yet")
        elif doubt is not None:
            yield unknown(doubt, "whether it selects a sandbox on Fargate is not known yet")
        else:
            yield fail(
                tenant.root, "runs on Fargate, where no NetworkPolicy binds, and no SecurityGroupPolicy selects it"
            )


@rule(
    id="NET-12",
    title="The security groups of sandboxes are no way out to everywhere",
    severity="High",
    why="Groups only add: one that is open lets the pods out past all the others, to metadata, the VPC and everybody.",
    do="Write an egress rule for each range and port that the class may reach, and none for all protocols or for the"
    " whole address space.",
    equivalents={"Checkov": ("CKV_AWS_382",), "AWS": ("EC2 security group rules",)},
    about=GRAPH,
    defaults="The aws plugin takes AWS's own rule, which lets everything out, away from a group that it makes"
    " (plugin documents, aws.ec2.SecurityGroup).",
)
def open_groups(graph: Graph) -> Iterator[Outcome]:
    """Each group that a SecurityGroupPolicy names, and each of its rules."""
    judged: set[str] = set()
    for pods in pod_groups(graph):
        if pods.ids.missing or (pods.ids.known and not pods.ids.elements()):
            yield fail(pods.ids, "puts pods into no group")
            continue
        found = pods.groups(graph)
        if not found and pods.ids.holds_unknown():
            yield unknown(pods.ids)
        for group in found:
            if group.urn in judged:
                continue
            judged.add(group.urn)
            for one in passing(graph, group, "egress"):
                yield from _open(graph, one)
            if nobody := may_have_more(graph, "egress"):
                yield unknown(nobody, "whose rule it is is not known yet")


@rule(
    id="NET-16",
    title="Sandboxes are not in the cluster's own security group",
    severity="High",
    why="Inside the cluster's group everything is open, from pod to pod and to the control plane, and out of it"
    " everything is: a sandbox in it has no walls, whatever its other groups say.",
    do="Leave the cluster's and the nodes' groups out of the SecurityGroupPolicy, and allow what a sandbox needs of the"
    " cluster by rules.",
    equivalents={"AWS": ("EKS documents: cluster security group",)},
    about=GRAPH,
    defaults="EKS opens the group that it makes for a cluster to itself and to everywhere (EKS documents).",
)
def cluster_group(graph: Graph) -> Iterator[Outcome]:
    """By its id, or by the cluster that the list hangs on."""
    groups = _cluster_groups(graph)
    for pods in pod_groups(graph):
        hangs_on = graph.targets(pods.owner.resource, "spec", CLUSTER)
        named = [one for one in pods.ids.elements() if is_one_of(one, groups)]
        inside = {one: _open_to_itself(graph, one) for one in pods.groups(graph)}
        yield from (answer for answer in inside.values() if isinstance(answer, Outcome))
        shared = [one for one, answer in inside.items() if answer is True]
        if named:
            yield from (fail(one, "is the cluster's own security group") for one in named)
        elif shared:
            yield fail(pods.ids, "has a group inside which everything is open")
        elif hangs_on and pods.ids.holds_unknown():
            # A list that also hangs on groups of its own may have read no more than the cluster's name
            open_ = len([one for one in pods.ids.elements() if one.unknown])
            if pods.ids.unknown and pods.groups(graph):
                yield unknown(pods.ids)
            elif open_ > len(pods.groups(graph)):
                yield fail(pods.ids, "has the cluster's own security group")
        elif pods.ids.holds_unknown() and not pods.groups(graph):
            yield unknown(pods.ids)


@rule(
    id="NET-20",
    title="The internet reaches no port but the web's",
    severity="High",
    why="Whoever finds an open door of a node, of the cluster or of a file system tries it, all day long: logins,"
    " kubelets and file shares are there for those who are known.",
    do="Take 0.0.0.0/0 and ::/0 out of ingress, and name a group or the ranges of those who need it; on ports 80 and"
    " 443 a load balancer may be open.",
    equivalents={
        "Checkov": ("CKV_AWS_24", "CKV_AWS_25", "CKV_AWS_277"),
        "Security Hub": ("EC2.13", "EC2.14", "EC2.18", "EC2.19"),
    },
    about=resources(*GROUPS, OLD, NEW["ingress"]),
    defaults="Nothing is let in where nothing is said, and from a VPC's default group what is in it (EC2 API reference,"
    " CreateSecurityGroup; VPC user guide, default security groups).",
)
def open_to_the_world(resource: Resource) -> Iterator[Outcome]:
    """Each rule by itself, whosever group it is for; an echo is no door."""
    for one in written_in(resource, "ingress"):
        web = is_one_of(one.protocol, NUMBERS) and one.span in WEB
        if web or is_one_of(one.protocol, ECHO):
            continue
        way = [resource.at("type")] if resource.type == OLD else []
        doubts = [*way, *(() if one.every_port else (one.protocol, one.first, one.last))]
        doubt = next((field for field in doubts if field.unknown), None)
        reached = 0
        for cidr in one.ranges:
            network = parse_network(cidr.raw)
            if network is None:
                yield unknown(cidr)
            elif is_open_range(network) and doubt is not None:
                yield unknown(doubt)
            elif is_open_range(network):
                yield fail(one.field, f"lets {network} reach {_ports(one)}")
            elif network.version == 4:
                reached += network.num_addresses
        if reached >= OPEN_ADDRESS_COUNT:
            words = f"lets a quarter of the internet or more reach {_ports(one)}"
            yield fail(one.field, words) if doubt is None else unknown(doubt)


def _ports(one: Passing) -> str:
    if one.every_port:
        return "everything"
    if one.span is None:
        return f"{one.protocol.raw} on ports that nobody can read"
    first, last = one.span
    return f"{one.protocol.raw} {first}" if first == last else f"{one.protocol.raw} {first}-{last}"


def _open(graph: Graph, one: Passing) -> Iterator[Outcome]:
    for cidr in one.ranges:
        if cidr.unknown:
            yield unknown(cidr)
            continue
        every = one.every_port
        if is_one_of(cidr, OPEN) and every is not False:
            yield fail(one.field, "lets everything out to everywhere") if every else unknown(one.protocol)
            continue
        if not _near(graph, cidr):
            continue
        boxes = _boxes(cidr, one)
        hit = {word: boxes & others for word, others in forbidden(graph).items() if boxes & others}
        if hit:
            words = " and ".join(f"{word} ({example(found)})" for word, found in hit.items())
            yield fail(one.field, f"lets sandboxes reach {words}")


def _near(graph: Graph, cidr: Field) -> bool:
    """Whether any address of a range is forbidden; almost none of the many of a class is."""
    try:
        found = ip_network(str(cidr.raw), strict=False)
    except ValueError:
        return False
    return bool(forbidden_spans(graph)[found.version] & Intervals.single(int(found[0]), int(found[-1])))


def _boxes(cidr: Field, one: Passing) -> BoxSet:
    """What a rule allows, by its range and its ports; all ports where they are not known."""
    try:
        text = str(ip_network(str(cidr.raw), strict=False))
    except ValueError:
        return BoxSet()
    span = one.span
    ports = (
        ALL_PORTS
        if one.every_port or span is None
        else Intervals.of([(min(max(span[0], 1), 65535), min(max(span[1], 1), 65535))])
    )
    wanted = NUMBERS.get(str(one.protocol.raw), PROTOCOLS)
    found = [product((version,), wanted, addresses, ports) for version, addresses in spans((text,)).items()]
    return union(found)


def _cluster_groups(graph: Graph) -> frozenset[object]:
    """Ids of the groups that EKS made, as far as they are known."""
    found: set[object] = set()
    for cluster in graph.of_type(CLUSTER):
        config = cluster.outputs.get("vpcConfig")
        if isinstance(config, dict):
            found.add(config.get("clusterSecurityGroupId"))  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]
    return frozenset(one for one in found if isinstance(one, str))


def _open_to_itself(graph: Graph, group: Resource) -> bool | Outcome:
    """Whether all its members may reach each other on everything; what to say where that is not known."""
    doubt: Outcome | bool = False
    for one in passing(graph, group, "ingress"):
        inside = one.field.at("self")
        if inside.raw is not True and not inside.unknown:
            continue
        if one.every_port is True and inside.raw is True:
            return True
        if one.every_port is not False:
            doubt = unknown(inside if inside.unknown else one.protocol)
    return doubt
