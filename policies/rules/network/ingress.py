"""NET rules about ingress to sandboxes, and about policies that do not have the intended effect."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL, DAEMON_PORT, GATEWAY, SERVICE_LOOPS, WORKSPACE_SERVICE
from agentenv.core.capabilities.policies.effective_policy import Direction
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.sets.address_ranges import all_addresses, is_open_range, parse_network
from agentenv.core.capabilities.sets.boxes import VERSIONS, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import ALL_PODS, NAMESPACE_NAME, pod_ports_of
from agentenv.core.capabilities.sets.reach import Reach
from agentenv.core.capabilities.unknown_values import UNKNOWN, Unknown
from agentenv.core.classes.pods.daemon import WORKSPACED
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, not_applicable, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.forbidden_addresses import node_and_pod_addresses, possible_vpc
from agentenv.policies.view.tenants.namespaces import Labels, Namespace, find_namespace, namespace_of, namespaces
from agentenv.policies.view.tenants.other_policies import other_policies
from agentenv.policies.view.tenants.reach import (
    DIRECTIONS,
    Policy,
    applies_to_tenants,
    is_covered,
    is_unspecified,
    policies,
    policies_in,
    reach,
)
from agentenv.policies.view.tenants.tenants import Tenant, tenants, tenants_in

_PORT = Intervals.single(DAEMON_PORT)
_TO_DAEMON = Reach(
    union([product((version,), ("TCP",), all_addresses()[version], _PORT) for version in VERSIONS]),
    pod_ports_of(ALL_PODS, ("TCP",), _PORT),
)
_DAEMON_CALLERS = Reach(
    pod_ports=frozenset(
        entry for pods in (GATEWAY, WORKSPACE_SERVICE, SERVICE_LOOPS) for entry in pod_ports_of(pods, ("TCP",), _PORT)
    )
)
# Kinds that expose Services of their namespace, or let other namespaces do so
EXPOSING = {
    "networking.k8s.io": ("Ingress",),
    "gateway.networking.k8s.io": (
        *("Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "ReferenceGrant"),
    ),
    "elbv2.k8s.aws": ("TargetGroupBinding",),
}


@rule(
    id="NET-06",
    title="Sandboxes are not reachable by everybody or by other tenants",
    severity="High",
    why="Any caller that can connect to a sandbox can use the programs in it, which trust each other. An empty selector"
    " allows every pod, a broad one allows other tenants, and a range of the VPC allows every node and pod.",
    fix="Name the namespace and the pods of the router in `from`, and nothing else. Send traffic of a load balancer,"
    " whose addresses are in the VPC, to the router and not to sandboxes.",
    equivalents={"CIS": ("5.3.2",)},
    applies_to=GRAPH,
    defaults="A missing or empty `from` allows everybody (Kubernetes API reference, NetworkPolicyIngressRule). If the"
    " VPC is not known, any private range may be its range.",
)
def open_ingress(graph: Graph) -> Iterator[Outcome]:
    """Compare the selectors of peers with the labels of all sandboxes of the stack."""
    for policy in policies(graph):
        for_tenants = applies_to_tenants(graph, policy)
        if for_tenants is False or policy.default or policy.governs("Ingress") is False:
            continue
        for ingress in policy.spec.at("ingress").elements():
            peers, ports = ingress.at("from"), ingress.at("ports")
            if peers.unknown:
                yield from (unknown(peers),) if for_tenants or ports.unknown or ports.missing else ()
            elif not peers.elements() and (for_tenants or not ports.elements()):
                # An empty rule allows everything, for any pods
                yield fail(ingress, "allows ingress from everybody")
            for peer in peers.elements() if peers.known and for_tenants else []:
                yield from _peer(graph, policy, peer)


@rule(
    id="NET-07",
    title="A policy for sandboxes selects some, and restricts egress",
    severity="High",
    why="A policy whose selector matches no pod looks like isolation but has no effect. One with only the policy type"
    " Ingress allows all egress.",
    fix="Match the podSelector to the labels of the template's pods, and name both policyTypes.",
    applies_to=GRAPH,
    defaults="A policy without policyTypes applies to ingress, and to egress only if it has egress rules (Kubernetes"
    " API reference, NetworkPolicySpec).",
)
def ineffective_policy(graph: Graph) -> Iterator[Outcome]:
    """Check the selector, also with the labels of claims, and whether any policy restricts egress."""
    for policy in policies(graph):
        pods = [tenant for tenant in tenants_in(graph, policy.namespace) if tenant.namespace == policy.namespace]
        if policy.managed or not pods:
            continue
        selected = [tenant for tenant in pods if policy.selects(tenant) is not False]
        if not any(policy.may_select_claimed(tenant) for tenant in pods):
            if not any(policy.selects(other) for other in _platform_pods(graph, policy)):
                yield fail(policy.spec.at("podSelector"), "selects no pod of its namespace")
        elif selected and all(policy.selects(tenant) is None for tenant in selected):
            yield unknown(policy.spec.at("podSelector"), "whether it selects any pod of its namespace is not known yet")
        open_pods = [
            tenant for tenant in selected if policy.selects(tenant) and is_covered(graph, tenant, "Egress")[0] is False
        ]
        if policy.governs("Egress") is None and open_pods:
            yield unknown(policy.spec.at("policyTypes"))
        elif policy.governs("Egress") is False and open_pods and not on_fargate(graph, open_pods[0]).answer:
            yield fail(policy.spec.at("policyTypes"), "restricts ingress only, and no other policy restricts egress")


@rule(
    id="NET-10",
    title="All sandboxes of a namespace have the same policies",
    severity="High",
    why="The agent of the VPC CNI identifies pods by their name without its last part. Pods of a namespace that differ"
    " only there share one set of rules, those of the policy that was read last.",
    fix="Use a separate namespace for every pool with its own policy.",
    equivalents={"AWS": ("aws-network-policy-agent issue 327",)},
    applies_to=GRAPH,
    defaults="A claim that finds its pool empty names the sandbox after itself, so its name can be anything"
    " (agent-sandbox v1.0.3).",
)
def same_policies(graph: Graph) -> Iterator[Outcome]:
    """Compare the policies of the sandboxes in each namespace, and report each of those that differ."""
    by_namespace: dict[str, dict[frozenset[object], list[Tenant]]] = {}
    for tenant in tenants(graph):
        if not isinstance(tenant.namespace, str) or not tenant.pod.sandbox or on_fargate(graph, tenant).answer:
            continue
        answers = {policy: policy.selects(tenant) for policy in policies_in(graph, tenant.namespace)}
        if undecided := [policy for policy, answer in answers.items() if answer is None]:
            if len(answers) > 1:
                yield unknown(undecided[0].spec.at("podSelector"), "which policies select it is not known yet")
            continue
        selecting = frozenset(_identity(policy) for policy, answer in answers.items() if answer)
        by_namespace.setdefault(tenant.namespace, {}).setdefault(selecting, []).append(tenant)
    for by_policies in by_namespace.values():
        for selecting, pods in by_policies.items() if len(by_policies) > 1 else ():
            other = next(others[0] for policies_, others in by_policies.items() if policies_ != selecting)
            for tenant in pods:
                yield fail(tenant.root, f"its policies differ from those of {other.owner.name.raw} in its namespace")


@rule(
    id="NET-14",
    title="Nothing exposes sandboxes outside of the cluster",
    severity="High",
    why="A load balancer, a node port or an external IP bypasses the router, which authenticates callers. An external"
    " IP can also capture the traffic of others.",
    fix="Expose sandboxes only through the router. Use Services of type ClusterIP without externalIPs.",
    equivalents={"Kyverno": ("restrict-nodeport", "no-loadbalancer-service", "restrict-external-ips")},
    applies_to=GRAPH,
    defaults="A Service is of type ClusterIP by default (Kubernetes API reference, ServiceSpec).",
)
def external_access(graph: Graph) -> Iterator[Outcome]:
    """Check external IPs of all Services, and other external access to namespaces of sandboxes."""
    for service in graph.objects("", "Service"):
        addresses = service.at("spec", "externalIPs")
        if addresses.unknown:
            yield unknown(addresses)
        elif addresses.elements():
            yield fail(addresses, "has external IPs")
        kind = service.at("spec", "type")
        if kind.missing or is_one_of(kind, {"ClusterIP", "ExternalName"}):
            continue
        for_tenants = _is_for_tenants(graph, service)
        if for_tenants is False:
            continue
        if kind.unknown or for_tenants is None:
            yield unknown(kind if kind.unknown else service.namespace)
        elif is_one_of(kind, {"LoadBalancer", "NodePort"}):
            yield fail(kind, f"a {kind.raw} exposes sandboxes outside of the cluster")
    for group, kinds in EXPOSING.items():
        for route in graph.objects(group, *kinds):
            if _has_tenants(graph, namespace_of(graph, route)):
                yield fail(route.at("spec"), "exposes sandboxes outside of the cluster, bypassing the router")
    yield from _endpoints(graph)


def _endpoints(graph: Graph) -> Iterator[Outcome]:
    """Check addresses that somebody else than Kubernetes gives to a Service."""
    found = [
        (item, item.at("endpoints"), item.at("endpoints").elements())
        for item in graph.objects("discovery.k8s.io", "EndpointSlice")
    ]
    for item in graph.objects("", "Endpoints"):
        subsets = item.at("subsets")
        found.append((item, subsets, [each for row in subsets.elements() for each in row.at("addresses").elements()]))
    for item, listed, endpoints in found:
        if _has_tenants(graph, namespace_of(graph, item)):
            yield fail(listed, "leads a Service to addresses that Kubernetes did not choose")
            continue
        for target in (endpoint.at("targetRef") for endpoint in endpoints):
            namespace = target.at("namespace")
            if namespace.unknown:
                yield unknown(namespace)
            elif isinstance(namespace.raw, str) and _has_tenants(graph, namespace.raw):
                yield fail(target, "leads a Service of another namespace to a pod of a class")


def _has_tenants(graph: Graph, name: str | Unknown) -> bool:
    namespace = find_namespace(graph, name)
    return namespace is not None and namespace.has_tenants


@rule(
    id="NET-18",
    title="Namespaces of sandboxes deny all traffic by default",
    severity="High",
    why="A pod that no policy selects is open, so a pod with other labels has no network isolation at all.",
    fix="Add a NetworkPolicy with an empty podSelector, or with the label of the class, and both policyTypes to every"
    " namespace of sandboxes.",
    equivalents={"CIS": ("5.3.2",), "Kyverno": ("add-networkpolicy",)},
    applies_to=GRAPH,
    defaults="A namespace has no NetworkPolicy by default (Kubernetes documents, Network Policies).",
)
def default_deny(graph: Graph) -> Iterator[Outcome]:
    """Check the namespaces that the stack declares."""
    for name, namespace in namespaces(graph).items():
        if namespace.declaration is None or not namespace.has_tenants or namespace.declaration.patch:
            continue
        pods = [tenant for tenant in tenants_in(graph, name) if tenant.namespace == name]
        if any(on_fargate(graph, tenant).answer for tenant in pods):
            continue
        declared = [policy for policy in policies_in(graph, name) if not policy.managed]
        selects_all = [_selects_all(policy, namespace) for policy in declared]
        for direction in DIRECTIONS:
            pairs = zip(declared, selects_all, strict=True)
            answers = {_and(answer, policy.governs(direction)) for policy, answer in pairs}
            if True in answers:
                continue
            if None in answers or _may_isolate_all(graph, namespace, direction):
                yield unknown(namespace.declaration.root, "whether a policy denies all traffic is not known yet")
            else:
                yield fail(namespace.declaration.root, "none of its policies selects every pod in both directions")
            break


@rule(
    id="NET-21",
    title="Only the gateway and the workspace service reach the daemon of a sandbox",
    severity="High",
    why="The daemon runs any command of a caller with a token. A token that is read on its way is worth nothing to pods"
    " that cannot connect.",
    fix=f"Name in `from` of port {DAEMON_PORT} the pods of Envoy in the namespace gateway, and those of the namespace"
    " workspace-service, and nobody else.",
    applies_to=GRAPH,
    defaults=f"A sandbox has a daemon if a container names its port {WORKSPACED}. NET-01 is about sandboxes that no"
    " policy selects, NET-11 about those on Fargate.",
)
def daemon_callers(graph: Graph) -> Iterator[Outcome]:
    """Compare what reaches the daemon's port under all policies with its two callers."""
    for tenant in tenants(graph):
        port = _daemon_port(tenant.pod)
        if port is None:
            continue
        if on_fargate(graph, tenant).answer:
            yield not_applicable(tenant.root, "runs on Fargate, where NetworkPolicies do not apply")
            continue
        if is_covered(graph, tenant, "Ingress")[0] is False:
            continue
        ingress = reach(graph, tenant, "Ingress")
        if port.known and (ingress.least & _TO_DAEMON) - _DAEMON_CALLERS:
            yield fail(port, "pods other than the gateway and the workspace service may connect to it")
        elif (ingress.most & _TO_DAEMON) - _DAEMON_CALLERS:
            yield unknown(port, "whether others than its callers may connect to a daemon is not known yet")


