"""VPCs, subnets, gateways and elastic IP addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import (
    Call,
    CustomStep,
    Problem,
    ReadCall,
    ResourceType,
    StateCheck,
    Tagging,
    Template,
)
from agentenv.rehearsal.providers.aws.value_kinds import ADDRESS, CIDR6, at_most_one, cidr, exactly_one, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NO_IPAM: Final = "address pools of IPAM are not simulated; give a CIDR block"
NO_OUTPOST: Final = "Outposts are not simulated"
NO_REGIONAL: Final = "regional NAT gateways are not simulated; give a subnet"
NO_SECONDARY: Final = "secondary addresses of NAT gateways are not simulated"


def ec2_tags(kind: str) -> Tagging:
    """Return EC2's tagging: a tag specification at create, later CreateTags and DeleteTags."""
    return Tagging("TagSpecifications", kind, "CreateTags", "DeleteTags", {"Resources": ["$id"]}, keys_member="Tags")


def attribute(operation: str, name: str, member: str, key: Mapping[str, Any]) -> Call:
    """Return the step that sets one attribute. EC2 takes one at a time, wrapped in `Value`."""
    return Call(
        operation, inputs=(name,), member_names={name: member}, convert={name: lambda v: {"Value": v}}, constants=key
    )


def _read_attribute(member: str, name: str) -> ReadCall:
    return ReadCall("DescribeVpcAttribute", {"VpcId": "$id", "Attribute": name}, "@", {member: f"{member}.Value"})


