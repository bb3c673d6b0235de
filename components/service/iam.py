"""The IAM roles of the workspace service, and one role for each class with identity `exchange`.

The role of a class has the class's policies and access to its owners' secrets. Only the service may assume it, and it
works from the VPC only. The policies are built in `agentenv.core.iam.identity_exchange` and
`agentenv.core.service.iam_policy`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    placeholder_target_group_arn,
    placeholder_vpc_id,
)
from agentenv.components.cluster.irsa import Roles
from agentenv.components.network.network import NetworkContext
from agentenv.config.sections.classes import SandboxClass
from agentenv.core.iam.identity_exchange import SecretsPlace, role_rights, role_trust
from agentenv.core.service.iam_policy import secrets_prefix, service_policy


@dataclass(frozen=True)
class ServiceData:
    """The data that the service manages."""

    table_arns: tuple[pulumi.Input[str], pulumi.Input[str]]  # of the ledger, and of access
    file_system_ids: pulumi.Input[list[str]]
    own_secrets: tuple[str, ...] = ()  # the ARNs of those of the sign-in and of the webhook
    target_group_arn: pulumi.Input[str] | None = None  # in which it registers the pods of the gateway


def exchange_classes(classes: Sequence[SandboxClass]) -> list[SandboxClass]:
    """Return the classes whose sandboxes exchange tokens."""
    return [each for each in classes if each.identity.kind == "exchange"]


def secrets_location(aws: AwsContext, environment: str) -> SecretsPlace:
    """Return the location of owners' secrets in Secrets Manager."""
    return SecretsPlace(aws.arn("secretsmanager", "secret:"), secrets_prefix(environment))


def create_exchange_roles(
    roles: Roles,
    classes: Sequence[SandboxClass],
    service: iam.Role,
    aws: pulumi.Output[AwsContext],
    network: NetworkContext,
) -> dict[str, iam.Role]:
    """Create the roles, by class."""
    environment, created = roles.labels.environment, dict[str, iam.Role]()
    service_account = Reference(service.arn, placeholder_role_arn)
    names = (
        Reference(network.vpc_id, placeholder_vpc_id),
        *(Reference(address, placeholder_address) for address in network.nat_addresses),
    )

    def policy(context: AwsContext, vpc: str, *addresses: str) -> Document:
        return role_rights(secrets_location(context, environment), vpc, addresses)

    for sandbox_class in classes:

        def trust(_: AwsContext, arn: str, name: str = sandbox_class.name) -> Document:
            return role_trust(arn, name)

        suffix = f"class-{sandbox_class.name}"
        about = f"Sandboxes of class {sandbox_class.name}, each for its owner"
        role = roles.create_role(suffix, about, PlannedDocument(aws, trust, (service_account,)))
        roles.add_policy(role, suffix, PlannedDocument(aws, policy, names))
        roles.attach_policies(role, suffix, sandbox_class.identity.policies)
        created[sandbox_class.name] = role
    return created


def add_service_policy(
    roles: Roles,
    service: iam.Role,
    aws: pulumi.Output[AwsContext],
    protected: ServiceData,
    class_roles: Mapping[str, iam.Role],
) -> iam.RolePolicy:
    """Add the policy of the service's own role: its data, the class roles, and the targets that it registers."""
    environment = roles.labels.environment

    def policy(context: AwsContext, ledger: str, access: str, *known: Any) -> Document:
        targets, file_system_ids, *arns = known
        secrets = secrets_location(context, environment) if class_roles else None
        files = [
            context.arn("elasticfilesystem", f"file-system/{file_system_id}") for file_system_id in file_system_ids
        ]
        points = context.arn("elasticfilesystem", "access-point/*")
        return service_policy(
            ledger,
            access,
            systems=files,
            points=points,
            roles=arns,
            secrets=secrets,
            own_secrets=protected.own_secrets,
            target_group=targets,
        )

    names = (
        *(Reference(arn, placeholder_table_arn) for arn in protected.table_arns),
        Reference(
            protected.target_group_arn or "", placeholder_target_group_arn if protected.target_group_arn else _nothing
        ),
        Reference(protected.file_system_ids, lambda context: [placeholder_file_system_id(context)]),
        *(Reference(role.arn, placeholder_role_arn) for role in class_roles.values()),
    )
    return roles.add_policy(service, "work", PlannedDocument(aws, policy, names))


def _nothing(_: AwsContext) -> str:
    return ""
