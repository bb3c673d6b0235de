"""What the workspace service is to AWS, and what it hands to sandboxes: a role a class whose identity is `exchange`.

A class's role has the class's policies and its owners' secrets, is taken on by the service alone, and works from the
VPC only. Nothing here decides what a policy says: `model.exchange` and `model.service_aws` do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import iam

from components.documents import Document, text
from components.identities import Roles
from components.promises import role_arn
from components.whereabouts import Whereabouts
from model.exchange import SecretsPlace, role_rights, role_trust
from model.service_aws import rights, secrets_prefix
from model.settings.classes import SandboxClass

NO_VPC, NO_TABLE = "vpc-00000000000000000", "table/not-known-yet"


@dataclass(frozen=True)
class Network:
    """Where sandboxes are, and which addresses they leave it under."""

    vpc_id: pulumi.Input[str]
    addresses: pulumi.Input[Sequence[str]]


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
    for one in classes:
        suffix = f"class-{one.name}"
        trust = service.arn.apply(lambda arn, name=one.name: text(role_trust(arn, name)))
        says: pulumi.Output[Document] = place.apply(lambda at, name=one.name: role_trust(role_arn(at), name))
        roles.promises.of("aws:iam/role:Role", f"{roles.labels.base}-{suffix}", "assumeRolePolicy", says)
        role = roles.role(suffix, f"Sandboxes of class {one.name}, each for its owner", trust)
        may = pulumi.Output.all(place, network.vpc_id, network.addresses).apply(
            lambda known: text(role_rights(secrets_place(known[0], environment), known[1], known[2]))
        )
        said: pulumi.Output[Document] = place.apply(lambda at: role_rights(secrets_place(at, environment), NO_VPC, ()))
        roles.may(role, suffix, may, said)
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

    def said(at: Whereabouts, table: str, systems: Sequence[str], arns: Sequence[str]) -> Document:
        secrets = secrets_place(at, environment) if given else None
        files = [at.arn("elasticfilesystem", f"file-system/{one}") for one in systems]
        return rights(table, files, at.arn("elasticfilesystem", "access-point/*"), arns, secrets)

    known = pulumi.Output.all(place, kept.table_arn, kept.file_system_ids, *(role.arn for role in given.values()))
    policy = known.apply(lambda found: text(said(found[0], found[1], found[2], found[3:])))
    missing = "fs-00000000000000000"
    promised: pulumi.Output[Document] = place.apply(
        lambda at: said(at, at.arn("dynamodb", NO_TABLE), [missing], [role_arn(at) for _ in given])
    )
    return roles.may(service, "work", policy, promised)
