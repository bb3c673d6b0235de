"""EKS: clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Name, Problem, Row, Tags, Until
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, IS_ARN, among, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

GONE: Final = ("ResourceNotFoundException",)
ACTIVE: Final = Until("status", ("ACTIVE",), ("FAILED", "CREATE_FAILED", "DELETE_FAILED", "UPDATE_FAILED"))
LOG_TYPES: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
CLUSTER_NAME: Final = matching(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", "is not a cluster's name (letters, digits, - and _)")


def eks_tags(arn: str) -> Tags:
    """EKS's way: a map, by ARN."""
    on = {"resourceArn": f"$out.{arn}"}
    return Tags("tags", "", "TagResource", "UntagResource", on, "tags", "tagKeys", pair=None, at="tags")


def pair_id(separator: str, *names: str) -> Callable[[str], tuple[str, dict[str, Any]]]:
    """How an import's id is taken apart into the inputs it is made of."""

    def parse(text: str) -> tuple[str, dict[str, Any]]:
        parts = text.split(separator, len(names) - 1)
        if len(parts) != len(names) or not all(parts):
            raise ValueError(f"write {separator.join(name.upper() for name in names)}")
        return text, dict(zip(names, parts, strict=True))

    return parse


def joined(separator: str, *names: str) -> Callable[[Situation, Mapping[str, Any]], str]:
    return lambda s, _: separator.join(str(s.inputs[name]) for name in names)


# -- the cluster ------------------------------------------------------------------------------------------------------

NAMES: Final = {"vpcConfig": "resourcesVpcConfig", "enabledClusterLogTypes": "logging"}


def _logging(types: Any) -> dict[str, Any]:
    """EKS wants both said: which kinds are on, and which are off."""
    sides = ((True, sorted(types)), (False, sorted(set(LOG_TYPES) - set(types))))
    return {"clusterLogging": [{"types": kinds, "enabled": on} for on, kinds in sides if kinds]}


def _configure(name: str, keep: Callable[[str], bool] = lambda _: True) -> Do:
    """EKS takes one kind of change at a time, and only the parts that can be changed."""

    def run(s: Situation) -> None:
        if s.creating:
            return
        value = s.inputs.get(name)
        if isinstance(value, dict):
            was = s.state.get(name) or {}
            kept = {k: v for k, v in value.items() if keep(k) and v is not None}
            if not kept or all(_alike(was.get(k), v) for k, v in kept.items()):
                return
            value = kept
        member = NAMES.get(name, name)
        turned = _logging(value or []) if name == "enabledClusterLogTypes" else value
        shape = calls.members("eks", "UpdateClusterConfig")[member]
        s.call("UpdateClusterConfig", name=s.id, **{member: spelling.send(turned, shape, {}, name)})

    return Do(run, (name,))


def _alike(was: Any, now: Any) -> bool:
    return sorted(was) == sorted(now) if isinstance(was, list) and isinstance(now, list) else was == now


def _auto_mode(s: Situation) -> None:
    """Compute, storage and load balancing of Auto Mode go on and off together."""
    if s.creating:
        return
    parts = {name: s.inputs.get(name) for name in ("computeConfig", "storageConfig")}
    balancing = (s.inputs.get("kubernetesNetworkConfig") or {}).get("elasticLoadBalancing")
    asked = {name: value for name, value in parts.items() if value}
    if balancing:
        asked["kubernetesNetworkConfig"] = {"elasticLoadBalancing": balancing}
    if asked:
        s.call("UpdateClusterConfig", name=s.id, **asked)


def _upgrade(s: Situation) -> None:
    if not s.creating and s.inputs.get("version") and s.inputs["version"] != s.state.get("version"):
        force: dict[str, Any] = {"force": True} if s.inputs.get("forceUpdateVersion") else {}
        s.call("UpdateClusterVersion", name=s.id, version=s.inputs["version"], **force)


def _encrypt(s: Situation) -> None:
    wanted = s.inputs.get("encryptionConfig")
    if not s.creating and wanted:
        s.call("AssociateEncryptionConfig", clusterName=s.id, encryptionConfig=[wanted])


