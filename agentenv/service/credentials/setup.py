"""Create a replica's exchange and vault from its configuration; None where the environment has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.core.iam.identity_exchange import SecretsPlace
from agentenv.service.aws import clients as aws
from agentenv.service.credentials.exchange import ClassRole, Credentials, Exchange
from agentenv.service.credentials.vault import Vault

if TYPE_CHECKING:
    from typing import Any

    from agentenv.service.configuration import Configuration
    from agentenv.service.kube.client import KubeClient


def exchange_of(configuration: Configuration, cluster: KubeClient) -> Exchange | None:
    """Create the exchange, where a class has a role for it."""
    roles = {
        sandbox_class.name: ClassRole(
            configuration.exchange_roles[sandbox_class.name], tuple(sandbox_class.identity.policies)
        )
        for sandbox_class in configuration.settings.sandbox_classes
        if sandbox_class.identity.kind == "exchange" and sandbox_class.name in configuration.exchange_roles
    }
    if not roles:
        return None
    region = configuration.region

    def vault(credentials: Credentials) -> Any:
        return aws.client(
            "secretsmanager",
            region,
            aws_access_key_id=credentials.access_key_id,
            aws_secret_access_key=credentials.secret_access_key,
            aws_session_token=credentials.session_token,
        )

    return Exchange(cluster, cluster, aws.client("sts", region), roles, secrets_of(configuration), vault=vault)


def vault_of(configuration: Configuration) -> Vault | None:
    """Create the store of owners' secrets."""
    place = secrets_of(configuration)
    if place is None:
        return None
    tags = {"environment": configuration.settings.environment, "component": "workspace-service"}
    return Vault(aws.client("secretsmanager", configuration.region), place, tags)


def secrets_of(configuration: Configuration) -> SecretsPlace | None:
    """Return where owners' secrets are, from their common ARN prefix."""
    arn_prefix = configuration.secrets_prefix
    if arn_prefix is None:
        return None
    head, colon, prefix = arn_prefix.rpartition(":")
    return SecretsPlace(f"{head}{colon}", prefix.strip("/"))