def _daemon_port(pod: PodSpec) -> Field | None:
    """Return the port of a pod's daemon, or the field that decides whether it has one."""
    doubt = next((field for field in (pod.spec, pod.at("containers")) if field.unknown), None)
    for container in pod.containers:
        for declared in container.at("ports").elements():
            name = declared.at("name")
            if name.raw == WORKSPACED:
                return declared.at("containerPort")
            doubt = doubt or next((field for field in (declared, name) if field.unknown), None)
    return doubt


def _may_isolate_all(graph: Graph, namespace: Namespace, direction: Direction) -> bool:
    """Return whether a policy of another kind may deny all traffic of every pod in a namespace."""
    return any(
        other.may_isolate(graph, namespace.name, _class_labels(namespace), direction) for other in other_policies(graph)
    )


def _selects_all(policy: Policy, namespace: Namespace) -> bool | None:
    """Return whether a policy selects every pod of the namespace, or every pod with the label of its class."""
    if policy.namespace is UNKNOWN:
        return None
    selector = policy.spec.at("podSelector")
    return matches(None if selector.missing else selector.raw, _class_labels(namespace))


def _class_labels(namespace: Namespace) -> Labels:
    """Return the labels that every pod of a namespace has: that of its class."""
    if namespace.labels is not UNKNOWN and CLASS_LABEL in namespace.labels:
        return {CLASS_LABEL: namespace.labels[CLASS_LABEL]}
    if namespace.name.startswith("sandbox-"):
        return {CLASS_LABEL: namespace.name.removeprefix("sandbox-")}
    return {}


