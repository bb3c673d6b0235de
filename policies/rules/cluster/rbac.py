"""CLU rules about permissions in the cluster: roles, role bindings and access entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentenv.core.capabilities.policies.selectors import matches
from agentenv.policies.rules.registry import GRAPH, Outcome, fail, objects, rule, unknown
from agentenv.policies.view.fields import Field, is_one_of, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.namespaces import NAMESPACE_TYPES, SYSTEM

RBAC = "rbac.authorization.k8s.io"
ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
ADMISSION, CERTIFICATES = "admissionregistration.k8s.io", "certificates.k8s.io"
_WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READ_VERBS = frozenset({"get", "list", "watch"})
_START_VERBS = frozenset({"create", "update", "patch"})
# Resources that give access to other pods or to more permissions, with the verbs that do
POD_ACCESS: dict[str, frozenset[str]] = {
    "pods/exec": frozenset({"get", "create"}),
    "pods/attach": frozenset({"get", "create"}),
    "pods/portforward": frozenset({"get", "create"}),
    "pods/ephemeralcontainers": frozenset({"update", "patch"}),
    "pods/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "services/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "nodes/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "serviceaccounts/token": frozenset({"create"}),
}
# Checked only in cluster-wide roles: most are not namespaced, and Secrets of one namespace may be needed
CLUSTER_WIDE: dict[tuple[str, str], frozenset[str]] = {
    # A patch or an update returns the Secret
    ("", "secrets"): _READ_VERBS | {"update", "patch"},
    (ADMISSION, "validatingwebhookconfigurations"): _WRITE_VERBS,
    (ADMISSION, "mutatingwebhookconfigurations"): _WRITE_VERBS,
    (ADMISSION, "validatingadmissionpolicies"): _WRITE_VERBS,
    (ADMISSION, "validatingadmissionpolicybindings"): _WRITE_VERBS,
    (ADMISSION, "mutatingadmissionpolicies"): _WRITE_VERBS,
    (ADMISSION, "mutatingadmissionpolicybindings"): _WRITE_VERBS,
    # Approving a request needs both this and its signer; the names of requests are not known in advance
    (CERTIFICATES, "signers"): frozenset({"approve", "sign"}),
}
# Likewise, but controllers in namespaces of the platform need them, to create the pods and policies of sandboxes. A
# created pod or volume has any service account, Secret or access point of its namespace. Labels of a namespace, its
# policies and runtime classes isolate its pods.
CONTROLLERS: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): _START_VERBS,
    ("", "replicationcontrollers"): _START_VERBS,
    ("apps", "daemonsets"): _START_VERBS,
    ("apps", "deployments"): _START_VERBS,
    ("apps", "replicasets"): _START_VERBS,
    ("apps", "statefulsets"): _START_VERBS,
    ("batch", "jobs"): _START_VERBS,
    ("batch", "cronjobs"): _START_VERBS,
    ("", "persistentvolumes"): frozenset({"create"}),
    ("", "namespaces"): _WRITE_VERBS - {"create"},
    ("networking.k8s.io", "networkpolicies"): _WRITE_VERBS,
    ("node.k8s.io", "runtimeclasses"): _WRITE_VERBS,
}
# Signers whose certificates authenticate to Kubernetes
KUBERNETES_SIGNERS = "kubernetes.io/"
ESCALATION_VERBS = frozenset({"escalate", "bind", "impersonate"})
WILDCARDS: dict[str, frozenset[str]] = {
    "apiGroups": frozenset({"*"}),
    "resources": frozenset({"*", "*/*", "pods/*", "nodes/*"}),
    "verbs": frozenset({"*"}),
    "nonResourceURLs": frozenset({"*", "/*"}),
}
# A role with such a label is part of other roles, which any binding may use
AGGREGATION_PREFIX = f"{RBAC}/aggregate-to-"
ROLE_TYPES = tuple(f"kubernetes:{RBAC}/v1:{kind}" for kind in ("ClusterRole", "Role"))
# The label of cluster-admin and the other default roles (Kubernetes documents, RBAC)
DEFAULT_ROLE_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
# Those of the default roles that enter pods and read Secrets
ENTERING_ROLE_LABELS = tuple(
    {**DEFAULT_ROLE_LABELS, f"{AGGREGATION_PREFIX}{role}": "true"} for role in ("admin", "edit")
)
# The maximum number of cluster admins
MAX_ADMINS = 5
ADMIN_POLICIES = ("/AmazonEKSClusterAdminPolicy", "/AmazonEKSAdminPolicy")


@rule(
    id="CLU-04",
    title="Roles have no wildcards, and no permissions to enter pods or escalate privileges",
    severity="High",
    why="A wildcard includes every kind that is installed later. exec, node proxies and impersonation lead into other"
    " tenants' sandboxes, or to more permissions. A role that reads Secrets or creates pods in all namespaces, approves"
    " certificates, or changes what isolates pods can bypass them.",
    fix="Name groups, resources and verbs. Grant exec, nodes/proxy, escalate, bind and impersonate only to people, with"
    " access entries. Allow Secrets in one namespace or by resourceNames; name webhooks, admission policies and signers"
    " by resourceNames too.",
    equivalents={
        "Checkov": ("CKV_K8S_49", "CKV_K8S_155", "CKV_K8S_156", "CKV_K8S_157", "CKV_K8S_158", "CKV2_K8S_5"),
        "CIS": ("4.1.2", "4.1.3", "4.1.8"),
        "Kyverno": (
            "restrict-wildcard-resources",
            "restrict-wildcard-verbs",
            "restrict-escalation-verbs-roles",
            "restrict-secret-role-verbs",
        ),
    },
    applies_to=objects(RBAC, "Role", "ClusterRole"),
)
def powerful_roles(role: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check each rule. A ClusterRole that is bound only in namespaces counts as a role of these."""
    cluster_wide: Mapping[tuple[str, str], frozenset[str]] = {}
    if role.kind == "ClusterRole" and not _is_bound_in_namespaces(graph, role):
        cluster_wide = CLUSTER_WIDE if _is_of_platform(graph, role) else {**CLUSTER_WIDE, **CONTROLLERS}
    for row in role.at("rules").elements():
        if row.unknown:
            yield unknown(row)
            continue
        for key, wildcards in WILDCARDS.items():
            for element in row.at(key).elements():
                if element.unknown:
                    yield unknown(element)
                elif is_one_of(element, wildcards):
                    yield fail(element, f"the role has a wildcard among its {key}")
                elif key == "verbs" and is_one_of(element, ESCALATION_VERBS):
                    yield fail(element, f"the role may {element.raw}, which gives it the permissions of others")
        yield from _pod_access(row)
        yield from _cluster_wide(row, cluster_wide)
    for selector in role.at("aggregationRule", "clusterRoleSelectors").elements():
        answers = [matches(selector.raw, labels) for labels in ({}, DEFAULT_ROLE_LABELS)]
        if True in answers:
            yield fail(selector, "the role has the permissions of all others, including cluster-admin")
        elif any(matches(selector.raw, labels) for labels in ENTERING_ROLE_LABELS):
            yield fail(selector, "the role has the permissions of admin or edit, which enter pods and read Secrets")
        elif selector.unknown or selector.holds_unknown():
            yield unknown(selector)


