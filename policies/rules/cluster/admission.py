"""CLU rules about admission to namespaces of sandboxes, and about Helm releases in them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, forbid, objects, resources, rule, unknown
from agentenv.policies.view.cluster.admission import (
    BINDING,
    GROUP,
    POLICY,
    WEBHOOKS,
    AdmissionCheck,
    admission_checks,
    mentions_groups,
    mutations,
)
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.sandbox_namespaces import AGENTS, EXTENSIONS, sandbox_namespaces

RELEASE = "kubernetes:helm.sh/v3:Release"
ENFORCE = "pod-security.kubernetes.io/enforce"
ENFORCE_VERSION = f"{ENFORCE}-version"
_VERSION = re.compile(r"v1\.(\d{1,4})")
# Pod security admission is stable since this minor version, and the restricted standard lost no check since
OLDEST_STANDARD = 25
SANDBOXES = frozenset({AGENTS, EXTENSIONS})
# Resources that create sandboxes at run time, which an admission policy has to check
CHECKED_RESOURCES = ((EXTENSIONS, "sandboxclaims"), (AGENTS, "sandboxes"))


MUTABLE_RESOURCES = (("", "pods"), *CHECKED_RESOURCES, (EXTENSIONS, "sandboxtemplates"))


@rule(
    id="CLU-05",
    title="Namespaces of sandboxes enforce the restricted Pod Security Standard",
    severity="High",
    why="Pods are created at run time, by the controller and others. The label applies to all of them.",
    fix="Label the namespace with pod-security.kubernetes.io/enforce: restricted, and remove enforce-version.",
    equivalents={"CIS": ("4.2.1",), "Kyverno": ("add-psa-labels",)},
    applies_to=objects("", "Namespace"),
    defaults="All pods are admitted by default, and the version is the latest (Kubernetes, pod security admission).",
)
def pod_security(namespace: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check the level and the version of namespaces with sandboxes."""
    if not any(each.declaration is namespace for each in sandbox_namespaces(graph)):
        return
    level = namespace.labels.at(ENFORCE)
    yield from forbid(
        level,
        lambda value: value != "restricted",
        "the restricted standard is not enforced in a namespace of sandboxes",
    )
    version = namespace.labels.at(ENFORCE_VERSION)
    if namespace.labels.unknown or version.missing or version.raw == "latest":
        return
    parsed = _VERSION.fullmatch(version.raw) if isinstance(version.raw, str) else None
    if parsed is None:
        yield unknown(version)
    elif int(parsed[1]) < OLDEST_STANDARD:
        yield fail(version, f"the standard of v1.{parsed[1]} lacks checks of later versions")


@rule(
    id="CLU-06",
    title="No Helm release is installed in a namespace of sandboxes",
    severity="Medium",
    why="A preview does not show the objects of a release, so no rule checks its pods, roles and Services.",
    fix="Install it in another namespace, or use a Chart, whose objects are resources of the stack.",
    applies_to=resources(RELEASE),
)
def opaque_release(release: Resource, graph: Graph) -> Iterator[Outcome]:
    """Compare the namespace of the release, or its dependency on a Namespace."""
    namespaces, namespace = sandbox_namespaces(graph), release.at("namespace")
    targets = graph.targets(release, "namespace", "kubernetes:core/v1:Namespace")
    if namespace.unknown:
        if any(each.declaration is not None and each.declaration.resource in targets for each in namespaces):
            yield fail(namespace, "no rule can check its objects in a namespace of sandboxes")
        elif namespaces and not targets:
            yield unknown(namespace)
    elif any(each.name == (namespace.raw if namespace.known else "default") for each in namespaces):
        yield fail(namespace, "no rule can check its objects in a namespace of sandboxes")


@rule(
    id="CLU-13",
    title="Admission policies check claims and sandboxes",
    severity="High",
    why="Claims are created at run time and not by a deployment. Without a policy in the cluster, none of these rules"
    " applies to them.",
    fix="Bind a ValidatingAdmissionPolicy for sandboxclaims and sandboxes with the action Deny, and set failurePolicy"
    " to Fail.",
    applies_to=GRAPH,
)
def admission_policies(graph: Graph) -> Iterator[Outcome]:
    """Check each declared namespace of sandboxes. One policy that denies is enough for a resource."""
    namespaces = [each for each in sandbox_namespaces(graph) if each.declaration is not None]
    if not namespaces:
        return
    checks = [check for check in admission_checks(graph) if check.fails_closed() is not False]
    by_resource = {resource: _matching(checks, group, resource) for group, resource in CHECKED_RESOURCES}
    for namespace in namespaces:
        labels = namespace.field.at("metadata", "labels")
        missing: list[str] = []
        undecided = False
        for resource, matching in by_resource.items():
            answers = [(check.matches_namespace(namespace.name, labels), denies) for check, denies in matching]
            if (True, True) not in answers:
                missing.append(resource)
                undecided = undecided or any(matches is not False for matches, _ in answers)
        names = " and ".join(missing)
        if missing and undecided:
            yield unknown(namespace.field, f"whether an admission policy checks {names} here is not known yet")
        elif missing:
            yield fail(namespace.field, f"no admission policy checks {names} here, denies violations and fails closed")