def _platform_pods(graph: Graph, policy: Policy) -> list[Tenant]:
    """Return the pods in the namespace of a policy that are not sandboxes."""
    known = {tenant.pod for tenant in tenants(graph)}
    return [
        Tenant(
            pod, policy.namespace, {key: value.raw for key, value in pod.labels.entries() if isinstance(value.raw, str)}
        )
        for pod in graph.pods
        if pod not in known and namespace_of(graph, pod.owner) == policy.namespace
    ]


def _peer(graph: Graph, policy: Policy, peer: Field) -> Iterator[Outcome]:
    if not peer.at("ipBlock").missing:
        yield from _ip_block(graph, peer.at("ipBlock"))
        return
    namespaces_, pods = peer.at("namespaceSelector"), peer.at("podSelector")
    if not namespaces_.missing and _selects_everything(namespaces_) and _selects_everything(pods):
        yield fail(namespaces_, "allows ingress from the pods of every namespace")
        return
    doubt: Field | None = None
    name = namespaces_.at("matchLabels", NAMESPACE_NAME).raw
    place = name if isinstance(name, str) else policy.namespace if namespaces_.missing else UNKNOWN
    for tenant in tenants_in(graph, place):
        in_namespace = _matches_namespace(graph, policy, namespaces_, tenant)
        answer = _and(in_namespace, tenant.selected_by(None if pods.missing else pods.raw))
        if answer:
            yield fail(peer, "allows ingress from other sandboxes")
            return
        if answer is None:
            doubt = doubt or tenant.pod.labels
    unknown_field = next((field for field in (namespaces_, pods) if field.holds_unknown()), doubt)
    if namespaces_.missing and _selects_everything(pods):
        yield fail(peer, "allows ingress from every pod of the namespace")
    elif unknown_field is not None:
        yield unknown(unknown_field)


