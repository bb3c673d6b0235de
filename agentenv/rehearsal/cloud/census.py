"""List everything that exists now, by kind: `{"ec2.vpcs": ["vpc-1"]}`.

The census before `up` is compared with the one after `destroy`. Every collection in moto's state counts unless
`NOT_THINGS` excludes it, so new services are counted too; the records of the handlers count by themselves. `WITHIN`
lists resources inside others that may outlive the program there, such as a rule in an existing security group.

KMS keys and secrets that wait for their deletion exist in AWS for days more. They are counted separately, under
`kms.keys_pending` and `secretsmanager.secrets_pending`, which a caller may ignore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moto.core.base_backend import BackendDict

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.store import Store

Reader = Callable[[Any], Iterable[str]]

# Records of events, indexes of resources that are counted elsewhere, and what AWS itself provides.
NOT_THINGS: dict[str, frozenset[str]] = {
    "acm": frozenset({"_idempotency_tokens"}),
    "athena": frozenset({"work_groups", "databases", "query_results_queue"}),  # workgroups are read below
    "autoscaling": frozenset({"ec2_backend", "elb_backend", "elbv2_backend"}),
    "ce": frozenset({"cost_usage_results", "cost_usage_results_queue"}),
    "cloudwatch": frozenset({"metric_data", "paged_metric_data"}),
    "ec2": frozenset(
        {
            "amis",  # the public ones; those of the account are read below
            "attachments",
            "deleted_amis",
            "launch_template_insert_order",
            "launch_template_name_to_ids",
            "reservations",  # instances are read below
            "snapshots",  # as amis
            "subnet_associations",
            "tags",
            "transit_gateway_associations",
            "transit_gateway_propagations",
        }
    ),
    "ecr": frozenset({"replication_config", "registry_scanning_configuration", "scan_finding_results"}),
    "efs": frozenset({"creation_tokens", "next_markers"}),
    "events": frozenset({"next_tokens", "approved_parent_event_bus_names"}),
    "iam": frozenset({"access_keys", "aws_managed_policies", "inline_policies", "managed_policies"}),
    "kms": frozenset({"keys"}),  # read below, by whether they wait for deletion
    "logs": frozenset({"queries", "export_tasks"}),
    "route53": frozenset({"delegation_sets"}),  # one comes with each zone
    "s3": frozenset({"_pagination_tokens"}),
    "secretsmanager": frozenset({"secrets"}),  # as keys
    "sns": frozenset({"opt_out_numbers", "sms_messages", "sms_message_objects", "_message_public_keys"}),
    "ssm": frozenset({"_commands", "_errors", "_parameters", "_resource_tags"}),
    "sts": frozenset({"assumed_roles"}),
}
DELETED_STATES = {"deleted", "terminated", "deleting", "rejected", "expired"}


def _state(thing: Any) -> str:
    state = getattr(thing, "state", None) or getattr(thing, "status", None)
    return state.lower() if isinstance(state, str) else ""


def _is_aws_provided(backend: Any, thing: Any) -> bool:
    """Return whether AWS created it: the default VPC and its parts, AWS's prefix lists, roles of services."""
    default_vpc = getattr(getattr(backend, "default_vpc", None), "id", "")
    if default_vpc and default_vpc in {getattr(thing, "vpc_id", None), getattr(thing, "id", None)}:
        # What a program put into the default VPC has none of these marks, and counts.
        marks = ("is_default", "default_for_az", "default", "main_association_id")
        return any(getattr(thing, mark, None) not in {None, False, "false", ""} for mark in marks)
    # Service-linked roles stay with the account
    arn = str(getattr(thing, "arn", ""))
    return getattr(thing, "owner_id", "") == "AWS" or arn.endswith(":event-bus/default") or ":role/aws-service-" in arn


def _instances(ec2: Any) -> Iterator[str]:
    for reservation in ec2.reservations.values():
        for instance in reservation.instances:
            if instance._state.name != "terminated":
                yield instance.id


def _own(things: Mapping[str, Any], account: str) -> Iterator[str]:
    return (name for name, thing in things.items() if getattr(thing, "owner_id", "") == account)


def _is_aws_managed(key: Any) -> bool:
    """Return whether AWS created the key for a service of its own; nobody can delete such keys."""
    return any(name.startswith("alias/aws/") for name in key.aliases)


