"""Who a caller is to the cluster: AWS principals, access entries and access policies, as user, groups and roles.

EKS decides access policies in an authorizer of its own. Here each policy is a ClusterRole and each association a group
that only the reviewer hands out, so that the API server's own RBAC decides.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

POLICY_ARN = "arn:aws:eks::aws:cluster-access-policy/"
_GROUP = "rehearsal:access"  # EKS refuses no such name, but our reviewer never passes it on from an entry
_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]

# The rules of Kubernetes' own roles before aggregation: to EKS's policies, custom resources are strangers
_USER_FACING: Mapping[str, Sequence[str]] = {
    "AmazonEKSAdminPolicy": ("view", "edit", "admin"),
    "AmazonEKSEditPolicy": ("view", "edit"),
    "AmazonEKSViewPolicy": ("view",),
}
# What the role of Kubernetes lets editors do and EKS's policies do not, as its reference of them has it.
_LEFT_OUT = frozenset({"serviceaccounts/token", "pods/eviction", "leases", "resourceclaims", "resourceclaimtemplates"})
_WRITTEN: Mapping[str, list[Object]] = {
    "AmazonEKSClusterAdminPolicy": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "AmazonEKSAdminViewPolicy": [{"apiGroups": ["*"], "resources": ["*"], "verbs": _READ}],
}
POLICIES = (*_WRITTEN, *_USER_FACING)

_PRINCIPAL = re.compile(
    r"arn:(?P<partition>[\w-]+):(?:iam|sts)::(?P<account>\d{12}):"
    r"(?P<kind>role|user|assumed-role|federated-user|root)(?:/(?P<rest>.+))?"
)


@dataclass(frozen=True)
class Principal:
    """A role, user or account, by what identifies it: names are unique whatever their path."""

    account: str
    kind: str
    name: str
    session: str = ""

    def same(self, other: Principal) -> bool:
        """Whether both are one, whatever the session."""
        return (self.account, self.kind, self.name) == (other.account, other.kind, other.name)


def principal(arn: str) -> Principal | None:
    """Read an ARN as an access entry or STS spells it: an assumed role is its role, in a session."""
    found = _PRINCIPAL.fullmatch(arn)
    if found is None:
        return None
    kind, rest = found["kind"], found["rest"] or ""
    if kind == "assumed-role":
        name, _, session = rest.partition("/")
        return Principal(found["account"], "role", name, session)
    return Principal(found["account"], kind, rest.rpartition("/")[2])


@dataclass(frozen=True)
class Association:
    """A policy for an entry: over the cluster, or over the namespaces that match."""

    policy: str
    namespaces: tuple[str, ...] = ()

    def groups(self) -> list[str]:
        """The groups that stand for it."""
        if not self.namespaces:
            return [f"{_GROUP}:{self.policy}"]
        return [f"{_GROUP}:{self.policy}:{pattern}" for pattern in self.namespaces]


def association(row: Mapping[str, Any]) -> Association:
    """Read one as ListAssociatedAccessPolicies tells it."""
    scope = row["accessScope"]
    spaces = tuple(scope.get("namespaces", ())) if scope["type"] == "namespace" else ()
    return Association(row["policyArn"].removeprefix(POLICY_ARN), spaces)


def identity(entry: Mapping[str, Any], who: Principal, associations: Iterable[Association]) -> tuple[str, list[str]]:
    """User name and groups of a caller who has this entry."""
    given: str = entry.get("username") or entry["principalArn"]
    user = given.replace("{{SessionNameRaw}}", who.session).replace("{{SessionName}}", who.session.replace("@", "-"))
    groups = [name for name in entry.get("kubernetesGroups") or () if not name.startswith(_GROUP)]
    for one in associations:
        groups.extend(one.groups())
    return user, list(dict.fromkeys(groups))


def cluster_roles(user_facing: Mapping[str, list[Object]]) -> list[Object]:
    """A ClusterRole for each policy, and its binding over the whole cluster.

    `user_facing` are the rules of `system:aggregate-to-…` as the server has them.
    """
    rules = {name: [*_known(user_facing, parts)] for name, parts in _USER_FACING.items()}
    made: list[Object] = []
    for policy, its in {**_WRITTEN, **rules}.items():
        name = f"{_GROUP}:{policy}"
        made.extend(
            (
                {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": its},
                _binding("ClusterRoleBinding", {"name": name}, name, name),
            )
        )
    return made


def _known(user_facing: Mapping[str, list[Object]], parts: Sequence[str]) -> Iterator[Object]:
    """What of these rules EKS's policies have too."""
    for rule in (rule for part in parts for rule in user_facing[part]):
        resources = [one for one in rule.get("resources", ()) if one not in _LEFT_OUT]
        if resources:
            yield {**rule, "resources": resources}
        elif "resources" not in rule:
            yield rule


def bindings(associations: Iterable[Association], namespaces: Sequence[str]) -> list[Object]:
    """What has to be in the namespaces there are, for associations over namespaces to work."""
    return [
        _binding("RoleBinding", {"name": group, "namespace": space}, f"{_GROUP}:{one.policy}", group)
        for one in associations
        if one.policy in POLICIES
        for pattern, group in zip(one.namespaces, one.groups(), strict=bool(one.namespaces))
        for space in namespaces
        if fnmatch.fnmatchcase(space, pattern)
    ]


def _binding(kind: str, about: Object, role: str, group: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": about,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group}],
    }
