"""NET rules about the VPC CNI add-on, which has to enforce NetworkPolicies, and the gate that waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.from_settings import cluster_facts
from agentenv.core.classes.pods.network_gate import GATE, probe_addresses, script
from agentenv.core.values.kubernetes_yaml import ManifestError, values
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, forbid, not_applicable, rule, unknown
from agentenv.policies.view.fields import UNKNOWN, Field, is_one_of, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.references import reference
from agentenv.policies.view.resource import Resource
from agentenv.policies.view.tenants.tenants import tenants

CLUSTER, ADDON = "aws:eks/cluster:Cluster", "aws:eks/addon:Addon"
# Charts and operators of other network agents
OTHER_AGENTS: Final = ("cilium", "calico", "tigera-operator")


@dataclass(frozen=True)
class Cni:
    """The configuration of a cluster's VPC CNI: the add-on or the cluster, and the parsed configuration."""

    cluster: Resource | None
    root: Field
    configuration: Field

    @property
    def title(self) -> str:
        """Return its name for messages."""
        return "the VPC CNI add-on" if self.configuration.path else "a cluster without the VPC CNI add-on"


@rule(
    id="NET-08",
    title="The VPC CNI enforces NetworkPolicies",
    severity="Critical",
    why="If enforcement is off, NetworkPolicies are accepted, stored and ignored.",
    fix='Set the configuration of the vpc-cni add-on to {"enableNetworkPolicy": "true"}.',
    equivalents={"CIS": ("5.4.4",), "AWS": ("EKS best practices: network policy",)},
    applies_to=GRAPH,
    defaults="Off by default. Without the add-on, EKS installs the VPC CNI itself (EKS documents). Auto Mode has its"
    " own agent.",
)
def enforced(graph: Graph) -> Iterator[Outcome]:
    """Check each cluster of the stack."""
    for cni in _cnis(graph):
        if cni.cluster is not None and cni.cluster.at("computeConfig", "enabled").raw is True:
            yield not_applicable(cni.root, "in Auto Mode, the NodeClass configures enforcement")
        elif agent := _other_agent(graph):
            yield not_applicable(agent.root, "another network agent enforces policies")
        else:
            switch = cni.configuration.at("enableNetworkPolicy")
            if switch.unknown:
                yield unknown(switch)
            elif not _true(switch):
                yield fail(switch if cni.configuration.path else cni.root, f"{cni.title} ignores NetworkPolicies")


@rule(
    id="NET-09",
    title="The VPC CNI blocks traffic of new pods until their policies are applied",
    severity="High",
    why="In standard mode, a new pod can reach everything until its policies are applied. This takes a second or more,"
    " which is enough to get the node's credentials.",
    fix='Set the configuration of the vpc-cni add-on to {"env": {"NETWORK_POLICY_ENFORCING_MODE": "strict"}}.',
    equivalents={"AWS": ("EKS best practices: network policy",)},
    applies_to=GRAPH,
    defaults="The mode is standard by default (VPC CNI 1.23, README).",
)
def strict(graph: Graph) -> Iterator[Outcome]:
    """Check clusters that enforce policies; NET-08 is about the others."""
    for cni in _cnis(graph):
        switch, mode = (
            cni.configuration.at("enableNetworkPolicy"),
            cni.configuration.at("env", "NETWORK_POLICY_ENFORCING_MODE"),
        )
        if not cni.configuration.path or (switch.known and not _true(switch)) or switch.missing or _other_agent(graph):
            continue
        yield from forbid(
            mode, lambda value: value != "strict", "new pods can reach everything until their policies are applied"
        )


@rule(
    id="NET-13",
    title="An IPv6 cluster has no IPv4 egress, to which its policies would not apply",
    severity="High",
    why="Pods of an IPv6 cluster can also send IPv4 through their node, and the network agent applies policies only to"
    " their IPv6 addresses.",
    fix='Set the configuration of the vpc-cni add-on to {"env": {"ENABLE_V4_EGRESS": "false"}}.',
    applies_to=GRAPH,
    defaults="A cluster is of IPv4, and one of IPv6 lets pods out by IPv4 by default (EKS documents; VPC CNI README,"
    " ENABLE_V4_EGRESS).",
)
def ipv4_egress(graph: Graph) -> Iterator[Outcome]:
    """Check clusters of the IPv6 family."""
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
            yield fail(switch if cni.configuration.path else family, "its pods have IPv4 egress without policies")


