"""What the workspace service is to AWS, and what it hands to sandboxes: a role a class whose identity is `exchange`.

A class's role has the class's policies and its owners' secrets, is taken on by the service alone, and works from the
VPC only. Nothing here decides what a policy says: `agentenv.core.iam.identity_exchange` and
`agentenv.core.service.iam_policy` do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import iam

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.planned_documents import (
    PlannedDocument,
    Reference,
    placeholder_address,
    placeholder_file_system_id,
    placeholder_role_arn,
    placeholder_table_arn,
    placeholder_vpc_id,
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


def exchange_classes(classes: Sequence[SandboxClass]) -> list[SandboxClass]:
    """The classes whose sandboxes exchange tokens."""
    return [one for one in classes if one.identity.kind == "exchange"]


def secrets_location(aws: AwsContext, environment: str) -> SecretsPlace:
    """Where owners' secrets are."""
    return SecretsPlace(aws.arn("secretsmanager", "secret:"), secrets_prefix(environment))


def create_exchange_roles(
    roles: Roles,
    classes: Sequence[SandboxClass],
    service: iam.Role,
    aws: pulumi.Output[AwsContext],
    network: Network,
) -> dict[str, iam.Role]:
    """The roles by class."""
    environment, made = roles.labels.environment, dict[str, iam.Role]()
    bearer = Reference(service.arn, placeholder_role_arn)
    names = (
        Reference(network.vpc_id, placeholder_vpc_id),
        *(Reference(one, placeholder_address) for one in network.addresses),
    )

    def may(context: AwsContext, vpc: str, *addresses: str) -> Document:
        return role_rights(secrets_location(context, environment), vpc, addresses)

    for one in classes:

        def trust(_: AwsContext, arn: str, name: str = one.name) -> Document:
            return role_trust(arn, name)

        suffix = f"class-{one.name}"
        about = f"Sandboxes of class {one.name}, each for its owner"
        role = roles.create_role(suffix, about, PlannedDocument(aws, trust, (bearer,)))
        roles.add_policy(role, suffix, PlannedDocument(aws, may, names))
        roles.attach_policies(role, suffix, one.identity.policies)
        made[one.name] = role
    return made


def add_service_policy(
    roles: Roles,
    service: iam.Role,
    aws: pulumi.Output[AwsContext],
    kept: Kept,
    exchange_roles_by_class: Mapping[str, iam.Role],
) -> iam.RolePolicy:
    """What the service's own role may do: with what it keeps, and with the roles that it gives."""
    environment = roles.labels.environment

    def may(context: AwsContext, table: str, systems: Sequence[str], *arns: str) -> Document:
        secrets = secrets_location(context, environment) if exchange_roles_by_class else None
        files = [context.arn("elasticfilesystem", f"file-system/{one}") for one in systems]
        return rights(table, files, context.arn("elasticfilesystem", "access-point/*"), arns, secrets)

    names = (
        Reference(kept.table_arn, placeholder_table_arn),
        Reference(kept.file_system_ids, lambda context: [placeholder_file_system_id(context)]),
        *(Reference(role.arn, placeholder_role_arn) for role in exchange_roles_by_class.values()),
    )
    return roles.add_policy(service, "work", PlannedDocument(aws, may, names))
