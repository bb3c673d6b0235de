"""EKS clusters: moto keeps them; these rows check what AWS checks and keep the settings that moto drops.

Settings are put on moto's own cluster under the names of EKS's model, and moto then shows them with the rest.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.eks_registration import announced
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows import eks_access_entries as eks_access
from agentenv.rehearsal.cloud.rows import eks_certificate
from agentenv.rehearsal.cloud.rows.eks_common import (
    BELONGING,
    belonging_to,
    cluster_of,
    offered,
    refuse_role,
    update_of,
)

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.responses import Answer

# Not reachable from the internet, so that nobody could come from there. Ranges for documentation may be named.
INNER_NETWORKS = tuple(
    ipaddress.IPv4Network(cidr)
    for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16")
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


def _invalid(text: str) -> Refused:
    return Refused("InvalidParameterException", text)


def _subnets(desk: Desk, wanted: list[str]) -> str:
    """The VPC of a cluster's subnets, which must exist, be of one VPC and lie in two zones at least."""
    ec2 = desk.backend("ec2")
    known = {name: subnet for zone in ec2.subnets.values() for name, subnet in zone.items()}
    for name in wanted:
        if name not in known:
            raise _invalid(f"The subnet ID '{name}' does not exist")
    if len({known[name].vpc_id for name in wanted}) > 1:
        raise _invalid("Subnets specified must belong to the same VPC")
    if len({known[name].availability_zone for name in wanted}) < 2:
        raise _invalid("Subnets specified must be in at least two different AZs")
    return known[wanted[0]].vpc_id


def _access(config: dict[str, Any]) -> None:
    if not config["endpointPublicAccess"] and not config["endpointPrivateAccess"]:
        raise _invalid("Private and public endpoint access cannot be false")
    for cidr in config["publicAccessCidrs"]:
        try:
            network = ipaddress.ip_network(cidr)
        except ValueError:
            raise _invalid(f"The following CIDRs are invalid in publicAccessCidrs: [{cidr}]") from None
        if any(network.version == 4 and network.subnet_of(inner) for inner in INNER_NETWORKS):
            raise _invalid(f"The following CIDRs are not allowed in publicAccessCidrs: [{cidr}]")


def _groups(desk: Desk, wanted: list[str], vpc: str) -> None:
    for name in wanted:
        if name not in desk.backend("ec2").groups.get(vpc, {}):
            raise _invalid(f"The security group '{name}' does not exist in VPC '{vpc}'")


def _keys(desk: Desk, configs: list[dict[str, Any]]) -> None:
    for config in configs:
        key = config.get("provider", {}).get("keyArn", "")
        if key.rpartition("/")[2] not in desk.backend("kms").keys:
            raise _invalid(f"The keyArn {key or '(none)'} does not name a KMS key that exists")


def _logging(said: dict[str, Any], before: set[str]) -> tuple[set[str], dict[str, Any]]:
    """The logs that are on afterwards, and how EKS shows them."""
    on = set(before)
    for setup in said.get("clusterLogging", []):
        chosen = set(setup.get("types", []))
        on = on | chosen if setup.get("enabled") else on - chosen
    shown = [
        {"types": [name for name in LOGS if (name in on) is enabled], "enabled": enabled} for enabled in (True, False)
    ]
    return on, {"clusterLogging": [setup for setup in shown if setup["types"]]}