@rule(
    id="NET-22",
    title="Sandboxes wait until their network policies are enforced",
    severity="High",
    why="A policy is enforced some time after a pod starts. Without the gate, code of users runs before that on a cold"
    " start, and can get the credentials of the node.",
    fix=f"Restore the init container `{GATE}` of the class in its templates, as the component SandboxClass creates it.",
    applies_to=GRAPH,
    defaults="Only templates of classes in the stack's settings are checked. Classes on Fargate have no gate, nor have"
    " classes that may reach every address that it could probe.",
)
def gate(graph: Graph) -> Iterator[Outcome]:
    """Check the init containers of templates: the gate, with its own script."""
    settings = graph.context.settings
    if settings is None:
        return
    here = cluster_facts(settings, api=())
    gated = {
        each.name for each in settings.sandbox_classes if probe_addresses(each, here) and each.compute != "fargate"
    }
    for tenant in tenants(graph) if gated else ():
        if tenant.owner.kind != "SandboxTemplate" or tenant.class_name not in {*gated, UNKNOWN}:
            continue
        containers = tenant.pod.at("initContainers")
        found = next((each for each in containers.elements() if each.at("name").raw in (GATE, UNKNOWN)), None)
        if tenant.class_name is UNKNOWN:
            yield unknown(containers, "its class is not known yet")
        elif found is None:
            yield fail(containers, "its pods have no gate that waits for their network policies")
        elif found.unknown or found.at("name").unknown or found.at("command").holds_unknown():
            yield unknown(containers if containers.unknown else found.at("command"))
        elif [scalar(part) for part in found.at("command").elements()] != ["/bin/sh", "-c", script(), GATE]:
            yield fail(found.at("command"), "its gate does not wait for their network policies")


@once_per_graph
def _cnis(graph: Graph) -> list[Cni]:
    """Return one for each cluster, and for each add-on whose cluster is not in the stack."""
    addons = [addon for addon in graph.of_type(ADDON) if addon.at("addonName").raw in (UNKNOWN, "vpc-cni")]
    references = {addon: reference(graph, addon, ("clusterName",), CLUSTER) for addon in addons}
    cnis: list[Cni] = []
    for cluster in graph.of_type(CLUSTER):
        # An add-on with an unknown cluster may be for any; one with an unknown name does not count
        named = [addon for addon in addons if addon.at("addonName").raw == "vpc-cni"]
        own = [addon for addon in named if references[addon].refers_to(cluster) is not False]
        if not own:
            cnis.append(Cni(cluster, cluster.root, Field(cluster.urn, "", {})))
        cnis += [Cni(cluster, addon.root, _configuration(addon)) for addon in own]
    seen = {cni.root.urn for cni in cnis}
    cnis += [Cni(None, addon.root, _configuration(addon)) for addon in addons if addon.urn not in seen]
    return cnis


def _configuration(addon: Resource) -> Field:
    """Parse the configuration, which EKS accepts as JSON or YAML."""
    field = addon.at("configurationValues")
    if not isinstance(field.raw, str):
        return field
    try:
        parsed = next(values(field.raw), None)
    except ManifestError:
        parsed = UNKNOWN
    return Field(field.urn, field.path, {} if parsed is None else parsed)


def _true(field: Field) -> bool:
    return field.raw is True or (isinstance(field.raw, str) and field.raw.lower() == "true")


@once_per_graph
def _other_agent(graph: Graph) -> Resource | None:
    for release in graph.of_type(
        "kubernetes:helm.sh/v3:Release", "kubernetes:helm.sh/v4:Chart", "kubernetes:helm.sh/v3:Chart"
    ):
        chart = release.at("chart").raw
        if isinstance(chart, str) and chart.rpartition("/")[2] in OTHER_AGENTS:
            return release
    for daemon_set in graph.objects("apps", "DaemonSet"):
        if is_one_of(daemon_set.name, {"cilium", "calico-node"}):
            return daemon_set.resource
    return None
