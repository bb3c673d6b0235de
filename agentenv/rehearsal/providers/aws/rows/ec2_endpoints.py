"""What a VPC sees of the world beside its gateways: endpoints to services, and the record of its flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.api_calls import CloudError
from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Make, Row, Until
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags
from agentenv.rehearsal.providers.aws.value_kinds import IS_ARN, POLICY, Kind, among, exactly_one

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

NO_LATTICE: Final = "VPC Lattice is not simulated"
NO_TRANSIT: Final = "transit gateways are not simulated"
MEMBERSHIPS: Final = {
    "routeTableIds": "RouteTableIds",
    "securityGroupIds": "SecurityGroupIds",
    "subnetIds": "SubnetIds",
}
PLAIN: Final = {"ipAddressType": "IpAddressType", "privateDnsEnabled": "PrivateDnsEnabled", "policy": "PolicyDocument"}


def _alter(s: Situation) -> None:
    """Members are added and taken away; the rest is said anew."""
    if s.creating:
        return
    asked: dict[str, Any] = {}
    for name, member in MEMBERSHIPS.items():
        before, after = set(s.state.get(name) or []), set(s.inputs.get(name) or [])
        if name in s.changed and after - before:
            asked[f"Add{member}"] = sorted(after - before)
        if name in s.changed and before - after:
            asked[f"Remove{member}"] = sorted(before - after)
    for name, member in PLAIN.items():
        if name in s.changed and s.inputs.get(name) is not None:
            asked[member] = s.inputs[name]
    if "policy" in s.changed and not s.inputs.get("policy"):
        asked["ResetPolicy"] = True
    dns = s.inputs.get("dnsOptions") or {}
    if "dnsOptions" in s.changed and dns.get("dnsRecordIpType"):
        asked["DnsOptions"] = {"DnsRecordIpType": dns["dnsRecordIpType"]}
    if asked:
        s.call("ModifyVpcEndpoint", VpcEndpointId=s.id, **asked)


def _prefix_list(s: Situation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A gateway endpoint shows in route tables and security groups as its service's prefix list."""
    if document.get("VpcEndpointType") != "Gateway":
        return {}
    name = [{"Name": "prefix-list-name", "Values": [document["ServiceName"]]}]
    lists = s.call("DescribePrefixLists", Filters=name).get("PrefixLists", [])
    mine = next((one for one in lists if one.get("PrefixListName") == document["ServiceName"]), None)
    return {"PrefixListId": mine["PrefixListId"], "CidrBlocks": mine.get("Cidrs", [])} if mine else {}


VPC_ENDPOINT = Row(
    type="aws:ec2/vpcEndpoint:VpcEndpoint",
    service="ec2",
    create=Call("CreateVpcEndpoint", None, names={"policy": "PolicyDocument"}),
    id="VpcEndpoint.VpcEndpointId",
    find=Look(
        "DescribeVpcEndpoints",
        {"VpcEndpointIds": ["$id"]},
        "VpcEndpoints[0]",
        gone=("InvalidVpcEndpointId.NotFound", "InvalidVpcEndpoint.NotFound"),
    ),
    also=(_prefix_list,),
    sets=(Do(_alter, (*MEMBERSHIPS, *PLAIN, "dnsOptions")),),
    delete=(Call("DeleteVpcEndpoints", given={"VpcEndpointIds": ["$id"]}),),
    shows={
        "arn": Form("arn:{partition}:ec2:{region}:{account}:vpc-endpoint/{id}"),
        "policy": "PolicyDocument",
        "securityGroupIds": "Groups[].GroupId",
    },
    tags=ec2_tags("vpc-endpoint"),
    ready=Until("State", ("available", "Available"), ("rejected", "failed", "expired")),
    gone=Until("State", ("deleted", "Deleted", "deleting", "Deleting")),
    ends=True,
    kinds={
        "policy": POLICY,
        "vpcEndpointType": among("Gateway", "Interface", "GatewayLoadBalancer"),
        "ipAddressType": among("ipv4", "dualstack", "ipv6"),
        "dnsOptions.dnsRecordIpType": among("ipv4", "dualstack", "ipv6", "service-defined"),
    },
    defaults={"vpcEndpointType": "Gateway"},
    refused={
        "autoAccept": "endpoints of other accounts, which have to be accepted, are not simulated",
        "resourceConfigurationArn": NO_LATTICE,
        "serviceNetworkArn": NO_LATTICE,
        "subnetConfigurations": "addresses of one's own choice in subnets are not simulated; give subnetIds",
    },
    rules=(exactly_one("serviceName"),),
    moves=frozenset({"networkInterfaceIds", "dnsEntries"}),
)