def create(desk: Desk) -> dict[str, Any]:
    """A cluster that is active at once, with the security group that EKS makes for it."""
    asked = desk.asked
    config = asked["resourcesVpcConfig"]
    version = asked.get("version") or offered()["default_version"]
    if version not in offered()["cluster_versions"]:
        known = ", ".join(offered()["cluster_versions"])
        raise _invalid(f"unsupported Kubernetes version {version}. Known here: {known}.")
    config = {
        "subnetIds": config.get("subnetIds", []),
        "securityGroupIds": config.get("securityGroupIds", []),
        "endpointPublicAccess": config.get("endpointPublicAccess", True),
        "endpointPrivateAccess": config.get("endpointPrivateAccess", False),
        "publicAccessCidrs": config.get("publicAccessCidrs") or ["0.0.0.0/0"],
    }
    if not config["subnetIds"]:
        raise _invalid("Subnets cannot be empty")
    if asked["name"] not in desk.backend("eks").clusters:
        vpc = _subnets(desk, config["subnetIds"])
        _groups(desk, config["securityGroupIds"], vpc)
        _access(config)
        refuse_role(desk, asked["roleArn"], "The role of the cluster could not be assumed")
        _keys(desk, asked.get("encryptionConfig", []))
    else:
        vpc = ""
    desk.result({**asked, "version": version})
    cluster = cluster_of(desk)
    config |= {"vpcId": vpc, "clusterSecurityGroupId": _security_group(desk, vpc)}
    cluster.resources_vpc_config = config
    cluster.platformVersion = offered()["cluster_versions"][version]["platform"]
    network = asked.get("kubernetesNetworkConfig", {})
    cluster.kubernetes_network_config = {
        "ipFamily": "ipv4",
        "serviceIpv4Cidr": "172.20.0.0/16",
        "elasticLoadBalancing": {"enabled": False},
        **network,
    }
    _, cluster.logging = _logging(asked.get("logging", {}), set())
    cluster.health = {"issues": []}
    # Moto gives every cluster the same issuer and address, and an authority that no client can decode.
    issuer, cluster.endpoint = eks_certificate.identity(desk.region)
    cluster.identity = {"oidc": {"issuer": issuer}}
    cluster.certificate_authority = {"data": eks_certificate.authority()}
    if plane := announced(desk.shelves):
        plane.put_on(cluster)
    access = asked.get("accessConfig", {})
    cluster.accessConfig = {
        "authenticationMode": access.get("authenticationMode", "CONFIG_MAP"),
        "bootstrapClusterCreatorAdminPermissions": access.get("bootstrapClusterCreatorAdminPermissions", True),
    }
    for name, assumed in SETTINGS.items():
        setattr(cluster, name, asked.get(name, assumed))
    _creator(desk, cluster)
    return {"cluster": desk.ask("eks", "DescribeCluster", name=cluster.name)["cluster"]}


def _security_group(desk: Desk, vpc: str) -> str:
    name = desk.asked["name"]
    tags = [
        {"Key": "Name", "Value": f"eks-cluster-sg-{name}"},
        {"Key": f"kubernetes.io/cluster/{name}", "Value": "owned"},
    ]
    made = desk.ask(
        "ec2",
        "CreateSecurityGroup",
        GroupName=f"eks-cluster-sg-{name}",
        Description="EKS created security group applied to ENI that is attached to EKS Control Plane master nodes.",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )["GroupId"]
    own = [{"GroupId": made, "UserId": desk.account}]
    permission = {"IpProtocol": "-1", "UserIdGroupPairs": own}
    desk.ask("ec2", "AuthorizeSecurityGroupIngress", GroupId=made, IpPermissions=[permission])
    return made


def _creator(desk: Desk, cluster: Any) -> None:
    """Whoever makes a cluster is its administrator, unless told otherwise."""
    if cluster.accessConfig["bootstrapClusterCreatorAdminPermissions"] and eks_access.open_to_entries(cluster):
        caller = desk.ask("sts", "GetCallerIdentity")["Arn"].replace(":sts:", ":iam:")
        eks_access.enter(desk, cluster.name, caller)
        policy = f"{eks_access.POLICY}AmazonEKSClusterAdminPolicy"
        eks_access.put(desk, cluster.name, caller, policy, {"type": "cluster"})


