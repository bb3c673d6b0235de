"""NET, the way out: that every sandbox is bound by a policy, and that what all of them allow is no way out of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agentenv.core.capabilities.sets.address_ranges import METADATA, all_addresses, spans
from agentenv.core.capabilities.sets.boxes import TCP_AND_UDP, VERSIONS, BoxSet, product, union
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.capabilities.sets.pods import ALL_POD_PORTS, NAMESPACE_NAME, PodPorts
from agentenv.core.capabilities.sets.reach import Bounds
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, not_applicable, rule, unknown
from agentenv.policies.view.cluster.fargate import on_fargate
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.tenants.forbidden_addresses import (
    DNS,
    all_forbidden,
    example,
    forbidden,
    resolvers,
    unknown_vpc,
)
from agentenv.policies.view.tenants.granted import granted
from agentenv.policies.view.tenants.reach import Policy, about_tenants, covered, foreign, policies, policies_in
from agentenv.policies.view.tenants.tenants import tenants, tier_of

RESOLVER_LABEL = ("pod", "k8s-app")
CREDENTIALS = product((4,), ("TCP",), spans(METADATA[:1])[4], Intervals.single(80))
_DNS_ANYWHERE = union([product((version,), TCP_AND_UDP, all_addresses()[version], DNS) for version in VERSIONS])


@rule(
    id="NET-01",
    title="Every sandbox is bound by a network policy in both directions",
    severity="Critical",
    why="NetworkPolicies only bind pods that one of them selects: a sandbox that none selects reaches the whole network"
    " and is reached from all of it.",
    do="Declare a NetworkPolicy in the sandbox's namespace whose podSelector matches the labels of the template's pods"
    " and that names both policyTypes, or leave networkPolicyManagement to Managed.",
    equivalents={"CIS": ("5.3.2",), "Kyverno": ("add-networkpolicy",)},
    about=GRAPH,
    defaults="A pod that no policy selects is not isolated (Kubernetes documents, Network Policies). A SandboxTemplate"
    " is Managed where nothing is said; a bare Sandbox has no policy (agent-sandbox v1.0.3).",
)
def bound(graph: Graph) -> Iterator[Outcome]:
    """The union of all policies has to select the pod; pods on Fargate are another rule's."""
    for tenant in tenants(graph):
        if on_fargate(graph, tenant).answer:
            yield not_applicable(tenant.root, "runs on Fargate, where no NetworkPolicy binds")
            continue
        management = tenant.owner.at("spec", "networkPolicyManagement")
        if tenant.owner.kind == "SandboxTemplate" and management.unknown:
            yield unknown(management)
            continue
        answers = [covered(graph, tenant, direction) for direction in ("Egress", "Ingress")]
        words = "out of it and into it" if answers[0][0] is answers[1][0] else ""
        for (answer, doubt), way in zip(answers, ("out of it", "into it"), strict=True):
            if answer:
                continue
            if answer is None or foreign(graph):
                yield unknown(doubt or foreign(graph)[0].at("spec"), "whether it binds every sandbox cannot be told")
            else:
                yield fail(tenant.root, f"no NetworkPolicy selects its pods: every way {words or way} is open")
            if words:
                break


