"""WP rules about warm pools, their templates, and claims."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentenv.core.classes.names import MODE_LABEL, RELEASE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.policies.rules.registry import Outcome, fail, forbid, objects, rule, unknown
from agentenv.policies.view.fields import Field
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import KubernetesObject
from agentenv.policies.view.tenants.sandbox_namespaces import EXTENSIONS

# Labels and annotations with the owner of a sandbox
TENANT_KEYS = frozenset({USER_LABEL, WORKSPACE_LABEL, TASK_LABEL, MODE_LABEL})
# Variables with the identity of an owner; a shell sets USER and HOME itself
TENANT_NAMES = re.compile(
    r"(\w+_)?((USER|TENANT|CUSTOMER|OWNER|WORKSPACE|SESSION|ACCOUNT|CLAIM)_(ID|UID|UUID|EMAIL|NAME)|TENANT|CUSTOMER)",
    re.IGNORECASE,
)


@rule(
    id="WP-01",
    title="Templates contain nothing of a tenant",
    severity="Critical",
    why="Every sandbox of a pool is created from the template before it is claimed. Data of one tenant in it is exposed"
    " to the next one.",
    fix="Remove users, their secrets and their volumes from the template. Claims set the owner in"
    " additionalPodMetadata, and volumeClaimTemplates give each sandbox its own volume.",
    applies_to=objects(EXTENSIONS, "SandboxTemplate"),
)
def tenant_in_template(template: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check labels, annotations, variables, volumes, secrets for pulls and the service account."""
    pod = template.at("spec", "podTemplate")
    for metadata in (pod.at("metadata", "labels"), pod.at("metadata", "annotations")):
        if metadata.unknown:
            yield unknown(metadata)
            continue
        for key, value in metadata.entries():
            if key in TENANT_KEYS:
                yield fail(value, f"'{key}' assigns every sandbox of a pool to one tenant")
    for volume in pod.at("spec", "volumes").elements():
        yield from _volume(template, volume, graph)
    for reference in pod.at("spec", "imagePullSecrets").elements():
        if _belongs_to_tenant(template, "Secret", reference.at("name"), graph):
            yield fail(reference.at("name"), "every sandbox of a pool pulls images with a secret of one tenant")
    for kind in ("containers", "initContainers"):
        for container in pod.at("spec", kind).elements():
            yield from _variables(template, container, graph)
    account = pod.at("spec", "serviceAccountName")
    if _belongs_to_tenant(template, "ServiceAccount", account, graph):
        yield fail(account, "the service account belongs to one tenant")


def _volume(template: KubernetesObject, volume: Field, graph: Graph) -> Iterator[Outcome]:
    """Check for a volume that all sandboxes write to, and for one with objects of a tenant."""
    claim = volume.at("persistentVolumeClaim", "claimName")
    if volume.unknown:
        yield unknown(volume)
        return
    if not claim.missing and volume.at("persistentVolumeClaim", "readOnly").raw is not True:
        yield fail(claim, "every sandbox of a pool writes to the same volume")
        return
    sources = [volume, *volume.at("projected", "sources").elements()]
    names = [
        ("PersistentVolumeClaim", claim),
        ("Secret", volume.at("secret", "secretName")),
        ("Secret", volume.at("csi", "nodePublishSecretRef", "name")),
        *(("Secret", source.at("secret", "name")) for source in sources[1:]),
        *(("ConfigMap", source.at("configMap", "name")) for source in sources),
    ]
    for kind, name in names:
        if _belongs_to_tenant(template, kind, name, graph):
            yield fail(name, f"every sandbox of a pool has a {kind} of one tenant in a volume")


def _variables(template: KubernetesObject, container: Field, graph: Graph) -> Iterator[Outcome]:
    """Check for secrets of a tenant. POD-10 is about other secrets."""
    variables = container.at("env")
    if variables.unknown:
        yield unknown(variables)
        return
    for variable in variables.elements():
        name, source = variable.at("name"), variable.at("valueFrom")
        if variable.unknown or name.unknown:
            yield unknown(name)
        elif isinstance(name.raw, str) and TENANT_NAMES.fullmatch(name.raw) and variable.at("valueFrom").missing:
            yield fail(name, f"the variable {name.raw} has the same owner in every sandbox of a pool")
        for kind, key in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
            if _belongs_to_tenant(template, kind, source.at(key, "name"), graph):
                yield fail(source.at(key, "name"), f"every sandbox of a pool has {name.raw} of one tenant")
    for source in container.at("envFrom").elements():
        for kind, key in (("Secret", "secretRef"), ("ConfigMap", "configMapRef")):
            if _belongs_to_tenant(template, kind, source.at(key, "name"), graph):
                yield fail(source.at(key, "name"), f"every sandbox of a pool has a {kind} of one tenant")