WITHIN: dict[str, dict[str, Reader]] = {
    "athena": {"work_groups": lambda athena: (name for name in athena.work_groups if name != "primary")},
    "ec2": {
        "instances": _instances,
        "amis": lambda ec2: _own(ec2.amis, ec2.account_id),
        "snapshots": lambda ec2: _own(ec2.snapshots, ec2.account_id),
        "security_group_rules": lambda ec2: (
            rule.id
            for groups in ec2.groups.values()
            for group in groups.values()
            if not _is_aws_provided(ec2, group)
            for rule in [*group.ingress_rules, *group.egress_rules]
        ),
        "routes": lambda ec2: (
            route for table in ec2.route_tables.values() if not _is_aws_provided(ec2, table) for route in table._routes
        ),
        "route_table_associations": lambda ec2: (
            link for table in ec2.route_tables.values() for link in table._associations
        ),
    },
    "eks": {
        "nodegroups": lambda eks: (
            f"{cluster.name}/{name}" for cluster in eks.clusters.values() for name in cluster.nodegroups
        ),
        "fargate_profiles": lambda eks: (
            f"{cluster.name}/{name}" for cluster in eks.clusters.values() for name in cluster.fargate_profiles
        ),
    },
    "events": {
        "rules": lambda events: (f"{bus.name}/{name}" for bus in events.event_buses.values() for name in bus.rules),
    },
    "iam": {
        # Those of a session end with it, and nothing deletes them
        "access_keys": lambda iam: (name for name in iam.access_keys if not name.startswith("ASIA")),
        "policies": lambda iam: (arn for arn in iam.managed_policies if ":iam::aws:" not in arn),
        "role_policies": lambda iam: (f"{role.name}/{name}" for role in iam.roles.values() for name in role.policies),
        "role_attachments": lambda iam: (
            f"{role.name}/{arn}" for role in iam.roles.values() for arn in role.managed_policies
        ),
    },
    "kms": {
        "keys": lambda kms: (
            name for name, key in kms.keys.items() if key.key_state != "PendingDeletion" and not _is_aws_managed(key)
        ),
        "keys_pending": lambda kms: (name for name, key in kms.keys.items() if key.key_state == "PendingDeletion"),
        "aliases": lambda kms: (name for key in kms.keys.values() if not _is_aws_managed(key) for name in key.aliases),
    },
    "lambda": {"functions": lambda awslambda: (function.function_arn for function in awslambda._lambdas.all())},
    "logs": {"metric_filters": lambda logs: (row["filterName"] for row in logs.filters.metric_filters)},
    "s3": {
        "objects": lambda s3: (f"{bucket.name}/{key}" for bucket in s3.buckets.values() for key in bucket.keys),
    },
    "secretsmanager": {
        "secrets": lambda store: (secret.arn for secret in dict.values(store.secrets) if not secret.deleted_date),
        "secrets_pending": lambda store: (secret.arn for secret in dict.values(store.secrets) if secret.deleted_date),
    },
    "ssm": {"parameters": lambda ssm: (name for name in dict.keys(ssm._parameters) if not name.startswith("/aws/"))},
}


def census(store: Store) -> dict[str, list[str]]:
    """Return what exists in all accounts and regions, by kind."""
    row: dict[str, list[str]] = {kind: list(names) for kind, names in store.identifiers().items()}
    touched: list[Any] = BackendDict.__dict__["_instances"]  # moto's own list of the services that were called
    for service in list(touched):
        for _, _, backend in list(service.iter_backends()):
            for kind, names in _things(service.service_name, backend):
                row.setdefault(f"{service.service_name}.{kind}", []).extend(names)
    return {kind: sorted(names) for kind, names in sorted(row.items()) if names}


def _things(service: str, backend: Any) -> Iterator[tuple[str, list[str]]]:
    skipped = NOT_THINGS.get(service, frozenset())
    for attribute, value in vars(backend).items():
        if attribute not in skipped and isinstance(value, Mapping | list | set):
            yield attribute.lstrip("_"), list(_names(backend, value))
    for kind, read in WITHIN.get(service, {}).items():
        yield kind, [str(name) for name in read(backend)]


def _names(backend: Any, collection: Mapping[Any, Any] | list[Any] | set[Any]) -> Iterator[str]:
    if not isinstance(collection, Mapping):
        for thing in collection:
            yield str(next((getattr(thing, name) for name in ("id", "arn", "name") if hasattr(thing, name)), thing))
        return
    for name, thing in collection.items():
        if isinstance(thing, Mapping) and all(not isinstance(inner, str | int | bool) for inner in thing.values()):
            # Things by where they are, such as security groups by VPC: an empty place is not a thing.
            yield from _names(backend, thing)
        elif _state(thing) not in DELETED_STATES and not _is_aws_provided(backend, thing):
            yield str(name)