@rule(
    id="NET-02",
    title="No sandbox reaches instance metadata, the VPC, services or other pods",
    severity="Critical",
    why="The metadata address hands out the node's credentials, and the ranges of the VPC, of services and of pods hold"
    " the API server, databases and other tenants.",
    do="Take 169.254.0.0/16, fd00:ec2::/32, 100.64.0.0/10 and the private ranges out of every ipBlock by `except`, and"
    " name pods by selectors.",
    equivalents={"AWS": ("EKS best practices: restrict access to the instance profile",)},
    about=GRAPH,
    defaults="What the controller writes for a SandboxTemplate without networkPolicy leaves 100.64.0.0/10 open"
    " (agent-sandbox v1.0.3). Any private range may be the VPC's where nothing says which is. EKS's services"
    " have 172.20.0.0/16 or 10.100.0.0/16 unless told (EKS documents).",
)
def forbidden_addresses(graph: Graph) -> Iterator[Outcome]:
    """Each rule by itself: policies only add, so all together reach what one of them does.

    Of a policy for nobody knows whom, only the metadata address itself counts: the rest may be its pods' work.
    """
    for policy in policies(graph):
        for field, bounds in policy.ways_out if about_tenants(graph, policy) is None else ():
            if bounds.least.boxes & CREDENTIALS:
                yield fail(field, f"lets pods reach instance metadata ({METADATA[0]})")
            elif bounds.unknown and bounds.most.boxes & CREDENTIALS:
                yield _doubt(field, bounds)
    for field, bounds in _egress(graph):
        if bounds.least.boxes & all_forbidden(graph):
            hit = {word: boxes & bounds.least.boxes for word, boxes in forbidden(graph).items()}
            hit = {word: boxes for word, boxes in hit.items() if boxes}
            words = " and ".join(f"{word} ({example(boxes)})" for word, boxes in hit.items())
            yield fail(field, f"lets sandboxes reach {words}")
        elif bounds.unknown and bounds.most.boxes & all_forbidden(graph):
            yield _doubt(field, bounds)
        elif (vpc := unknown_vpc(graph)) is not None and vpc[1] & bounds.least.boxes:
            words = "whether a policy reaches the VPC depends on its range, which"
            yield unknown(vpc[0] or field, f"{words} {'is not known yet' if vpc[0] else 'nothing cluster says'}")


@rule(
    id="NET-03",
    title="Every way out names who and which ports",
    severity="High",
    why="A rule without `to` opens its ports of every address there is, and one without `ports` every port of those"
    " that it names.",
    do="List both `to` and `ports` in every egress rule.",
    about=GRAPH,
    defaults="A missing or empty `to` is everybody, and missing or empty `ports` are all (Kubernetes API reference,"
    " NetworkPolicyEgressRule).",
)
def half_said(graph: Graph) -> Iterator[Outcome]:
    """Literally; where a policy is the platform's own, its work may need more."""
    for policy in policies(graph):
        mine = about_tenants(graph, policy)
        if mine is False or policy.default or policy.governs("Egress") is False:
            continue
        meant = _meant(graph, policy)
        for one in policy.spec.at("egress").elements():
            if one.path in meant:
                continue
            gaps = [key for key in ("to", "ports") if not one.at(key).unknown and not one.at(key).elements()]
            open_ = [key for key in ("to", "ports") if one.at(key).unknown]
            if mine or len([*gaps, *open_]) == 2:
                yield from (unknown(one.at(key)) for key in open_)
            # A rule that says nothing at all is open, whosever it is
            if gaps and (mine or len(gaps) == 2):
                yield fail(one, f"an egress rule without {' and without '.join(f'`{key}`' for key in gaps)}")


@rule(
    id="NET-04",
    title="Names are asked of the named resolver only",
    severity="High",
    why="Whoever may send to port 53 of any address has a way out past every other rule: data travels in names.",
    do="Allow port 53 to the cluster's resolver (namespace kube-system, k8s-app kube-dns) only, and no range on all"
    " ports.",
    about=GRAPH,
    defaults="The template's default policy allows every port of the internet, 53 too (agent-sandbox v1.0.3).",
)
def any_resolver(graph: Graph) -> Iterator[Outcome]:
    """Addresses on port 53 that no word of the platform names as a resolver, and pods of every namespace."""
    for field, bounds in _egress(graph):
        beyond = _DNS_ANYWHERE - resolvers(graph)
        if hit := bounds.least.boxes & beyond:
            yield fail(field, f"lets sandboxes ask {example(hit)} for names")
        elif any(_asks_anybody(entry) for entry in bounds.least.pod_ports - ALL_POD_PORTS):
            yield fail(field, "lets sandboxes ask pods of every namespace for names")
        elif bounds.unknown and bounds.most.boxes & beyond:
            yield _doubt(field, bounds)


