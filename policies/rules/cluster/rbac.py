"""CLU: who may do what in the cluster: roles of Kubernetes, what binds them, and access entries of EKS."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, objects, rule, unknown
from agentenv.policies.view.fields import Field, is_one_of, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject

RBAC = "rbac.authorization.k8s.io"
ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
ADMISSION, CERTIFICATES = "admissionregistration.k8s.io", "certificates.k8s.io"
_CHANGING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READING = frozenset({"get", "list", "watch"})
# Each is a way into other people's pods, or to more rights than one was given; with the verbs that do it
INTO_PODS: dict[str, frozenset[str]] = {
    "pods/exec": frozenset({"get", "create"}),
    "pods/attach": frozenset({"get", "create"}),
    "pods/portforward": frozenset({"get", "create"}),
    "pods/ephemeralcontainers": frozenset({"update", "patch"}),
    "pods/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "nodes/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "serviceaccounts/token": frozenset({"create"}),
}
# Open to a whole cluster only: in a namespace a role may read what its own work needs, and none of the others is there
WIDE: dict[tuple[str, str], frozenset[str]] = {
    ("", "secrets"): _READING,
    (ADMISSION, "validatingwebhookconfigurations"): _CHANGING,
    (ADMISSION, "mutatingwebhookconfigurations"): _CHANGING,
    (ADMISSION, "validatingadmissionpolicies"): _CHANGING,
    (ADMISSION, "validatingadmissionpolicybindings"): _CHANGING,
    (ADMISSION, "mutatingadmissionpolicies"): _CHANGING,
    (ADMISSION, "mutatingadmissionpolicybindings"): _CHANGING,
    # Who approves a request needs both that and its signer, and requests have names that nobody knows before
    (CERTIFICATES, "signers"): frozenset({"approve", "sign"}),
}
# Signers by whose certificates Kubernetes itself knows who somebody is
OWN_SIGNERS = "kubernetes.io/"
CLIMBING = frozenset({"escalate", "bind", "impersonate"})
WILDCARDS: dict[str, frozenset[str]] = {
    "apiGroups": frozenset({"*"}),
    "resources": frozenset({"*", "*/*", "pods/*", "nodes/*"}),
    "verbs": frozenset({"*"}),
    "nonResourceURLs": frozenset({"*", "/*"}),
}
# What has such a label is part of other roles, which anything may bind
AGGREGATED = f"{RBAC}/aggregate-to-"
OWN_ROLES = tuple(f"kubernetes:{RBAC}/v1:{kind}" for kind in ("ClusterRole", "Role"))
# So many admins of everything can be called by name
ADMINS = 5
ADMIN_POLICIES = ("/AmazonEKSClusterAdminPolicy", "/AmazonEKSAdminPolicy")


@rule(
    id="CLU-04",
    title="Roles have no wildcards, and no permissions to enter pods or escalate privileges",
    severity="High",
    why="A wildcard includes every kind that is installed later. exec, node proxies and impersonation lead into other"
    " tenants' sandboxes, or to more permissions. A role that reads the Secrets of all namespaces, approves"
    " certificates or changes admission policies can bypass them.",
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
    """Each rule of the role by itself; one that is only ever bound in namespaces is as good as a namespace's."""
    wide = role.kind == "ClusterRole" and not _in_namespaces_only(graph, role)
    for row in role.at("rules").elements():
        if row.unknown:
            yield unknown(row)
            continue
        for key, stars in WILDCARDS.items():
            for element in row.at(key).elements():
                if element.unknown:
                    yield unknown(element)
                elif is_one_of(element, stars):
                    yield fail(element, f"the role has a wildcard among its {key}")
                elif key == "verbs" and is_one_of(element, CLIMBING):
                    yield fail(element, f"the role may {element.raw}: it is as strong as whatever it can reach so")
        yield from _doors(row)
        if wide:
            yield from _wide(row)


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
    """What it may do with those that it names is its own affair; one of the whole cluster is CLU-04's."""
    if role.kind == "ClusterRole" and not _in_namespaces_only(graph, role):
        return
    for row in role.at("rules").elements():
        for resource in row.at("resources").elements():
            if resource.unknown:
                yield unknown(resource)
            elif resource.raw == "secrets" and _among(row, ""):
                yield from _reads(row, resource)


def _in_namespaces_only(graph: Graph, role: KubernetesObject) -> bool:
    """Whether a role of the cluster is bound by RoleBindings, and surely by nothing that reaches further."""
    labels = role.labels
    if labels.unknown or any(key.startswith(AGGREGATED) for key, _ in labels.entries()):
        return False
    kinds = {
        kind for kind, name, urns in _bound(graph) if role.urn in urns or (name is not None and name == role.name.raw)
    }
    return kinds == {"RoleBinding"} and not any(
        kind == "ClusterRoleBinding" and name is None and not urns for kind, name, urns in _bound(graph)
    )