@rule(
    id="CLU-15",
    title="Roles in a namespace name the Secrets that they can read",
    severity="Medium",
    why="Otherwise the role can read every Secret of the namespace, including those that others add later.",
    fix="List the Secrets in resourceNames, and remove list and watch. Better, mount the Secrets, which needs no role.",
    equivalents={"CIS": ("4.1.2",), "Kyverno": ("restrict-secret-role-verbs",)},
    applies_to=objects(RBAC, "Role", "ClusterRole"),
)
def every_secret(role: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check rules for Secrets without names. CLU-04 is about cluster-wide roles."""
    if role.kind == "ClusterRole" and not _is_bound_in_namespaces(graph, role):
        return
    for row in role.at("rules").elements():
        for resource in row.at("resources").elements():
            if resource.unknown:
                yield unknown(resource)
            elif resource.raw == "secrets" and _has_group(row, ""):
                yield from _read_all_secrets(row, resource)


def _is_bound_in_namespaces(graph: Graph, role: KubernetesObject) -> bool:
    """Return whether a ClusterRole is bound by RoleBindings, and certainly by no ClusterRoleBinding."""
    labels = role.labels
    if labels.unknown or any(key.startswith(AGGREGATION_PREFIX) for key, _ in labels.entries()):
        return False
    kinds = {binding.kind for binding in _cluster_role_bindings(graph) if binding.binds(role)}
    return kinds == {"RoleBinding"} and not any(
        binding.kind == "ClusterRoleBinding" and binding.role is None and not binding.urns
        for binding in _cluster_role_bindings(graph)
    )


def _is_of_platform(graph: Graph, role: KubernetesObject) -> bool:
    """Return whether a ClusterRole is bound to service accounts in namespaces of the platform, and to nobody else."""
    bindings = [binding for binding in _cluster_role_bindings(graph) if binding.binds(role)]
    return bool(bindings) and all(binding.of_platform for binding in bindings)


@dataclass(frozen=True)
class _Binding:
    """A binding of a ClusterRole: the role's name if it is known, and the URNs that it depends on."""

    kind: str
    role: str | None
    urns: frozenset[str]
    of_platform: bool

    def binds(self, role: KubernetesObject) -> bool:
        """Return whether it binds a role."""
        return role.urn in self.urns or (self.role is not None and self.role == role.name.raw)


@once_per_graph
def _cluster_role_bindings(graph: Graph) -> list[_Binding]:
    """Return the bindings of ClusterRoles."""
    bindings: list[_Binding] = []
    for binding in graph.objects(RBAC, "RoleBinding", "ClusterRoleBinding"):
        if binding.at("roleRef", "kind").raw == "Role":
            continue
        name = binding.at("roleRef", "name").raw
        targets = graph.targets(binding.resource, "roleRef", *ROLE_TYPES) if not isinstance(name, str) else []
        urns = frozenset(role.urn for role in targets)
        of_platform = all(
            subject.at("kind").raw == "ServiceAccount"
            and _namespace_name(graph, binding, subject.at("namespace")) in SYSTEM
            for subject in binding.at("subjects").elements()
        )
        bindings.append(_Binding(binding.kind, name if isinstance(name, str) else None, urns, of_platform))
    return bindings


def _namespace_name(graph: Graph, binding: KubernetesObject, namespace: Field) -> object:
    """Return a subject's namespace, by the Namespace that an unknown one depends on."""
    if namespace.known:
        return scalar(namespace)
    targets = graph.targets(binding.resource, "subjects", *NAMESPACE_TYPES)
    return targets[0].at("metadata", "name").raw if len(targets) == 1 else None


def _read_all_secrets(row: Field, resource: Field) -> Iterator[Outcome]:
    names, reads = row.at("resourceNames"), bool(_verbs(row) & {*_READ_VERBS, "*"})
    unknown_verb = next((verb for verb in row.at("verbs").elements() if verb.unknown), None)
    if not (reads or unknown_verb) or (names.known and names.elements()):
        return
    if names.unknown:
        yield unknown(names)
    elif reads:
        yield fail(resource, "the role can read every Secret of its namespace")
    elif unknown_verb is not None:
        yield unknown(unknown_verb)


def _pod_access(row: Field) -> Iterator[Outcome]:
    verbs = _verbs(row)
    for resource in row.at("resources").elements():
        matching = [name for name in POD_ACCESS if _is_resource(resource, name)]
        if verbs & {"*", *(verb for name in matching for verb in POD_ACCESS[name])} and matching:
            yield fail(resource, f"the role may use {resource.raw}, which gives access to pods or credentials")


def _cluster_wide(row: Field, permissions: Mapping[tuple[str, str], frozenset[str]]) -> Iterator[Outcome]:
    verbs = _verbs(row)
    for resource in row.at("resources").elements():
        for (group, name), dangerous in permissions.items():
            # A wildcard verb is reported separately
            if not (_is_resource(resource, name) and _has_group(row, group) and dangerous & verbs):
                continue
            if row.at("resourceNames").unknown:
                yield unknown(row.at("resourceNames"))
            elif _is_for_all(row, name):
                yield fail(resource, f"the role may {', '.join(sorted(dangerous & verbs))} {name} in the whole cluster")


def _verbs(row: Field) -> set[str]:
    return {str(scalar(verb)) for verb in row.at("verbs").elements()}


def _has_group(row: Field, group: str) -> bool:
    """Return whether a rule is for an API group. Missing or unknown groups may be any."""
    groups = row.at("apiGroups")
    return groups.missing or any(element.unknown or is_one_of(element, {group, "*"}) for element in groups.elements())


def _is_resource(resource: Field, name: str) -> bool:
    """Return whether a resource of a rule has a name, also with a wildcard (`*/exec`)."""
    _, slash, part = name.partition("/")
    return resource.raw == name or (bool(slash) and resource.raw == f"*/{part}")


def _is_for_all(row: Field, name: str) -> bool:
    """Return whether a rule is for all objects of a resource; for signers, whether it includes one of Kubernetes."""
    names = row.at("resourceNames").elements()
    if name != "signers":
        return not names
    return not names or any(str(scalar(element)).startswith(KUBERNETES_SIGNERS) for element in names)


@rule(
    id="CLU-10",
    title="The cluster has few admins, and no whole account is one",
    severity="Medium",
    why="Every admin can read the files and secrets of all sandboxes. A long list cannot be reviewed.",
    fix="Grant AmazonEKSViewPolicy, or AmazonEKSEditPolicy in some namespaces, to everybody who does not operate the"
    " cluster.",
    applies_to=GRAPH,
)
def cluster_admins(graph: Graph) -> Iterator[Outcome]:
    """Check the access entries with an admin policy for the whole cluster."""
    admins: dict[object, Field] = {}
    for association in graph.of_type(ASSOCIATION):
        policy, scope = association.at("policyArn"), association.at("accessScope", "type")
        if policy.unknown or scope.unknown:
            yield unknown(policy if policy.unknown else scope)
            continue
        if not str(policy.raw).endswith(ADMIN_POLICIES) or scope.raw != "cluster":
            continue
        principal = association.at("principalArn")
        admins.setdefault(association.urn if principal.unknown else scalar(principal), principal)
        if isinstance(principal.raw, str) and principal.raw.endswith((":root", ":user/*", ":role/*")):
            yield fail(principal, "all principals of an account are admins of the cluster")
    for principal in list(admins.values())[MAX_ADMINS:]:
        yield fail(principal, f"the cluster has {len(admins)} admins, and at most {MAX_ADMINS} are allowed")


@rule(
    id="CLU-11",
    title="No binding grants cluster-admin",
    severity="High",
    why="cluster-admin controls every sandbox. If a service account has it, one vulnerability of its pod is enough.",
    fix="Bind a role with the needed permissions. Give operators an access entry.",
    equivalents={
        "CIS": ("4.1.1", "4.1.7"),
        "Kyverno": ("restrict-binding-clusteradmin", "restrict-binding-system-groups"),
    },
    applies_to=objects(RBAC, "ClusterRoleBinding", "RoleBinding"),
    defaults="Kubernetes itself binds it to system:masters (default roles and role bindings), which is not a finding.",
)
def bound_to_cluster_admin(binding: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check the name of the role. A role of the stack is another one, because Kubernetes creates cluster-admin.

    The default binding of every cluster is not a finding.
    """
    name = binding.at("roleRef", "name")
    targets = graph.targets(binding.resource, "roleRef", *ROLE_TYPES)
    subjects = {scalar(subject.at("name")) for subject in binding.at("subjects").elements()}
    if name.unknown:
        if not targets or any(role.at("metadata", "name").raw == "cluster-admin" for role in targets):
            yield unknown(name)
    elif name.raw == "cluster-admin" and not (binding.name.raw == "cluster-admin" and subjects == {"system:masters"}):
        yield fail(name, "it grants cluster-admin")
    for subject in binding.at("subjects").elements():
        if subject.at("name").raw == "system:masters" and binding.name.raw != "cluster-admin":
            yield fail(subject.at("name"), "system:masters bypasses all permission checks and cannot be revoked")