def _matching(checks: list[AdmissionCheck], group: str, resource: str) -> list[tuple[AdmissionCheck, bool | None]]:
    """Return the checks that match the creation of a resource, and whether each denies it and fails closed."""
    answers = [(check, check.matches_create(group, resource)) for check in checks]
    return [(check, matches and check.fails_closed()) for check, matches in answers if matches is not False]


@rule(
    id="CLU-14",
    title="Admission policies for sandboxes fail closed",
    severity="High",
    why="A policy that ignores errors, or only warns, has no effect whenever it is slow or fails.",
    fix="Set failurePolicy to Fail, validationActions to Deny, and parameterNotFoundAction to Deny for created"
    " objects.",
    applies_to=objects(GROUP, POLICY, BINDING, WEBHOOKS),
    defaults="failurePolicy is Fail by default (Kubernetes API reference, admissionregistration v1).",
)
def fails_open(item: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check the policies, bindings and webhooks that match sandbox resources."""
    if item.kind == POLICY:
        if mentions_groups(item.at("spec", "matchConstraints", "resourceRules"), SANDBOXES):
            yield from _ignores_errors(item.at("spec", "failurePolicy"))
    elif item.kind == WEBHOOKS:
        for hook in item.at("webhooks").elements():
            if mentions_groups(hook.at("rules"), SANDBOXES):
                yield from _ignores_errors(hook.at("failurePolicy"))
    elif _matches_sandboxes(item, graph):
        actions = item.at("spec", "validationActions")
        if actions.holds_unknown():
            yield unknown(actions)
        elif "Deny" not in {scalar(action) for action in actions.elements()}:
            yield fail(actions, "it reports violations and denies none")
        missing = item.at("spec", "paramRef", "parameterNotFoundAction")
        if missing.raw == "Allow" and _matches_create(item):
            yield fail(missing, "it allows created objects if its parameters are missing")


@rule(
    id="CLU-16",
    title="Nothing changes sandboxes when they are created",
    severity="High",
    why="A mutating webhook or policy can remove what isolates a sandbox, or add a container to it, after all checks of"
    " this stack.",
    fix="Exclude namespaces with the label sandbox.users.io/class in its namespaceSelector.",
    applies_to=GRAPH,
    defaults="A webhook applies to all namespaces by default (Kubernetes API reference, MutatingWebhook).",
)
def mutating_admission(graph: Graph) -> Iterator[Outcome]:
    """Check which webhooks and policies match pods, sandboxes or claims in a declared namespace of sandboxes."""
    namespaces = [each for each in sandbox_namespaces(graph) if each.declaration]
    for mutation in mutations(graph) if namespaces else ():
        answers = [
            mutation.may_change(MUTABLE_RESOURCES, each.name, each.field.at("metadata", "labels"))
            for each in namespaces
        ]
        if True in answers:
            yield fail(mutation.field, "it changes pods, sandboxes or claims in a namespace of sandboxes")
        elif None in answers:
            yield unknown(mutation.field, "whether it changes sandboxes is not known yet")


def _ignores_errors(policy: Field) -> Iterator[Outcome]:
    yield from forbid(policy, lambda value: value == "Ignore", "it allows everything if its evaluation fails")


def _matches_sandboxes(binding: KubernetesObject, graph: Graph) -> bool:
    own = binding.at("spec", "matchResources", "resourceRules")
    if not own.missing:
        return mentions_groups(own, SANDBOXES)
    return scalar(binding.at("spec", "policyName")) in _sandbox_policies(graph)


@once_per_graph
def _sandbox_policies(graph: Graph) -> frozenset[object]:
    """Return the names of policies that match sandbox resources."""
    rules = [
        (policy.name, policy.at("spec", "matchConstraints", "resourceRules")) for policy in graph.objects(GROUP, POLICY)
    ]
    return frozenset(scalar(name) for name, resource_rules in rules if mentions_groups(resource_rules, SANDBOXES))


def _matches_create(binding: KubernetesObject) -> bool:
    rows = binding.at("spec", "matchResources", "resourceRules").elements()
    operations = {scalar(element) for row in rows for element in row.at("operations").elements()}
    return not operations or bool(operations & {"CREATE", "*"})
