"""NET rules about egress: policies must select every sandbox, and must not allow forbidden destinations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.sets.address_ranges import METADATA, all_addresses, spans
from agentenv.core.capabilities.sets.boxes import TCP_AND_UDP, VERSIONS, BoxSet, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import ALL_POD_PORTS, NAMESPACE_NAME, PodPorts
from agentenv.core.capabilities.sets.reach import Bounds
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, not_applicable, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.forbidden_addresses import (
    DNS,
    all_forbidden,
    example_range,
    forbidden_part,
    possible_vpc,
    resolvers,
)
from agentenv.policies.view.tenants.granted import granted_by_settings
from agentenv.policies.view.tenants.namespaces import Labels, find_namespace
from agentenv.policies.view.tenants.other_policies import other_policies
from agentenv.policies.view.tenants.reach import (
    DIRECTIONS,
    Policy,
    applies_to_tenants,
    is_covered,
    other_policy,
    policies,
    policies_in,
)
from agentenv.policies.view.tenants.tenants import Tenant, tenants, tier_of

# A name that nothing has, for namespaces and classes that the stack does not declare
_NAME = "any-other"
_ANY_NAMESPACE = {NAMESPACE_NAME: _NAME}
RESOLVER_LABEL = ("pod", "k8s-app")
CREDENTIALS = product((4,), ("TCP",), spans(METADATA[:1])[4], Intervals.single(80))
_DNS_ANYWHERE = union([product((version,), TCP_AND_UDP, all_addresses()[version], DNS) for version in VERSIONS])


@rule(
    id="NET-01",
    title="NetworkPolicies select every sandbox in both directions",
    severity="Critical",
    why="A pod that no NetworkPolicy selects can reach the whole network and be reached from it.",
    fix="Declare a NetworkPolicy with both policyTypes in the namespace of the sandbox, which selects the labels of the"
    " template's pods. Or set networkPolicyManagement to Managed.",
    equivalents={"CIS": ("5.3.2",), "Kyverno": ("add-networkpolicy",)},
    applies_to=GRAPH,
    defaults="A pod that no policy selects is not isolated (Kubernetes documents, Network Policies). A SandboxTemplate"
    " is Managed by default; a bare Sandbox has no policy (agent-sandbox v1.0.3).",
)
def selected_by_policies(graph: Graph) -> Iterator[Outcome]:
    """Check that a policy selects each pod. NET-11 is about pods on Fargate."""
    for tenant in tenants(graph):
        if on_fargate(graph, tenant).answer:
            yield not_applicable(tenant.root, "runs on Fargate, where NetworkPolicies do not apply")
            continue
        management = tenant.owner.at("spec", "networkPolicyManagement")
        if tenant.owner.kind == "SandboxTemplate" and management.unknown:
            yield unknown(management)
            continue
        answers = [is_covered(graph, tenant, direction) for direction in DIRECTIONS]
        same = answers[0][0] is answers[1][0]
        for (answer, doubt), direction in zip(answers, DIRECTIONS, strict=True):
            if answer:
                continue
            if (undecided := doubt or other_policy(graph, tenant, direction)) is not None:
                yield unknown(undecided, "whether it selects every sandbox is not known")
            else:
                open_directions = "all egress and ingress is" if same else f"all {direction.lower()} is"
                yield fail(tenant.root, f"no NetworkPolicy selects its pods: {open_directions} allowed")
            if same:
                break


@rule(
    id="NET-02",
    title="Sandboxes cannot reach instance metadata, the VPC, Services or other pods",
    severity="Critical",
    why="Instance metadata returns the node's credentials. The ranges of the VPC, of Services and of pods contain the"
    " API server, databases and other tenants.",
    fix="Exclude 169.254.0.0/16, fd00:ec2::/32, 100.64.0.0/10 and the private ranges from every ipBlock with `except`,"
    " and select pods with selectors.",
    equivalents={"AWS": ("EKS best practices: restrict access to the instance profile",)},
    applies_to=GRAPH,
    defaults="The controller's policy for a SandboxTemplate without networkPolicy allows 100.64.0.0/10 (agent-sandbox"
    " v1.0.3). If the VPC is not known, any private range may be its range. Services of EKS have 172.20.0.0/16 or"
    " 10.100.0.0/16 by default (EKS documents).",
)
def forbidden_addresses(graph: Graph) -> Iterator[Outcome]:
    """Check each egress rule by itself, because policies only add to each other.

    A policy that may not be for sandboxes must only exclude instance metadata. What a policy of an administrator
    allows, no NetworkPolicy denies.
    """
    for policy in policies(graph):
        for field, bounds in policy.egress_rules if applies_to_tenants(graph, policy) is None else ():
            if bounds.least.boxes & CREDENTIALS:
                yield fail(field, f"allows pods to reach instance metadata ({METADATA[0]})")
            elif bounds.unknown and bounds.most.boxes & CREDENTIALS:
                yield _doubt(field, bounds)
    yield from _allowed_by_admins(graph)
    for field, bounds in _egress(graph):
        if bounds.least.boxes & all_forbidden(graph):
            yield fail(field, f"allows sandboxes to reach {forbidden_part(graph, bounds.least.boxes)}")
        elif bounds.unknown and bounds.most.boxes & all_forbidden(graph):
            yield _doubt(field, bounds)
        elif (vpc := possible_vpc(graph)) is not None and vpc[1] & bounds.least.boxes:
            reason = "is not known yet" if vpc[0] else "neither the stack nor the configuration has"
            yield unknown(vpc[0] or field, f"whether a policy reaches the VPC depends on its range, which {reason}")


def _allowed_by_admins(graph: Graph) -> Iterator[Outcome]:
    for policy in other_policies(graph):
        if not any(policy.may_select(graph, tenant.namespace, tenant.labels) for tenant in tenants(graph)):
            continue
        for field, bounds in policy.allowed_egress():
            if bounds is None:
                yield fail(field, "allows sandboxes to reach nodes, whatever NetworkPolicies deny")
            elif bounds.least.boxes & all_forbidden(graph):
                yield fail(field, f"allows sandboxes to reach {forbidden_part(graph, bounds.least.boxes)}")
            elif bounds.unknown and bounds.most.boxes & all_forbidden(graph):
                yield _doubt(field, bounds)


@rule(
    id="NET-03",
    title="Egress rules name their destinations and ports",
    severity="High",
    why="A rule without `to` allows every destination, and a rule without `ports` allows every port.",
    fix="List both `to` and `ports` in every egress rule.",
    applies_to=GRAPH,
    defaults="A missing or empty `to` allows all destinations, and missing or empty `ports` allow all ports (Kubernetes"
    " API reference, NetworkPolicyEgressRule).",
)
def incomplete_egress_rules(graph: Graph) -> Iterator[Outcome]:
    """Check each rule. A policy for the platform's pods may omit one of both."""
    for policy in policies(graph):
        for_tenants = applies_to_tenants(graph, policy)
        if for_tenants is False or policy.default or policy.governs("Egress") is False:
            continue
        granted = _granted_rules(graph, policy)
        for egress in policy.spec.at("egress").elements():
            if egress.path in granted:
                continue
            missing = [key for key in ("to", "ports") if not egress.at(key).unknown and not egress.at(key).elements()]
            unknown_keys = [key for key in ("to", "ports") if egress.at(key).unknown]
            if for_tenants or len([*missing, *unknown_keys]) == 2:
                yield from (unknown(egress.at(key)) for key in unknown_keys)
            # An empty rule allows everything, for any pods
            if missing and (for_tenants or len(missing) == 2):
                yield fail(egress, f"an egress rule without {' and without '.join(f'`{key}`' for key in missing)}")