@rule(
    id="NET-05",
    title="An untrusted sandbox sees no names of the cluster",
    severity="Medium",
    why="The cluster's resolver answers for every service of every namespace: whoever may ask it learns what there is"
    " to attack.",
    do="Set dnsPolicy to None with resolvers of your own in dnsConfig, or use a weaker tier where cluster names are"
    " needed.",
    about=GRAPH,
    defaults="dnsPolicy is ClusterFirst where nothing is said (Kubernetes API reference); a template with a managed"
    " policy and no dnsPolicy is given 8.8.8.8 and 1.1.1.1 (agent-sandbox v1.0.3).",
)
def cluster_names(graph: Graph) -> Iterator[Outcome]:
    """Fargate's pods may have the cluster's resolver as their only one: what they may ask is their group's matter."""
    for tenant in tenants(graph):
        tier, policy = tier_of(graph, tenant), tenant.pod.at("dnsPolicy")
        if (tier.known and tier.raw != "untrusted") or tier.missing or on_fargate(graph, tenant).answer:
            continue
        if policy.missing and any(one.managed and one.selects(tenant) for one in policies_in(graph, tenant.namespace)):
            continue
        if policy.known and not is_one_of(policy, {"ClusterFirst", "ClusterFirstWithHostNet"}):
            continue
        if tier.unknown or policy.unknown:
            yield unknown(policy if policy.unknown else tier)
        else:
            yield fail(policy, "an untrusted sandbox asks the cluster's resolver")


@rule(
    id="NET-17",
    title="No way out to the pods of every namespace",
    severity="High",
    why="A selector that fits every namespace is a way from one tenant to all others, and to the platform's own pods.",
    do="Name the namespace by its label kubernetes.io/metadata.name, and the pods by their labels.",
    equivalents={"Kyverno": ("restrict-networkpolicy-empty-podselector",)},
    about=GRAPH,
    defaults="An empty selector selects everything (Kubernetes API reference, LabelSelector).",
)
def every_namespace(graph: Graph) -> Iterator[Outcome]:
    """Peers that are pods by selectors, of which neither names a namespace nor a resolver."""
    for policy in _tenants_policies(graph):
        for rule_of in policy.spec.at("egress").elements() if not policy.default else []:
            for peer in rule_of.at("to").elements():
                if (selector := peer.at("namespaceSelector")).missing:
                    continue
                if selector.holds_unknown() or peer.at("podSelector").holds_unknown():
                    yield unknown(selector if selector.holds_unknown() else peer.at("podSelector"))
                elif not _said(selector) and not _said(peer.at("podSelector")):
                    yield fail(selector, "selects the pods of every namespace")


def _said(selector: Field) -> bool:
    return bool([*selector.at("matchLabels").entries(), *selector.at("matchExpressions").elements()])


def _tenants_policies(graph: Graph) -> Iterator[Policy]:
    return (policy for policy in policies(graph) if about_tenants(graph, policy))


def _egress(graph: Graph) -> Iterator[tuple[Field, Bounds]]:
    """What each rule allows, less what the class is granted by name."""
    for policy in _tenants_policies(graph):
        meant = granted(graph, policy)
        for field, bounds in policy.ways_out:
            yield field, _less(bounds, meant) if meant else bounds


def _less(bounds: Bounds, meant: BoxSet) -> Bounds:
    least, most = (replace(reach, boxes=reach.boxes - meant) for reach in (bounds.least, bounds.most))
    return replace(bounds, least=least, most=most)


def _meant(graph: Graph, policy: Policy) -> set[str]:
    """The paths of the rules that allow nothing but what the class is granted by name."""
    meant = granted(graph, policy)
    if not meant:
        return set()
    return {
        field.path
        for field, bounds in policy.ways_out
        if not bounds.unknown and not bounds.least.pod_ports and not bounds.least.boxes - meant
    }


def _asks_anybody(entry: PodPorts) -> bool:
    """Port 53, and hardly more, of pods that neither a namespace nor the resolvers' own label narrows down."""
    namespace, label = entry.pods.at(("namespace", NAMESPACE_NAME)), entry.pods.at(RESOLVER_LABEL)
    others = [values for (side, key), values in entry.pods.labels if side == "namespace" and key != NAMESPACE_NAME]
    return bool(entry.ports == DNS and namespace.all_but and label.all_but and not others)


def _doubt(field: Field, bounds: Bounds) -> Outcome:
    path = next((one for one in bounds.unknown if one.startswith(field.path)), field.path)
    return unknown(Field(field.urn, path.partition(":")[0], field.raw))