@once_per_graph
def _bound(graph: Graph) -> list[tuple[str, str | None, frozenset[str]]]:
    """Every binding of a role of the cluster: its kind, that role's name where it is known, and what it comes from."""
    found: list[tuple[str, str | None, frozenset[str]]] = []
    for binding in graph.objects(RBAC, "RoleBinding", "ClusterRoleBinding"):
        if binding.at("roleRef", "kind").raw == "Role":
            continue
        name = binding.at("roleRef", "name").raw
        own = graph.targets(binding.resource, "roleRef", *OWN_ROLES) if not isinstance(name, str) else []
        found.append((binding.kind, name if isinstance(name, str) else None, frozenset(one.urn for one in own)))
    return found


def _reads(row: Field, resource: Field) -> Iterator[Outcome]:
    names, reads = row.at("resourceNames"), bool(_verbs(row) & {*_READING, "*"})
    unsaid = next((verb for verb in row.at("verbs").elements() if verb.unknown), None)
    if not (reads or unsaid) or (names.known and names.elements()):
        return
    if names.unknown:
        yield unknown(names)
    elif reads:
        yield fail(resource, "the role reads every Secret of its namespace")
    elif unsaid is not None:
        yield unknown(unsaid)


def _doors(row: Field) -> Iterator[Outcome]:
    verbs = _verbs(row)
    for resource in row.at("resources").elements():
        opened = {verb for name, opening in INTO_PODS.items() if _means(resource, name) for verb in (*opening, "*")}
        if opened & verbs:
            yield fail(resource, f"the role opens {resource.raw}: a way into what runs in the cluster")


def _wide(row: Field) -> Iterator[Outcome]:
    verbs = _verbs(row)
    for resource in row.at("resources").elements():
        for (group, name), opening in WIDE.items():
            # A verb of its own that is a star is a wildcard already, and said so
            if not (_means(resource, name) and _among(row, group) and opening & verbs):
                continue
            if row.at("resourceNames").unknown:
                yield unknown(row.at("resourceNames"))
            elif _unnamed(row, name):
                yield fail(resource, f"the role may {', '.join(sorted(opening & verbs))} {name} in the whole cluster")


def _verbs(row: Field) -> set[str]:
    return {str(scalar(verb)) for verb in row.at("verbs").elements()}


def _among(row: Field, group: str) -> bool:
    """Whether it is about a group; one whose groups are not known, or not said, may be about any."""
    groups = row.at("apiGroups")
    return groups.missing or any(one.unknown or is_one_of(one, {group, "*"}) for one in groups.elements())


def _means(resource: Field, name: str) -> bool:
    """Whether a row's resource is that one: by its name, or by a star before its part (`*/exec`)."""
    _, slash, part = name.partition("/")
    return resource.raw == name or (bool(slash) and resource.raw == f"*/{part}")


def _unnamed(row: Field, name: str) -> bool:
    """Whether it is about all of them; of signers, about one of Kubernetes' own."""
    names = row.at("resourceNames").elements()
    if name != "signers":
        return not names
    return not names or any(str(scalar(one)).startswith(OWN_SIGNERS) for one in names)


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
    """By access entries: at cluster scope, with one of the two admin policies."""
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
            yield fail(principal, "a whole account is admin of the cluster")
    if len(admins) > ADMINS:
        for principal in list(admins.values())[ADMINS:]:
            yield fail(principal, f"the cluster has {len(admins)} admins of everything; {ADMINS} can be told by name")


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
    """The role by its name, or as one that the stack makes itself: Kubernetes makes cluster-admin.

    The one binding that every cluster is born with is none of ours.
    """
    name = binding.at("roleRef", "name")
    own = graph.targets(binding.resource, "roleRef", *OWN_ROLES)
    subjects = {scalar(subject.at("name")) for subject in binding.at("subjects").elements()}
    if name.unknown:
        if not own or any(role.at("metadata", "name").raw == "cluster-admin" for role in own):
            yield unknown(name)
    elif name.raw == "cluster-admin" and not (binding.name.raw == "cluster-admin" and subjects == {"system:masters"}):
        yield fail(name, "it gives cluster-admin away")
    for subject in binding.at("subjects").elements():
        if subject.at("name").raw == "system:masters" and binding.name.raw != "cluster-admin":
            yield fail(subject.at("name"), "system:masters is above all rights already, and cannot be taken back")
