"""The identity of kubeconfigs: that of the aws provider, by its profile or role.

`aws eks get-token` runs for every client of the cluster. By default it has the credentials of its own environment,
which need not be those with which the provider created the cluster.
"""

from dataclasses import dataclass
from typing import Any

import pulumi


@dataclass(frozen=True)
class TokenIdentity:
    """The profile and the role with which tokens of the cluster are requested."""

    profile: str | None = None
    role_arn: str | None = None

    @property
    def arguments(self) -> list[str]:
        """Return the arguments of `aws eks get-token`."""
        return ["--role-arn", self.role_arn] if self.role_arn else []

    @property
    def environment(self) -> list[dict[str, str]]:
        """Return the variables of the exec plugin of a kubeconfig."""
        return [{"name": "AWS_PROFILE", "value": self.profile}] if self.profile else []


def token_identity() -> TokenIdentity:
    """Return the identity of the stack's `aws:profile` and `aws:assumeRoles`, of which the last role counts."""
    config = pulumi.Config("aws")
    roles: list[dict[str, Any]] = config.get_object("assumeRoles") or []
    return TokenIdentity(config.get("profile"), roles[-1].get("roleArn") if roles else None)
