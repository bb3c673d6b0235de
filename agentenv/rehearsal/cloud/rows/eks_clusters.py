"""EKS clusters: moto stores them; these rows validate as AWS does and store the settings that moto drops.

Settings are put on moto's own cluster under the names of EKS's model, and moto then shows them with the rest.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from agentenv.core.values.addresses import PRIVATE_NETWORKS
from agentenv.rehearsal.cloud.eks_registration import registered_plane
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows import eks_access_entries, eks_certificate
from agentenv.rehearsal.cloud.rows.eks_common import (
    BELONGING,
    catalog,
    check_role,
    cluster_of,
    cluster_records,
    record_update,
)
from agentenv.rehearsal.cloud.rows.logs import LAST_LOGS

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.responses import Response

# Not reachable from the internet, so that nobody could come from there. Ranges for documentation may be named.
INNER_NETWORKS = (
    *PRIVATE_NETWORKS,
    *map(ipaddress.IPv4Network, ("100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16")),
)
LOGS = ("api", "audit", "authenticator", "controllerManager", "scheduler")
# What a cluster has that moto does not keep, by EKS's names, with what EKS assumes.
SETTINGS: dict[str, Any] = {
    "upgradePolicy": {"supportType": "EXTENDED"},
    "deletionProtection": False,
    "zonalShiftConfig": None,
    "computeConfig": {"enabled": False, "nodePools": []},
    "storageConfig": {"blockStorage": {"enabled": False}},
    "remoteNetworkConfig": None,
    "controlPlaneScalingConfig": None,
}
UPDATES = {
    "upgradePolicy": "UpgradePolicyUpdate",
    "deletionProtection": "DeletionProtectionUpdate",
    "zonalShiftConfig": "ZonalShiftConfigUpdate",
    "computeConfig": "AutoModeUpdate",
    "storageConfig": "AutoModeUpdate",
    "remoteNetworkConfig": "RemoteNetworkConfigUpdate",
    "controlPlaneScalingConfig": "ControlPlaneScalingConfigUpdate",
}


def _invalid(text: str) -> AwsError:
    return AwsError("InvalidParameterException", text)


def _check_subnets(context: RequestContext, names: list[str]) -> str:
    """Return the VPC of the subnets, which must exist, be in one VPC and in at least two zones."""
    ec2 = context.backend("ec2")
    subnets = {name: subnet for zone in ec2.subnets.values() for name, subnet in zone.items()}
    for name in names:
        if name not in subnets:
            raise _invalid(f"The subnet ID '{name}' does not exist")
    if len({subnets[name].vpc_id for name in names}) > 1:
        raise _invalid("Subnets specified must belong to the same VPC")
    if len({subnets[name].availability_zone for name in names}) < 2:
        raise _invalid("Subnets specified must be in at least two different AZs")
    return subnets[names[0]].vpc_id


def _check_endpoint_access(config: dict[str, Any]) -> None:
    if not config["endpointPublicAccess"] and not config["endpointPrivateAccess"]:
        raise _invalid("Private and public endpoint access cannot be false")
    for cidr in config["publicAccessCidrs"]:
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError:
            raise _invalid(f"The following CIDRs are invalid in publicAccessCidrs: [{cidr}]") from None
        if any(network.version == 4 and network.subnet_of(inner) for inner in INNER_NETWORKS):
            raise _invalid(f"The following CIDRs are not allowed in publicAccessCidrs: [{cidr}]")


def _check_service_range(context: RequestContext, text: str | None, vpc: str) -> None:
    """Check that a range of services is private, from /24 to /12, and not one of the VPC."""
    if text is None:
        return
    try:
        network: Any = ipaddress.ip_network(text)
    except ValueError:
        raise _invalid(f"The serviceIpv4Cidr {text} is not a CIDR block.") from None
    if not 12 <= network.prefixlen <= 24:
        raise _invalid(f"The serviceIpv4Cidr {text} must be between /24 and /12.")
    if not any(network.subnet_of(private) for private in PRIVATE_NETWORKS):
        raise _invalid(f"The serviceIpv4Cidr {text} must be within {', '.join(map(str, PRIVATE_NETWORKS))}.")
    if network.overlaps(ipaddress.ip_network(context.backend("ec2").get_vpc(vpc).cidr_block)):
        raise _invalid(f"The serviceIpv4Cidr {text} overlaps with the VPC {vpc}.")


def _check_security_groups(context: RequestContext, names: list[str], vpc: str) -> None:
    for name in names:
        if name not in context.backend("ec2").groups.get(vpc, {}):
            raise _invalid(f"The security group '{name}' does not exist in VPC '{vpc}'")


def _check_keys(context: RequestContext, configs: list[dict[str, Any]]) -> None:
    for config in configs:
        key = config.get("provider", {}).get("keyArn", "")
        if key.rpartition("/")[2] not in context.backend("kms").keys:
            raise _invalid(f"The keyArn {key or '(none)'} does not name a KMS key that exists")


def _logging(setups: dict[str, Any], before: set[str]) -> tuple[set[str], dict[str, Any]]:
    """Return the enabled logs, and EKS's representation of them."""
    enabled_logs = set(before)
    for setup in setups.get("clusterLogging", []):
        chosen = set(setup.get("types", []))
        enabled_logs = enabled_logs | chosen if setup.get("enabled") else enabled_logs - chosen
    shown = [
        {"types": [name for name in LOGS if (name in enabled_logs) is enabled], "enabled": enabled}
        for enabled in (True, False)
    ]
    return enabled_logs, {"clusterLogging": [setup for setup in shown if setup["types"]]}


