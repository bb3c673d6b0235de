"""EKS node groups and Fargate profiles: kept by moto, checked and set right here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows import eks_access_entries as eks_access
from agentenv.rehearsal.cloud.rows.eks_common import cluster_of, offered, refuse_role

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.responses import Answer


def _subnets(desk: Desk, wanted: list[str], vpc: str) -> None:
    known = {name: subnet for zone in desk.backend("ec2").subnets.values() for name, subnet in zone.items()}
    for name in wanted:
        if name not in known or known[name].vpc_id != vpc:
            text = f"The subnet ID '{name}' does not exist in the cluster's VPC '{vpc}'"
            raise Refused("InvalidParameterException", text)


def _entry(desk: Desk, cluster: Any, role: str, kind: str) -> None:
    """EKS lets the nodes that it makes into the cluster, unless their role may already enter."""
    if eks_access.open_to_entries(cluster) and f"{cluster.name}/{role}" not in desk.shelf(eks_access.ENTRIES):
        eks_access.enter(desk, cluster.name, role, kind)


def create_nodegroup(desk: Desk) -> dict[str, Any]:
    """A node group with what was asked for and EKS's own defaults: no SSH key, the cluster's version."""
    asked, cluster = desk.asked, cluster_of(desk)
    _subnets(desk, asked["subnets"], cluster.resources_vpc_config["vpcId"])
    refuse_role(desk, asked["nodeRole"], "The node role is not valid")
    scaling = asked.get("scalingConfig", {})
    low, wanted, high = (scaling.get(name) for name in ("minSize", "desiredSize", "maxSize"))
    if scaling and not (low or 0) <= (wanted if wanted is not None else low or 0) <= (high or 0):
        text = f"desired capacity {wanted} must lie between minimum {low} and maximum {high}"
        raise Refused("InvalidParameterException", text)
    version = asked.get("version") or cluster.version
    if version not in offered()["cluster_versions"] or _minor(version) > _minor(cluster.version):
        text = f"Nodegroup Kubernetes version {version} is newer than the cluster's {cluster.version}"
        raise Refused("InvalidParameterException", text)
    desk.result({**asked, "version": version})
    group = cluster.nodegroups[asked["nodegroupName"]]
    if "remoteAccess" not in asked:
        # Moto makes up a key pair here.
        group.remote_access = None
        group.resources.pop("remoteAccessSecurityGroup", None)
    templated = "launchTemplate" in asked
    group.ami_type = asked.get("amiType") or ("CUSTOM" if templated else "AL2023_x86_64_STANDARD")
    group.release_version = asked.get("releaseVersion") or offered()["cluster_versions"][version]["release"]
    group.update_config = asked.get("updateConfig") or {"maxUnavailable": 1}
    group.node_repair_config = asked.get("nodeRepairConfig")
    if templated:
        group.disk_size = None
        group.instance_types = asked.get("instanceTypes")
    _entry(desk, cluster, asked["nodeRole"], "EC2_LINUX")
    names = {"clusterName": cluster.name, "nodegroupName": asked["nodegroupName"]}
    return {"nodegroup": desk.ask("eks", "DescribeNodegroup", **names)["nodegroup"]}


def _minor(version: str) -> int:
    return int(version.partition(".")[2] or 0)


def create_profile(desk: Desk) -> Answer:
    """A Fargate profile over private subnets of the cluster's VPC."""
    asked, cluster = desk.asked, cluster_of(desk)
    _subnets(desk, asked.get("subnets", []), cluster.resources_vpc_config["vpcId"])
    if len(asked.get("selectors", [])) > 5:
        raise Refused("InvalidParameterException", "Fargate Profile can have at most 5 selectors.")
    for subnet in asked.get("subnets", []):
        if _is_public(desk, subnet):
            text = f"Subnet {subnet} provided in Fargate Profile is not a private subnet"
            raise Refused("InvalidParameterException", text)
    refuse_role(desk, asked["podExecutionRoleArn"], "The pod execution role is not valid")
    answer = desk.forward()
    if answer.ok:
        _entry(desk, cluster, asked["podExecutionRoleArn"], "FARGATE_LINUX")
    return answer


def _is_public(desk: Desk, subnet: str) -> bool:
    """Whether a subnet's own route table, or else its VPC's main one, leads to an internet gateway."""
    ec2 = desk.backend("ec2")
    vpc = ec2.get_subnet(subnet).vpc_id
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == vpc]
    own = [table for table in tables if subnet in table._associations.values()]
    chosen = own or [table for table in tables if table.main_association_id]
    return any(str(route.gateway_id).startswith("igw-") for table in chosen for route in table._routes.values())


def listed(desk: Desk) -> Answer:
    """Moto's list, once it is sure that there is such a cluster."""
    cluster_of(desk)
    return desk.forward()


ROWS = (
    Row("eks", "CreateNodegroup", create_nodegroup),
    Row("eks", "CreateFargateProfile", create_profile),
    Row("eks", "ListNodegroups", listed),
    Row("eks", "ListFargateProfiles", listed),
)
