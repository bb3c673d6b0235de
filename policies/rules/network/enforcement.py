"""NET, the cluster's part: a NetworkPolicy binds nobody where the network add-on does not enforce it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.core.values.kubernetes_yaml import ManifestError, values
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, not_applicable, rule, unknown
from agentenv.policies.view.fields import UNKNOWN, Field, is_one_of
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.references import reference
from agentenv.policies.view.resource import Resource

CLUSTER, ADDON = "aws:eks/cluster:Cluster", "aws:eks/addon:Addon"
# Charts and operators that bring another network agent, whose settings are its own
OTHERS: Final = ("cilium", "calico", "tigera-operator")


@dataclass(frozen=True)
class Cni:
    """How one cluster's network add-on is configured: where it says so, and what it says."""

    cluster: Resource | None
    place: Field
    configuration: Field

    @property
    def by_name(self) -> str:
        """What a message calls it."""
        return "the VPC CNI add-on" if self.configuration.path else "a cluster without the VPC CNI add-on"


@rule(
    id="NET-08",
    title="The VPC CNI enforces NetworkPolicies",
    severity="Critical",
    why="With the switch off every NetworkPolicy is accepted, stored and ignored.",
    do='Give the vpc-cni add-on the configuration {"enableNetworkPolicy": "true"}.',
    equivalents={"CIS": ("5.4.4",), "AWS": ("EKS best practices: network policy",)},
    about=GRAPH,
    defaults="Off where nothing is said, and EKS installs the VPC CNI by itself where there is no add-on (EKS"
    " documents). Auto Mode has its own agent.",
)
def enforced(graph: Graph) -> Iterator[Outcome]:
    """Each cluster of the stack by itself."""
    for cni in _cnis(graph):
        if cni.cluster is not None and cni.cluster.at("computeConfig", "enabled").raw is True:
            yield not_applicable(cni.place, "Auto Mode: NodeClass says what is enforced")
        elif other := _other_agent(graph):
            yield not_applicable(other.root, "another network agent enforces policies")
        else:
            switch = cni.configuration.at("enableNetworkPolicy")
            if switch.unknown:
                yield unknown(switch)
            elif not _true(switch):
                yield fail(switch if cni.configuration.path else cni.place, f"{cni.by_name} ignores NetworkPolicies")


@rule(
    id="NET-09",
    title="The VPC CNI lets nothing through before policies are found",
    severity="High",
    why="In the standard mode a new pod may reach everything until its policies have been read, which takes a second or"
    " more: enough to fetch a node's credentials.",
    do='Give the vpc-cni add-on {"env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}.',
    equivalents={"AWS": ("EKS best practices: network policy",)},
    about=GRAPH,
    defaults="The mode is standard where nothing is said (VPC CNI 1.23, README).",
)
def strict(graph: Graph) -> Iterator[Outcome]:
    """Only where policies are enforced at all: otherwise the other rule speaks."""
    for cni in _cnis(graph):
        switch, mode = (
            cni.configuration.at("enableNetworkPolicy"),
            cni.configuration.at("env", "NETWORK_POLICY_ENFORCING_MODE"),
        )
        if not cni.configuration.path or (switch.known and not _true(switch)) or switch.missing or _other_agent(graph):
            continue
        if mode.unknown:
            yield unknown(mode)
        elif mode.raw != "strict":
            yield fail(mode, "new pods are open until their policies are found")


@rule(
    id="NET-13",
    title="A cluster of IPv6 has no way out by IPv4 beside its policies",
    severity="High",
    why="Pods of an IPv6 cluster are given an IPv4 way out through their node, and the network agent holds policies"
    " against their IPv6 addresses only.",
    do='Give the vpc-cni add-on {"env": {"ENABLE_V4_EGRESS": "false"}}.',
    about=GRAPH,
    defaults="A cluster is of IPv4, and one of IPv6 lets pods out by IPv4 where nothing is said (EKS documents; VPC CNI"
    " README, ENABLE_V4_EGRESS).",
)
def second_way_out(graph: Graph) -> Iterator[Outcome]:
    """By the family of the cluster."""
    for cni in _cnis(graph):
        if cni.cluster is None:
            continue
        family = cni.cluster.at("kubernetesNetworkConfig", "ipFamily")
        switch = cni.configuration.at("env", "ENABLE_V4_EGRESS")
        closed = switch.known and str(switch.raw).lower() == "false"
        if closed or family.missing or (family.known and family.raw != "ipv6"):
            continue
        if family.unknown or switch.unknown:
            yield unknown(family if family.unknown else switch)
        else:
            yield fail(switch if cni.configuration.path else family, "its pods have a way out that no policy binds")


@once_per_graph
def _cnis(graph: Graph) -> list[Cni]:
    """One for each cluster, and for each add-on whose cluster is not of the stack."""
    addons = [
        one for one in graph.of_type(ADDON) if one.at("addonName").unknown or one.at("addonName").raw == "vpc-cni"
    ]
    named = {addon: reference(graph, addon, ("clusterName",), CLUSTER) for addon in addons}
    found: list[Cni] = []
    for cluster in graph.of_type(CLUSTER):
        mine = [addon for addon in addons if _of(named[addon].names(cluster), addon)]
        if not mine:
            found.append(Cni(cluster, cluster.root, Field(cluster.urn, "", {})))
        found += [Cni(cluster, addon.root, _configuration(addon)) for addon in mine]
    seen = {cni.place.urn for cni in found}
    found += [Cni(None, one.root, _configuration(one)) for one in addons if one.urn not in seen]
    return found


def _of(answer: bool | None, addon: Resource) -> bool:
    """An add-on whose name is not known counts as none; one whose cluster is not known may be any's."""
    return answer is not False and addon.at("addonName").raw == "vpc-cni"


def _configuration(addon: Resource) -> Field:
    """EKS takes it as JSON or as YAML."""
    field = addon.at("configurationValues")
    if not isinstance(field.raw, str):
        return field
    try:
        read = next(values(field.raw), None)
    except ManifestError:
        read = UNKNOWN
    return Field(field.urn, field.path, {} if read is None else read)


def _true(field: Field) -> bool:
    return field.raw is True or (isinstance(field.raw, str) and field.raw.lower() == "true")


@once_per_graph
def _other_agent(graph: Graph) -> Resource | None:
    for one in graph.of_type(
        "kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart"
    ):
        chart = one.at("chart").raw
        if isinstance(chart, str) and chart.rpartition("/")[2] in OTHERS:
            return one
    for thing in graph.objects("apps", "DaemonSet"):
        if is_one_of(thing.name, {"cilium", "calico-node"}):
            return thing.resource
    return None
