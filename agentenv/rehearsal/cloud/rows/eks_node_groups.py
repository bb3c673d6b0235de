"""EKS node groups and Fargate profiles: stored by moto, validated and corrected here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows import eks_access_entries
from agentenv.rehearsal.cloud.rows.eks_common import catalog, check_role, cluster_of

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.responses import Response


def _check_subnets(context: RequestContext, names: list[str], vpc: str) -> None:
    subnets = {name: subnet for zone in context.backend("ec2").subnets.values() for name, subnet in zone.items()}
    for name in names:
        if name not in subnets or subnets[name].vpc_id != vpc:
            text = f"The subnet ID '{name}' does not exist in the cluster's VPC '{vpc}'"
            raise AwsError("InvalidParameterException", text)


def _add_node_entry(context: RequestContext, cluster: Any, role: str, kind: str) -> None:
    """Create the access entry that EKS creates for nodes, unless their role has one."""
    if eks_access_entries.has_access_entries(cluster) and f"{cluster.name}/{role}" not in context.records(
        eks_access_entries.ENTRIES
    ):
        eks_access_entries.create_entry(context, cluster.name, role, kind)


def create_nodegroup(context: RequestContext) -> dict[str, Any]:
    """Create a node group with EKS's own defaults: no SSH key, the cluster's version."""
    parameters, cluster = context.parameters, cluster_of(context)
    _check_subnets(context, parameters["subnets"], cluster.resources_vpc_config["vpcId"])
    check_role(context, parameters["nodeRole"], "The node role is not valid")
    scaling = parameters.get("scalingConfig", {})
    low, desired, high = (scaling.get(name) for name in ("minSize", "desiredSize", "maxSize"))
    if scaling and not (low or 0) <= (desired if desired is not None else low or 0) <= (high or 0):
        text = f"desired capacity {desired} must lie between minimum {low} and maximum {high}"
        raise AwsError("InvalidParameterException", text)
    version = parameters.get("version") or cluster.version
    if version not in catalog()["cluster_versions"] or _minor(version) > _minor(cluster.version):
        text = f"Nodegroup Kubernetes version {version} is newer than the cluster's {cluster.version}"
        raise AwsError("InvalidParameterException", text)
    context.result({**parameters, "version": version})
    group = cluster.nodegroups[parameters["nodegroupName"]]
    if "remoteAccess" not in parameters:
        # Moto makes up a key pair here.
        group.remote_access = None
        group.resources.pop("remoteAccessSecurityGroup", None)
    templated = "launchTemplate" in parameters
    group.ami_type = parameters.get("amiType") or ("CUSTOM" if templated else "AL2023_x86_64_STANDARD")
    group.release_version = parameters.get("releaseVersion") or catalog()["cluster_versions"][version]["release"]
    group.update_config = parameters.get("updateConfig") or {"maxUnavailable": 1}
    group.node_repair_config = parameters.get("nodeRepairConfig")
    if templated:
        group.disk_size = None
        group.instance_types = parameters.get("instanceTypes")
    _add_node_entry(context, cluster, parameters["nodeRole"], "EC2_LINUX")
    names = {"clusterName": cluster.name, "nodegroupName": parameters["nodegroupName"]}
    return {"nodegroup": context.invoke("eks", "DescribeNodegroup", **names)["nodegroup"]}


def _minor(version: str) -> int:
    return int(version.partition(".")[2] or 0)


def create_profile(context: RequestContext) -> Response:
    """Create a Fargate profile over private subnets of the cluster's VPC."""
    parameters, cluster = context.parameters, cluster_of(context)
    _check_subnets(context, parameters.get("subnets", []), cluster.resources_vpc_config["vpcId"])
    if len(parameters.get("selectors", [])) > 5:
        raise AwsError("InvalidParameterException", "Fargate Profile can have at most 5 selectors.")
    for subnet in parameters.get("subnets", []):
        if _is_public(context, subnet):
            text = f"Subnet {subnet} provided in Fargate Profile is not a private subnet"
            raise AwsError("InvalidParameterException", text)
    check_role(context, parameters["podExecutionRoleArn"], "The pod execution role is not valid")
    response = context.forward()
    if response.ok:
        _add_node_entry(context, cluster, parameters["podExecutionRoleArn"], "FARGATE_LINUX")
    return response


def _is_public(context: RequestContext, subnet: str) -> bool:
    """Return whether a subnet's route table, or else its VPC's main one, has a route to an internet gateway."""
    ec2 = context.backend("ec2")
    vpc = ec2.get_subnet(subnet).vpc_id
    tables = [table for table in ec2.route_tables.values() if table.vpc_id == vpc]
    own = [table for table in tables if subnet in table._associations.values()]
    chosen = own or [table for table in tables if table.main_association_id]
    return any(str(route.gateway_id).startswith("igw-") for table in chosen for route in table._routes.values())


def forward_list(context: RequestContext) -> Response:
    """Return moto's list for an existing cluster."""
    cluster_of(context)
    return context.forward()


ROWS = (
    OperationHandler("eks", "CreateNodegroup", create_nodegroup),
    OperationHandler("eks", "CreateFargateProfile", create_profile),
    OperationHandler("eks", "ListNodegroups", forward_list),
    OperationHandler("eks", "ListFargateProfiles", forward_list),
)
