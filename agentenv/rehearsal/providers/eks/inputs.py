"""The inputs of each component: the supported ones, and the unsupported ones with the reason.

Any other input is unknown. No input is ignored: one without effect in the stand-in is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
from pulumi.errors import RunError

_NODES: Final = "node groups are not rehearsed; the rehearsal adds nodes in other ways"
_AUTH: Final = "the aws-auth ConfigMap is not rehearsed; use authenticationMode API and accessEntries"


@dataclass(frozen=True)
class Shape:
    """The properties of an object. A nested shape is checked too; None leaves the check to the AWS provider."""

    supported: Mapping[str, Shape | MapOf | None]
    unsupported: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MapOf:
    """A map with arbitrary keys, whose values have one shape."""

    shape: Shape


def _unchecked(*names: str) -> dict[str, Shape | MapOf | None]:
    return dict.fromkeys(names)


POLICY: Final = Shape(_unchecked("accessScope", "policyArn"))
ACCESS: Final = Shape(
    {**_unchecked("kubernetesGroups", "principalArn", "tags", "type", "username"), "accessPolicies": MapOf(POLICY)}
)
ADDON_OPTIONS: Final = Shape(
    _unchecked("configurationValues", "enabled", "resolveConflictsOnCreate", "resolveConflictsOnUpdate", "version")
)
FARGATE: Final = Shape(_unchecked("podExecutionRoleArn", "selectors", "subnetIds"))
CREDENTIALS: Final = Shape(_unchecked("profileName", "roleArn"))
_PRIVILEGED: Final = {"securityContextPrivileged": "the DaemonSet patch that it needs is not rehearsed"}
CNI_OPTIONS: Final = Shape(
    _unchecked(
        "addonVersion",
        "cniConfigureRpfilter",
        "cniCustomNetworkCfg",
        "cniExternalSnat",
        "configurationValues",
        "customNetworkConfig",
        "disableTcpEarlyDemux",
        "enableNetworkPolicy",
        "enablePodEni",
        "enablePrefixDelegation",
        "eniConfigLabelDef",
        "eniMtu",
        "externalSnat",
        "logFile",
        "logLevel",
        "nodePortSupport",
        "resolveConflictsOnCreate",
        "resolveConflictsOnUpdate",
        "serviceAccountRoleArn",
        "vethPrefix",
        "warmEniTarget",
        "warmIpTarget",
        "warmPrefixTarget",
    ),
    _PRIVILEGED,
)

SHAPES: Final[Mapping[str, Shape]] = {
    "eks:index:Cluster": Shape(
        {
            **_unchecked(
                "authenticationMode",
                "bootstrapSelfManagedAddons",
                "clusterSecurityGroup",
                "clusterSecurityGroupTags",
                "clusterTags",
                "createOidcProvider",
                "deletionProtection",
                "enabledClusterLogTypes",
                "encryptionConfigKeyArn",
                "endpointPrivateAccess",
                "endpointPublicAccess",
                "ipFamily",
                "kubernetesServiceIpAddressRange",
                "name",
                "nodeSecurityGroupTags",
                "privateSubnetIds",
                "publicAccessCidrs",
                "publicSubnetIds",
                "serviceRole",
                "skipDefaultNodeGroup",
                "skipDefaultSecurityGroups",
                "subnetIds",
                "tags",
                "upgradePolicy",
                "useDefaultVpcCni",
                "version",
                "vpcId",
            ),
            "accessEntries": MapOf(ACCESS),
            "corednsAddonOptions": ADDON_OPTIONS,
            "fargate": FARGATE,
            "kubeProxyAddonOptions": ADDON_OPTIONS,
            "providerCredentialOpts": CREDENTIALS,
            "vpcCniOptions": CNI_OPTIONS,
        },
        {
            "autoMode": "Auto Mode is not rehearsed",
            "createInstanceRole": _NODES,
            "creationRoleProvider": "the official component refuses it outside Node.js; use providerCredentialOpts",
            "desiredCapacity": _NODES,
            "enableConfigMapMutable": "the component's Kubernetes provider has no settings but the kubeconfig",
            "gpu": _NODES,
            "instanceProfileName": _NODES,
            "instanceRole": _NODES,
            "instanceRoles": _NODES,
            "instanceType": _NODES,
            "maxSize": _NODES,
            "minSize": _NODES,
            "nodeAmiId": _NODES,
            "nodeAssociatePublicIpAddress": _NODES,
            "nodeGroupOptions": _NODES,
            "nodePublicKey": _NODES,
            "nodeRootVolumeEncrypted": _NODES,
            "nodeRootVolumeSize": _NODES,
            "nodeSubnetIds": _NODES,
            "nodeUserData": _NODES,
            "proxy": "a rehearsed cluster is on this machine and needs no proxy",
            "roleMappings": _AUTH,
            "storageClasses": "the stand-in creates no storage classes; use the kubernetes provider",
            "userMappings": _AUTH,
        },
    ),
    "eks:index:Addon": Shape(
        _unchecked(
            "addonName",
            "addonVersion",
            "cluster",
            "configurationValues",
            "preserve",
            "resolveConflictsOnCreate",
            "resolveConflictsOnUpdate",
            "serviceAccountRoleArn",
            "tags",
        )
    ),
    "eks:index:VpcCniAddon": Shape(
        {**CNI_OPTIONS.supported, **_unchecked("clusterName", "clusterVersion", "tags")}, _PRIVILEGED
    ),
    "eks:index:NodeGroupSecurityGroup": Shape(_unchecked("clusterSecurityGroup", "eksCluster", "tags", "vpcId")),
}
# Components that are not rehearsed.
UNSUPPORTED_TYPES: Final[Mapping[str, str]] = {
    "eks:index:ClusterCreationRoleProvider": "the role that creates clusters is not rehearsed",
    "eks:index:ManagedNodeGroup": _NODES,
    "eks:index:NodeGroup": _NODES,
    "eks:index:NodeGroupV2": _NODES,
}
# Inputs that are other resources, by the component's type.
RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "eks:index:Cluster": ("clusterSecurityGroup", "serviceRole"),
    "eks:index:Addon": ("cluster",),
    "eks:index:NodeGroupSecurityGroup": ("clusterSecurityGroup", "eksCluster"),
}


class UnsupportedInputs(RunError):
    """The stand-in does not support these inputs. The SDK shows the message without a traceback."""


def check_known_inputs(subject: str, shape: Shape, args: Mapping[str, Any]) -> None:
    """Refuse all inputs that are unknown or unsupported, in one error."""
    problems = list(_problems(shape, args, ""))
    if problems:
        raise UnsupportedInputs(f"{subject}: " + "; ".join(problems))


def check_values(subject: str, args: Mapping[str, Any]) -> None:
    """Refuse values of a cluster's inputs that need what is not rehearsed."""
    if args.get("authenticationMode") != "API":
        mode = args.get("authenticationMode") or "CONFIG_MAP, the default"
        raise UnsupportedInputs(
            f"{subject}: authenticationMode is {mode}; the stand-in supports API, with accessEntries"
        )
    if args.get("skipDefaultNodeGroup") is not True:
        raise UnsupportedInputs(f"{subject}: skipDefaultNodeGroup is not true; the stand-in has no node groups")
    if args.get("createOidcProvider") not in (None, False):
        raise UnsupportedInputs(
            f"{subject}: createOidcProvider reads the issuer's certificate, which is not rehearsed; set it to "
            "false and create an aws.iam.OpenIdConnectProvider of oidcProviderUrl"
        )
    if not args.get("vpcId"):
        raise UnsupportedInputs(f"{subject}: vpcId is not set; the stand-in does not use a default VPC")
    if args.get("subnetIds") is not None and (args.get("publicSubnetIds") or args.get("privateSubnetIds")):
        raise UnsupportedInputs(
            f"{subject}: subnetIds is set beside publicSubnetIds or privateSubnetIds; use one of them"
        )


def _problems(shape: Shape | MapOf | None, args: Any, path: str) -> Iterator[str]:
    if shape is None or not isinstance(args, Mapping) or isinstance(args, pulumi.Output):
        return
    if isinstance(shape, MapOf):
        for name in sorted(args):
            yield from _problems(shape.shape, args[name], f"{path}{name}.")
        return
    for name in sorted(args):
        if args[name] is None:
            continue
        if name in shape.unsupported:
            yield f"{path}{name} is not supported by the stand-in: {shape.unsupported[name]}"
        elif name not in shape.supported:
            yield f"{path}{name} is not known; supported are {', '.join(sorted(shape.supported))}"
        else:
            yield from _problems(shape.supported[name], args[name], f"{path}{name}.")