def _ip_block(graph: Graph, block: Field) -> Iterator[Outcome]:
    """Check a range. With the VPC CNI, the addresses of the VPC are those of nodes and other tenants."""
    cidr = block.at("cidr")
    network = parse_network(cidr.raw)
    if network is None:
        yield unknown(cidr)
        return
    if is_open_range(network):
        yield fail(cidr, "allows ingress from every address")
        return
    addresses = Intervals.single(int(network[0]), int(network[-1]))
    for exception in block.at("except").elements():
        excluded = parse_network(exception.raw)
        if excluded is not None and excluded.version == network.version:
            addresses -= Intervals.single(int(excluded[0]), int(excluded[-1]))
    by_description = node_and_pod_addresses(graph)
    included = [description for description, others in by_description.items() if addresses & others[network.version]]
    if included:
        yield fail(cidr, f"allows ingress from {' and '.join(included)}: nodes and other tenants")
    elif (vpc := possible_vpc(graph)) is not None and addresses & vpc[1].addresses(network.version):
        reason = "is not known yet" if vpc[0] else "neither the stack nor the configuration has"
        yield unknown(vpc[0] or cidr, f"whether it allows the VPC depends on its range, which {reason}")


def _selects_everything(selector: Field) -> bool:
    if selector.missing:
        return True
    terms = [*selector.at("matchLabels").entries(), *selector.at("matchExpressions").elements()]
    return not terms and not selector.unknown


def _matches_namespace(graph: Graph, policy: Policy, selector: Field, tenant: Tenant) -> bool | None:
    if selector.missing:
        is_unknown = UNKNOWN in (policy.namespace, tenant.namespace)
        return None if is_unknown else policy.namespace == tenant.namespace
    namespace = find_namespace(graph, tenant.namespace)
    return None if namespace is None else matches(selector.raw, namespace.labels)


def _is_for_tenants(graph: Graph, item: KubernetesObject) -> bool | None:
    namespace = find_namespace(graph, namespace_of(graph, item))
    if namespace is None:
        return None
    # An object without a namespace is applied to any namespace
    return namespace.has_tenants or (is_unspecified(namespace) and bool(tenants(graph)))


def _identity(policy: Policy) -> object:
    """Return what makes two policies the same: managed ones with equal rules are."""
    return repr(policy.spec.raw) if policy.managed else policy


def _and(first: bool | None, second: bool | None) -> bool | None:
    if first is False or second is False:
        return False
    return None if first is None or second is None else True
