"""The exchange and the vault of a replica, from its configuration; none where the environment has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.iam.identity_exchange import SecretsPlace
from agentenv.service.aws import clients as aws
from agentenv.service.credentials.exchange import ClassRole, Credentials, Exchange
from agentenv.service.credentials.vault import Vault

if TYPE_CHECKING:
    from typing import Any

    from agentenv.service.configuration import Configuration
    from agentenv.service.kube.sync_client import SyncKubeClient


def exchange_of(configuration: Configuration, cluster: SyncKubeClient) -> Exchange | None:
    """The exchange, where a class has a role to give."""
    roles = {
        one.name: ClassRole(configuration.exchange_roles[one.name], tuple(one.identity.policies))
        for one in configuration.settings.sandbox_classes
        if one.identity.kind == "exchange" and one.name in configuration.exchange_roles
    }
    if not roles:
        return None
    region = configuration.region

    def vault(given: Credentials) -> Any:
        return aws.client(
            "secretsmanager",
            region,
            aws_access_key_id=given.access_key_id,
            aws_secret_access_key=given.secret_access_key,
            aws_session_token=given.session_token,
        )

    return Exchange(cluster, cluster, aws.client("sts", region), roles, secrets_of(configuration), vault=vault)


def vault_of(configuration: Configuration) -> Vault | None:
    """Where owners' secrets are put."""
    place = secrets_of(configuration)
    if place is None:
        return None
    tags = {"environment": configuration.settings.environment, "component": "workspace-service"}
    return Vault(aws.client("secretsmanager", configuration.region), place, tags)


def secrets_of(configuration: Configuration) -> SecretsPlace | None:
    """Where owners' secrets are: told as the ARN that all of them begin with."""
    begins = configuration.secrets_prefix
    if begins is None:
        return None
    head, colon, prefix = begins.rpartition(":")
    return SecretsPlace(f"{head}{colon}", prefix.strip("/"))
