"""IAM rules about service accounts: the tokens of pods, the accounts of sandboxes, and their roles."""

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
API_AUDIENCES: Final = frozenset({"https://kubernetes.default.svc", "kubernetes.default.svc"})
ALL_ACCOUNTS: Final = "system:serviceaccounts"
# What service accounts authenticate as, followed by `<namespace>:<name>`
ACCOUNT_USER: Final = "system:serviceaccount:"
EVERYBODY: Final = frozenset({"system:authenticated", "system:unauthenticated", ALL_ACCOUNTS})
# Members of this group bypass all permission checks.
MASTERS: Final = "system:masters"
TOKEN_SECRET: Final = "kubernetes.io/service-account-token"  # noqa: S105 - a type
# Roles that Kubernetes grants to everybody (Kubernetes documents, default roles and role bindings)
DEFAULT_ROLES: Final = frozenset({"system:basic-user", "system:discovery", "system:public-info-viewer"})


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
    """Check each pod. A pod of the platform needs its token if its service account has a role in the stack."""
    flag = pod.at("automountServiceAccountToken")
    tenant = _is_tenant(graph, pod)
    if boolean_or_unknown(flag) is UNKNOWN:
        yield from forbid_boolean(flag, (), "")
    elif flag.raw is not False and not (pod.patch and flag.missing) and (tenant or not _has_role(graph, pod)):
        account = _account(graph, pod)
        default = None if account is None else account.at("automountServiceAccountToken")
        by_controller = pod.owner.kind == "SandboxTemplate"
        if flag.missing and default is not None and boolean_or_unknown(default) is UNKNOWN:
            yield unknown(default)
        elif not (flag.missing and (by_controller or (default is not None and default.raw is False))):
            yield fail(flag, "has a token for the API server")
    if not tenant:
        return
    for volume in pod.at("volumes").elements():
        for source in volume.at("projected", "sources").elements():
            projected, audience = source.at("serviceAccountToken"), source.at("serviceAccountToken", "audience")
            if projected.missing:
                continue
            if audience.unknown:
                yield unknown(audience)
            elif audience.missing or is_one_of(audience, (*API_AUDIENCES, "")):
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
    """Check the account of each sandbox, and the default accounts that the stack declares."""
    first: dict[tuple[object, object], object] = {}
    for tenant in tenants(graph):
        account = service_account_of(tenant.pod)
        field = tenant.pod.at("serviceAccountName")
        if account is UNKNOWN:
            yield unknown(field)
        elif account == "default":
            yield fail(field, "runs as the default service account")
        elif tenant.namespace is not UNKNOWN:
            other = first.setdefault((tenant.namespace, account), tenant.class_name)
            if other is not tenant.class_name and UNKNOWN in (other, tenant.class_name):
                yield unknown(field, "whether another class has the same service account is not known yet")
            elif other != tenant.class_name:
                yield fail(field, f"shares the service account '{account}' with another class")
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
    """Check the subjects of each binding: service accounts, and groups of service accounts."""
    accounts = {(tenant.namespace, service_account_of(tenant.pod)) for tenant in tenants(graph)}
    for binding in _bindings(graph):
        if is_one_of(binding.at("roleRef", "name"), DEFAULT_ROLES):
            continue
        here = namespace_of(graph, binding) if binding.kind == "RoleBinding" else UNKNOWN
        for subject in binding.at("subjects").elements():
            kind, name, namespace = subject.at("kind"), subject.at("name"), subject.at("namespace")
            if kind.unknown or name.unknown:
                yield unknown(kind if kind.unknown else name)
            elif is_one_of(kind, {"Group", "User"}) and name.raw == "system:anonymous":
                yield fail(name, "grants a role to unauthenticated callers")
            elif kind.raw == "Group":
                yield from _group(graph, name)
            elif kind.raw == "ServiceAccount" and namespace.unknown:
                yield unknown(namespace)
            elif (account := _account_of(subject, here)) in accounts or (account and _has_tenants(graph, account[0])):
                yield fail(subject, "grants a role to a service account of sandboxes")


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
    """Check the type of the Secret, in any namespace."""
    if secret.patch and secret.at("type").missing:
        return
    yield from forbid(secret.at("type"), lambda value: value == TOKEN_SECRET, "holds a token that never expires")