def _read_defaults(op: Operation, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the default resources of a VPC, and its IPv6 range if it has one."""
    filters = [{"Name": "vpc-id", "Values": [op.id]}]
    acls = op.call("DescribeNetworkAcls", Filters=[*filters, {"Name": "default", "Values": ["true"]}])["NetworkAcls"]
    main = [*filters, {"Name": "association.main", "Values": ["true"]}]
    tables = op.call("DescribeRouteTables", Filters=main)["RouteTables"]
    named = [*filters, {"Name": "group-name", "Values": ["default"]}]
    groups = op.call("DescribeSecurityGroups", Filters=named)["SecurityGroups"]
    six = [a for a in document.get("Ipv6CidrBlockAssociationSet", []) if _associations(a)]
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


def _associations(association: Mapping[str, Any]) -> bool:
    state = association.get("Ipv6CidrBlockState", {}).get("State", "associated")
    return state in {"associated", "associating"}


def _update_ipv6(op: Operation) -> None:
    """Associate or disassociate an Amazon IPv6 range. The create has its own member for it."""
    if op.creating:
        return
    if op.inputs.get("assignGeneratedIpv6CidrBlock"):
        op.call("AssociateVpcCidrBlock", VpcId=op.id, AmazonProvidedIpv6CidrBlock=True)
    elif op.state.get("ipv6AssociationId"):
        op.call("DisassociateVpcCidrBlock", AssociationId=op.state["ipv6AssociationId"])


VPC_ID: Final = {"VpcId": "$id"}
VPC = ResourceType(
    type="aws:ec2/vpc:Vpc",
    service="ec2",
    create=Call("CreateVpc", None, member_names={"assignGeneratedIpv6CidrBlock": "AmazonProvidedIpv6CidrBlock"}),
    id="Vpc.VpcId",
    read=ReadCall("DescribeVpcs", {"VpcIds": ["$id"]}, "Vpcs[0]", not_found_errors=("InvalidVpcID.NotFound",)),
    more_reads=(
        _read_attribute("EnableDnsSupport", "enableDnsSupport"),
        _read_attribute("EnableDnsHostnames", "enableDnsHostnames"),
        _read_attribute("EnableNetworkAddressUsageMetrics", "enableNetworkAddressUsageMetrics"),
        _read_defaults,
    ),
    updates=(
        attribute("ModifyVpcAttribute", "enableDnsSupport", "EnableDnsSupport", VPC_ID),
        attribute("ModifyVpcAttribute", "enableDnsHostnames", "EnableDnsHostnames", VPC_ID),
        attribute("ModifyVpcAttribute", "enableNetworkAddressUsageMetrics", "EnableNetworkAddressUsageMetrics", VPC_ID),
        Call("ModifyVpcTenancy", ("instanceTenancy",), constants=VPC_ID, condition=lambda op: not op.creating),
        CustomStep(_update_ipv6, ("assignGeneratedIpv6CidrBlock",)),
    ),
    delete=(Call("DeleteVpc", constants=VPC_ID),),
    output_sources={"arn": Template("arn:{partition}:ec2:{region}:{account}:vpc/{id}")},
    tags=ec2_tags("vpc"),
    ready=StateCheck("State", ("available",)),
    value_kinds={"cidrBlock": cidr(16, 28), "instanceTenancy": one_of("default", "dedicated"), "ipv6CidrBlock": CIDR6},
    defaults={"enableDnsSupport": True, "instanceTenancy": "default"},
    unsupported={
        "ipv4IpamPoolId": NO_IPAM,
        "ipv4NetmaskLength": NO_IPAM,
        "ipv6IpamPoolId": NO_IPAM,
        "ipv6NetmaskLength": NO_IPAM,
        "ipv6CidrBlock": NO_IPAM,
        "ipv6CidrBlockNetworkBorderGroup": "border groups are not simulated",
    },
    validators=(exactly_one("cidrBlock"),),
    # EC2 only lets a VPC become less dedicated; the official provider replaces it the other way round.
    replaced_inputs=lambda old, new: (
        {"instanceTenancy"}
        if (old.get("instanceTenancy"), new.get("instanceTenancy")) == ("default", "dedicated")
        else set()
    ),
)


def _subnet_attribute(name: str, member: str) -> Call:
    return attribute("ModifySubnetAttribute", name, member, {"SubnetId": "$id"})


SUBNET = ResourceType(
    type="aws:ec2/subnet:Subnet",
    service="ec2",
    create=Call("CreateSubnet", None),
    id="Subnet.SubnetId",
    read=ReadCall(
        "DescribeSubnets", {"SubnetIds": ["$id"]}, "Subnets[0]", not_found_errors=("InvalidSubnetID.NotFound",)
    ),
    updates=(
        _subnet_attribute("mapPublicIpOnLaunch", "MapPublicIpOnLaunch"),
        _subnet_attribute("assignIpv6AddressOnCreation", "AssignIpv6AddressOnCreation"),
        _subnet_attribute("enableDns64", "EnableDns64"),
        _subnet_attribute("enableResourceNameDnsARecordOnLaunch", "EnableResourceNameDnsARecordOnLaunch"),
        _subnet_attribute("enableResourceNameDnsAaaaRecordOnLaunch", "EnableResourceNameDnsAAAARecordOnLaunch"),
        Call("ModifySubnetAttribute", ("privateDnsHostnameTypeOnLaunch",), constants={"SubnetId": "$id"}),
    ),
    delete=(Call("DeleteSubnet", constants={"SubnetId": "$id"}),),
    output_sources={
        "arn": "SubnetArn",
        "ipv6CidrBlock": "Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock",
        "ipv6CidrBlockAssociationId": "Ipv6CidrBlockAssociationSet[0].AssociationId",
        "enableResourceNameDnsARecordOnLaunch": "PrivateDnsNameOptionsOnLaunch.EnableResourceNameDnsARecord",
        "enableResourceNameDnsAaaaRecordOnLaunch": "PrivateDnsNameOptionsOnLaunch.EnableResourceNameDnsAAAARecord",
        "privateDnsHostnameTypeOnLaunch": "PrivateDnsNameOptionsOnLaunch.HostnameType",
    },
    tags=ec2_tags("subnet"),
    ready=StateCheck("State", ("available",)),
    value_kinds={
        "cidrBlock": cidr(16, 28),
        "ipv6CidrBlock": CIDR6,
        "privateDnsHostnameTypeOnLaunch": one_of("ip-name", "resource-name"),
    },
    defaults={
        "assignIpv6AddressOnCreation": False,
        "enableDns64": False,
        "enableResourceNameDnsARecordOnLaunch": False,
        "enableResourceNameDnsAaaaRecordOnLaunch": False,
        "mapPublicIpOnLaunch": False,
    },
    unsupported={
        "ipv4IpamPoolId": NO_IPAM,
        "ipv4NetmaskLength": NO_IPAM,
        "ipv6IpamPoolId": NO_IPAM,
        "ipv6NetmaskLength": NO_IPAM,
        "customerOwnedIpv4Pool": NO_OUTPOST,
        "enableLniAtDeviceIndex": NO_OUTPOST,
        "mapCustomerOwnedIpOnLaunch": NO_OUTPOST,
        "outpostArn": NO_OUTPOST,
    },
    duplicate_inputs=frozenset({"availabilityZoneId"}),
    replace_on_changes=frozenset({"ipv6CidrBlock"}),
    validators=(exactly_one("cidrBlock", "ipv6CidrBlock"), at_most_one("availabilityZone", "availabilityZoneId")),
)


def _attach(op: Operation) -> None:
    """Detach the gateway from its VPC, then attach it to the one of the inputs."""
    before, after = op.state.get("vpcId"), op.inputs.get("vpcId")
    if before and not op.creating:
        op.call("DetachInternetGateway", InternetGatewayId=op.id, VpcId=before, ignored_errors=("Gateway.NotAttached",))
    if after:
        op.call("AttachInternetGateway", InternetGatewayId=op.id, VpcId=after)


def _detach(op: Operation) -> None:
    if op.state.get("vpcId"):
        not_found = ("Gateway.NotAttached", "InvalidInternetGatewayID.NotFound")
        op.call("DetachInternetGateway", InternetGatewayId=op.id, VpcId=op.state["vpcId"], ignored_errors=not_found)


INTERNET_GATEWAY = ResourceType(
    type="aws:ec2/internetGateway:InternetGateway",
    service="ec2",
    create=Call("CreateInternetGateway"),
    id="InternetGateway.InternetGatewayId",
    read=ReadCall(
        "DescribeInternetGateways",
        {"InternetGatewayIds": ["$id"]},
        "InternetGateways[0]",
        not_found_errors=("InvalidInternetGatewayID.NotFound",),
    ),
    updates=(CustomStep(_attach, ("vpcId",)),),
    delete=(CustomStep(_detach), Call("DeleteInternetGateway", constants={"InternetGatewayId": "$id"})),
    output_sources={
        "vpcId": "Attachments[0].VpcId",
        "arn": Template("arn:{partition}:ec2:{region}:{account}:internet-gateway/{id}"),
    },
    tags=ec2_tags("internet-gateway"),
)


def _associate(op: Operation) -> None:
    """Associate the address with the instance or interface of the inputs."""
    if op.state.get("associationId") and not op.creating:
        not_found = ("InvalidAssociationID.NotFound",)
        op.call("DisassociateAddress", AssociationId=op.state["associationId"], ignored_errors=not_found)
    target = {"InstanceId": op.inputs.get("instance"), "NetworkInterfaceId": op.inputs.get("networkInterface")}
    parameters = {key: value for key, value in target.items() if value}
    if parameters:
        if op.inputs.get("associateWithPrivateIp"):
            parameters["PrivateIpAddress"] = op.inputs["associateWithPrivateIp"]
        op.call("AssociateAddress", AllocationId=op.id, **parameters)


def _disassociate(op: Operation) -> None:
    if op.state.get("associationId"):
        not_found = ("InvalidAssociationID.NotFound",)
        op.call("DisassociateAddress", AssociationId=op.state["associationId"], ignored_errors=not_found)


def _public_dns(op: Operation, address: str | None, kind: str) -> str | None:
    """Return the DNS name of an address. us-east-1 has its own form."""
    if not address:
        return None
    dashed = address.replace(".", "-")
    first = op.region == "us-east-1"
    if kind == "public":
        return f"ec2-{dashed}.{'compute-1' if first else f'{op.region}.compute'}.amazonaws.com"
    return f"ip-{dashed}.{'ec2' if first else f'{op.region}.compute'}.internal"


EIP = ResourceType(
    type="aws:ec2/eip:Eip",
    service="ec2",
    create=Call("AllocateAddress", ("address", "domain", "networkBorderGroup", "publicIpv4Pool")),
    id="AllocationId",
    read=ReadCall(
        "DescribeAddresses",
        {"AllocationIds": ["$id"]},
        "Addresses[0]",
        not_found_errors=("InvalidAllocationID.NotFound",),
    ),
    updates=(CustomStep(_associate, ("instance", "networkInterface", "associateWithPrivateIp")),),
    delete=(CustomStep(_disassociate), Call("ReleaseAddress", constants={"AllocationId": "$id"})),
    output_sources={
        "arn": Template("arn:{partition}:ec2:{region}:{account}:elastic-ip/{id}"),
        "instance": "InstanceId",
        "networkInterface": "NetworkInterfaceId",
        "privateIp": "PrivateIpAddress",
        "publicDns": lambda op, d: _public_dns(op, d.get("PublicIp"), "public"),
        "privateDns": lambda op, d: _public_dns(op, d.get("PrivateIpAddress"), "private"),
    },
    tags=ec2_tags("elastic-ip"),
    write_only=frozenset({"address", "associateWithPrivateIp"}),
    value_kinds={"domain": one_of("vpc"), "address": ADDRESS, "associateWithPrivateIp": ADDRESS},
    unsupported={"customerOwnedIpv4Pool": NO_OUTPOST, "ipamPoolId": NO_IPAM},
    retry_delete_on=("DependencyViolation", "AuthFailure", "InvalidIPAddress.InUse"),
    updated_outputs=frozenset({"associationId", "privateIp", "privateDns"}),
)


def _allocation_problems(inputs: Mapping[str, Any]) -> list[Problem]:
    if inputs.get("connectivityType") == "private" and inputs.get("allocationId"):
        return [("allocationId", "has no use in a private NAT gateway: leave it out")]
    return []


NAT_GATEWAY = ResourceType(
    type="aws:ec2/natGateway:NatGateway",
    service="ec2",
    create=Call(
        "CreateNatGateway",
        ("allocationId", "connectivityType", "privateIp", "subnetId"),
        member_names={"privateIp": "PrivateIpAddress"},
    ),
    id="NatGateway.NatGatewayId",
    read=ReadCall(
        "DescribeNatGateways", {"NatGatewayIds": ["$id"]}, "NatGateways[0]", not_found_errors=("NatGatewayNotFound",)
    ),
    delete=(Call("DeleteNatGateway", constants={"NatGatewayId": "$id"}),),
    output_sources={
        "allocationId": "NatGatewayAddresses[0].AllocationId",
        "associationId": "NatGatewayAddresses[0].AssociationId",
        "networkInterfaceId": "NatGatewayAddresses[0].NetworkInterfaceId",
        "privateIp": "NatGatewayAddresses[0].PrivateIp",
        "publicIp": "NatGatewayAddresses[0].PublicIp",
    },
    tags=ec2_tags("natgateway"),
    ready=StateCheck("State", ("available",), ("failed", "deleted", "deleting")),
    deleted_state=StateCheck("State", ("deleted",)),
    wait_until_deleted=True,
    value_kinds={"connectivityType": one_of("private", "public"), "privateIp": ADDRESS},
    defaults={"connectivityType": "public"},
    unsupported={
        "availabilityMode": NO_REGIONAL,
        "availabilityZoneAddresses": NO_REGIONAL,
        "vpcId": NO_REGIONAL,
        "secondaryAllocationIds": NO_SECONDARY,
        "secondaryPrivateIpAddressCount": NO_SECONDARY,
        "secondaryPrivateIpAddresses": NO_SECONDARY,
    },
    validators=(exactly_one("subnetId"), _allocation_problems),
)

ROWS: Final = (VPC, SUBNET, INTERNET_GATEWAY, EIP, NAT_GATEWAY)
