"""Retire old releases: read the objects of each class, plan the steps, and take those that are due.

A pass may run at any time, several times at once, and be killed. Each step is a write that requires the version that
was read, and the next pass continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import CHANNEL_LABEL, CONSTRAINTS, EXTENSIONS, cold_pool
from agentenv.core.classes.pools.hours import HOURS_KEY, parse_pool_hours
from agentenv.core.classes.retirement import (
    RELEASES_KEY,
    RETIRING,
    Claim,
    ClassState,
    Plan,
    Pool,
    Step,
    Template,
    current_pools,
    plan,
)
from agentenv.core.values.object_fields import UnreadableError, number, required, rows, text
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    Document,
    Kind,
    KubeApi,
    KubeApiError,
    collect,
    section,
)
from agentenv.service.kube.unreadable import readable

# The label of sandboxes in a warm pool, which the controller removes when one is claimed.
IN_POOL = "agents.x-k8s.io/warm-pool-sandbox"
# An invalid timestamp counts as now, for ever, so that nothing with it expires.
_UNKNOWN = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class RetirementResult:
    """The plan of a pass for one class, and the steps that were taken."""

    namespace: str
    sandbox_class: str
    current: Mapping[str, list[str]]
    plan: Plan
    done: tuple[Step, ...] = ()
    overtaken: tuple[Step, ...] = ()  # changed by another client since; the next pass reads again
    refused: tuple[str, ...] = ()  # errors of the API server


@dataclass
class _ClassDocuments:
    """The documents of one class, by name."""

    state: ClassState
    pools: dict[str, Document]
    templates: dict[str, Document]


def now() -> datetime:
    """Return the current time in whole seconds, as in objects."""
    return datetime.now(UTC).replace(microsecond=0)


async def retire_releases(
    cluster: KubeApi, *, act: bool, clock: Callable[[], datetime] = now
) -> list[RetirementResult]:
    """Plan the steps for every class, and take those that are due if `act`."""
    results: list[RetirementResult] = []
    for namespace_object in sorted(await collect(cluster.list(NAMESPACES, labels={CLASS_LABEL: None})), key=_name):
        class_name = text(section(section(namespace_object, "metadata"), "labels"), CLASS_LABEL)
        try:
            documents = await _read(cluster, _name(namespace_object), clock())
        except UnreadableError as failure:
            # An unreadable object may use any pool: skip this class, and continue with the others.
            results.append(RetirementResult(_name(namespace_object), class_name, {}, Plan(), refused=(str(failure),)))
            continue
        if documents is None:
            continue
        retirement = plan(documents.state, clock())
        current = {channel: [*names] for channel, names in documents.state.current.items()}
        result = RetirementResult(_name(namespace_object), class_name, current, retirement)
        results.append(await _take_steps(cluster, result, documents, clock()) if act else result)
    return results


async def _read(cluster: KubeApi, namespace: str, at: datetime) -> _ClassDocuments | None:
    """Return the objects of a class; None if no constraints name the current releases.

    Raise `UnreadableError` if any of them cannot be read.
    """
    templates = {_name(document): document async for document in cluster.list(TEMPLATES, namespace)}
    pools = {_name(document): document async for document in cluster.list(POOLS, namespace)}
    members = await _members(cluster, namespace)
    failures: list[str] = []
    claims = [row async for _, row in readable("SandboxClaim", cluster.list(CLAIMS, namespace), _claim, failures)]
    # Constraints are read last: a deployment updates them before it creates the pools that they name. So any new pool
    # that was listed above is named here.
    constraints = await _constraints(cluster, namespace)
    current = _current(constraints)
    if current is None:
        return None
    hours = parse_pool_hours(text(constraints, HOURS_KEY))
    pool_rows = readable("SandboxWarmPool", pools.values(), lambda document: _pool(document, members), failures)
    template_rows = readable(
        "SandboxTemplate", templates.values(), lambda document: Template(*_marks(document)), failures
    )
    state = ClassState(
        current,
        [row async for _, row in pool_rows],
        [row async for _, row in template_rows],
        claims,
        hours.size_at(at) if hours else None,
    )
    if failures:
        raise UnreadableError("; ".join(failures))
    return _ClassDocuments(state, pools, templates)


async def _constraints(cluster: KubeApi, namespace: str) -> Document:
    return section(await cluster.find(CONFIGURATIONS, CONSTRAINTS, namespace) or {}, "data")


def _current(constraints: Document) -> dict[str, list[str]] | None:
    releases = text(constraints, RELEASES_KEY)
    return current_pools(releases) if releases else None


async def _take_steps(
    cluster: KubeApi, result: RetirementResult, documents: _ClassDocuments, at: datetime
) -> RetirementResult:
    done: list[Step] = []
    overtaken: list[Step] = []
    refused: list[str] = []
    for step in result.plan.steps:
        # A deployment may have made this release current again since: its pool would be empty or gone.
        if _current(await _constraints(cluster, result.namespace)) != documents.state.current:
            overtaken.append(step)
            continue
        try:
            (done if await _step(cluster, documents, step, at) else overtaken).append(step)
        except KubeApiError as refusal:
            refused.append(f"{step.do} {step.name}: {refusal}")
    return replace(result, done=tuple(done), overtaken=tuple(overtaken), refused=tuple(refused))


async def _step(cluster: KubeApi, documents: _ClassDocuments, step: Step, at: datetime) -> bool:
    """Take one step; return False if its object was changed since it was read."""
    pool, template = documents.pools.get(step.name), documents.templates.get(step.name)
    if step.do in {"mark", "unmark"}:
        marking: Document = {"metadata": {"annotations": {RETIRING: at.isoformat() if step.do == "mark" else None}}}
        targets = [(TEMPLATES, template), (POOLS, pool)]
        return await _mark(cluster, targets, marking)
    if step.do == "scale" and pool is not None:
        return await cluster.patch(POOLS, pool, {"spec": {"replicas": step.members}}) is not None
    if step.do == "empty" and pool is not None:
        return await cluster.patch(POOLS, pool, {"spec": {"replicas": 0}}) is not None
    if step.do == "remove-pool" and pool is not None:
        return await cluster.delete(POOLS, pool)
    if step.do == "restore-pool" and (pool_template := _template_of(documents, step.name)) is not None:
        return await cluster.create(POOLS, _restored(pool_template, step.name, at)) is not None
    return step.do == "remove-template" and template is not None and await cluster.delete(TEMPLATES, template)


async def _mark(cluster: KubeApi, targets: Sequence[tuple[Kind, Document | None]], marking: Document) -> bool:
    """Annotate objects one after the other; return False at the first that was changed since it was read."""
    for kind, target in targets:
        if target is not None and not await cluster.patch(kind, target, marking):
            return False
    return True


def _template_of(documents: _ClassDocuments, pool: str) -> Document | None:
    """Return the template of a pool, by the pool's name."""
    matches = (template for name, template in documents.templates.items() if cold_pool(name) == pool)
    # The name of a task is arbitrary, so a template of exactly this name comes first.
    return documents.templates.get(pool) or next(matches, None)


