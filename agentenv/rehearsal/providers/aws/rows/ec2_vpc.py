"""VPC and what lies in it: subnets, gateways, addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Row, Tags, Until
from agentenv.rehearsal.providers.aws.value_kinds import ADDRESS, CIDR6, among, at_most_one, cidr, exactly_one

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

NO_IPAM: Final = "address pools of IPAM are not simulated; give a CIDR block"
NO_OUTPOST: Final = "Outposts are not simulated"
NO_REGIONAL: Final = "regional NAT gateways are not simulated; give a subnet"
NO_SECONDARY: Final = "secondary addresses of NAT gateways are not simulated"


def ec2_tags(kind: str) -> Tags:
    """EC2's way: a specification at create, then CreateTags and DeleteTags on the id."""
    return Tags("TagSpecifications", kind, "CreateTags", "DeleteTags", {"Resources": ["$id"]}, keys="Tags")


def attribute(operation: str, name: str, member: str, key: Mapping[str, Any]) -> Call:
    """An attribute EC2 takes one at a time, wrapped in a Value."""
    return Call(operation, takes=(name,), names={name: member}, turns={name: lambda v: {"Value": v}}, given=key)


def _look_attribute(member: str, name: str) -> Look:
    return Look("DescribeVpcAttribute", {"VpcId": "$id", "Attribute": name}, "@", {member: f"{member}.Value"})


