"""Map AWS principals, access entries and access policies to users, groups and roles.

EKS evaluates access policies in an authorizer of its own. Here each policy is a ClusterRole, and each association a
group that only the token webhook assigns, so that the API server's RBAC decides. Entries and associations take effect
some seconds after they were created, because EKS is eventually consistent there.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Object = dict[str, Any]

ENTRY_DELAY = timedelta(seconds=3)  # from the creation of an entry until its principal is authenticated
POLICY_DELAY = timedelta(seconds=5)  # from the association of a policy until it grants anything

POLICY_ARN = "arn:aws:eks::aws:cluster-access-policy/"
_GROUP = "rehearsal:access"  # EKS allows this name, but the token webhook never takes it from an entry
_RBAC = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]

# The rules of Kubernetes' own roles before aggregation: EKS's policies do not cover custom resources
_USER_FACING: Mapping[str, Sequence[str]] = {
    "AmazonEKSAdminPolicy": ("view", "edit", "admin"),
    "AmazonEKSEditPolicy": ("view", "edit"),
    "AmazonEKSViewPolicy": ("view",),
}
# What the role of Kubernetes lets editors do and EKS's policies do not, as its reference of them has it.
_EXCLUDED = frozenset({"serviceaccounts/token", "pods/eviction", "leases", "resourceclaims", "resourceclaimtemplates"})
_RULES: Mapping[str, list[Object]] = {
    "AmazonEKSClusterAdminPolicy": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ],
    "AmazonEKSAdminViewPolicy": [{"apiGroups": ["*"], "resources": ["*"], "verbs": _READ}],
}
POLICIES = (*_RULES, *_USER_FACING)

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
        """Return whether both are the same principal, whatever the session."""
        return (self.account, self.kind, self.name) == (other.account, other.kind, other.name)


def principal(arn: str) -> Principal | None:
    """Parse an ARN of an access entry or of STS: an assumed role is its role, in a session."""
    match = _PRINCIPAL.fullmatch(arn)
    if match is None:
        return None
    kind, rest = match["kind"], match["rest"] or ""
    if kind == "assumed-role":
        name, _, session = rest.partition("/")
        return Principal(match["account"], "role", name, session)
    return Principal(match["account"], kind, rest.rpartition("/")[2])


@dataclass(frozen=True)
class Association:
    """An access policy of an entry: over the cluster, or over the namespaces that match."""

    policy: str
    namespaces: tuple[str, ...] = ()

    def groups(self) -> list[str]:
        """Return the groups that represent the association."""
        if not self.namespaces:
            return [f"{_GROUP}:{self.policy}"]
        return [f"{_GROUP}:{self.policy}:{pattern}" for pattern in self.namespaces]


def entry_in_effect(entry: Mapping[str, Any], now: datetime) -> bool:
    """Return whether EKS authenticates the principal of an entry yet."""
    return now - entry["createdAt"] >= ENTRY_DELAY


def policies_in_effect(rows: Iterable[Mapping[str, Any]], now: datetime) -> list[Association]:
    """Return the associations, as ListAssociatedAccessPolicies returns them, that grant something yet."""
    return [association(row) for row in rows if now - row["associatedAt"] >= POLICY_DELAY]


def association(row: Mapping[str, Any]) -> Association:
    """Parse an association as ListAssociatedAccessPolicies returns it."""
    scope = row["accessScope"]
    namespaces = tuple(scope.get("namespaces", ())) if scope["type"] == "namespace" else ()
    return Association(row["policyArn"].removeprefix(POLICY_ARN), namespaces)


def identity(entry: Mapping[str, Any], caller: Principal, associations: Iterable[Association]) -> tuple[str, list[str]]:
    """Return the user name and groups of a caller with this entry."""
    template: str = entry.get("username") or entry["principalArn"]
    user = template.replace("{{SessionNameRaw}}", caller.session).replace(
        "{{SessionName}}", caller.session.replace("@", "-")
    )
    groups = [name for name in entry.get("kubernetesGroups") or () if not name.startswith(_GROUP)]
    for association in associations:
        groups.extend(association.groups())
    return user, list(dict.fromkeys(groups))


def cluster_roles(user_facing: Mapping[str, list[Object]]) -> list[Object]:
    """Return a ClusterRole for each policy, and its binding over the whole cluster.

    `user_facing` are the rules of `system:aggregate-to-…` as the server has them.
    """
    rules = {name: [*_eks_rules(user_facing, parts)] for name, parts in _USER_FACING.items()}
    objects: list[Object] = []
    for policy, policy_rules in {**_RULES, **rules}.items():
        name = f"{_GROUP}:{policy}"
        objects.extend(
            (
                {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": policy_rules},
                _binding("ClusterRoleBinding", {"name": name}, name, name),
            )
        )
    return objects


def _eks_rules(user_facing: Mapping[str, list[Object]], parts: Sequence[str]) -> Iterator[Object]:
    """Yield the rules without the resources that EKS's policies leave out."""
    for rule in (rule for part in parts for rule in user_facing[part]):
        resources = [resource for resource in rule.get("resources", ()) if resource not in _EXCLUDED]
        if resources:
            yield {**rule, "resources": resources}
        elif "resources" not in rule:
            yield rule


def bindings(associations: Iterable[Association], namespaces: Sequence[str]) -> list[Object]:
    """Return the RoleBindings that associations over namespaces need in the existing namespaces."""
    return [
        _binding("RoleBinding", {"name": group, "namespace": namespace}, f"{_GROUP}:{association.policy}", group)
        for association in associations
        if association.policy in POLICIES
        for pattern, group in zip(association.namespaces, association.groups(), strict=bool(association.namespaces))
        for namespace in namespaces
        if fnmatch.fnmatchcase(namespace, pattern)
    ]


def _binding(kind: str, metadata: Object, role: str, group: str) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": group}],
    }
