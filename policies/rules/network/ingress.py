"""NET, the way in, and what policies amount to: who may reach a sandbox, and whether a policy does what it seems to."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.capabilities.policies.selectors import matches
from agentenv.core.capabilities.sets.address_ranges import is_open_range, parse_network
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import NAMESPACE_NAME
from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.forbidden_addresses import neighbours, unknown_vpc
from agentenv.policies.view.tenants.namespaces import Space, place_of, space_of, spaces
from agentenv.policies.view.tenants.reach import Policy, about_tenants, covered, foreign, policies, policies_in
from agentenv.policies.view.tenants.tenants import Tenant, tenants, tenants_in

ROUTES = ("Gateway", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute")


@rule(
    id="NET-06",
    title="No sandbox is reached by anybody or by another tenant",
    severity="High",
    why="Whoever may connect to a sandbox may speak to every program in it, and they trust each other: an empty"
    " selector lets everybody in, one that fits sandboxes the other tenants, and a range of the VPC every node and"
    " every pod.",
    do="Name in `from` the namespace and the pods of the router that people come through, and nobody else; let a load"
    " balancer, whose addresses are the VPC's, send to the router and not to sandboxes.",
    equivalents={"CIS": ("5.3.2",), "Kyverno": ("restrict-networkpolicy-empty-podselector",)},
    about=GRAPH,
    defaults="A missing or empty `from` is everybody (Kubernetes API reference, NetworkPolicyIngressRule). Any private"
    " range may be the VPC's where nothing says which is.",
)
def let_in(graph: Graph) -> Iterator[Outcome]:
    """Peers by selectors are held against the labels of all sandboxes of the stack."""
    for policy in policies(graph):
        mine = about_tenants(graph, policy)
        if mine is False or policy.default or policy.governs("Ingress") is False:
            continue
        for one in policy.spec.at("ingress").elements():
            peers = one.at("from")
            if peers.unknown:
                yield from (unknown(peers),) if mine or one.at("ports").unknown or one.at("ports").missing else ()
            elif not peers.elements() and (mine or not one.at("ports").elements()):
                # A rule that says nothing at all is open, whosever it is
                yield fail(one, "lets everybody in")
            for peer in peers.elements() if peers.known and mine else []:
                yield from _peer(graph, policy, peer)


@rule(
    id="NET-07",
    title="A policy for sandboxes selects some, and speaks of the way out",
    severity="High",
    why="A policy whose selector fits no pod looks like isolation and is none, and one that names ingress only leaves"
    " every way out open.",
    do="Write the podSelector after the labels of the template's pods, and name both policyTypes.",
    about=GRAPH,
    defaults="A policy without policyTypes is about ingress, and about egress only where it has rules for it"
    " (Kubernetes API reference, NetworkPolicySpec).",
)
def idle_policy(graph: Graph) -> Iterator[Outcome]:
    """A policy may select by what claims bring; and another policy may speak of the way out."""
    for policy in policies(graph):
        here = [one for one in tenants_in(graph, policy.namespace) if one.namespace == policy.namespace]
        if policy.managed or not here:
            continue
        selected = [one for one in here if policy.selects(one) is not False]
        if not any(policy.may_select_claimed(one) for one in here):
            if not any(policy.selects(other) for other in _others(graph, policy)):
                yield fail(policy.spec.at("podSelector"), "selects no pod of its namespace")
        elif selected and all(policy.selects(one) is None for one in selected):
            yield unknown(policy.spec.at("podSelector"), "whether it selects any pod of its namespace is not known yet")
        open_ = [one for one in selected if policy.selects(one) and covered(graph, one, "Egress")[0] is False]
        if policy.governs("Egress") is None and open_:
            yield unknown(policy.spec.at("policyTypes"))
        elif policy.governs("Egress") is False and open_ and not on_fargate(graph, open_[0]).answer:
            yield fail(policy.spec.at("policyTypes"), "binds the way in only, and no other policy binds the way out")


@rule(
    id="NET-10",
    title="One namespace, one network policy",
    severity="High",
    why="The VPC CNI's agent tells pods apart by their name less its last part: two pods of one namespace that differ"
    " only there share one set of rules, whoever's policy was read last.",
    do="Give every pool with a policy of its own a namespace of its own.",
    equivalents={"AWS": ("aws-network-policy-agent issue 327",)},
    about=GRAPH,
    defaults="A claim that finds its pool empty names its sandbox after itself, as anybody likes (agent-sandbox"
    " v1.0.3).",
)
def told_apart(graph: Graph) -> Iterator[Outcome]:
    """Sandboxes of one namespace have to be under the same policies."""
    first: dict[str, frozenset[object]] = {}
    for tenant in tenants(graph):
        if not isinstance(tenant.namespace, str) or not tenant.pod.sandbox or on_fargate(graph, tenant).answer:
            continue
        answers = {policy: policy.selects(tenant) for policy in policies_in(graph, tenant.namespace)}
        if doubtful := [policy for policy, answer in answers.items() if answer is None]:
            if len(answers) > 1:
                yield unknown(doubtful[0].spec.at("podSelector"), "which policies bind it is not known yet")
            continue
        mine = frozenset(_same(policy) for policy, answer in answers.items() if answer)
        if first.setdefault(tenant.namespace, mine) != mine:
            yield fail(tenant.root, "its policies are not those of the other sandboxes in its namespace")


@rule(
    id="NET-14",
    title="Nothing opens a door from outside to a sandbox",
    severity="High",
    why="A load balancer, a port of every node or an address of somebody's choice leads past the router that asks who"
    " is there; an external IP also draws other people's traffic.",
    do="Reach sandboxes through the router only; use services of type ClusterIP without externalIPs.",
    equivalents={"Kyverno": ("restrict-nodeport", "no-loadbalancer-service", "restrict-external-ips")},
    about=GRAPH,
    defaults="A service is of type ClusterIP where nothing is said (Kubernetes API reference, ServiceSpec).",
)
def doors(graph: Graph) -> Iterator[Outcome]:
    """External addresses anywhere; the rest among sandboxes, and where nobody said which namespace it is for."""
    for thing in graph.objects("", "Service"):
        addresses = thing.at("spec", "externalIPs")
        if addresses.unknown:
            yield unknown(addresses)
        elif addresses.elements():
            yield fail(addresses, "has external addresses of its own choice")
        kind = thing.at("spec", "type")
        if kind.missing or is_one_of(kind, {"ClusterIP", "ExternalName"}):
            continue
        mine = _for_tenants(graph, thing)
        if mine is False:
            continue
        if kind.unknown or mine is None:
            yield unknown(kind if kind.unknown else thing.namespace)
        elif is_one_of(kind, {"LoadBalancer", "NodePort"}):
            yield fail(kind, f"a {kind.raw} leads from outside to sandboxes")
    ways = [*graph.objects("networking.k8s.io", "Ingress"), *graph.objects("gateway.networking.k8s.io", *ROUTES)]
    for thing in ways:
        space = space_of(graph, place_of(graph, thing))
        if space is not None and space.tenants:
            yield fail(thing.at("spec"), "is a way from outside to sandboxes, past the router")


@rule(
    id="NET-18",
    title="Whatever starts in a namespace of sandboxes is denied everything at first",
    severity="High",
    why="A pod that no policy selects is open, so one that somebody starts with other labels has no walls at all.",
    do="Add a NetworkPolicy with an empty podSelector, or with the class's label, and both policyTypes to every"
    " namespace of sandboxes.",
    equivalents={"CIS": ("5.3.2",), "Kyverno": ("add-networkpolicy",)},
    about=GRAPH,
    defaults="A namespace has no NetworkPolicy of its own (Kubernetes documents, Network Policies).",
)
def denied_at_first(graph: Graph) -> Iterator[Outcome]:
    """By the namespaces of the stack itself: what others made, others have to see to."""
    for name, space in spaces(graph).items():
        if space.made_by is None or not space.tenants or space.made_by.patch:
            continue
        here = [one for one in tenants_in(graph, name) if one.namespace == name]
        if any(on_fargate(graph, one).answer for one in here):
            continue
        standing = [policy for policy in policies_in(graph, name) if not policy.managed]
        answers = [_denies(policy, space) for policy in standing]
        for direction in ("Egress", "Ingress"):
            found = {_and(answer, policy.governs(direction)) for policy, answer in zip(standing, answers, strict=True)}
            if True in found:
                continue
            if None in found or foreign(graph):
                yield unknown(space.made_by.root, "whether a policy denies everything at first is not known yet")
            else:
                yield fail(space.made_by.root, "no policy of it selects every pod and binds both directions")
            break


def _denies(policy: Policy, space: Space) -> bool | None:
    """Whether it selects every pod of the namespace, or every pod that says it is of the namespace's class."""
    if policy.namespace is UNKNOWN:
        return None
    selector = policy.spec.at("podSelector")
    pod = {} if space.labels is UNKNOWN else {key: value for key, value in space.labels.items() if key == CLASS_LABEL}
    if not pod and space.name.startswith("sandbox-"):
        pod = {CLASS_LABEL: space.name.removeprefix("sandbox-")}
    return matches(None if selector.missing else selector.raw, pod)


