"""Settings of the cluster: its version, who reaches it, and what it keeps."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agentenv.config.sections.base import LogDays, Section
from agentenv.config.sections.sandbox_controller import SandboxController
from agentenv.config.values import Cidr, PolicyArn, PrincipalArn, wrong

# 1.37 is missing: Karpenter, without which there are no nodes, supports none beyond these yet.
VERSIONS = ("1.34", "1.35", "1.36")


def _version(value: Any) -> Any:
    if isinstance(value, float | int) and not isinstance(value, bool):
        raise wrong(f"one of {', '.join(VERSIONS)}", "put it in quotes: YAML reads 1.30 as the number 1.3")
    return value


Version = Annotated[Literal["1.34", "1.35", "1.36"], BeforeValidator(_version)]
AddonVersion = Annotated[
    str,
    Field(
        title="a version such as v1.22.4-eksbuild.1",
        pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+(-eksbuild\.[0-9]+)?$",
        max_length=64,
    ),
]


class AddonVersions(Section):
    """Versions of add-ons that should differ from those the components pin."""

    vpc_cni: Annotated[AddonVersion | None, Field(description="Version of vpc-cni.")] = None
    coredns: Annotated[AddonVersion | None, Field(description="Version of coredns.")] = None
    kube_proxy: Annotated[AddonVersion | None, Field(description="Version of kube-proxy.")] = None
    efs_csi_driver: Annotated[AddonVersion | None, Field(description="Version of aws-efs-csi-driver.")] = None
    pod_identity_agent: Annotated[AddonVersion | None, Field(description="Version of eks-pod-identity-agent.")] = None
    metrics_server: Annotated[AddonVersion | None, Field(description="Version of metrics-server.")] = None
    kube_state_metrics: Annotated[AddonVersion | None, Field(description="Version of kube-state-metrics.")] = None


class Cluster(Section):
    """The EKS cluster: its version, who reaches it, and what it keeps."""

    name: Annotated[
        str | None,
        Field(
            title="at most 100 letters, digits, '-' and '_', a letter or digit first",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
            description="The cluster's name; without one, the project and the stack.",
        ),
    ] = None
    version: Annotated[Version, Field(description="The Kubernetes version.")] = "1.35"
    support_policy: Annotated[
        Literal["standard", "extended"],
        Field(
            description="`standard` upgrades when a version leaves support; `extended` costs six times as much then."
        ),
    ] = "standard"
    public_access_cidrs: Annotated[
        tuple[Cidr, ...],
        Field(description="Who may reach the API server from outside the VPC; nobody when empty."),
    ] = ()
    admins: Annotated[tuple[PrincipalArn, ...], Field(description="Roles and users with every right.")] = ()
    operators: Annotated[
        tuple[PrincipalArn, ...],
        Field(
            description="Roles and users who may look everywhere, and change what is in the namespaces of classes and"
            " of metering; not access, nor what controllers run as."
        ),
    ] = ()
    readers: Annotated[tuple[PrincipalArn, ...], Field(description="Roles and users who may look.")] = ()
    deployers: Annotated[
        tuple[PrincipalArn, ...], Field(description="Roles that run `pulumi up`, beside whoever made the cluster.")
    ] = ()
    service_cidr: Annotated[Cidr, Field(description="The range of Kubernetes services, /24 to /12.")] = IPv4Network(
        "172.20.0.0/16"
    )
    log_days: Annotated[LogDays, Field(description="How many days the control plane's logs are kept.")] = 30
    deletion_protection: Annotated[
        bool, Field(description="Whether EKS refuses to delete the cluster. True in prod when not said.")
    ] = False
    addon_versions: Annotated[AddonVersions, Field(description="Add-on versions that differ from the pinned ones.")] = (
        AddonVersions()
    )
    permissions_boundary: Annotated[
        PolicyArn | None, Field(description="The permissions boundary of every role that is made.")
    ] = None
    sandbox_controller: Annotated[
        SandboxController, Field(description="The controller that turns claims into sandboxes.")
    ] = SandboxController()
    existing: Annotated[
        str | None,
        Field(
            title="at most 100 letters, digits, '-' and '_', a letter or digit first",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
            description="A cluster to use instead of making one, by its name; whoever runs `pulumi up` has to be among"
            " its administrators.",
        ),
    ] = None