def _default_account(graph: Graph) -> Iterator[Outcome]:
    for account in graph.objects("", "ServiceAccount"):
        if account.name.raw == "default" and not account.patch:
            flag = account.at("automountServiceAccountToken")
            yield from forbid_boolean(flag, {True, None}, "every pod without a service account has its token")
    for binding in _bindings(graph):
        for subject in binding.at("subjects").elements():
            account = _account_of(subject, None)
            if subject.at("kind").unknown or subject.at("name").unknown:
                yield unknown(subject)
            elif account is not None and account[1] == "default":
                yield fail(subject, "grants a role to every pod without a service account")


@dataclass(frozen=True)
class _Subjects:
    accounts: frozenset[tuple[object, object]]
    has_unknown: bool


def _group(graph: Graph, name: Field) -> Iterator[Outcome]:
    if is_one_of(name, EVERYBODY):
        yield fail(name, "grants a role to everybody, including sandboxes")
    elif name.raw == MASTERS:
        yield fail(name, "names a group that bypasses all permission checks")
    elif _has_tenants(graph, str(name.raw).removeprefix(f"{ALL_ACCOUNTS}:")) and ALL_ACCOUNTS in str(name.raw):
        yield fail(name, "grants a role to all service accounts of a namespace of sandboxes")


def _account_of(subject: Field, namespace: object) -> tuple[object, object] | None:
    """Return the namespace and name of a service account, also if it is named as a user; None for other subjects.

    `namespace` is that of the binding, which applies to a subject without one.
    """
    kind, name, place = subject.at("kind"), scalar(subject.at("name")), subject.at("namespace")
    if kind.raw == "ServiceAccount":
        return (namespace if place.missing else scalar(place)), name
    if kind.raw == "User" and isinstance(name, str) and name.startswith(ACCOUNT_USER):
        where, _, account = name.removeprefix(ACCOUNT_USER).partition(":")
        return where, account
    return None


def _has_tenants(graph: Graph, name: object) -> bool:
    namespace = find_namespace(graph, name) if isinstance(name, str) else None
    return namespace is not None and namespace.has_tenants


def _is_tenant(graph: Graph, pod: PodSpec) -> bool:
    if pod.sandbox:
        return True
    name = namespace_of(graph, pod.owner)
    return isinstance(name, str) and name in namespaces(graph) and namespaces(graph)[name].has_tenants


def _account(graph: Graph, pod: PodSpec) -> KubernetesObject | None:
    return _accounts(graph).get((namespace_of(graph, pod.owner), service_account_of(pod)))


def _has_role(graph: Graph, pod: PodSpec) -> bool:
    """Return whether a role is bound to the service account of a pod, which then needs its token."""
    account, subjects = service_account_of(pod), _subjects(graph)
    return account != "default" and (
        subjects.has_unknown or (namespace_of(graph, pod.owner), account) in subjects.accounts
    )


def _bindings(graph: Graph) -> list[KubernetesObject]:
    return [binding for binding in graph.objects(RBAC, "RoleBinding", "ClusterRoleBinding") if not binding.patch]


@once_per_graph
def _accounts(graph: Graph) -> dict[tuple[object, object], KubernetesObject]:
    accounts = [account for account in graph.objects("", "ServiceAccount") if not account.patch]
    return {(namespace_of(graph, account), scalar(account.name)): account for account in accounts}


@once_per_graph
def _subjects(graph: Graph) -> _Subjects:
    accounts: set[tuple[object, object]] = set()
    has_unknown = False
    for binding in _bindings(graph):
        for subject in binding.at("subjects").elements():
            has_unknown = has_unknown or subject.unknown or subject.at("namespace").unknown
            account = _account_of(subject, namespace_of(graph, binding))
            if account is not None:
                accounts.add(account)
    return _Subjects(frozenset(accounts), has_unknown)