WATCHED: Final = {"vpcId": "VPC", "subnetId": "Subnet", "eniId": "NetworkInterface"}


def _record(s: Situation) -> Mapping[str, Any]:
    """CreateFlowLogs answers with success even if it made nothing: what it could not do stands beside."""
    name, kind = next((name, kind) for name, kind in WATCHED.items() if s.inputs.get(name))
    renamed = {
        "iamRoleArn": "DeliverLogsPermissionArn",
        "deliverCrossAccountRole": "DeliverCrossAccountRole",
        "logDestination": "LogDestination",
        "logDestinationType": "LogDestinationType",
        "logFormat": "LogFormat",
        "maxAggregationInterval": "MaxAggregationInterval",
        "trafficType": "TrafficType",
    }
    asked = {member: s.inputs[key] for key, member in renamed.items() if s.inputs.get(key)}
    options = s.inputs.get("destinationOptions")
    if options:
        asked["DestinationOptions"] = {key[0].upper() + key[1:]: value for key, value in options.items()}
    if s.inputs.get("tags"):
        tags = [{"Key": key, "Value": value} for key, value in sorted(s.inputs["tags"].items())]
        asked["TagSpecifications"] = [{"ResourceType": "vpc-flow-log", "Tags": tags}]
    answer = s.call("CreateFlowLogs", ResourceIds=[s.inputs[name]], ResourceType=kind, **asked)
    for failed in answer.get("Unsuccessful") or []:
        error = failed.get("Error", {})
        raise CloudError("ec2", "CreateFlowLogs", error.get("Code", "Unsuccessful"), error.get("Message", ""))
    return answer


def _watched(prefix: str) -> Any:
    def show(_: Situation, document: Mapping[str, Any]) -> Any:
        watched = str(document.get("ResourceId", ""))
        return watched if watched.startswith(prefix) else None

    return show


def _bare_arn(text: Any) -> str:
    return str(text).removesuffix(":*")


FLOW_LOG = Row(
    type="aws:ec2/flowLog:FlowLog",
    service="ec2",
    create=Make(
        _record,
        (
            *WATCHED,
            *("deliverCrossAccountRole", "destinationOptions", "iamRoleArn", "logDestination", "logDestinationType"),
            *("logFormat", "maxAggregationInterval", "trafficType"),
        ),
    ),
    id="FlowLogIds[0]",
    find=Look("DescribeFlowLogs", {"FlowLogIds": ["$id"]}, "FlowLogs[0]", gone=("InvalidFlowLogId.NotFound",)),
    delete=(Call("DeleteFlowLogs", given={"FlowLogIds": ["$id"]}),),
    shows={
        "arn": Form("arn:{partition}:ec2:{region}:{account}:vpc-flow-log/{id}"),
        "iamRoleArn": "DeliverLogsPermissionArn",
        "vpcId": _watched("vpc-"),
        "subnetId": _watched("subnet-"),
        "eniId": _watched("eni-"),
    },
    tags=ec2_tags("vpc-flow-log"),
    kinds={
        "logDestination": Kind(IS_ARN.wrong, lambda a, b: _bare_arn(a) == _bare_arn(b)),
        "logDestinationType": among("cloud-watch-logs", "s3", "kinesis-data-firehose"),
        "maxAggregationInterval": among(60, 600),
        "trafficType": among("ACCEPT", "REJECT", "ALL"),
    },
    defaults={"logDestinationType": "cloud-watch-logs", "maxAggregationInterval": 600},
    refused={
        "regionalNatGatewayId": "regional NAT gateways are not simulated",
        "tagFieldSpecifications": "tag fields in flow logs are not simulated",
        "transitGatewayAttachmentId": NO_TRANSIT,
        "transitGatewayId": NO_TRANSIT,
    },
    rules=(exactly_one(*WATCHED), exactly_one("trafficType")),
)

ROWS: Final = (VPC_ENDPOINT, FLOW_LOG)
