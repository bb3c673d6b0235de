"""VPCs, subnets, gateways and addresses: what EC2 refuses that moto lets pass, and what goes when a thing goes."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.ec2_dependents import holders_of_subnet, holders_of_vpc, refuse_dependents

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk


def canonical(cidr: str) -> str:
    """EC2 takes a range with host bits and keeps it without; what is no range is left for others to refuse."""
    try:
        return str(ipaddress.ip_network(cidr, strict=False))
    except ValueError:
        return cidr


def _with_network(desk: Desk) -> Answer:
    asked = desk.asked
    cidr = asked.get("CidrBlock")
    if not cidr or canonical(cidr) == cidr:
        return desk.forward()
    return desk.forward({**asked, "CidrBlock": canonical(cidr)})


def create_vpc(desk: Desk) -> dict[str, Any]:
    """A VPC, whose default group lets its own members in: whoever wants it closed has something to take away."""
    cidr = desk.asked.get("CidrBlock")
    made = desk.result({**desk.asked, "CidrBlock": canonical(cidr)} if cidr else None)
    backend = desk.backend("ec2")
    group = backend.get_security_group_from_name("default", vpc_id=made["Vpc"]["VpcId"]).id
    within = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    desk.ask("ec2", "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[within])
    return made


def change_vpc(desk: Desk) -> Answer:
    """Names for hosts need a resolver that knows them."""
    wanted = desk.asked.get("EnableDnsHostnames", {}).get("Value")
    if wanted and not desk.backend("ec2").get_vpc(desk.asked["VpcId"]).enable_dns_support:
        text = "DNS hostnames cannot be enabled while DNS support is disabled; enable enableDnsSupport first."
        raise Refused("InvalidParameterCombination", text, 400)
    return desk.forward()


def create_subnet(desk: Desk) -> Answer:
    """A subnet between /16 and /28, in a zone of this region."""
    asked = desk.asked
    try:
        length = ipaddress.ip_network(asked.get("CidrBlock", "10.0.0.0/24"), strict=False).prefixlen
    except ValueError:
        length = 24  # moto refuses the text itself
    if not 16 <= length <= 28:
        raise Refused("InvalidSubnet.Range", f"The CIDR '{asked['CidrBlock']}' is invalid.", 400)
    zone = asked.get("AvailabilityZone")
    if zone and not zone.startswith(desk.region):
        text = (
            f"Value ({zone}) for parameter availabilityZone is invalid. Subnets can be created in {desk.region} only."
        )
        raise Refused("InvalidParameterValue", text, 400)
    return _with_network(desk)


def delete_subnet(desk: Desk) -> Answer:
    """Only an empty subnet goes; its place in a route table goes with it."""
    subnet = desk.asked["SubnetId"]
    refuse_dependents(holders_of_subnet(desk, subnet), "subnet", subnet)
    answer = desk.forward()
    if answer.ok:
        for table in desk.backend("ec2").route_tables.values():
            links = table._associations
            for link in [link for link, target in links.items() if target == subnet]:
                del links[link]
    return answer


def delete_vpc(desk: Desk) -> Answer:
    """Only an empty VPC goes; the network ACL that came with it goes too."""
    vpc, ec2 = desk.asked["VpcId"], desk.backend("ec2")
    refuse_dependents(holders_of_vpc(desk, vpc), "vpc", vpc)
    answer = desk.forward()
    if answer.ok:
        for name in [name for name, acl in ec2.network_acls.items() if acl.vpc_id == vpc]:
            del ec2.network_acls[name]
        ec2.groups.pop(vpc, None)
    return answer


def attach_gateway(desk: Desk) -> Answer:
    """A VPC has one internet gateway."""
    gateway, vpc = desk.asked["InternetGatewayId"], desk.asked["VpcId"]
    for other in desk.backend("ec2").internet_gateways.values():
        if other.vpc and other.vpc.id == vpc and other.id != gateway:
            text = f"Network {vpc} already has an internet gateway attached"
            raise Refused("InvalidParameterValue", text, 400)
    return desk.forward()


def detach_gateway(desk: Desk) -> Answer:
    """The gateway stays while anything in the VPC has a public address."""
    vpc = desk.asked["VpcId"]
    for address in desk.backend("ec2").addresses:
        if address.eni and address.eni.subnet.vpc_id == vpc:
            text = f"Network {vpc} has some mapped public address(es). "
            text += f"Please unmap those public address(es) before detaching the gateway. Mapped: {address.public_ip}."
            raise Refused("DependencyViolation", text, 400)
    return desk.forward()


def release_address(desk: Desk) -> Answer:
    """An address in use stays."""
    wanted = desk.asked.get("AllocationId")
    for address in desk.backend("ec2").addresses:
        if wanted and address.allocation_id == wanted and address.association_id:
            text = f"Address {wanted} is in use by {address.eni.id if address.eni else address.association_id}."
            raise Refused("InvalidIPAddress.InUse", text, 400)
    return desk.forward()


def create_nat(desk: Desk) -> dict[str, Any]:
    """A public NAT gateway takes a free address; in a VPC without an internet gateway it fails, as in EC2, later."""
    asked, ec2 = desk.asked, desk.backend("ec2")
    public = asked.get("ConnectivityType", "public") == "public"
    if public and not asked.get("AllocationId"):
        text = "The request must include the AllocationId parameter. Add the required parameter and retry the request."
        raise Refused("MissingParameter", text, 400)
    if public:
        address = ec2.address_by_allocation([asked["AllocationId"]])[0]
        if address.association_id:
            raise Refused("Resource.AlreadyAssociated", f"{asked['AllocationId']} is already associated.", 400)
    elif asked.get("AllocationId"):
        text = "The AllocationId parameter is not allowed for a private NAT gateway."
        raise Refused("InvalidParameterCombination", text, 400)
    made = desk.result()["NatGateway"]["NatGatewayId"]
    gateway = ec2.nat_gateways[made]
    connected = any(one.vpc and one.vpc.id == gateway.vpc_id for one in ec2.internet_gateways.values())
    if public and not connected:
        gateway.state = "failed"
        gateway.failure_code = "Gateway.NotAttached"
        gateway.failure_message = f"Network {gateway.vpc_id} has no Internet gateway attached"
        _free(desk, gateway)
    return {"NatGateway": _zonal(desk.ask("ec2", "DescribeNatGateways", NatGatewayIds=[made])["NatGateways"][0])}


def _zonal(gateway: dict[str, Any]) -> dict[str, Any]:
    """Return the gateway with what moto leaves out: it is of one zone, and has one address, which is its own."""
    addresses = [{**one, "IsPrimary": True} for one in gateway.get("NatGatewayAddresses") or []]
    return {**gateway, "AvailabilityMode": "zonal", "NatGatewayAddresses": addresses}


def _free(desk: Desk, gateway: Any) -> None:
    ec2 = desk.backend("ec2")
    for address in ec2.addresses:
        if address.eni and address.eni.id == gateway._eni.id:
            ec2.disassociate_address(address=address.public_ip)
    ec2.enis.pop(gateway._eni.id, None)


def delete_nat(desk: Desk) -> Answer:
    """The address and the interface are free again; the gateway is still shown for a while, as deleted."""
    wanted = desk.asked["NatGatewayId"]
    gateway = desk.backend("ec2").nat_gateways.get(wanted)
    if gateway is None:
        raise Refused("NatGatewayNotFound", f"The Nat Gateway {wanted} was not found", 400)
    _free(desk, gateway)
    return desk.forward()


def describe_nats(desk: Desk) -> dict[str, Any]:
    """Moto's list, which forgets to miss what is not there, and which address of a gateway is its own."""
    known = desk.backend("ec2").nat_gateways
    for wanted in desk.asked.get("NatGatewayIds", []):
        if wanted not in known:
            raise Refused("NatGatewayNotFound", f"NatGateway {wanted} was not found", 400)
    answer = desk.result()
    return {**answer, "NatGateways": [_zonal(one) for one in answer.get("NatGateways") or []]}


