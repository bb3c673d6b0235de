"""Settings of the EKS cluster: its version, access, logs and add-ons."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from agentenv.config.sections.base import LogDays, Section
from agentenv.config.sections.sandbox_controller import SandboxController
from agentenv.config.values import Cidr, PolicyArn, PrincipalArn, wrong

# 1.37 is missing because Karpenter does not support it yet.
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
    """Versions of add-ons, instead of those that this package pins."""

    vpc_cni: Annotated[AddonVersion | None, Field(description="Version of vpc-cni.")] = None
    coredns: Annotated[AddonVersion | None, Field(description="Version of coredns.")] = None
    kube_proxy: Annotated[AddonVersion | None, Field(description="Version of kube-proxy.")] = None
    efs_csi_driver: Annotated[AddonVersion | None, Field(description="Version of aws-efs-csi-driver.")] = None
    pod_identity_agent: Annotated[AddonVersion | None, Field(description="Version of eks-pod-identity-agent.")] = None
    metrics_server: Annotated[AddonVersion | None, Field(description="Version of metrics-server.")] = None
    kube_state_metrics: Annotated[AddonVersion | None, Field(description="Version of kube-state-metrics.")] = None


class Cluster(Section):
    """The EKS cluster: its version, access, logs and add-ons."""

    name: Annotated[
        str | None,
        Field(
            title="at most 100 letters, digits, '-' and '_', a letter or digit first",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
            description="Name of the cluster. Defaults to the project and the stack.",
        ),
    ] = None
    version: Annotated[Version, Field(description="The Kubernetes version.")] = "1.35"
    support_policy: Annotated[
        Literal["standard", "extended"],
        Field(
            description="`standard` upgrades when a version reaches the end of standard support. `extended` stays, at"
            " six times the price."
        ),
    ] = "standard"
    public_access_cidrs: Annotated[
        tuple[Cidr, ...],
        Field(
            description="Source ranges that may reach the public API endpoint. An empty list disables public access."
        ),
    ] = ()
    private_access_from: Annotated[
        tuple[Cidr, ...] | None,
        Field(
            description="Source ranges outside of the VPC that may reach the private API endpoint, over a route of the"
            " network. By default `network.peers`."
        ),
    ] = None
    admins: Annotated[tuple[PrincipalArn, ...], Field(description="IAM roles and users with full access.")] = ()
    operators: Annotated[
        tuple[PrincipalArn, ...],
        Field(
            description="IAM roles and users with read access to the cluster and write access in the namespaces of"
            " classes and of metering, except for access control and controllers."
        ),
    ] = ()
    readers: Annotated[tuple[PrincipalArn, ...], Field(description="IAM roles and users with read access.")] = ()
    deployers: Annotated[
        tuple[PrincipalArn, ...],
        Field(description="IAM roles that run `pulumi up`, in addition to the creator of the cluster."),
    ] = ()
    service_cidr: Annotated[Cidr, Field(description="Address range of Kubernetes services, /24 to /12.")] = IPv4Network(
        "172.20.0.0/16"
    )
    log_days: Annotated[LogDays, Field(description="Retention of the control plane logs in days.")] = 30
    deletion_protection: Annotated[
        bool, Field(description="Whether EKS rejects the deletion of the cluster. Defaults to true in prod.")
    ] = False
    addon_versions: Annotated[AddonVersions, Field(description="Versions of add-ons, instead of the pinned ones.")] = (
        AddonVersions()
    )
    permissions_boundary: Annotated[
        PolicyArn | None, Field(description="Permissions boundary of every IAM role that is created.")
    ] = None
    sandbox_controller: Annotated[SandboxController, Field(description="The agent-sandbox controller.")] = (
        SandboxController()
    )
    existing: Annotated[
        str | None,
        Field(
            title="at most 100 letters, digits, '-' and '_', a letter or digit first",
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$",
            description="Name of an existing cluster to use instead of creating one. The identity that runs `pulumi up`"
            " must be an administrator of it.",
        ),
    ] = None
