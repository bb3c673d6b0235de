"""IAM, in the cluster: the tokens that pods carry, the accounts that they run as, and what those are bound to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.rules.registry import GRAPH, POD, Outcome, fail, forbid, forbid_boolean, objects, rule, unknown
from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field, boolean_or_unknown, is_one_of, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import find_namespace, namespace_of, namespaces
from agentenv.policies.view.tenants.tenants import service_account_of, tenants

RBAC: Final = "rbac.authorization.k8s.io"
API: Final = frozenset({"https://kubernetes.default.svc", "kubernetes.default.svc"})
ALL_ACCOUNTS: Final = "system:serviceaccounts"
EVERYBODY: Final = frozenset({"system:authenticated", "system:unauthenticated", ALL_ACCOUNTS})
# Bound by no role and no denial: whoever is in it may do everything for ever.
MASTERS: Final = "system:masters"
TOKEN_SECRET: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
# What Kubernetes itself gives to everybody (Kubernetes documents, default roles and role bindings).
HARMLESS: Final = frozenset({"system:basic-user", "system:discovery", "system:public-info-viewer"})


@rule(
    id="IAM-01",
    title="Pods have no token for the API server that they do not need",
    severity="High",
    why="A program in the pod can use the token to call the API server as the pod's service account.",
    fix="Set automountServiceAccountToken to false on the pod or its service account, and set an audience for projected"
    " tokens.",
    equivalents={
        "Checkov": ("CKV_K8S_38",),
        "CIS": ("5.1.6",),
        "Kyverno": ("restrict-automount-sa-token",),
    },
    applies_to=POD,
    defaults="Mounted by default (Kubernetes API reference, PodSpec), but not in pods of a SandboxTemplate"
    " (agent-sandbox v1.0.3). The default audience of a projected token is the API server.",
)
def token(pod: PodSpec, graph: Graph) -> Iterator[Outcome]:
    """A workload of the platform whose account is bound to a role in the same stack needs its token."""
    flag = pod.at("automountServiceAccountToken")
    tenant = _tenant(graph, pod)
    if boolean_or_unknown(flag) is UNKNOWN:
        yield from forbid_boolean(flag, (), "")
    elif flag.raw is not False and not (pod.patch and flag.missing) and (tenant or not _bound(graph, pod)):
        account = _account(graph, pod)
        said = None if account is None else account.at("automountServiceAccountToken")
        by_controller = pod.owner.kind == "SandboxTemplate"
        if flag.missing and said is not None and boolean_or_unknown(said) is UNKNOWN:
            yield unknown(said)
        elif not (flag.missing and (by_controller or (said is not None and said.raw is False))):
            yield fail(flag, "carries a token for the API server")
    if not tenant:
        return
    for volume in pod.at("volumes").elements():
        for source in volume.at("projected", "sources").elements():
            projected, audience = source.at("serviceAccountToken"), source.at("serviceAccountToken", "audience")
            if projected.missing:
                continue
            if audience.unknown:
                yield unknown(audience)
            elif audience.missing or is_one_of(audience, (*API, "")):
                yield fail(audience, "a projected token is for the API server")


@rule(
    id="IAM-02",
    title="Sandboxes run as the service account of their class",
    severity="High",
    why="Permissions of the default service account, or of a shared one, apply to all its sandboxes.",
    fix="Create a service account for the class in its namespace, and set it in serviceAccountName. Bind nothing to the"
    " default service account.",
    equivalents={"Checkov": ("CKV_K8S_41", "CKV_K8S_42"), "CIS": ("5.1.5",)},
    applies_to=GRAPH,
    defaults="The service account `default`, with a token, by default (Kubernetes API reference, PodSpec).",
)
def own_account(graph: Graph) -> Iterator[Outcome]:
    """And the default account itself, where the stack speaks of it."""
    first: dict[tuple[object, object], object] = {}
    for tenant in tenants(graph):
        account = service_account_of(tenant.pod)
        field = tenant.pod.at("serviceAccountName")
        if account is UNKNOWN:
            yield unknown(field)
        elif account == "default":
            yield fail(field, "runs as the default account")
        elif tenant.namespace is not UNKNOWN:
            other = first.setdefault((tenant.namespace, account), tenant.class_name)
            if other is not tenant.class_name and UNKNOWN in (other, tenant.class_name):
                yield unknown(field, "whether another class has the same account is not known yet")
            elif other != tenant.class_name:
                yield fail(field, f"shares the account '{account}' with another class")
    yield from _default_account(graph)


@rule(
    id="IAM-03",
    title="Neither sandboxes nor everybody have a role in the cluster",
    severity="Critical",
    why="Any code of any tenant can use a role of sandboxes or of everybody.",
    fix="Remove the binding, and let the platform's own service accounts do the work in the cluster.",
    equivalents={"CIS": ("5.1.5", "5.1.8"), "Kyverno": ("restrict-binding-system-groups",)},
    applies_to=GRAPH,
    defaults="A service account has only the permissions of everybody by default (Kubernetes documents, RBAC).",
)
def no_roles(graph: Graph) -> Iterator[Outcome]:
    """Subjects by name, and the groups that accounts are in without being named."""
    accounts = {(one.namespace, service_account_of(one.pod)) for one in tenants(graph)}
    for binding in _bindings(graph):
        if is_one_of(binding.at("roleRef", "name"), HARMLESS):
            continue
        here = namespace_of(graph, binding) if binding.kind == "RoleBinding" else UNKNOWN
        for subject in binding.at("subjects").elements():
            kind, name, space = subject.at("kind"), subject.at("name"), subject.at("namespace")
            if kind.unknown or name.unknown:
                yield unknown(kind if kind.unknown else name)
            elif is_one_of(kind, {"Group", "User"}) and name.raw == "system:anonymous":
                yield fail(name, "gives a role to callers that nobody knows")
            elif kind.raw == "Group":
                yield from _group(graph, name)
            elif kind.raw == "ServiceAccount":
                place = here if space.missing else scalar(space)
                if space.unknown:
                    yield unknown(space)
                elif (place, scalar(name)) in accounts or _of_tenants(graph, place):
                    yield fail(subject, "gives a role to the account of sandboxes")


@rule(
    id="IAM-10",
    title="No Secret has a token that never expires",
    severity="High",
    why="A token in a Secret never expires and is not bound to a pod, so a copy works forever.",
    fix="Remove the Secret. Use the TokenRequest API or a projected volume, whose tokens expire.",
    equivalents={"CIS": ("5.1.6",), "Kyverno": ("deny-secret-service-account-token-type",)},
    applies_to=objects("", "Secret"),
    defaults="Kubernetes creates no such Secret since 1.24 (Kubernetes documents).",
)
def lasting_token(secret: KubernetesObject) -> Iterator[Outcome]:
    """By its type, in whatever namespace: what it is for says an annotation that may change."""
    if secret.patch and secret.at("type").missing:
        return
    yield from forbid(secret.at("type"), lambda value: value == TOKEN_SECRET, "holds a token that never expires")


def _default_account(graph: Graph) -> Iterator[Outcome]:
    for thing in graph.objects("", "ServiceAccount"):
        if thing.name.raw == "default" and not thing.patch:
            flag = thing.at("automountServiceAccountToken")
            yield from forbid_boolean(flag, {True, None}, "every pod that names no account carries its token")
    for binding in _bindings(graph):
        for subject in binding.at("subjects").elements():
            if subject.at("kind").raw == "ServiceAccount" and subject.at("name").raw == "default":
                yield fail(subject, "gives a role to every pod that names no account")


@dataclass(frozen=True)
class _Bound:
    accounts: frozenset[tuple[object, object]]
    # Some binding's subject is not known: it may be anybody's
    unknown: bool


def _group(graph: Graph, name: Field) -> Iterator[Outcome]:
    if is_one_of(name, EVERYBODY):
        yield fail(name, "gives a role to everybody, sandboxes too")
    elif name.raw == MASTERS:
        yield fail(name, "names a group that may do everything, and that nobody can be taken out of")
    elif _of_tenants(graph, str(name.raw).removeprefix(f"{ALL_ACCOUNTS}:")) and ALL_ACCOUNTS in str(name.raw):
        yield fail(name, "gives a role to all accounts of a namespace of sandboxes")


def _of_tenants(graph: Graph, place: object) -> bool:
    space = find_namespace(graph, place) if isinstance(place, str) else None
    return space is not None and space.has_tenants


def _tenant(graph: Graph, pod: PodSpec) -> bool:
    if pod.sandbox:
        return True
    name = namespace_of(graph, pod.owner)
    return isinstance(name, str) and name in namespaces(graph) and namespaces(graph)[name].has_tenants


def _account(graph: Graph, pod: PodSpec) -> KubernetesObject | None:
    return _accounts(graph).get((namespace_of(graph, pod.owner), service_account_of(pod)))


def _bound(graph: Graph, pod: PodSpec) -> bool:
    """Whether anything is bound to its account: then it has work to do in the cluster."""
    account = service_account_of(pod)
    found = _subjects(graph)
    return account != "default" and (found.unknown or (namespace_of(graph, pod.owner), account) in found.accounts)


def _bindings(graph: Graph) -> list[KubernetesObject]:
    return [one for one in graph.objects(RBAC, "RoleBinding", "ClusterRoleBinding") if not one.patch]


@once_per_graph
def _accounts(graph: Graph) -> dict[tuple[object, object], KubernetesObject]:
    return {
        (namespace_of(graph, one), scalar(one.name)): one
        for one in graph.objects("", "ServiceAccount")
        if not one.patch
    }


@once_per_graph
def _subjects(graph: Graph) -> _Bound:
    found: set[tuple[object, object]] = set()
    unknown_ones = False
    for binding in _bindings(graph):
        for subject in binding.at("subjects").elements():
            space = subject.at("namespace")
            unknown_ones = unknown_ones or subject.unknown or space.unknown
            found.add((namespace_of(graph, binding) if space.missing else scalar(space), scalar(subject.at("name"))))
    return _Bound(frozenset(found), unknown_ones)
