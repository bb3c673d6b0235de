"""WP: pools of warm sandboxes, the templates that their members are made of, and the claims that take them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentenv.core.classes.names import MODE_LABEL, RELEASE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.policies.rules.registry import Outcome, fail, objects, rule, unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.sandbox_namespaces import EXTENSIONS

# Labels and annotations that say whose a sandbox is
TENANT_KEYS = frozenset({USER_LABEL, WORKSPACE_LABEL, TASK_LABEL, MODE_LABEL})
# The names under which programs are told whose they are; what a shell sets by itself (USER, HOME) is none of them
TENANT_NAMES = re.compile(
    r"(\w+_)?((USER|TENANT|CUSTOMER|OWNER|WORKSPACE|SESSION|ACCOUNT|CLAIM)_(ID|UID|UUID|EMAIL|NAME)|TENANT|CUSTOMER)",
    re.IGNORECASE,
)


@rule(
    id="WP-01",
    title="A template knows no tenant",
    severity="Critical",
    why="Each member of a pool is made of the template, before anybody claims it: what it brings of one tenant,"
    " the next one gets.",
    do="Leave users, their secrets and their volumes out of the template: a claim's additionalPodMetadata says"
    " whose it is, and volumeClaimTemplates give each member a volume of its own.",
    about=objects(EXTENSIONS, "SandboxTemplate"),
)
def tenant_in_template(template: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Labels and annotations, variables, volumes, and the account."""
    pod = template.at("spec", "podTemplate")
    for words in (pod.at("metadata", "labels"), pod.at("metadata", "annotations")):
        if words.unknown:
            yield unknown(words)
            continue
        for key, value in words.entries():
            if key in TENANT_KEYS:
                yield fail(value, f"'{key}' makes every member of a pool one tenant's")
    for volume in pod.at("spec", "volumes").elements():
        claim = volume.at("persistentVolumeClaim", "claimName")
        if volume.unknown:
            yield unknown(volume)
        elif not claim.missing and volume.at("persistentVolumeClaim", "readOnly").raw is not True:
            yield fail(claim, "every member of a pool writes to one and the same volume")
    for kind in ("containers", "initContainers"):
        for container in pod.at("spec", kind).elements():
            yield from _variables(template, container, graph)
    account = pod.at("spec", "serviceAccountName")
    if _of_a_tenant(template, "ServiceAccount", account, graph):
        yield fail(account, "the account is one tenant's")


def _variables(template: KubernetesObject, container: Field, graph: Graph) -> Iterator[Outcome]:
    """A secret that all share is another rule's affair; one that is a tenant's own is in every member, too."""
    variables = container.at("env")
    if variables.unknown:
        yield unknown(variables)
        return
    for variable in variables.elements():
        name, secret = variable.at("name"), variable.at("valueFrom", "secretKeyRef", "name")
        if variable.unknown or name.unknown:
            yield unknown(name)
        elif isinstance(name.raw, str) and TENANT_NAMES.fullmatch(name.raw) and variable.at("valueFrom").missing:
            yield fail(name, f"the variable {name.raw} says to every member of a pool whose it is")
        elif _of_a_tenant(template, "Secret", secret, graph):
            yield fail(secret, f"every member of a pool is born with one tenant's {name.raw}")
    for source in container.at("envFrom").elements():
        secret = source.at("secretRef", "name")
        if _of_a_tenant(template, "Secret", secret, graph):
            yield fail(secret, "every member of a pool is born with one tenant's secret")


def _of_a_tenant(template: KubernetesObject, kind: str, name: Field, graph: Graph) -> bool:
    """Whether an object of the template's namespace says that it is somebody's."""
    for one in graph.objects("", kind) if name.known else ():
        if one.name.raw == name.raw and one.namespace.raw == template.namespace.raw:
            marks = (one.labels, one.at("metadata", "annotations"))
            return any(mark.at("sandbox.users.io/user").known for mark in marks)
    return False


@rule(
    id="WP-02",
    title="Whoever claims a sandbox gets what its template says now",
    severity="High",
    why="OnReplenish hands out members that were made before the template was hardened; Overrides lets a claim"
    " put its own variables and volumes in the place of the template's.",
    do="Set updateStrategy.type to Recreate, or give each version of a template a pool of its own (label"
    f" {RELEASE_LABEL}); leave the injection policies at Disallowed, or Allowed where claims have to add something.",
    about=objects(EXTENSIONS, "SandboxWarmPool", "SandboxTemplate"),
    defaults="OnReplenish for pools, Disallowed for both injection policies (agent-sandbox v1.0.3, v1beta1 types).",
)
def stale_or_overridden(thing: KubernetesObject) -> Iterator[Outcome]:
    """A pool by its strategy, a template by its policies."""
    if thing.kind == "SandboxTemplate":
        for key in ("envVarsInjectionPolicy", "volumeClaimTemplatesPolicy"):
            policy = thing.at("spec", key)
            if policy.unknown:
                yield unknown(policy)
            elif policy.raw == "Overrides":
                yield fail(policy, "a claim may replace what the template says")
        return
    strategy = thing.at("spec", "updateStrategy", "type")
    if thing.labels.known and not thing.labels.at(RELEASE_LABEL).missing:
        return  # Another version has a pool of its own, so no member of this one grows stale
    if strategy.unknown:
        yield unknown(strategy)
    elif strategy.raw != "Recreate" and not (thing.patch and strategy.missing):
        yield fail(strategy, "members that were made before a change of the template are still handed out")


@rule(
    id="WP-03",
    title="A pool has its template, and a claim its pool",
    severity="Medium",
    why="A pool without a template stays empty, and a claim without a pool waits for ever: nobody is told.",
    do="Name a template, or a pool, of the same namespace.",
    about=objects(EXTENSIONS, "SandboxWarmPool", "SandboxClaim"),
)
def dangling(thing: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Only where the stack has any of that kind: what it does not make may stand already."""
    pool = thing.kind == "SandboxWarmPool"
    kind, words = ("SandboxTemplate", "sandboxTemplateRef") if pool else ("SandboxWarmPool", "warmPoolRef")
    name, there = thing.at("spec", words, "name"), graph.objects(EXTENSIONS, kind)
    if name.missing and not thing.patch:
        yield fail(name, f"it names no {kind}")
    if not name.known or not isinstance(thing.namespace.raw, str):
        if name.unknown and not graph.targets(thing.resource, "spec"):
            yield unknown(name)
        return
    known = [one for one in there if isinstance(one.name.raw, str) and isinstance(one.namespace.raw, str)]
    if known and len(known) == len(there):
        same = [one for one in known if one.name.raw == name.raw]
        if not any(one.namespace.raw == thing.namespace.raw for one in same):
            where = " (there is one in another namespace)" if same else ""
            yield fail(name, f"there is no {kind} of that name in its namespace{where}")


@rule(
    id="WP-04",
    title="A claim takes a warm sandbox",
    severity="Low",
    why="A claim with variables or volumes of its own passes the pool by: it starts cold, and the pool is paid for"
    " nothing.",
    do="Leave out env and volumeClaimTemplates: hand over what a sandbox needs once it is claimed.",
    about=objects(EXTENSIONS, "SandboxClaim"),
    defaults="Neither is set by itself; either forces a cold start (agent-sandbox v1.0.3).",
)
def cold_claim(claim: KubernetesObject) -> Iterator[Outcome]:
    """Either of the two, if it holds anything."""
    for key in ("env", "volumeClaimTemplates"):
        field = claim.at("spec", key)
        if field.unknown:
            yield unknown(field)
        elif field.elements():
            yield fail(field, "it forces a cold start")
