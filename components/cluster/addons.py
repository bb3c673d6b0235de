"""EKS add-ons: their builds, configuration and IAM roles."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_aws import eks

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.irsa import ServiceAccount
from agentenv.core.nodes.addon_configuration import CONFIGURATION, EFS_CONTROLLER_ACCOUNT, EFS_NODE_ACCOUNT

CNI = ServiceAccount("kube-system", "aws-node")
EFS_CONTROLLER = ServiceAccount("kube-system", EFS_CONTROLLER_ACCOUNT)
EFS_NODE = ServiceAccount("kube-system", EFS_NODE_ACCOUNT)


@dataclass(frozen=True)
class Installer:
    """Installs the add-ons of one cluster."""

    cluster: pulumi.Input[str]
    builds: Mapping[str, str]  # by add-on
    labels: Labels
    child: ChildOptions

    def install(
        self,
        name: str,
        *,
        after: Sequence[pulumi.Resource] = (),
        token_role: pulumi.Input[str] | None = None,
        agent_roles: Mapping[ServiceAccount, pulumi.Input[str]] | None = None,
    ) -> eks.Addon:
        """Install an add-on; it overwrites an earlier installation, and is deleted with the stack."""
        configuration = CONFIGURATION.get(name)
        roles = [
            {"role_arn": role, "service_account": service_account.name}
            for service_account, role in (agent_roles or {}).items()
        ]
        return eks.Addon(
            f"{self.labels.base}-{name}",
            cluster_name=self.cluster,
            addon_name=name,
            addon_version=self.builds[name],
            configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
            service_account_role_arn=token_role,
            pod_identity_associations=roles or None,  # pyright: ignore[reportArgumentType] - dictionaries of its shape
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            preserve=False,
            tags=self.labels.tags(name),
            opts=self.child(pulumi.ResourceOptions(depends_on=list(after))),
        )
