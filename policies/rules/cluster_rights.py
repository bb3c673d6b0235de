"""CLU: who may do what in the cluster: roles of Kubernetes, what binds them, and access entries of EKS."""

from __future__ import annotations

from collections.abc import Iterator

from policies.rules.registry import GRAPH, Outcome, fail, objects, rule, unknown
from policies.view.fields import Field
from policies.view.graph import Graph
from policies.view.resource import KubernetesObject

RBAC = "rbac.authorization.k8s.io"
ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
# Each is a way into other people's pods, or to more rights than one was given; with the verbs that do it
DOORS: dict[str, frozenset[str]] = {
    "pods/exec": frozenset({"get", "create"}),
    "pods/attach": frozenset({"get", "create"}),
    "pods/portforward": frozenset({"get", "create"}),
    "pods/ephemeralcontainers": frozenset({"update", "patch"}),
    "pods/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "nodes/proxy": frozenset({"get", "create", "update", "patch", "delete"}),
    "serviceaccounts/token": frozenset({"create"}),
}
CLIMBING = frozenset({"escalate", "bind", "impersonate"})
OWN_ROLES = tuple(f"kubernetes:{RBAC}/v1:{kind}" for kind in ("ClusterRole", "Role"))
# So many admins of everything can be called by name
ADMINS = 5
ADMIN_POLICIES = ("/AmazonEKSClusterAdminPolicy", "/AmazonEKSAdminPolicy")


@rule(
    id="CLU-04",
    title="A role has no wildcards and opens no door into pods",
    severity="High",
    why="A wildcard grows with every kind that is ever installed; exec, node proxies and impersonation lead into other"
    " tenants' sandboxes or to more rights than were given.",
    do="Name groups, resources and verbs; give exec, nodes/proxy, escalate, bind and impersonate to people only,"
    " through access entries.",
    equivalents={
        "Checkov": ("CKV_K8S_49", "CKV_K8S_155", "CKV_K8S_156", "CKV_K8S_157", "CKV_K8S_158"),
        "CIS": ("4.1.3", "4.1.8"),
        "Kyverno": ("restrict-wildcard-resources", "restrict-wildcard-verbs", "restrict-escalation-verbs-roles"),
    },
    about=objects(RBAC, "Role", "ClusterRole"),
)
def powerful_roles(role: KubernetesObject) -> Iterator[Outcome]:
    """Each rule of the role by itself."""
    for row in role.at("rules").elements():
        if row.unknown:
            yield unknown(row)
            continue
        for key in ("apiGroups", "resources", "verbs", "nonResourceURLs"):
            for element in row.at(key).elements():
                if element.unknown:
                    yield unknown(element)
                elif element.raw == "*" or (key == "resources" and element.raw in {"*/*", "pods/*", "nodes/*"}):
                    yield fail(element, f"the role has a wildcard among its {key}")
                elif key == "verbs" and element.raw in CLIMBING:
                    yield fail(element, f"the role may {element.raw}: it is as strong as whatever it can reach so")
        yield from _doors(row)


def _doors(row: Field) -> Iterator[Outcome]:
    verbs = {verb.raw for verb in row.at("verbs").elements()}
    for resource in row.at("resources").elements():
        opening = DOORS.get(resource.raw, frozenset()) if isinstance(resource.raw, str) else frozenset[str]()
        if opening & verbs or (opening and "*" in verbs):
            yield fail(resource, f"the role opens {resource.raw}: a way into what runs in the cluster")


@rule(
    id="CLU-10",
    title="Admins of the whole cluster are few, and people or pipelines",
    severity="Medium",
    why="Each of them reads every sandbox's files and secrets; nobody watches what a long list does.",
    do="Give AmazonEKSViewPolicy, and AmazonEKSEditPolicy in the namespaces where somebody works, to all who do not"
    " operate the cluster.",
    about=GRAPH,
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
        admins.setdefault(association.urn if principal.unknown else principal.raw, principal)
        if isinstance(principal.raw, str) and principal.raw.endswith((":root", ":user/*", ":role/*")):
            yield fail(principal, "a whole account is admin of the cluster")
    if len(admins) > ADMINS:
        for principal in list(admins.values())[ADMINS:]:
            yield fail(principal, f"the cluster has {len(admins)} admins of everything; {ADMINS} can be told by name")


@rule(
    id="CLU-11",
    title="Nothing is bound to cluster-admin inside the cluster",
    severity="High",
    why="Whoever holds cluster-admin owns every sandbox; a service account that has it is one flaw of its pod away.",
    do="Bind a role that names what is needed; give people who operate the cluster an access entry.",
    equivalents={
        "CIS": ("4.1.1", "4.1.7"),
        "Kyverno": ("restrict-binding-clusteradmin", "restrict-binding-system-groups"),
    },
    about=objects(RBAC, "ClusterRoleBinding", "RoleBinding"),
    defaults="Kubernetes binds it to system:masters itself (its reference, default roles): that binding is no finding.",
)
def bound_to_cluster_admin(binding: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """The role by its name, or as one that the stack makes itself: Kubernetes makes cluster-admin.

    The one binding that every cluster is born with is none of ours.
    """
    name = binding.at("roleRef", "name")
    own = graph.targets(binding.resource, "roleRef", *OWN_ROLES)
    subjects = {subject.at("name").raw for subject in binding.at("subjects").elements()}
    if name.unknown:
        if not own or any(role.at("metadata", "name").raw == "cluster-admin" for role in own):
            yield unknown(name)
    elif name.raw == "cluster-admin" and not (binding.name.raw == "cluster-admin" and subjects == {"system:masters"}):
        yield fail(name, "it gives cluster-admin away")
    for subject in binding.at("subjects").elements():
        if subject.at("name").raw == "system:masters" and binding.name.raw != "cluster-admin":
            yield fail(subject.at("name"), "system:masters is above all rights already, and cannot be taken back")
