"""EKS: clusters."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.core.values.addresses import PRIVATE_NETWORKS
from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    StateCheck,
    Tagging,
)
from agentenv.rehearsal.providers.aws.value_kinds import CIDR, IS_ARN, ValueKind, cidr, matching, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NOT_FOUND: Final = ("ResourceNotFoundException",)
ACTIVE: Final = StateCheck("status", ("ACTIVE",), ("FAILED", "CREATE_FAILED", "DELETE_FAILED", "UPDATE_FAILED"))
LOG_TYPES: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
CLUSTER_NAME: Final = matching(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", "is not a cluster's name (letters, digits, - and _)")


def eks_tags(arn: str) -> Tagging:
    """Return EKS's tagging: a map, by the ARN of the resource."""
    on = {"resourceArn": f"$out.{arn}"}
    return Tagging(
        "tags", "", "TagResource", "UntagResource", on, "tags", "tagKeys", key_value_members=None, path="tags"
    )


def import_id_parser(separator: str, *names: str) -> Callable[[str], tuple[str, dict[str, Any]]]:
    """Return a parser that splits the id of an import into inputs."""

    def parse(text: str) -> tuple[str, dict[str, Any]]:
        parts = text.split(separator, len(names) - 1)
        if len(parts) != len(names) or not all(parts):
            raise ValueError(f"write {separator.join(name.upper() for name in names)}")
        return text, dict(zip(names, parts, strict=True))

    return parse


def joined_id(separator: str, *names: str) -> Callable[[Operation, Mapping[str, Any]], str]:
    return lambda op, _: separator.join(str(op.inputs[name]) for name in names)


def _service_range_problem(value: Any) -> str | None:
    if problem := cidr(12, 24).validate(value):
        return problem
    network: Any = ipaddress.ip_network(value)
    if any(network.subnet_of(private) for private in PRIVATE_NETWORKS):
        return None
    return f"{value!r} is not in {', '.join(map(str, PRIVATE_NETWORKS))}"


SERVICE_CIDR: Final = ValueKind(_service_range_problem, CIDR.equal)

# -- the cluster ------------------------------------------------------------------------------------------------------

NAMES: Final = {"vpcConfig": "resourcesVpcConfig", "enabledClusterLogTypes": "logging"}


def _logging(types: Any) -> dict[str, Any]:
    """Return the log types that are enabled and those that are disabled; EKS needs both."""
    sides = ((True, sorted(types)), (False, sorted(set(LOG_TYPES) - set(types))))
    return {"clusterLogging": [{"types": kinds, "enabled": on} for on, kinds in sides if kinds]}


def _configure(name: str, keep: Callable[[str], bool] = lambda _: True) -> CustomStep:
    """Return the step that updates one setting. EKS accepts one kind of update at a time."""

    def run(op: Operation) -> None:
        if op.creating:
            return
        value = op.inputs.get(name)
        if isinstance(value, dict):
            current = op.state.get(name) or {}
            settings = {k: v for k, v in value.items() if keep(k) and v is not None}
            if not settings or all(_equal(current.get(k), v) for k, v in settings.items()):
                return
            value = settings
        member = NAMES.get(name, name)
        turned = _logging(value or []) if name == "enabledClusterLogTypes" else value
        shape = api_calls.members("eks", "UpdateClusterConfig")[member]
        op.call("UpdateClusterConfig", name=op.id, **{member: name_mapping.send(turned, shape, {}, name)})

    return CustomStep(run, (name,))


def _equal(current: Any, now: Any) -> bool:
    return sorted(current) == sorted(now) if isinstance(current, list) and isinstance(now, list) else current == now


def _auto_mode(op: Operation) -> None:
    """Update Auto Mode: compute, storage and load balancing are enabled together."""
    if op.creating:
        return
    parts = {name: op.inputs.get(name) for name in ("computeConfig", "storageConfig")}
    balancing = (op.inputs.get("kubernetesNetworkConfig") or {}).get("elasticLoadBalancing")
    parameters = {name: value for name, value in parts.items() if value}
    if balancing:
        parameters["kubernetesNetworkConfig"] = {"elasticLoadBalancing": balancing}
    if parameters:
        op.call("UpdateClusterConfig", name=op.id, **parameters)


def _upgrade(op: Operation) -> None:
    if not op.creating and op.inputs.get("version") and op.inputs["version"] != op.state.get("version"):
        force: dict[str, Any] = {"force": True} if op.inputs.get("forceUpdateVersion") else {}
        op.call("UpdateClusterVersion", name=op.id, version=op.inputs["version"], **force)


def _encrypt(op: Operation) -> None:
    expected = op.inputs.get("encryptionConfig")
    if not op.creating and expected:
        op.call("AssociateEncryptionConfig", clusterName=op.id, encryptionConfig=[expected])