def _born_with(s: Situation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parts that every VPC is born with, and its IPv6 range if it has one."""
    mine = [{"Name": "vpc-id", "Values": [s.id]}]
    acls = s.call("DescribeNetworkAcls", Filters=[*mine, {"Name": "default", "Values": ["true"]}])["NetworkAcls"]
    main = [*mine, {"Name": "association.main", "Values": ["true"]}]
    tables = s.call("DescribeRouteTables", Filters=main)["RouteTables"]
    named = [*mine, {"Name": "group-name", "Values": ["default"]}]
    groups = s.call("DescribeSecurityGroups", Filters=named)["SecurityGroups"]
    six = [a for a in document.get("Ipv6CidrBlockAssociationSet", []) if _associated(a)]
    return {
        "DefaultNetworkAclId": acls[0]["NetworkAclId"] if acls else None,
        "DefaultRouteTableId": tables[0]["RouteTableId"] if tables else None,
        "MainRouteTableId": tables[0]["RouteTableId"] if tables else None,
        "DefaultSecurityGroupId": groups[0]["GroupId"] if groups else None,
        "Ipv6AssociationId": six[0]["AssociationId"] if six else None,
        "Ipv6CidrBlock": six[0]["Ipv6CidrBlock"] if six else None,
        "Ipv6CidrBlockNetworkBorderGroup": six[0].get("NetworkBorderGroup") if six else None,
        "AssignGeneratedIpv6CidrBlock": bool(six),
    }


def _associated(association: Mapping[str, Any]) -> bool:
    state = association.get("Ipv6CidrBlockState", {}).get("State", "associated")
    return state in {"associated", "associating"}


def _ipv6_of_vpc(s: Situation) -> None:
    """Give the VPC an Amazon range, or take its range away; the create has a member for it."""
    if s.creating:
        return
    if s.inputs.get("assignGeneratedIpv6CidrBlock"):
        s.call("AssociateVpcCidrBlock", VpcId=s.id, AmazonProvidedIpv6CidrBlock=True)
    elif s.state.get("ipv6AssociationId"):
        s.call("DisassociateVpcCidrBlock", AssociationId=s.state["ipv6AssociationId"])


VPC_ID: Final = {"VpcId": "$id"}
VPC = Row(
    type="aws:ec2/vpc:Vpc",
    service="ec2",
    create=Call("CreateVpc", None, names={"assignGeneratedIpv6CidrBlock": "AmazonProvidedIpv6CidrBlock"}),
    id="Vpc.VpcId",
    find=Look("DescribeVpcs", {"VpcIds": ["$id"]}, "Vpcs[0]", gone=("InvalidVpcID.NotFound",)),
    also=(
        _look_attribute("EnableDnsSupport", "enableDnsSupport"),
        _look_attribute("EnableDnsHostnames", "enableDnsHostnames"),
        _look_attribute("EnableNetworkAddressUsageMetrics", "enableNetworkAddressUsageMetrics"),
        _born_with,
    ),
    sets=(
        attribute("ModifyVpcAttribute", "enableDnsSupport", "EnableDnsSupport", VPC_ID),
        attribute("ModifyVpcAttribute", "enableDnsHostnames", "EnableDnsHostnames", VPC_ID),
        attribute("ModifyVpcAttribute", "enableNetworkAddressUsageMetrics", "EnableNetworkAddressUsageMetrics", VPC_ID),
        Call("ModifyVpcTenancy", ("instanceTenancy",), given=VPC_ID, when=lambda s: not s.creating),
        Do(_ipv6_of_vpc, ("assignGeneratedIpv6CidrBlock",)),
    ),
    delete=(Call("DeleteVpc", given=VPC_ID),),
    shows={"arn": Form("arn:{partition}:ec2:{region}:{account}:vpc/{id}")},
    tags=ec2_tags("vpc"),
    ready=Until("State", ("available",)),
    kinds={"cidrBlock": cidr(16, 28), "instanceTenancy": among("default", "dedicated"), "ipv6CidrBlock": CIDR6},
    defaults={"enableDnsSupport": True, "instanceTenancy": "default"},
    refused={
        "ipv4IpamPoolId": NO_IPAM,
        "ipv4NetmaskLength": NO_IPAM,
        "ipv6IpamPoolId": NO_IPAM,
        "ipv6NetmaskLength": NO_IPAM,
        "ipv6CidrBlock": NO_IPAM,
        "ipv6CidrBlockNetworkBorderGroup": "border groups are not simulated",
    },
    rules=(exactly_one("cidrBlock"),),
    # EC2 only lets a VPC become less dedicated; the official provider replaces it the other way round.
    replaces_when=lambda old, new: (
        {"instanceTenancy"}
        if (old.get("instanceTenancy"), new.get("instanceTenancy")) == ("default", "dedicated")
        else set()
    ),
)


def _subnet_attribute(name: str, member: str) -> Call:
    return attribute("ModifySubnetAttribute", name, member, {"SubnetId": "$id"})


SUBNET = Row(
    type="aws:ec2/subnet:Subnet",
    service="ec2",
    create=Call("CreateSubnet", None),
    id="Subnet.SubnetId",
    find=Look("DescribeSubnets", {"SubnetIds": ["$id"]}, "Subnets[0]", gone=("InvalidSubnetID.NotFound",)),
    sets=(
        _subnet_attribute("mapPublicIpOnLaunch", "MapPublicIpOnLaunch"),
        _subnet_attribute("assignIpv6AddressOnCreation", "AssignIpv6AddressOnCreation"),
        _subnet_attribute("enableDns64", "EnableDns64"),
        _subnet_attribute("enableResourceNameDnsARecordOnLaunch", "EnableResourceNameDnsARecordOnLaunch"),
        _subnet_attribute("enableResourceNameDnsAaaaRecordOnLaunch", "EnableResourceNameDnsAAAARecordOnLaunch"),
        Call("ModifySubnetAttribute", ("privateDnsHostnameTypeOnLaunch",), given={"SubnetId": "$id"}),
    ),
    delete=(Call("DeleteSubnet", given={"SubnetId": "$id"}),),
    shows={
        "arn": "SubnetArn",
        "ipv6CidrBlock": "Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock",
        "ipv6CidrBlockAssociationId": "Ipv6CidrBlockAssociationSet[0].AssociationId",
        "enableResourceNameDnsARecordOnLaunch": "PrivateDnsNameOptionsOnLaunch.EnableResourceNameDnsARecord",
        "enableResourceNameDnsAaaaRecordOnLaunch": "PrivateDnsNameOptionsOnLaunch.EnableResourceNameDnsAAAARecord",
        "privateDnsHostnameTypeOnLaunch": "PrivateDnsNameOptionsOnLaunch.HostnameType",
    },
    tags=ec2_tags("subnet"),
    ready=Until("State", ("available",)),
    kinds={
        "cidrBlock": cidr(16, 28),
        "ipv6CidrBlock": CIDR6,
        "privateDnsHostnameTypeOnLaunch": among("ip-name", "resource-name"),
    },
    defaults={
        "assignIpv6AddressOnCreation": False,
        "enableDns64": False,
        "enableResourceNameDnsARecordOnLaunch": False,
        "enableResourceNameDnsAaaaRecordOnLaunch": False,
        "mapPublicIpOnLaunch": False,
    },
    refused={
        "ipv4IpamPoolId": NO_IPAM,
        "ipv4NetmaskLength": NO_IPAM,
        "ipv6IpamPoolId": NO_IPAM,
        "ipv6NetmaskLength": NO_IPAM,
        "customerOwnedIpv4Pool": NO_OUTPOST,
        "enableLniAtDeviceIndex": NO_OUTPOST,
        "mapCustomerOwnedIpOnLaunch": NO_OUTPOST,
        "outpostArn": NO_OUTPOST,
    },
    twins=frozenset({"availabilityZoneId"}),
    replaces=frozenset({"ipv6CidrBlock"}),
    rules=(exactly_one("cidrBlock", "ipv6CidrBlock"), at_most_one("availabilityZone", "availabilityZoneId")),
)


def _attach(s: Situation) -> None:
    """Let go of the VPC it is at, then take the one that is asked for."""
    before, after = s.state.get("vpcId"), s.inputs.get("vpcId")
    if before and not s.creating:
        s.call("DetachInternetGateway", InternetGatewayId=s.id, VpcId=before, forgives=("Gateway.NotAttached",))
    if after:
        s.call("AttachInternetGateway", InternetGatewayId=s.id, VpcId=after)


def _detach(s: Situation) -> None:
    if s.state.get("vpcId"):
        gone = ("Gateway.NotAttached", "InvalidInternetGatewayID.NotFound")
        s.call("DetachInternetGateway", InternetGatewayId=s.id, VpcId=s.state["vpcId"], forgives=gone)


INTERNET_GATEWAY = Row(
    type="aws:ec2/internetGateway:InternetGateway",
    service="ec2",
    create=Call("CreateInternetGateway"),
    id="InternetGateway.InternetGatewayId",
    find=Look(
        "DescribeInternetGateways",
        {"InternetGatewayIds": ["$id"]},
        "InternetGateways[0]",
        gone=("InvalidInternetGatewayID.NotFound",),
    ),
    sets=(Do(_attach, ("vpcId",)),),
    delete=(Do(_detach), Call("DeleteInternetGateway", given={"InternetGatewayId": "$id"})),
    shows={
        "vpcId": "Attachments[0].VpcId",
        "arn": Form("arn:{partition}:ec2:{region}:{account}:internet-gateway/{id}"),
    },
    tags=ec2_tags("internet-gateway"),
)


def _associate(s: Situation) -> None:
    """Move the address to the instance or interface that is asked for."""
    if s.state.get("associationId") and not s.creating:
        gone = ("InvalidAssociationID.NotFound",)
        s.call("DisassociateAddress", AssociationId=s.state["associationId"], forgives=gone)
    target = {"InstanceId": s.inputs.get("instance"), "NetworkInterfaceId": s.inputs.get("networkInterface")}
    asked = {key: value for key, value in target.items() if value}
    if asked:
        if s.inputs.get("associateWithPrivateIp"):
            asked["PrivateIpAddress"] = s.inputs["associateWithPrivateIp"]
        s.call("AssociateAddress", AllocationId=s.id, **asked)


def _disassociate(s: Situation) -> None:
    if s.state.get("associationId"):
        gone = ("InvalidAssociationID.NotFound",)
        s.call("DisassociateAddress", AssociationId=s.state["associationId"], forgives=gone)


def _dns_of(s: Situation, address: str | None, kind: str) -> str | None:
    """EC2 names an address after itself; us-east-1 is older than the rule the other regions follow."""
    if not address:
        return None
    dashed = address.replace(".", "-")
    first = s.region == "us-east-1"
    if kind == "public":
        return f"ec2-{dashed}.{'compute-1' if first else f'{s.region}.compute'}.amazonaws.com"
    return f"ip-{dashed}.{'ec2' if first else f'{s.region}.compute'}.internal"


EIP = Row(
    type="aws:ec2/eip:Eip",
    service="ec2",
    create=Call("AllocateAddress", ("address", "domain", "networkBorderGroup", "publicIpv4Pool")),
    id="AllocationId",
    find=Look("DescribeAddresses", {"AllocationIds": ["$id"]}, "Addresses[0]", gone=("InvalidAllocationID.NotFound",)),
    sets=(Do(_associate, ("instance", "networkInterface", "associateWithPrivateIp")),),
    delete=(Do(_disassociate), Call("ReleaseAddress", given={"AllocationId": "$id"})),
    shows={
        "arn": Form("arn:{partition}:ec2:{region}:{account}:elastic-ip/{id}"),
        "instance": "InstanceId",
        "networkInterface": "NetworkInterfaceId",
        "privateIp": "PrivateIpAddress",
        "publicDns": lambda s, d: _dns_of(s, d.get("PublicIp"), "public"),
        "privateDns": lambda s, d: _dns_of(s, d.get("PrivateIpAddress"), "private"),
    },
    tags=ec2_tags("elastic-ip"),
    unread=frozenset({"address", "associateWithPrivateIp"}),
    kinds={"domain": among("vpc"), "address": ADDRESS, "associateWithPrivateIp": ADDRESS},
    refused={"customerOwnedIpv4Pool": NO_OUTPOST, "ipamPoolId": NO_IPAM},
    busy=("DependencyViolation", "AuthFailure", "InvalidIPAddress.InUse"),
    moves=frozenset({"associationId", "privateIp", "privateDns"}),
)

NAT_GATEWAY = Row(
    type="aws:ec2/natGateway:NatGateway",
    service="ec2",
    create=Call(
        "CreateNatGateway",
        ("allocationId", "connectivityType", "privateIp", "subnetId"),
        names={"privateIp": "PrivateIpAddress"},
    ),
    id="NatGateway.NatGatewayId",
    find=Look("DescribeNatGateways", {"NatGatewayIds": ["$id"]}, "NatGateways[0]", gone=("NatGatewayNotFound",)),
    delete=(Call("DeleteNatGateway", given={"NatGatewayId": "$id"}),),
    shows={
        "allocationId": "NatGatewayAddresses[0].AllocationId",
        "associationId": "NatGatewayAddresses[0].AssociationId",
        "networkInterfaceId": "NatGatewayAddresses[0].NetworkInterfaceId",
        "privateIp": "NatGatewayAddresses[0].PrivateIp",
        "publicIp": "NatGatewayAddresses[0].PublicIp",
    },
    tags=ec2_tags("natgateway"),
    ready=Until("State", ("available",), ("failed", "deleted", "deleting")),
    gone=Until("State", ("deleted",)),
    ends=True,
    kinds={"connectivityType": among("private", "public"), "privateIp": ADDRESS},
    defaults={"connectivityType": "public"},
    refused={
        "availabilityMode": NO_REGIONAL,
        "availabilityZoneAddresses": NO_REGIONAL,
        "vpcId": NO_REGIONAL,
        "secondaryAllocationIds": NO_SECONDARY,
        "secondaryPrivateIpAddressCount": NO_SECONDARY,
        "secondaryPrivateIpAddresses": NO_SECONDARY,
    },
    rules=(exactly_one("subnetId"),),
)

ROWS: Final = (VPC, SUBNET, INTERNET_GATEWAY, EIP, NAT_GATEWAY)