def _others(graph: Graph, policy: Policy) -> list[Tenant]:
    """Pods of its namespace that are nobody's sandbox."""
    known = {tenant.pod for tenant in tenants(graph)}
    return [
        Tenant(
            pod, policy.namespace, {key: value.raw for key, value in pod.labels.entries() if isinstance(value.raw, str)}
        )
        for pod in graph.pods
        if pod not in known and place_of(graph, pod.owner) == policy.namespace
    ]


def _peer(graph: Graph, policy: Policy, peer: Field) -> Iterator[Outcome]:
    if not peer.at("ipBlock").missing:
        yield from _block(graph, peer.at("ipBlock"))
        return
    space, pods = peer.at("namespaceSelector"), peer.at("podSelector")
    if not space.missing and _fits_all(space) and _fits_all(pods):
        yield fail(space, "lets the pods of every namespace in")
        return
    doubt: Field | None = None
    named = space.at("matchLabels", NAMESPACE_NAME).raw
    place = named if isinstance(named, str) else policy.namespace if space.missing else UNKNOWN
    for tenant in tenants_in(graph, place):
        answer = _and(_in_space(graph, policy, space, tenant), tenant.selected_by(None if pods.missing else pods.raw))
        if answer:
            yield fail(peer, "lets other sandboxes in")
            return
        if answer is None:
            doubt = doubt or tenant.pod.labels
    unread = next((one for one in (space, pods) if one.holds_unknown()), doubt)
    if space.missing and _fits_all(pods):
        yield fail(peer, "lets every pod of the namespace in")
    elif unread is not None:
        yield unknown(unread)