def run(desk: Desk) -> Answer:
    """Interfaces that are made with an instance go with it, unless the call says otherwise; those it brings stay."""
    answer = desk.forward()
    said = desk.asked.get("NetworkInterfaces", [])
    staying = {one.get("NetworkInterfaceId") or one.get("DeviceIndex", 0) for one in said if _stays(one)}
    if answer.ok:
        for instance in list(desk.backend("ec2").reservations.values())[-1].instances:
            for index, interface in instance.nics.items():
                interface.delete_on_termination = not {interface.id, index} & staying
    return answer


def _stays(interface: dict[str, Any]) -> bool:
    return bool(interface.get("NetworkInterfaceId")) or interface.get("DeleteOnTermination") is False


def terminate(desk: Desk) -> Answer:
    """An instance takes its own interfaces along; moto leaves them in the subnet."""
    ec2 = desk.backend("ec2")
    answer = desk.forward()
    if answer.ok:
        for name in desk.asked["InstanceIds"]:
            for interface in ec2.get_instance(name).nics.values():
                if interface.delete_on_termination:
                    ec2.enis.pop(interface.id, None)
    return answer


ROWS = (
    Row("ec2", "CreateVpc", create_vpc),
    Row("ec2", "ModifyVpcAttribute", change_vpc),
    Row("ec2", "DeleteVpc", delete_vpc),
    Row("ec2", "CreateSubnet", create_subnet),
    Row("ec2", "DeleteSubnet", delete_subnet),
    Row("ec2", "AttachInternetGateway", attach_gateway),
    Row("ec2", "DetachInternetGateway", detach_gateway),
    Row("ec2", "ReleaseAddress", release_address),
    Row("ec2", "CreateNatGateway", create_nat),
    Row("ec2", "DeleteNatGateway", delete_nat),
    Row("ec2", "DescribeNatGateways", describe_nats),
    Row("ec2", "RunInstances", run),
    Row("ec2", "TerminateInstances", terminate),
)
