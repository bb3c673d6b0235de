"""EKS add-ons: their builds, configuration and IAM roles."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import eks

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.irsa import ServiceAccount
from agentenv.core.metering.exporters import allowlist
from agentenv.core.pinned_versions import releases

CONFIGURATION: Mapping[str, dict[str, Any]] = {
    "vpc-cni": {
        "enableNetworkPolicy": "true",
        "env": {
            # In strict mode a pod that no policy selects has no traffic. In standard mode a new pod has all traffic
            # until its policies are applied.
            "NETWORK_POLICY_ENFORCING_MODE": "strict",
            "ENABLE_PREFIX_DELEGATION": "true",
            "WARM_PREFIX_TARGET": "1",
        },
    },
    "coredns": {"computeType": "Fargate"},
    "kube-state-metrics": {"metricLabelsAllowlist": allowlist()},
}

CNI = ServiceAccount("kube-system", "aws-node")
EFS_CONTROLLER = ServiceAccount("kube-system", "efs-csi-controller-sa")
EFS_NODE = ServiceAccount("kube-system", "efs-csi-node-sa")


@dataclass(frozen=True)
class Builds:
    """The build of each add-on."""

    by_name: Mapping[str, str]

    @classmethod
    def of(cls, reader: ArgumentReader, version: str) -> "Builds":
        """Return the builds that are pinned for a cluster version, with the overrides of the arguments."""
        pinned = releases().addons
        if version not in pinned:
            raise ArgumentError(f"{reader.path}.version", f"'{version}'", ", ".join(sorted(pinned)))
        chosen: dict[str, Any] = reader.values.get("addon_versions") or {}
        for name, build in chosen.items():
            path = f"{reader.path}.addon_versions.{name}"
            if name not in pinned[version]:
                raise ArgumentError(path, "an add-on that is not installed", ", ".join(sorted(pinned[version])))
            if not isinstance(build, str) or not build.startswith("v"):
                raise ArgumentError(path, f"{build!r}", "a build such as v1.23.0-eksbuild.1")
        return cls({**pinned[version], **chosen})


@dataclass(frozen=True)
class Installer:
    """Installs the add-ons of one cluster."""

    cluster: pulumi.Input[str]
    builds: Builds
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
            addon_version=self.builds.by_name[name],
            configuration_values=json.dumps(configuration, sort_keys=True) if configuration else None,
            service_account_role_arn=token_role,
            pod_identity_associations=roles or None,  # pyright: ignore[reportArgumentType] - dictionaries of its shape
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            preserve=False,
            tags=self.labels.tags(name),
            opts=self.child(pulumi.ResourceOptions(depends_on=list(after))),
        )
