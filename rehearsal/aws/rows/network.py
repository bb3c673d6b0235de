"""VPC and what lies in it: subnets, gateways, addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from rehearsal.aws.kinds import ADDRESS, CIDR6, among, at_most_one, cidr, exactly_one
from rehearsal.aws.row import Call, Do, Form, Look, Row, Tags, Until

if TYPE_CHECKING:
    from rehearsal.aws.situation import Situation

NO_IPAM: Final = "address pools of IPAM are not simulated; give a CIDR block"
NO_OUTPOST: Final = "Outposts are not simulated"


def ec2_tags(kind: str) -> Tags:
    """EC2's way: a specification at create, then CreateTags and DeleteTags on the id."""
    return Tags(
        create="TagSpecifications",
        kind=kind,
        put="CreateTags",
        drop="DeleteTags",
        on={"Resources": ["$id"]},
        keys="Tags",
    )


def attribute(operation: str, name: str, member: str, key: Mapping[str, Any]) -> Call:
    """An attribute EC2 takes one at a time, wrapped in a Value."""
    return Call(operation, takes=(name,), names={name: member}, turns={name: lambda v: {"Value": v}}, given=key)


def look_attribute(member: str, name: str) -> Look:
    return Look("DescribeVpcAttribute", {"VpcId": "$id", "Attribute": name}, "@", {member: f"{member}.Value"})


def _defaults_of_vpc(s: Situation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parts that every VPC is born with."""
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
    """Give the VPC an Amazon range, or take its range away."""
    if s.creating:
        return
    if s.inputs.get("assignGeneratedIpv6CidrBlock"):
        s.call("AssociateVpcCidrBlock", VpcId=s.id, AmazonProvidedIpv6CidrBlock=True)
    elif s.state.get("ipv6AssociationId"):
        s.call("DisassociateVpcCidrBlock", AssociationId=s.state["ipv6AssociationId"])


VPC = Row(
    token="aws:ec2/vpc:Vpc",
    service="ec2",
    create=Call("CreateVpc", None, names={"assignGeneratedIpv6CidrBlock": "AmazonProvidedIpv6CidrBlock"}),
    id="Vpc.VpcId",
    find=Look("DescribeVpcs", {"VpcIds": ["$id"]}, "Vpcs[0]", gone=("InvalidVpcID.NotFound",)),
    also=(
        look_attribute("EnableDnsSupport", "enableDnsSupport"),
        look_attribute("EnableDnsHostnames", "enableDnsHostnames"),
        look_attribute("EnableNetworkAddressUsageMetrics", "enableNetworkAddressUsageMetrics"),
        _defaults_of_vpc,
    ),
    sets=(
        attribute("ModifyVpcAttribute", "enableDnsSupport", "EnableDnsSupport", {"VpcId": "$id"}),
        attribute("ModifyVpcAttribute", "enableDnsHostnames", "EnableDnsHostnames", {"VpcId": "$id"}),
        attribute(
            "ModifyVpcAttribute",
            "enableNetworkAddressUsageMetrics",
            "EnableNetworkAddressUsageMetrics",
            {"VpcId": "$id"},
        ),
        Call("ModifyVpcTenancy", ("instanceTenancy",), given={"VpcId": "$id"}, when=lambda s: not s.creating),
        Do(_ipv6_of_vpc, ("assignGeneratedIpv6CidrBlock",)),
    ),
    delete=(Call("DeleteVpc", given={"VpcId": "$id"}),),
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
        "ipv6CidrBlockNetworkBorderGroup": NO_IPAM,
    },
    rules=(exactly_one("cidrBlock"),),
)

SUBNET = Row(
    token="aws:ec2/subnet:Subnet",
    service="ec2",
    create=Call("CreateSubnet", None),
    id="Subnet.SubnetId",
    find=Look("DescribeSubnets", {"SubnetIds": ["$id"]}, "Subnets[0]", gone=("InvalidSubnetID.NotFound",)),
    sets=(
        attribute("ModifySubnetAttribute", "mapPublicIpOnLaunch", "MapPublicIpOnLaunch", {"SubnetId": "$id"}),
        attribute(
            "ModifySubnetAttribute", "assignIpv6AddressOnCreation", "AssignIpv6AddressOnCreation", {"SubnetId": "$id"}
        ),
        attribute("ModifySubnetAttribute", "enableDns64", "EnableDns64", {"SubnetId": "$id"}),
        attribute(
            "ModifySubnetAttribute",
            "enableResourceNameDnsARecordOnLaunch",
            "EnableResourceNameDnsARecordOnLaunch",
            {"SubnetId": "$id"},
        ),
        attribute(
            "ModifySubnetAttribute",
            "enableResourceNameDnsAaaaRecordOnLaunch",
            "EnableResourceNameDnsAAAARecordOnLaunch",
            {"SubnetId": "$id"},
        ),
        Call(
            "ModifySubnetAttribute",
            ("privateDnsHostnameTypeOnLaunch",),
            given={"SubnetId": "$id"},
        ),
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
    kinds={"cidrBlock": cidr(16, 28), "ipv6CidrBlock": CIDR6},
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
    replaces=frozenset({"ipv6CidrBlock"}),
    rules=(exactly_one("cidrBlock", "ipv6CidrBlock"), at_most_one("availabilityZone", "availabilityZoneId")),
)

ROWS: Final = (VPC, SUBNET)
_ = ADDRESS