def create(context: RequestContext) -> dict[str, Any]:
    """Create a cluster that is active at once, with its cluster security group."""
    parameters = context.parameters
    config = parameters["resourcesVpcConfig"]
    version = parameters.get("version") or catalog()["default_version"]
    if version not in catalog()["cluster_versions"]:
        supported = ", ".join(catalog()["cluster_versions"])
        raise _invalid(f"unsupported Kubernetes version {version}. Known here: {supported}.")
    config = {
        "subnetIds": config.get("subnetIds", []),
        "securityGroupIds": config.get("securityGroupIds", []),
        "endpointPublicAccess": config.get("endpointPublicAccess", True),
        "endpointPrivateAccess": config.get("endpointPrivateAccess", False),
        "publicAccessCidrs": config.get("publicAccessCidrs") or ["0.0.0.0/0"],
    }
    if not config["subnetIds"]:
        raise _invalid("Subnets cannot be empty")
    if parameters["name"] not in context.backend("eks").clusters:
        vpc = _check_subnets(context, config["subnetIds"])
        _check_security_groups(context, config["securityGroupIds"], vpc)
        _check_endpoint_access(config)
        _check_service_range(context, parameters.get("kubernetesNetworkConfig", {}).get("serviceIpv4Cidr"), vpc)
        check_role(context, parameters["roleArn"], "The role of the cluster could not be assumed")
        _check_keys(context, parameters.get("encryptionConfig", []))
    else:
        vpc = ""
    context.result({**parameters, "version": version})
    cluster = cluster_of(context)
    config |= {"vpcId": vpc, "clusterSecurityGroupId": _create_security_group(context, vpc)}
    cluster.resources_vpc_config = config
    cluster.platformVersion = catalog()["cluster_versions"][version]["platform"]
    network = parameters.get("kubernetesNetworkConfig", {})
    cluster.kubernetes_network_config = {
        "ipFamily": "ipv4",
        "serviceIpv4Cidr": "172.20.0.0/16",
        "elasticLoadBalancing": {"enabled": False},
        **network,
    }
    _, cluster.logging = _logging(parameters.get("logging", {}), set())
    cluster.health = {"issues": []}
    # Moto gives every cluster the same issuer and address, and an authority that no client can decode.
    issuer, cluster.endpoint = eks_certificate.identity(context.region)
    cluster.identity = {"oidc": {"issuer": issuer}}
    cluster.certificate_authority = {"data": eks_certificate.authority()}
    if plane := registered_plane(context.store):
        plane.apply_to(cluster)
    access = parameters.get("accessConfig", {})
    cluster.accessConfig = {
        "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
        "bootstrapClusterCreatorAdminPermissions": access.get("bootstrapClusterCreatorAdminPermissions", True),
    }
    for name, assumed in SETTINGS.items():
        setattr(cluster, name, parameters.get(name, assumed))
    _add_creator_entry(context, cluster)
    return {"cluster": context.invoke("eks", "DescribeCluster", name=cluster.name)["cluster"]}


