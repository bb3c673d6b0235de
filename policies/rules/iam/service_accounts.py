"""IAM, in the cluster: the tokens that pods carry, the accounts that they run as, and what those are bound to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.rules.registry import GRAPH, POD, Outcome, fail, forbid, forbid_switch, objects, rule, unknown
from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field, boolean_or_unknown, is_one_of, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import place_of, space_of, spaces
from agentenv.policies.view.tenants.tenants import account_of, tenants

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
    title="No pod carries a token for the API that it does not need",
    severity="High",
    why="A token in a pod is its account's key to the API server for whoever is in the pod.",
    do="Set automountServiceAccountToken to false on the pod or on its service account, and give projected tokens an"
    " audience.",
    equivalents={
        "Checkov": ("CKV_K8S_38",),
        "CIS": ("5.1.6",),
        "Kyverno": ("restrict-automount-sa-token",),
    },
    about=POD,
    defaults="Mounted where neither pod nor account says otherwise (Kubernetes API reference, PodSpec); not for pods of"
    " a SandboxTemplate, for which the controller says no (agent-sandbox v1.0.3). A projected token is for the API"
    " where no audience is given.",
)
def token(pod: PodSpec, graph: Graph) -> Iterator[Outcome]:
    """A workload of the platform whose account is bound to a role in the same stack needs its token."""
    flag = pod.at("automountServiceAccountToken")
    tenant = _tenant(graph, pod)
    if boolean_or_unknown(flag) is UNKNOWN:
        yield from forbid_switch(flag, (), "")
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
    title="Sandboxes run as an account of their class's own",
    severity="High",
    why="Whatever is given to the default account, or to one that others share, is given to every sandbox.",
    do="Create a service account for the class in its namespace and name it in serviceAccountName; bind nothing to the"
    " default account.",
    equivalents={"Checkov": ("CKV_K8S_41", "CKV_K8S_42"), "CIS": ("5.1.5",)},
    about=GRAPH,
    defaults="The account `default` where nothing is said, with a token (Kubernetes API reference, PodSpec).",
)
def own_account(graph: Graph) -> Iterator[Outcome]:
    """And the default account itself, where the stack speaks of it."""
    first: dict[tuple[object, object], object] = {}
    for tenant in tenants(graph):
        account = account_of(tenant.pod)
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
    title="No role in the cluster for sandboxes or for everybody",
    severity="Critical",
    why="A role that a sandbox's account has, or that everybody has, is one that any code of any tenant has.",
    do="Remove the binding; let the platform's own accounts do what has to be done in the cluster.",
    equivalents={"CIS": ("5.1.5", "5.1.8"), "Kyverno": ("restrict-binding-system-groups",)},
    about=GRAPH,
    defaults="A service account has no rights of its own but what everybody has (Kubernetes documents, RBAC).",
)
def no_roles(graph: Graph) -> Iterator[Outcome]:
    """Subjects by name, and the groups that accounts are in without being named."""
    accounts = {(one.namespace, account_of(one.pod)) for one in tenants(graph)}
    for binding in _bindings(graph):
        if is_one_of(binding.at("roleRef", "name"), HARMLESS):
            continue
        here = place_of(graph, binding) if binding.kind == "RoleBinding" else UNKNOWN
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
    title="No token of an account that lasts for ever",
    severity="High",
    why="A token in a Secret never expires and is tied to no pod: whoever has read it once has it for good.",
    do="Remove the Secret; ask for tokens with an end by the TokenRequest API, or by a projected volume.",
    equivalents={"CIS": ("5.1.6",), "Kyverno": ("deny-secret-service-account-token-type",)},
    about=objects("", "Secret"),
    defaults="Since Kubernetes 1.24 no such Secret is made where nobody asks for it (Kubernetes documents).",
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
            yield from forbid_switch(flag, {True, None}, "every pod that names no account carries its token")
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
    space = space_of(graph, place) if isinstance(place, str) else None
    return space is not None and space.tenants


def _tenant(graph: Graph, pod: PodSpec) -> bool:
    if pod.sandbox:
        return True
    name = place_of(graph, pod.owner)
    return isinstance(name, str) and name in spaces(graph) and spaces(graph)[name].tenants


def _account(graph: Graph, pod: PodSpec) -> KubernetesObject | None:
    return _accounts(graph).get((place_of(graph, pod.owner), account_of(pod)))


def _bound(graph: Graph, pod: PodSpec) -> bool:
    """Whether anything is bound to its account: then it has work to do in the cluster."""
    account = account_of(pod)
    found = _subjects(graph)
    return account != "default" and (found.unknown or (place_of(graph, pod.owner), account) in found.accounts)


def _bindings(graph: Graph) -> list[KubernetesObject]:
    return [one for one in graph.objects(RBAC, "RoleBinding", "ClusterRoleBinding") if not one.patch]


@once_per_graph
def _accounts(graph: Graph) -> dict[tuple[object, object], KubernetesObject]:
    return {
        (place_of(graph, one), scalar(one.name)): one for one in graph.objects("", "ServiceAccount") if not one.patch
    }


@once_per_graph
def _subjects(graph: Graph) -> _Bound:
    found: set[tuple[object, object]] = set()
    unknown_ones = False
    for binding in _bindings(graph):
        for subject in binding.at("subjects").elements():
            space = subject.at("namespace")
            unknown_ones = unknown_ones or subject.unknown or space.unknown
            found.add((place_of(graph, binding) if space.missing else scalar(space), scalar(subject.at("name"))))
    return _Bound(frozenset(found), unknown_ones)