def update_config(desk: Desk) -> dict[str, Any]:
    """One kind of change at a time; a change to what already is so is refused."""
    cluster, asked = cluster_of(desk), desk.asked
    if said := asked.get("resourcesVpcConfig"):
        kind = _update_vpc(desk, cluster, said)
        return {"update": update_of(desk, cluster.name, kind, said)}
    if "logging" in asked:
        before = {name for one in cluster.logging["clusterLogging"] if one["enabled"] for name in one["types"]}
        after, cluster_logging = _logging(asked["logging"], before)
        if after == before:
            raise _invalid("No changes needed for the logging config provided")
        cluster.logging = cluster_logging
        return {"update": update_of(desk, cluster.name, "LoggingUpdate", asked["logging"])}
    if mode := asked.get("accessConfig", {}).get("authenticationMode"):
        order = ("CONFIG_MAP", "API_AND_CONFIG_MAP", "API")
        was = cluster.accessConfig["authenticationMode"]
        if order.index(mode) <= order.index(was):
            raise _invalid(f"Unsupported authentication mode update from {was} to {mode}")
        cluster.accessConfig["authenticationMode"] = mode
        return {"update": update_of(desk, cluster.name, "AccessConfigUpdate", {"AuthenticationMode": mode})}
    for name, kind in UPDATES.items():
        if name in asked:
            setattr(cluster, name, asked[name])
            return {"update": update_of(desk, cluster.name, kind, {name: asked[name]})}
    raise _invalid("The type for cluster update was not provided.")


def _update_vpc(desk: Desk, cluster: Any, said: dict[str, Any]) -> str:
    after = {**cluster.resources_vpc_config, **said}
    if after == cluster.resources_vpc_config:
        raise _invalid("Cluster is already at the desired configuration")
    if "subnetIds" in said and _subnets(desk, said["subnetIds"]) != after["vpcId"]:
        raise _invalid("Provided subnets belong to a different VPC from the cluster's.")
    _groups(desk, after["securityGroupIds"], after["vpcId"])
    _access(after)
    cluster.resources_vpc_config = after
    return "VpcConfigUpdate" if {"subnetIds", "securityGroupIds"} & set(said) else "EndpointAccessUpdate"


def update_version(desk: Desk) -> dict[str, Any]:
    """The next minor version, and no other."""
    cluster, wanted = cluster_of(desk), desk.asked["version"]
    known = list(offered()["cluster_versions"])
    if wanted not in known or known.index(wanted) != known.index(cluster.version) + 1:
        raise _invalid(f"Unsupported Kubernetes minor version update from {cluster.version} to {wanted}")
    cluster.version = wanted
    cluster.platformVersion = offered()["cluster_versions"][wanted]["platform"]
    said = {"Version": wanted, "PlatformVersion": cluster.platformVersion}
    return {"update": update_of(desk, cluster.name, "VersionUpdate", said)}


def encrypt(desk: Desk) -> dict[str, Any]:
    """A key for the secrets of a cluster that had none."""
    cluster, configs = cluster_of(desk), desk.asked["encryptionConfig"]
    if cluster.encryption_config:
        raise _invalid("Encryption is already enabled for the cluster; its key cannot be changed.")
    _keys(desk, configs)
    cluster.encryption_config = configs
    return {"update": update_of(desk, cluster.name, "AssociateEncryptionConfig", {"EncryptionConfig": configs})}


def delete(desk: Desk) -> Answer:
    """Gone with everything that belongs to it; node groups and Fargate profiles have to go first."""
    cluster = cluster_of(desk)
    if getattr(cluster, "deletionProtection", False):
        text = f"Cluster {cluster.name} has deletion protection enabled; switch it off first."
        raise Refused("InvalidRequestException", text, clusterName=cluster.name)
    if cluster.fargate_profiles:
        names = ", ".join(cluster.fargate_profiles)
        raise Refused("ResourceInUseException", f"Cluster has Fargate profiles attached: {names}")
    answer = desk.forward()
    if answer.ok:
        for kind in BELONGING:
            for name in belonging_to(desk, kind, cluster.name):
                del desk.shelf(kind)[name]
        group = cluster.resources_vpc_config.get("clusterSecurityGroupId")
        desk.backend("ec2").delete_security_group(group_id=group)
    return answer


ROWS = (
    Row("eks", "CreateCluster", create),
    Row("eks", "UpdateClusterConfig", update_config),
    Row("eks", "UpdateClusterVersion", update_version),
    Row("eks", "AssociateEncryptionConfig", encrypt),
    Row("eks", "DeleteCluster", delete),
)
