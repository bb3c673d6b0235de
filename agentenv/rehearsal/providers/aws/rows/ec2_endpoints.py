"""VPC endpoints and flow logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.row import (
    Call,
    CustomCreate,
    CustomStep,
    ReadCall,
    ResourceType,
    StateCheck,
    Template,
)
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.value_kinds import IS_ARN, POLICY, ValueKind, exactly_one, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NO_LATTICE: Final = "VPC Lattice is not simulated"
NO_TRANSIT: Final = "transit gateways are not simulated"
MEMBERSHIPS: Final = {
    "routeTableIds": "RouteTableIds",
    "securityGroupIds": "SecurityGroupIds",
    "subnetIds": "SubnetIds",
}
SIMPLE_MEMBERS: Final = {
    "ipAddressType": "IpAddressType",
    "privateDnsEnabled": "PrivateDnsEnabled",
    "policy": "PolicyDocument",
}


def _update(op: Operation) -> None:
    """Update an endpoint: add and remove list members, replace the other settings."""
    if op.creating:
        return
    parameters: dict[str, Any] = {}
    for name, member in MEMBERSHIPS.items():
        before, after = set(op.state.get(name) or []), set(op.inputs.get(name) or [])
        if name in op.changed and after - before:
            parameters[f"Add{member}"] = sorted(after - before)
        if name in op.changed and before - after:
            parameters[f"Remove{member}"] = sorted(before - after)
    for name, member in SIMPLE_MEMBERS.items():
        if name in op.changed and op.inputs.get(name) is not None:
            parameters[member] = op.inputs[name]
    if "policy" in op.changed and not op.inputs.get("policy"):
        parameters["ResetPolicy"] = True
    dns = op.inputs.get("dnsOptions") or {}
    if "dnsOptions" in op.changed and dns.get("dnsRecordIpType"):
        parameters["DnsOptions"] = {"DnsRecordIpType": dns["dnsRecordIpType"]}
    if parameters:
        op.call("ModifyVpcEndpoint", VpcEndpointId=op.id, **parameters)


def _prefix_list(op: Operation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the prefix list that represents a gateway endpoint in route tables and security groups."""
    if document.get("VpcEndpointType") != "Gateway":
        return {}
    name = [{"Name": "prefix-list-name", "Values": [document["ServiceName"]]}]
    lists = op.call("DescribePrefixLists", Filters=name).get("PrefixLists", [])
    match = next(
        (prefix_list for prefix_list in lists if prefix_list.get("PrefixListName") == document["ServiceName"]), None
    )
    return {"PrefixListId": match["PrefixListId"], "CidrBlocks": match.get("Cidrs", [])} if match else {}


VPC_ENDPOINT = ResourceType(
    type="aws:ec2/vpcEndpoint:VpcEndpoint",
    service="ec2",
    create=Call("CreateVpcEndpoint", None, member_names={"policy": "PolicyDocument"}),
    id="VpcEndpoint.VpcEndpointId",
    read=ReadCall(
        "DescribeVpcEndpoints",
        {"VpcEndpointIds": ["$id"]},
        "VpcEndpoints[0]",
        not_found_errors=("InvalidVpcEndpointId.NotFound", "InvalidVpcEndpoint.NotFound"),
    ),
    more_reads=(_prefix_list,),
    updates=(CustomStep(_update, (*MEMBERSHIPS, *SIMPLE_MEMBERS, "dnsOptions")),),
    delete=(Call("DeleteVpcEndpoints", constants={"VpcEndpointIds": ["$id"]}),),
    output_sources={
        "arn": Template("arn:{partition}:ec2:{region}:{account}:vpc-endpoint/{id}"),
        "policy": "PolicyDocument",
        "securityGroupIds": "Groups[].GroupId",
    },
    tags=ec2_tags("vpc-endpoint"),
    ready=StateCheck("State", ("available", "Available"), ("rejected", "failed", "expired")),
    deleted_state=StateCheck("State", ("deleted", "Deleted", "deleting", "Deleting")),
    wait_until_deleted=True,
    value_kinds={
        "policy": POLICY,
        "vpcEndpointType": one_of("Gateway", "Interface", "GatewayLoadBalancer"),
        "ipAddressType": one_of("ipv4", "dualstack", "ipv6"),
        "dnsOptions.dnsRecordIpType": one_of("ipv4", "dualstack", "ipv6", "service-defined"),
    },
    defaults={"vpcEndpointType": "Gateway"},
    unsupported={
        "autoAccept": "endpoints of other accounts, which have to be accepted, are not simulated",
        "resourceConfigurationArn": NO_LATTICE,
        "serviceNetworkArn": NO_LATTICE,
        "subnetConfigurations": "addresses of one's own choice in subnets are not simulated; give subnetIds",
    },
    validators=(exactly_one("serviceName"),),
    updated_outputs=frozenset({"networkInterfaceIds", "dnsEntries"}),
)