def _create_security_group(context: RequestContext, vpc: str) -> str:
    name = context.parameters["name"]
    tags = [
        {"Key": "Name", "Value": f"eks-cluster-sg-{name}"},
        {"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"},
    ]
    group = context.invoke(
        "ec2",
        "CreateSecurityGroup",
        GroupName=f"eks-cluster-sg-{name}",
        Description="EKS created security group applied to ENI that is attached to EKS Control Plane master nodes.",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )["GroupId"]
    own = [{"GroupId": group, "UserId": context.account}]
    permission = {"IpProtocol": "-1", "UserIdGroupPairs": own}
    context.invoke("ec2", "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[permission])
    return group


def _add_creator_entry(context: RequestContext, cluster: Any) -> None:
    """Give the cluster's creator administrator access, unless disabled."""
    if cluster.accessConfig["bootstrapClusterCreatorAdminPermissions"] and eks_access_entries.has_access_entries(
        cluster
    ):
        caller = context.invoke("sts", "GetCallerIdentity")["Arn"].replace(":sts:", ":iam:")
        eks_access_entries.create_entry(context, cluster.name, caller)
        policy = f"{eks_access_entries.POLICY}AmazonEKSClusterAdminPolicy"
        eks_access_entries.put_association(context, cluster.name, caller, policy, {"type": "cluster"})


def update_config(context: RequestContext) -> dict[str, Any]:
    """Apply one kind of change at a time; a change without effect is refused."""
    cluster, parameters = cluster_of(context), context.parameters
    if changes := parameters.get("resourcesVpcConfig"):
        kind = _update_vpc(context, cluster, changes)
        return {"update": record_update(context, cluster.name, kind, changes)}
    if "logging" in parameters:
        before = {name for setup in cluster.logging["clusterLogging"] if setup["enabled"] for name in setup["types"]}
        after, cluster_logging = _logging(parameters["logging"], before)
        if after == before:
            raise _invalid("No changes needed for the logging config provided")
        cluster.logging = cluster_logging
        return {"update": record_update(context, cluster.name, "LoggingUpdate", parameters["logging"])}
    if mode := parameters.get("accessConfig", {}).get("authenticationMode"):
        order = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
        current = cluster.accessConfig["authenticationMode"]
        if order.index(mode) <= order.index(current):
            raise _invalid(f"Unsupported authentication mode update from {current} to {mode}")
        cluster.accessConfig["authenticationMode"] = mode
        return {"update": record_update(context, cluster.name, "AccessConfigUpdate", {"AuthenticationMode": mode})}
    for name, kind in UPDATES.items():
        if name in parameters:
            setattr(cluster, name, parameters[name])
            return {"update": record_update(context, cluster.name, kind, {name: parameters[name]})}
    raise _invalid("The type for cluster update was not provided.")


def _update_vpc(context: RequestContext, cluster: Any, changes: dict[str, Any]) -> str:
    after = {**cluster.resources_vpc_config, **changes}
    if after == cluster.resources_vpc_config:
        raise _invalid("Cluster is already at the desired configuration")
    if "subnetIds" in changes and _check_subnets(context, changes["subnetIds"]) != after["vpcId"]:
        raise _invalid("Provided subnets belong to a different VPC from the cluster's.")
    _check_security_groups(context, after["securityGroupIds"], after["vpcId"])
    _check_endpoint_access(after)
    cluster.resources_vpc_config = after
    return "VpcConfigUpdate" if {"subnetIds", "securityGroupIds"} & set(changes) else "EndpointAccessUpdate"


def update_version(context: RequestContext) -> dict[str, Any]:
    """Update to the next minor version, and no other."""
    cluster, version = cluster_of(context), context.parameters["version"]
    versions = list(catalog()["cluster_versions"])
    if version not in versions or versions.index(version) != versions.index(cluster.version) + 1:
        raise _invalid(f"Unsupported Kubernetes minor version update from {cluster.version} to {version}")
    cluster.version = version
    cluster.platformVersion = catalog()["cluster_versions"][version]["platform"]
    changes = {"Version": version, "PlatformVersion": cluster.platformVersion}
    return {"update": record_update(context, cluster.name, "VersionUpdate", changes)}


def associate_encryption(context: RequestContext) -> dict[str, Any]:
    """Set a key for the secrets of a cluster without one."""
    cluster, configs = cluster_of(context), context.parameters["encryptionConfig"]
    if cluster.encryption_config:
        raise _invalid("Encryption is already enabled for the cluster; its key cannot be changed.")
    _check_keys(context, configs)
    cluster.encryption_config = configs
    return {"update": record_update(context, cluster.name, "AssociateEncryptionConfig", {"EncryptionConfig": configs})}


def delete(context: RequestContext) -> Response:
    """Delete a cluster with its records; node groups and Fargate profiles have to be deleted first."""
    cluster = cluster_of(context)
    if getattr(cluster, "deletionProtection", False):
        text = f"Cluster {cluster.name} has deletion protection enabled; switch it off first."
        raise AwsError("InvalidRequestException", text, clusterName=cluster.name)
    if cluster.fargate_profiles:
        names = ", ".join(cluster.fargate_profiles)
        raise AwsError("ResourceInUseException", f"Cluster has Fargate profiles attached: {names}")
    response = context.forward()
    if response.ok:
        for kind in BELONGING:
            for name in cluster_records(context, kind, cluster.name):
                del context.records(kind)[name]
        group = cluster.resources_vpc_config.get("clusterSecurityGroupId")
        context.backend("ec2").delete_security_group(group_id=group)
        logging = (cluster.logging or {}).get("clusterLogging", [])
        if any(setup.get("enabled") and setup.get("types") for setup in logging):
            context.records(LAST_LOGS)[f"/aws/eks/{cluster.name}/cluster"] = {}
    return response


ROWS = (
    OperationHandler("eks", "CreateCluster", create),
    OperationHandler("eks", "UpdateClusterConfig", update_config),
    OperationHandler("eks", "UpdateClusterVersion", update_version),
    OperationHandler("eks", "AssociateEncryptionConfig", associate_encryption),
    OperationHandler("eks", "DeleteCluster", delete),
)
