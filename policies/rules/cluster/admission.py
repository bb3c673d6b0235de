"""CLU: what a namespace with sandboxes lets in: pod security, admission twins, and what is installed unseen."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import GRAPH, Outcome, fail, objects, resources, rule, unknown
from agentenv.policies.view.cluster.admission import (
    BINDING,
    GROUP,
    POLICY,
    WEBHOOKS,
    AdmissionCheck,
    admission_checks,
    mentions_groups,
)
from agentenv.policies.view.fields import Field, scalar
from agentenv.policies.view.graph import Graph, once_per_graph
from agentenv.policies.view.resource import KubernetesObject, Resource
from agentenv.policies.view.tenants.sandbox_namespaces import AGENTS, EXTENSIONS, sandbox_namespaces

RELEASE = "kubernetes:helm.sh/v3:Release"
ENFORCE = "pod-security.kubernetes.io/enforce"
SANDBOXES = frozenset({AGENTS, EXTENSIONS})
# What makes sandboxes at run time, and has to meet somebody who says no
GUARDED = ((EXTENSIONS, "sandboxclaims"), (AGENTS, "sandboxes"))


@rule(
    id="CLU-05",
    title="Namespaces of sandboxes enforce the restricted Pod Security Standard",
    severity="High",
    why="Pods are created at run time, by the controller and others. The label applies to all of them.",
    fix="Label the namespace with pod-security.kubernetes.io/enforce: restricted.",
    equivalents={"CIS": ("4.2.1",), "Kyverno": ("add-psa-labels",)},
    applies_to=objects("", "Namespace"),
    defaults="All pods are admitted by default (Kubernetes, pod security admission).",
)
def pod_security(space: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Namespaces that hold sandboxes; a namespace of something else is its owner's."""
    if not any(room.declaration is space for room in sandbox_namespaces(graph)):
        return
    level = space.labels.at(ENFORCE)
    if level.unknown:
        yield unknown(level)
    elif level.raw != "restricted":
        yield fail(level, "pods that are not restricted are admitted beside sandboxes")


@rule(
    id="CLU-06",
    title="No Helm release is installed in a namespace of sandboxes",
    severity="Medium",
    why="A preview does not show the objects of a release, so no rule checks its pods, roles and Services.",
    fix="Install it in another namespace, or use a Chart, whose objects are resources of the stack.",
    applies_to=resources(RELEASE),
)
def opaque_release(release: Resource, graph: Graph) -> Iterator[Outcome]:
    """By the namespace that the release names, or takes from the Namespace that it names."""
    rooms, namespace = sandbox_namespaces(graph), release.at("namespace")
    named = graph.targets(release, "namespace", "kubernetes:core/v1:Namespace")
    if namespace.unknown:
        if any(room.declaration is not None and room.declaration.resource in named for room in rooms):
            yield fail(namespace, "nobody can see what it puts among sandboxes")
        elif rooms and not named:
            yield unknown(namespace)
    elif any(room.name == (namespace.raw if namespace.known else "default") for room in rooms):
        yield fail(namespace, "nobody can see what it puts among sandboxes")


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
def admission_twins(graph: Graph) -> Iterator[Outcome]:
    """For every namespace of sandboxes that the stack makes; one guard that refuses is enough for a kind."""
    rooms = [room for room in sandbox_namespaces(graph) if room.declaration is not None]
    if not rooms:
        return
    guards = [guard for guard in admission_checks(graph) if guard.fails_closed() is not False]
    hearing = {resource: _hearing(guards, group, resource) for group, resource in GUARDED}
    for room in rooms:
        labels = room.field.at("metadata", "labels")
        lacking: list[str] = []
        unsure = False
        for resource, ones in hearing.items():
            answers = [(guard.matches_namespace(labels), heard) for guard, heard in ones]
            if (True, True) not in answers:
                lacking.append(resource)
                unsure = unsure or any(holds is not False for holds, _ in answers)
        if lacking and unsure:
            yield unknown(room.field, f"whether a policy refuses {' and '.join(lacking)} here is not known yet")
        elif lacking:
            yield fail(
                room.field, f"no admission policy that refuses and fails closed hears of {' and '.join(lacking)}"
            )


def _hearing(guards: list[AdmissionCheck], group: str, resource: str) -> list[tuple[AdmissionCheck, bool | None]]:
    """Those that hear of such a thing, or may; asked once, and not for each namespace."""
    answers = [(guard, guard.matches_create(group, resource)) for guard in guards]
    return [(guard, heard and guard.fails_closed()) for guard, heard in answers if heard is not False]


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
def fails_open(guard: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Those that hear of the sandbox kinds."""
    if guard.kind == POLICY:
        if mentions_groups(guard.at("spec", "matchConstraints", "resourceRules"), SANDBOXES):
            yield from _ignores(guard.at("spec", "failurePolicy"))
    elif guard.kind == WEBHOOKS:
        for hook in guard.at("webhooks").elements():
            if mentions_groups(hook.at("rules"), SANDBOXES):
                yield from _ignores(hook.at("failurePolicy"))
    elif _about_sandboxes(guard, graph):
        actions = guard.at("spec", "validationActions")
        if actions.holds_unknown():
            yield unknown(actions)
        elif "Deny" not in {scalar(action) for action in actions.elements()}:
            yield fail(actions, "it tells of violations and refuses none")
        missing = guard.at("spec", "paramRef", "parameterNotFoundAction")
        if missing.raw == "Allow" and _hears_of_making(guard):
            yield fail(missing, "whatever is made where its parameters are missing is let in")


def _ignores(policy: Field) -> Iterator[Outcome]:
    if policy.unknown:
        yield unknown(policy)
    elif policy.raw == "Ignore":
        yield fail(policy, "what it cannot judge is let in")


def _about_sandboxes(binding: KubernetesObject, graph: Graph) -> bool:
    own = binding.at("spec", "matchResources", "resourceRules")
    if not own.missing:
        return mentions_groups(own, SANDBOXES)
    return scalar(binding.at("spec", "policyName")) in _sandbox_policies(graph)


@once_per_graph
def _sandbox_policies(graph: Graph) -> frozenset[object]:
    """The names of policies that hear of the sandbox kinds."""
    found = graph.objects(GROUP, POLICY)
    return frozenset(
        scalar(one.name)
        for one in found
        if mentions_groups(one.at("spec", "matchConstraints", "resourceRules"), SANDBOXES)
    )


def _hears_of_making(binding: KubernetesObject) -> bool:
    rows = binding.at("spec", "matchResources", "resourceRules").elements()
    heard = {scalar(one) for row in rows for one in row.at("operations").elements()}
    return not heard or bool(heard & {"CREATE", "*"})