def _restored(template: Document, name: str, at: datetime) -> Document:
    """Return the deleted pool of a template again: without replicas, and retiring."""
    metadata = template["metadata"]
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": section(metadata, "labels"),
            "annotations": {RETIRING: at.isoformat()},
        },
        "spec": {"replicas": 0, "sandboxTemplateRef": {"name": metadata["name"]}},
    }


async def _members(cluster: KubeApi, namespace: str) -> dict[str, int]:
    """Return the number of sandboxes in each pool, by its uid."""
    counts: dict[str, int] = {}
    async for sandbox in cluster.list(SANDBOXES, namespace, {IN_POOL: None}):
        for owner in rows(section(sandbox, "metadata"), "ownerReferences"):
            if owner.get("kind") == "SandboxWarmPool":
                uid = text(owner, "uid")
                counts[uid] = counts.get(uid, 0) + 1
    return counts


def _pool(document: Document, members: Mapping[str, int]) -> Pool:
    status, spec = section(document, "status"), section(document, "spec")
    return Pool(
        *_marks(document),
        # The controller's default.
        desired=number(spec, "replicas") if "replicas" in spec else 1,
        ready=number(status, "readyReplicas"),
        observed=status.get("observedGeneration") == section(document, "metadata").get("generation"),
        members=members.get(required(document, "metadata", "uid"), 0),
        template=required(document, "spec", "sandboxTemplateRef", "name"),
    )


def _marks(document: Document) -> tuple[str, str, datetime | None]:
    metadata = section(document, "metadata")
    retiring = section(metadata, "annotations").get(RETIRING)
    since = (parse_timestamp(retiring) or _UNKNOWN) if retiring else None
    return required(document, "metadata", "name"), text(section(metadata, "labels"), CHANNEL_LABEL), since


def _claim(document: Document) -> Claim:
    created = parse_timestamp(section(document, "metadata").get("creationTimestamp")) or _UNKNOWN
    sandbox = text(section(section(document, "status"), "sandbox"), "name") or None
    name, pool = required(document, "metadata", "name"), required(document, "spec", "warmPoolRef", "name")
    return Claim(name, pool, created, sandbox)


def _name(document: Document) -> str:
    return text(section(document, "metadata"), "name")