def _subnet_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    subnets = (inputs.get("vpcConfig") or {}).get("subnetIds") if isinstance(inputs.get("vpcConfig"), dict) else None
    return [("vpcConfig.subnetIds", "is empty: a cluster needs subnets in two zones")] if subnets == [] else []


def _replaced_inputs(old: Mapping[str, Any], new: Mapping[str, Any]) -> set[str]:
    """Return the inputs that force a replacement. Encryption can be enabled, but not disabled or given another key."""
    before, after = old.get("encryptionConfig"), new.get("encryptionConfig")
    return {"encryptionConfig"} if before and before != after else set()


def _add_write_only(op: Operation, _: Mapping[str, Any], out: dict[str, Any]) -> None:
    """Keep `bootstrapClusterCreatorAdminPermissions`, which the service takes at create and never returns."""
    name = "bootstrapClusterCreatorAdminPermissions"
    for source in (op.inputs, op.state):
        access = source.get("accessConfig")
        if isinstance(access, dict) and access.get(name) is not None:
            out.setdefault("accessConfig", {}).setdefault(name, access[name])


def _enabled_logs(_: Operation, document: Mapping[str, Any]) -> list[str]:
    setups = (document.get("logging") or {}).get("clusterLogging", [])
    return sorted(kind for setup in setups if setup.get("enabled") for kind in setup.get("types", []))


ENDPOINT: Final = frozenset({"endpointPrivateAccess", "endpointPublicAccess", "publicAccessCidrs"})
SUBNETS: Final = frozenset({"subnetIds", "securityGroupIds"})
CLUSTER = ResourceType(
    type="aws:eks/cluster:Cluster",
    service="eks",
    create=Call(
        "CreateCluster",
        None,
        member_names=NAMES,
        convert={"enabledClusterLogTypes": _logging, "encryptionConfig": lambda config: [config]},
    ),
    id="cluster.name",
    read=ReadCall("DescribeCluster", {"name": "$id"}, "cluster", not_found_errors=NOT_FOUND),
    updates=(
        _configure("vpcConfig", ENDPOINT.__contains__),
        _configure("vpcConfig", SUBNETS.__contains__),
        _configure("accessConfig", "authenticationMode".__eq__),
        _configure("enabledClusterLogTypes"),
        _configure("upgradePolicy"),
        _configure("zonalShiftConfig"),
        _configure("remoteNetworkConfig"),
        _configure("controlPlaneScalingConfig"),
        _configure("deletionProtection"),
        CustomStep(_auto_mode, ("computeConfig", "storageConfig", "kubernetesNetworkConfig")),
        CustomStep(_encrypt, ("encryptionConfig",)),
        CustomStep(_upgrade, ("version", "forceUpdateVersion")),
    ),
    delete=(Call("DeleteCluster", constants={"name": "$id"}),),
    output_sources={
        "vpcConfig": "resourcesVpcConfig",
        "clusterId": "id",
        "enabledClusterLogTypes": _enabled_logs,
        "identities": lambda _, d: (
            [{"Oidcs": [d["identity"]["oidc"]]}] if (d.get("identity") or {}).get("oidc") else []
        ),
    },
    auto_name=AutoName(max_length=100, prefix_input=""),
    tags=eks_tags("arn"),
    ready=ACTIVE,
    wait_until_deleted=True,
    retry_delete_on=("ResourceInUseException",),
    write_only=frozenset({"bootstrapSelfManagedAddons", "forceUpdateVersion"}),
    value_kinds={
        "name": CLUSTER_NAME,
        "accessConfig.authenticationMode": one_of("API", "API_AND_CONFIG_MAP", "CONFIG_MAP"),
        "enabledClusterLogTypes": one_of(*LOG_TYPES),
        "encryptionConfig.resources": one_of("secrets"),
        "encryptionConfig.provider.keyArn": IS_ARN,
        "kubernetesNetworkConfig.ipFamily": one_of("ipv4", "ipv6"),
        "kubernetesNetworkConfig.serviceIpv4Cidr": SERVICE_CIDR,
        "upgradePolicy.supportType": one_of("STANDARD", "EXTENDED"),
        "vpcConfig.publicAccessCidrs": CIDR,
    },
    defaults={
        "bootstrapSelfManagedAddons": True,
        "vpcConfig.endpointPrivateAccess": False,
        "vpcConfig.endpointPublicAccess": True,
    },
    unsupported={
        "defaultAddonsToRemoves": "it is deprecated; use bootstrapSelfManagedAddons",
        "outpostConfig": "Outposts are not simulated",
    },
    validators=(_subnet_problems,),
    replaced_inputs=_replaced_inputs,
    adjust_outputs=_add_write_only,
    computed=frozenset({"vpcConfig.clusterSecurityGroupId", "vpcConfig.vpcId"}),
    updated_outputs=frozenset({"platformVersion", "status"}),
)

ROWS: Final = (CLUSTER,)
