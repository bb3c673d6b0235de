"""All objects of a class, named by what they are for: what a component registers, in the order of dependence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.grants import grants_of
from agentenv.core.capabilities.policies.network_policy import network_policy
from agentenv.core.capabilities.policies.security_group import security_group_policy
from agentenv.core.capabilities.resolve import reach_of
from agentenv.core.classes.constraints_configmap import constraints
from agentenv.core.classes.namespace import account, class_labels, limits, namespace_document, quota
from agentenv.core.classes.pods.daemon import keys_configmap
from agentenv.core.classes.pools.schedules import Schedules, schedules
from agentenv.core.classes.pools.warm_pool import PoolChoice, pool_choice
from agentenv.core.classes.releases import Release, cold_pools, pools, releases_of, templates
from agentenv.core.classes.storage_classes import storage_classes
from agentenv.core.classes.template import seat_spec

if TYPE_CHECKING:
    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]


@dataclass(frozen=True)
class DeploymentValues:
    """What only a deployment knows. None of it is looked into, so each may be a value that is still to come."""

    file_systems: Sequence[Any]  # ids, by shard
    file_systems_joined: Any  # the same, with commas between
    role_arns: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of classes with a role, by class
    group_ids: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of classes on Fargate: a list for each


@dataclass(frozen=True)
class ClassObjects:
    """The objects of one class, and what was chosen for it."""

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
    pools: tuple[Plain, ...]  # each named like the template that it is of
    cold_pools: tuple[Plain, ...]  # always empty, one for each template of a class whose sandboxes have homes
    schedules: Schedules | None  # with them, a pool's `spec.replicas` is theirs
    pool_choice: PoolChoice

    def documents(self) -> tuple[Plain, ...]:
        """All of them, each after what it needs."""
        documents = [self.namespace, self.constraints, self.quota, self.account, self.limits]
        documents += [one for one in (self.keys, self.network_policy, self.group_policy) if one is not None]
        documents += [*self.storage_classes, *self.templates, *self.pools, *self.cold_pools]
        return (*documents, *(self.schedules.documents() if self.schedules else ()))


def class_objects(plan: ClassPlan, known: DeploymentValues) -> ClassObjects:
    """The objects of a class.

    `UnknownClusterFactsError` where its policy depends on facts of a cluster that stood already and that the plan was
    not given.
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


def _network_policy(plan: ClassPlan) -> Plain:
    egress = reach_of(grants_of(plan.settings.capabilities), plan.cluster)
    document = _labelled(plan, network_policy(plan.name, egress, plan.cluster, plan.ingress))
    # The server keeps no empty list, and would seem to have lost it; with its type named, none at all says the same.
    return {**document, "spec": {key: value for key, value in document["spec"].items() if value != []}}


def _group_policy(plan: ClassPlan, groups: Any) -> Plain:
    document = _labelled(plan, security_group_policy(plan.name, ()))
    document["spec"]["securityGroups"] = {"groupIds": groups}
    return document


def _labelled(plan: ClassPlan, document: Plain) -> Plain:
    return {**document, "metadata": {**document["metadata"], "labels": class_labels(plan)}}