RESOURCE_TYPES: Final = {"vpcId": "VPC", "subnetId": "Subnet", "eniId": "NetworkInterface"}


def _create_flow_log(op: Operation) -> Mapping[str, Any]:
    """Create a flow log. CreateFlowLogs succeeds even if it creates none; the response lists the errors."""
    name, kind = next((name, kind) for name, kind in RESOURCE_TYPES.items() if op.inputs.get(name))
    member_names = {
        "iamRoleArn": "DeliverLogsPermissionArn",
        "deliverCrossAccountRole": "DeliverCrossAccountRole",
        "logDestination": "LogDestination",
        "logDestinationType": "LogDestinationType",
        "logFormat": "LogFormat",
        "maxAggregationInterval": "MaxAggregationInterval",
        "trafficType": "TrafficType",
    }
    parameters = {member: op.inputs[key] for key, member in member_names.items() if op.inputs.get(key)}
    options = op.inputs.get("destinationOptions")
    if options:
        parameters["DestinationOptions"] = {key[0].upper() + key[1:]: value for key, value in options.items()}
    if op.inputs.get("tags"):
        tags = [{"Key": key, "Value": value} for key, value in sorted(op.inputs["tags"].items())]
        parameters["TagSpecifications"] = [{"ResourceType": "vpc-flow-log", "Tags": tags}]
    response = op.call("CreateFlowLogs", ResourceIds=[op.inputs[name]], ResourceType=kind, **parameters)
    for failed in response.get("Unsuccessful") or []:
        error = failed.get("Error", {})
        raise CloudError("ec2", "CreateFlowLogs", error.get("Code", "Unsuccessful"), error.get("Message", ""))
    return response


def _resource_id(prefix: str) -> Any:
    def show(_: Operation, document: Mapping[str, Any]) -> Any:
        watched = str(document.get("ResourceId", ""))
        return watched if watched.startswith(prefix) else None

    return show


def _bare_arn(text: Any) -> str:
    return str(text).removesuffix(":*")


FLOW_LOG = ResourceType(
    type="aws:ec2/flowLog:FlowLog",
    service="ec2",
    create=CustomCreate(
        _create_flow_log,
        (
            *RESOURCE_TYPES,
            *("deliverCrossAccountRole", "destinationOptions", "iamRoleArn", "logDestination", "logDestinationType"),
            *("logFormat", "maxAggregationInterval", "trafficType"),
        ),
    ),
    id="FlowLogIds[0]",
    read=ReadCall(
        "DescribeFlowLogs", {"FlowLogIds": ["$id"]}, "FlowLogs[0]", not_found_errors=("InvalidFlowLogId.NotFound",)
    ),
    delete=(Call("DeleteFlowLogs", constants={"FlowLogIds": ["$id"]}),),
    output_sources={
        "arn": Template("arn:{partition}:ec2:{region}:{account}:vpc-flow-log/{id}"),
        "iamRoleArn": "DeliverLogsPermissionArn",
        "vpcId": _resource_id("vpc-"),
        "subnetId": _resource_id("subnet-"),
        "eniId": _resource_id("eni-"),
    },
    tags=ec2_tags("vpc-flow-log"),
    value_kinds={
        "logDestination": ValueKind(IS_ARN.validate, lambda a, b: _bare_arn(a) == _bare_arn(b)),
        "logDestinationType": one_of("cloud-watch-logs", "s3", "kinesis-data-firehose"),
        "maxAggregationInterval": one_of(60, 600),
        "trafficType": one_of("ACCEPT", "REJECT", "ALL"),
    },
    defaults={"logDestinationType": "cloud-watch-logs", "maxAggregationInterval": 600},
    unsupported={
        "regionalNatGatewayId": "regional NAT gateways are not simulated",
        "tagFieldSpecifications": "tag fields in flow logs are not simulated",
        "transitGatewayAttachmentId": NO_TRANSIT,
        "transitGatewayId": NO_TRANSIT,
    },
    validators=(exactly_one(*RESOURCE_TYPES), exactly_one("trafficType")),
)

ROWS: Final = (VPC_ENDPOINT, FLOW_LOG)
