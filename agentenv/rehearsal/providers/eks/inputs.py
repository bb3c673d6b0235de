"""The inputs of each component: those that are mapped, and those that are not, each with its reason.

What is neither is unknown. Nothing is dropped: an input that would change nothing here is refused by its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
from pulumi.errors import RunError

_NODES: Final = "node groups are not rehearsed; nodes come from elsewhere than this component"
_AUTH: Final = "the aws-auth ConfigMap is not rehearsed; use authenticationMode API and accessEntries"


@dataclass(frozen=True)
class Shape:
    """What an object may hold: an inner shape where its parts are checked too, None where the AWS provider does."""

    taken: Mapping[str, Shape | Each | None]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Each:
    """An object whose keys are the program's own words, and whose values all have one shape."""

    shape: Shape


def _free(*names: str) -> dict[str, Shape | Each | None]:
    return dict.fromkeys(names)


POLICY: Final = Shape(_free("accessScope", "policyArn"))
ACCESS: Final = Shape(
    {**_free("kubernetesGroups", "principalArn", "tags", "type", "username"), "accessPolicies": Each(POLICY)}
)
ADDON_OPTIONS: Final = Shape(
    _free("configurationValues", "enabled", "resolveConflictsOnCreate", "resolveConflictsOnUpdate", "version")
)
FARGATE: Final = Shape(_free("podExecutionRoleArn", "selectors", "subnetIds"))
CREDENTIALS: Final = Shape(_free("profileName", "roleArn"))
_PRIVILEGED: Final = {"securityContextPrivileged": "the patch of the DaemonSet that it takes is not rehearsed"}
CNI_OPTIONS: Final = Shape(
    _free(
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
            **_free(
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
            "accessEntries": Each(ACCESS),
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
            "enableConfigMapMutable": "the component's own Kubernetes provider gets its kubeconfig and no more",
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
            "proxy": "a rehearsed cluster answers on this machine, with no proxy on the way",
            "roleMappings": _AUTH,
            "storageClasses": "storage classes are not made by the rehearsed component; make them with kubernetes",
            "userMappings": _AUTH,
        },
    ),
    "eks:index:Addon": Shape(
        _free(
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
        {**CNI_OPTIONS.taken, **_free("clusterName", "clusterVersion", "tags")}, _PRIVILEGED
    ),
    "eks:index:NodeGroupSecurityGroup": Shape(_free("clusterSecurityGroup", "eksCluster", "tags", "vpcId")),
}
# Components that are not rehearsed at all.
REFUSED: Final[Mapping[str, str]] = {
    "eks:index:ClusterCreationRoleProvider": "a role of its own that creates clusters is not rehearsed",
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


class Refused(RunError):
    """Inputs that the stand-in does not take, in words for the person; the SDK passes it on without a traceback."""


def refuse_strangers(where: str, shape: Shape, given: Mapping[str, Any]) -> None:
    """Refuse what is not mapped, all of it at once."""
    problems = list(_problems(shape, given, ""))
    if problems:
        raise Refused(f"{where}: " + "; ".join(problems))


def refuse_values(where: str, given: Mapping[str, Any]) -> None:
    """Refuse values of a cluster's inputs that would take what is not rehearsed."""
    if given.get("authenticationMode") != "API":
        found = given.get("authenticationMode") or "CONFIG_MAP, for it is not set"
        raise Refused(f"{where}: authenticationMode is {found}; the stand-in takes API, and entries in accessEntries")
    if given.get("skipDefaultNodeGroup") is not True:
        raise Refused(f"{where}: skipDefaultNodeGroup is not true; the stand-in makes no node groups")
    if given.get("createOidcProvider") not in (None, False):
        raise Refused(
            f"{where}: createOidcProvider would ask the issuer for its certificate, which is not rehearsed; set it to "
            "false and make an aws.iam.OpenIdConnectProvider of oidcProviderUrl"
        )
    if not given.get("vpcId"):
        raise Refused(f"{where}: vpcId is not set; the stand-in does not look for a default VPC")
    if given.get("subnetIds") is not None and (given.get("publicSubnetIds") or given.get("privateSubnetIds")):
        raise Refused(f"{where}: subnetIds is set beside publicSubnetIds or privateSubnetIds; choose one way")


def _problems(shape: Shape | Each | None, given: Any, path: str) -> Iterator[str]:
    if shape is None or not isinstance(given, Mapping) or isinstance(given, pulumi.Output):
        return
    if isinstance(shape, Each):
        for name in sorted(given):
            yield from _problems(shape.shape, given[name], f"{path}{name}.")
        return
    for name in sorted(given):
        if given[name] is None:
            continue
        if name in shape.refused:
            yield f"{path}{name} is not taken by the stand-in: {shape.refused[name]}"
        elif name not in shape.taken:
            yield f"{path}{name} is not known; it takes {', '.join(sorted(shape.taken))}"
        else:
            yield from _problems(shape.taken[name], given[name], f"{path}{name}.")