def _needs_subnets(inputs: Mapping[str, Any]) -> list[Problem]:
    subnets = (inputs.get("vpcConfig") or {}).get("subnetIds") if isinstance(inputs.get("vpcConfig"), dict) else None
    return [("vpcConfig.subnetIds", "is empty: a cluster needs subnets in two zones")] if subnets == [] else []


def _replaced_by(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """Encryption can be put on, and never be taken off or moved to another key."""
    before, after = old.get("encryptionConfig"), new.get("encryptionConfig")
    return {"encryptionConfig"} if before and before != after else set()


def _own_word(s: Situation, _: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Whether its creator was made an administrator is told at create only."""
    said = "bootstrapClusterCreatorAdminPermissions"
    for source in (s.inputs, s.state):
        access = source.get("accessConfig")
        if isinstance(access, dict) and access.get(said) is not None:
            out.setdefault("accessConfig", {}).setdefault(said, access[said])


def _enabled_logs(_: Situation, document: Mapping[str, Any]) -> list[str]:
    setups = (document.get("logging") or {}).get("clusterLogging", [])
    return sorted(kind for setup in setups if setup.get("enabled") for kind in setup.get("types", []))


ENDPOINT: Final = frozenset({"endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs"})
PLACE: Final = frozenset({"subnetIds", "securityGroupIds"})
CLUSTER = Row(
    type="aws:eks/cluster:Cluster",
    service="eks",
    create=Call(
        "CreateCluster",
        None,
        names=NAMES,
        turns={"enabledClusterLogTypes": _logging, "encryptionConfig": lambda one: [one]},
    ),
    id="cluster.name",
    find=Look("DescribeCluster", {"name": "$id"}, "cluster", gone=GONE),
    sets=(
        _configure("vpcConfig", ENDPOINT.__contains__),
        _configure("vpcConfig", PLACE.__contains__),
        _configure("accessConfig", "authenticationMode".__eq__),
        _configure("enabledClusterLogTypes"),
        _configure("upgradePolicy"),
        _configure("zonalShiftConfig"),
        _configure("remoteNetworkConfig"),
        _configure("controlPlaneScalingConfig"),
        _configure("deletionProtection"),
        Do(_auto_mode, ("computeConfig", "storageConfig", "kubernetesNetworkConfig")),
        Do(_encrypt, ("encryptionConfig",)),
        Do(_upgrade, ("version", "forceUpdateVersion")),
    ),
    delete=(Call("DeleteCluster", given={"name": "$id"}),),
    shows={
        "vpcConfig": "resourcesVpcConfig",
        "clusterId": "id",
        "enabledClusterLogTypes": _enabled_logs,
        "identities": lambda _, d: (
            [{"Oidcs": [d["identity"]["oidc"]]}] if (d.get("identity") or {}).get("oidc") else []
        ),
    },
    name=Name(longest=100, prefix_input=""),
    tags=eks_tags("arn"),
    ready=ACTIVE,
    ends=True,
    busy=("ResourceInUseException",),
    unread=frozenset({"bootstrapSelfManagedAddons", "forceUpdateVersion"}),
    kinds={
        "name": CLUSTER_NAME,
        "accessConfig.authenticationMode": among("API", "API_AND_CONFIG_MAP", "CONFIG_MAP"),
        "enabledClusterLogTypes": among(*LOG_TYPES),
        "encryptionConfig.resources": among("secrets"),
        "encryptionConfig.provider.keyArn": IS_ARN,
        "kubernetesNetworkConfig.ipFamily": among("ipv4", "ipv6"),
        "kubernetesNetworkConfig.serviceIpv4Cidr": CIDR,
        "upgradePolicy.supportType": among("STANDARD", "EXTENDED"),
        "vpcConfig.publicAccessCidrs": CIDR,
    },
    defaults={
        "bootstrapSelfManagedAddons": True,
        "vpcConfig.endpointPrivateAccess": False,
        "vpcConfig.endpointPublicAccess": True,
    },
    refused={
        "defaultAddonsToRemoves": "it is deprecated; use bootstrapSelfManagedAddons",
        "outpostConfig": "Outposts are not simulated",
    },
    rules=(_needs_subnets,),
    replaces_when=_replaced_by,
    repairs=_own_word,
    fills=frozenset({"vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId"}),
    moves=frozenset({"platformVersion", "status"}),
)

ROWS: Final = (CLUSTER,)