@rule(
    id="NET-04",
    title="Sandboxes query only the configured DNS resolvers",
    severity="High",
    why="A sandbox that can send to port 53 of any address can bypass all other rules by tunnelling data in DNS"
    " queries.",
    fix="Allow port 53 only to the cluster's resolver (namespace kube-system, k8s-app kube-dns), and no range on all"
    " ports.",
    applies_to=GRAPH,
    defaults="The default policy of templates allows all ports of the internet, including 53 (agent-sandbox v1.0.3).",
)
def any_resolver(graph: Graph) -> Iterator[Outcome]:
    """Check port 53 of other addresses than the resolvers', and of pods in any namespace."""
    for field, bounds in _egress(graph):
        beyond = _DNS_ANYWHERE - resolvers(graph)
        if hit := bounds.least.boxes & beyond:
            yield fail(field, f"allows sandboxes to send DNS queries to {example_range(hit)}")
        elif any(_allows_any_resolver(entry) for entry in bounds.least.pod_ports - ALL_POD_PORTS):
            yield fail(field, "allows sandboxes to send DNS queries to pods in every namespace")
        elif bounds.unknown and bounds.most.boxes & beyond:
            yield _doubt(field, bounds)


@rule(
    id="NET-05",
    title="Untrusted sandboxes cannot look up names of the cluster",
    severity="Medium",
    why="The cluster's resolver answers for the Services of all namespaces, which shows a sandbox what it could"
    " attack.",
    fix="Set dnsPolicy to None with other resolvers in dnsConfig, or use another tier if names of the cluster are"
    " needed.",
    applies_to=GRAPH,
    defaults="dnsPolicy is ClusterFirst by default (Kubernetes API reference). A template with a managed policy and no"
    " dnsPolicy gets 8.8.8.8 and 1.1.1.1 (agent-sandbox v1.0.3).",
)
def cluster_names(graph: Graph) -> Iterator[Outcome]:
    """Check the DNS policy. Pods on Fargate may need the cluster's resolver, and their groups limit them."""
    for tenant in tenants(graph):
        tier, policy = tier_of(graph, tenant), tenant.pod.at("dnsPolicy")
        if (tier.known and tier.raw != "untrusted") or tier.missing or on_fargate(graph, tenant).answer:
            continue
        if policy.missing and any(
            each.managed and each.selects(tenant) for each in policies_in(graph, tenant.namespace)
        ):
            continue
        if policy.known and not is_one_of(policy, {"ClusterFirst", "ClusterFirstWithHostNet"}):
            continue
        if tier.unknown or policy.unknown:
            yield unknown(policy if policy.unknown else tier)
        else:
            yield fail(policy, "an untrusted sandbox uses the cluster's resolver")


