"""All objects of a class, by purpose: a component registers them in the order of their dependencies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.grants import grants_of
from agentenv.core.capabilities.policies.network_policy import network_policy
from agentenv.core.capabilities.policies.security_group import security_group_policy
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.classes.constraints_configmap import constraints
from agentenv.core.classes.names import EXTENSIONS, cold_pool, namespace
from agentenv.core.classes.namespace import account, class_labels, limits, namespace_document, quota
from agentenv.core.classes.pods.daemon import keys_configmap
from agentenv.core.classes.pools.schedules import Schedules, schedules
from agentenv.core.classes.pools.sizes import PoolChoice, pool_choice, shard_sizes
from agentenv.core.classes.releases import Release, labels, releases_of, templates
from agentenv.core.classes.storage_classes import storage_classes
from agentenv.core.classes.template import seat_spec

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]


@dataclass(frozen=True)
class DeploymentValues:
    """Values that only a deployment knows. They are not read here, so each may be an output that is not known yet."""

    file_systems: Sequence[Any]  # ids, by shard
    file_systems_joined: Any  # the same ids, joined by commas
    role_arns: Mapping[str, Any] = field(default_factory=dict[str, Any])  # by class, of classes with a role
    group_ids: Mapping[str, Any] = field(default_factory=dict[str, Any])  # by class on Fargate: security group ids


@dataclass(frozen=True)
class ClassObjects:
    """The objects of one class, and the chosen size of its pool."""

    namespace: Plain
    account: Plain
    quota: Plain
    limits: Plain
    constraints: Plain
    keys: Plain | None  # the service's public keys, for classes with workspaced
    network_policy: Plain | None  # on nodes
    group_policy: Plain | None  # on Fargate
    storage_classes: tuple[Plain, ...]
    releases: tuple[Release, ...]
    templates: tuple[Plain, ...]
    seat: Plain  # the spec that declared seats are made from
    pools: tuple[Plain, ...]  # each with the name of its template
    cold_pools: tuple[Plain, ...]  # always empty, one per template of a class whose sandboxes have homes
    schedules: Schedules | None  # if present, they own `spec.replicas` of the pools
    pool_choice: PoolChoice

    def documents(self) -> tuple[Plain, ...]:
        """Return all objects in the order of their dependencies."""
        documents = [self.namespace, self.constraints, self.quota, self.account, self.limits]
        documents += [
            document for document in (self.keys, self.network_policy, self.group_policy) if document is not None
        ]
        documents += [*self.storage_classes, *self.templates, *self.pools, *self.cold_pools]
        return (*documents, *(self.schedules.documents() if self.schedules else ()))


def class_objects(plan: ClassPlan, known: DeploymentValues) -> ClassObjects:
    """Return the objects of a class.

    Raise `UnknownClusterFactsError` if its network policy depends on facts of an existing cluster that are not known.
    """
    return ClassObjects(
        namespace=namespace_document(plan),
        account=account(plan, known.role_arns.get(plan.name)),
        quota=quota(plan),
        limits=limits(plan),
        constraints=constraints(plan, known.file_systems_joined),
        keys=keys_configmap(plan),
        network_policy=None if plan.on_fargate else _network_policy(plan),
        group_policy=_group_policy(plan, known.group_ids[plan.name]) if plan.on_fargate else None,
        storage_classes=storage_classes(plan, known.file_systems),
        releases=releases_of(plan),
        templates=templates(plan),
        seat=seat_spec(plan),
        pools=pools(plan),
        cold_pools=cold_pools(plan),
        schedules=schedules(plan),
        pool_choice=pool_choice(plan.settings.pool),
    )


def pools(plan: ClassPlan) -> tuple[Plain, ...]:
    """Return the pools of all releases, each with the name of its template."""
    return tuple(
        warm_pool(plan, release.name(shard), members, labels(plan, release, shard))
        for release in releases_of(plan)
        for shard, members in zip(release.shards, shard_sizes(plan.settings.pool, len(release.shards)), strict=True)
    )


def cold_pools(plan: ClassPlan) -> tuple[Plain, ...]:
    """Return a pool per template that is always empty, from which workspaces with a retained home are restored.

    A warm slot already has a home and cannot take another. A class without homes needs no such pool.
    """
    if not plan.slots:
        return ()
    return tuple(
        warm_pool(plan, cold_pool(release.name(shard)), 0, labels(plan, release, shard), release.name(shard))
        for release in releases_of(plan)
        for shard in release.shards
    )


def warm_pool(
    plan: ClassPlan, name: str, members: int, labels: Mapping[str, str], template: str | None = None
) -> Plain:
    """Return one pool; its template has the same name by default."""
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxWarmPool",
        "metadata": {"name": name, "namespace": namespace(plan.name), "labels": dict(labels)},
        "spec": {
            "replicas": members,
            "sandboxTemplateRef": {"name": template or name},
            # Templates never change; if one is changed by hand, its members are recreated before they are claimed.
            "updateStrategy": {"type": "Recreate"},
        },
    }


def _network_policy(plan: ClassPlan) -> Plain:
    egress = reach_of(grants_of(plan.settings.capabilities), plan.cluster)
    document = _labelled(plan, network_policy(plan.name, egress, plan.cluster, plan.ingress))
    # The server drops empty lists, which would look like drift. With its policy type set, no list means the same.
    return {**document, "spec": {key: value for key, value in document["spec"].items() if value != []}}


def _group_policy(plan: ClassPlan, groups: Any) -> Plain:
    document = _labelled(plan, security_group_policy(plan.name, ()))
    document["spec"]["securityGroups"] = {"groupIds": groups}
    return document


def _labelled(plan: ClassPlan, document: Plain) -> Plain:
    return {**document, "metadata": {**document["metadata"], "labels": class_labels(plan)}}
