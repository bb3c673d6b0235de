"""What the workspace service is to AWS, and what it hands to sandboxes: a role a class whose identity is `exchange`.

A class's role has the class's policies and its owners' secrets, is taken on by the service alone, and works from the
VPC only. Nothing here decides what a policy says: `agentenv.core.iam.identity_exchange` and
`agentenv.core.service.iam_policy` do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import iam

from agentenv.components._lib.aws_context import Whereabouts
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.planned_documents import (
    Name,
    Planned,
    file_system_id,
    public_address,
    role_arn,
    table_arn,
    vpc_id,
)
from agentenv.components.cluster.irsa import Roles
from agentenv.config.sections.classes import SandboxClass
from agentenv.core.iam.identity_exchange import SecretsPlace, role_rights, role_trust
from agentenv.core.service.iam_policy import rights, secrets_prefix


@dataclass(frozen=True)
class Network:
    """Where sandboxes are, and which addresses they leave it under."""

    vpc_id: pulumi.Input[str]
    addresses: Sequence[pulumi.Input[str]]


@dataclass(frozen=True)
class Kept:
    """What the service looks after."""

    table_arn: pulumi.Input[str]
    file_system_ids: pulumi.Input[list[str]]


def exchanging(classes: Sequence[SandboxClass]) -> list[SandboxClass]:
    """The classes whose sandboxes exchange tokens."""
    return [one for one in classes if one.identity.kind == "exchange"]


def secrets_place(place: Whereabouts, environment: str) -> SecretsPlace:
    """Where owners' secrets are."""
    return SecretsPlace(place.arn("secretsmanager", "secret:"), secrets_prefix(environment))


def exchange_roles(
    roles: Roles,
    classes: Sequence[SandboxClass],
    service: iam.Role,
    place: pulumi.Output[Whereabouts],
    network: Network,
) -> dict[str, iam.Role]:
    """The roles by class."""
    environment, made = roles.labels.environment, dict[str, iam.Role]()
    bearer = Name(service.arn, role_arn)
    names = (Name(network.vpc_id, vpc_id), *(Name(one, public_address) for one in network.addresses))

    def may(at: Whereabouts, vpc: str, *addresses: str) -> Document:
        return role_rights(secrets_place(at, environment), vpc, addresses)

    for one in classes:

        def trust(_: Whereabouts, arn: str, name: str = one.name) -> Document:
            return role_trust(arn, name)

        suffix = f"class-{one.name}"
        about = f"Sandboxes of class {one.name}, each for its owner"
        role = roles.role(suffix, about, Planned(place, trust, (bearer,)))
        roles.may(role, suffix, Planned(place, may, names))
        roles.has(role, suffix, one.identity.policies)
        made[one.name] = role
    return made


def let_service_work(
    roles: Roles,
    service: iam.Role,
    place: pulumi.Output[Whereabouts],
    kept: Kept,
    given: Mapping[str, iam.Role],
) -> iam.RolePolicy:
    """What the service's own role may do: with what it keeps, and with the roles that it gives."""
    environment = roles.labels.environment

    def may(at: Whereabouts, table: str, systems: Sequence[str], *arns: str) -> Document:
        secrets = secrets_place(at, environment) if given else None
        files = [at.arn("elasticfilesystem", f"file-system/{one}") for one in systems]
        return rights(table, files, at.arn("elasticfilesystem", "access-point/*"), arns, secrets)

    names = (
        Name(kept.table_arn, table_arn),
        Name(kept.file_system_ids, lambda at: [file_system_id(at)]),
        *(Name(role.arn, role_arn) for role in given.values()),
    )
    return roles.may(service, "work", Planned(place, may, names))