@rule(
    id="NET-17",
    title="Egress rules do not allow the pods of every namespace",
    severity="High",
    why="A selector that matches every namespace lets one tenant reach all others and the platform's pods.",
    fix="Select the namespace by its label kubernetes.io/metadata.name, and the pods by their labels.",
    applies_to=GRAPH,
    defaults="An empty selector matches everything (Kubernetes API reference, LabelSelector).",
)
def every_namespace(graph: Graph) -> Iterator[Outcome]:
    """Check whether a peer selects pods of any other namespace, or sandboxes of another one."""
    for policy in _tenant_policies(graph):
        for egress in policy.spec.at("egress").elements() if not policy.default else []:
            for peer in egress.at("to").elements():
                if (selector := peer.at("namespaceSelector")).missing:
                    continue
                if selector.holds_unknown() or peer.at("podSelector").holds_unknown():
                    yield unknown(selector if selector.holds_unknown() else peer.at("podSelector"))
                elif _selects(selector, _ANY_NAMESPACE) and _selects(peer.at("podSelector"), {}):
                    yield fail(selector, "selects the pods of every namespace")
                elif _selects_other_sandboxes(graph, policy, selector, peer.at("podSelector")):
                    yield fail(selector, "selects sandboxes of other namespaces")


def _selects(selector: Field, labels: Labels) -> bool:
    return selector.missing or matches(selector.raw, labels) is True


def _selects_other_sandboxes(graph: Graph, policy: Policy, namespaces: Field, pods: Field) -> bool:
    """Return whether selectors match a sandbox of another namespace in the stack, or of a class that may be added."""
    if _selects(namespaces, {**_ANY_NAMESPACE, CLASS_LABEL: _NAME}) and _selects(pods, {CLASS_LABEL: _NAME}):
        return True
    return any(_is_other_sandbox(graph, policy, tenant, namespaces, pods) for tenant in tenants(graph))


def _is_other_sandbox(graph: Graph, policy: Policy, tenant: Tenant, namespaces: Field, pods: Field) -> bool:
    space = find_namespace(graph, tenant.namespace)
    if space is None or policy.namespace in {UNKNOWN, tenant.namespace}:
        return False
    return _selects(namespaces, space.labels) and _selects(pods, tenant.labels)


def _tenant_policies(graph: Graph) -> Iterator[Policy]:
    return (policy for policy in policies(graph) if applies_to_tenants(graph, policy))


def _egress(graph: Graph) -> Iterator[tuple[Field, Bounds]]:
    """Yield what each egress rule allows, without the destinations that the settings grant by name."""
    for policy in _tenant_policies(graph):
        granted = granted_by_settings(graph, policy)
        for field, bounds in policy.egress_rules:
            yield field, _without(bounds, granted) if granted else bounds


def _without(bounds: Bounds, granted: BoxSet) -> Bounds:
    least, most = (replace(reach, boxes=reach.boxes - granted) for reach in (bounds.least, bounds.most))
    return replace(bounds, least=least, most=most)


def _granted_rules(graph: Graph, policy: Policy) -> set[str]:
    """Return the paths of the rules that allow only destinations that the settings grant by name."""
    granted = granted_by_settings(graph, policy)
    if not granted:
        return set()
    return {
        field.path
        for field, bounds in policy.egress_rules
        if not bounds.unknown and not bounds.least.pod_ports and not bounds.least.boxes - granted
    }


def _allows_any_resolver(entry: PodPorts) -> bool:
    """Return whether it allows port 53 of pods in any namespace, and not only those with the label of the resolver."""
    namespace, label = entry.pods.at(("namespace", NAMESPACE_NAME)), entry.pods.at(RESOLVER_LABEL)
    others = [values for (side, key), values in entry.pods.labels if side == "namespace" and key != NAMESPACE_NAME]
    return bool(entry.ports == DNS and namespace.all_but and label.all_but and not others)


def _doubt(field: Field, bounds: Bounds) -> Outcome:
    path = next((path for path in bounds.unknown if path.startswith(field.path)), field.path)
    return unknown(Field(field.urn, path.partition(":")[0], field.raw))