def _block(graph: Graph, block: Field) -> Iterator[Outcome]:
    """Addresses: with the VPC CNI those of the VPC are every node's and every other tenant's."""
    cidr = block.at("cidr")
    network = parse_network(cidr.raw)
    if network is None:
        yield unknown(cidr)
        return
    if is_open_range(network):
        yield fail(cidr, "lets every address in")
        return
    addresses = Intervals.single(int(network[0]), int(network[-1]))
    for one in block.at("except").elements():
        left_out = parse_network(one.raw)
        if left_out is not None and left_out.version == network.version:
            addresses -= Intervals.single(int(left_out[0]), int(left_out[-1]))
    met = [word for word, theirs in neighbours(graph).items() if addresses & theirs[network.version]]
    if met:
        yield fail(cidr, f"lets {' and '.join(met)} in: nodes and other tenants")
    elif (vpc := unknown_vpc(graph)) is not None and addresses & vpc[1].addresses(network.version):
        words = "whether it lets the VPC in depends on its range, which"
        yield unknown(vpc[0] or cidr, f"{words} {'is not known yet' if vpc[0] else 'nothing here says'}")


def _fits_all(selector: Field) -> bool:
    if selector.missing:
        return True
    said = [*selector.at("matchLabels").entries(), *selector.at("matchExpressions").elements()]
    return not said and not selector.unknown


def _in_space(graph: Graph, policy: Policy, selector: Field, tenant: Tenant) -> bool | None:
    if selector.missing:
        unknown_place = UNKNOWN in (policy.namespace, tenant.namespace)
        return None if unknown_place else policy.namespace == tenant.namespace
    space = space_of(graph, tenant.namespace)
    return None if space is None else matches(selector.raw, space.labels)


def _for_tenants(graph: Graph, thing: KubernetesObject) -> bool | None:
    place = place_of(graph, thing)
    space = space_of(graph, place)
    if space is None:
        return None
    # What names no namespace is for whoever applies it, unless it stands beside what is plainly its own
    return space.tenants or (place == "default" and space.made_by is None and not space.pods)


def _same(policy: Policy) -> object:
    """Managed policies of the same words are the same policy."""
    return repr(policy.spec.raw) if policy.managed else policy


def _and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True