def _belongs_to_tenant(template: KubernetesObject, kind: str, name: Field, graph: Graph) -> bool:
    """Return whether an object in the template's namespace has the label or annotation of an owner."""
    for item in graph.objects("", kind) if name.known else ():
        if item.name.raw == name.raw and item.namespace.raw == template.namespace.raw:
            metadata = (item.labels, item.at("metadata", "annotations"))
            return any(each.at(key).known for each in metadata for key in TENANT_KEYS)
    return False


@rule(
    id="WP-02",
    title="Claims get sandboxes of the current template, unmodified",
    severity="High",
    why="With OnReplenish, claims get sandboxes from before the template was changed. With Overrides, a claim can"
    " replace the variables and volumes of the template.",
    fix="Set updateStrategy.type to Recreate, or use a pool for each release of a template (label"
    f" {RELEASE_LABEL}). Keep the injection policies at Disallowed, or Allowed if claims have to add something.",
    applies_to=objects(EXTENSIONS, "SandboxWarmPool", "SandboxTemplate"),
    defaults="OnReplenish for pools, Disallowed for both injection policies (agent-sandbox v1.0.3, v1beta1 types).",
)
def stale_or_overridden(item: KubernetesObject) -> Iterator[Outcome]:
    """Check the strategy of a pool, or the policies of a template."""
    if item.kind == "SandboxTemplate":
        for key in ("envVarsInjectionPolicy", "volumeClaimTemplatesPolicy"):
            policy = item.at("spec", key)
            yield from forbid(policy, lambda value: value == "Overrides", "a claim may override the template")
        return
    strategy = item.at("spec", "updateStrategy", "type")
    if item.labels.known and not item.labels.at(RELEASE_LABEL).missing:
        return  # Each release has its own pool, so the sandboxes of a pool are never stale
    if strategy.unknown:
        yield unknown(strategy)
    elif strategy.raw != "Recreate" and not (item.patch and strategy.missing):
        yield fail(strategy, "claims still get sandboxes from before a change of the template")


@rule(
    id="WP-03",
    title="The template of a pool and the pool of a claim exist",
    severity="Medium",
    why="A pool without its template stays empty, and a claim without its pool waits forever. Neither reports an"
    " error.",
    fix="Name a template, or a pool, in the same namespace.",
    applies_to=objects(EXTENSIONS, "SandboxWarmPool", "SandboxClaim"),
)
def dangling(item: KubernetesObject, graph: Graph) -> Iterator[Outcome]:
    """Check the name if the stack has objects of that kind: others may exist already."""
    pool = item.kind == "SandboxWarmPool"
    kind, key = ("SandboxTemplate", "sandboxTemplateRef") if pool else ("SandboxWarmPool", "warmPoolRef")
    name, candidates = item.at("spec", key, "name"), graph.objects(EXTENSIONS, kind)
    if name.missing and not item.patch:
        yield fail(name, f"it names no {kind}")
    if not name.known or not isinstance(item.namespace.raw, str):
        if name.unknown and not graph.targets(item.resource, "spec"):
            yield unknown(name)
        return
    known = [each for each in candidates if isinstance(each.name.raw, str) and isinstance(each.namespace.raw, str)]
    if known and len(known) == len(candidates):
        named = [each for each in known if each.name.raw == name.raw]
        if not any(each.namespace.raw == item.namespace.raw for each in named):
            hint = " (there is one in another namespace)" if named else ""
            yield fail(name, f"there is no {kind} with that name in its namespace{hint}")


@rule(
    id="WP-04",
    title="Claims do not force a cold start",
    severity="Low",
    why="A claim with variables or volumes cannot use a warm sandbox. It starts cold, and the pool is paid for"
    " nothing.",
    fix="Remove env and volumeClaimTemplates, and pass data to the sandbox after it is claimed.",
    applies_to=objects(EXTENSIONS, "SandboxClaim"),
    defaults="Neither is set by default; each forces a cold start (agent-sandbox v1.0.3).",
)
def cold_claim(claim: KubernetesObject) -> Iterator[Outcome]:
    """Check that both are missing or empty."""
    for key in ("env", "volumeClaimTemplates"):
        field = claim.at("spec", key)
        if field.unknown:
            yield unknown(field)
        elif field.elements():
            yield fail(field, "it forces a cold start")
