"""VPCs, subnets, gateways and addresses: the checks that moto lacks, and what is deleted with them."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.ec2_dependents import check_dependents, holders_of_subnet, holders_of_vpc

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext


def canonical(cidr: str) -> str:
    """Return a range without host bits, as EC2 stores it; other texts are left for later validation."""
    try:
        return str(ipaddress.ip_network(cidr, strict=False))
    except ValueError:
        return cidr


def _forward_canonical(context: RequestContext) -> Response:
    parameters = context.parameters
    cidr = parameters.get("CidrBlock")
    if not cidr or canonical(cidr) == cidr:
        return context.forward()
    return context.forward({**parameters, "CidrBlock": canonical(cidr)})


def create_vpc(context: RequestContext) -> dict[str, Any]:
    """Create a VPC, whose default group allows traffic among its members."""
    cidr = context.parameters.get("CidrBlock")
    created = context.result({**context.parameters, "CidrBlock": canonical(cidr)} if cidr else None)
    backend = context.backend("ec2")
    group = backend.get_security_group_from_name("default", vpc_id=created["Vpc"]["VpcId"]).id
    within = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}
    context.invoke("ec2", "AuthorizeSecurityGroupIngress", GroupId=group, IpPermissions=[within])
    return created


def modify_vpc(context: RequestContext) -> Response:
    """Check that DNS hostnames are only enabled with DNS support."""
    hostnames = context.parameters.get("EnableDnsHostnames", {}).get("Value")
    if hostnames and not context.backend("ec2").get_vpc(context.parameters["VpcId"]).enable_dns_support:
        text = "DNS hostnames cannot be enabled while DNS support is disabled; enable enableDnsSupport first."
        raise AwsError("InvalidParameterCombination", text, 400)
    return context.forward()


def create_subnet(context: RequestContext) -> Response:
    """Create a subnet between /16 and /28, in a zone of this region."""
    parameters = context.parameters
    try:
        length = ipaddress.ip_network(parameters.get("CidrBlock", "10.0.0.0/24"), strict=False).prefixlen
    except ValueError:
        length = 24  # moto refuses the text itself
    if not 16 <= length <= 28:
        raise AwsError("InvalidSubnet.Range", f"The CIDR '{parameters['CidrBlock']}' is invalid.", 400)
    zone = parameters.get("AvailabilityZone")
    if zone and not zone.startswith(context.region):
        text = f"Value ({zone}) for parameter availabilityZone is invalid. "
        text += f"Subnets can be created in {context.region} only."
        raise AwsError("InvalidParameterValue", text, 400)
    return _forward_canonical(context)


def delete_subnet(context: RequestContext) -> Response:
    """Delete an empty subnet and its route table association."""
    subnet = context.parameters["SubnetId"]
    check_dependents(holders_of_subnet(context, subnet), "subnet", subnet)
    response = context.forward()
    if response.ok:
        for table in context.backend("ec2").route_tables.values():
            links = table._associations
            for link in [link for link, target in links.items() if target == subnet]:
                del links[link]
    return response


def delete_vpc(context: RequestContext) -> Response:
    """Delete an empty VPC and its default network ACL."""
    vpc, ec2 = context.parameters["VpcId"], context.backend("ec2")
    check_dependents(holders_of_vpc(context, vpc), "vpc", vpc)
    response = context.forward()
    if response.ok:
        for name in [name for name, acl in ec2.network_acls.items() if acl.vpc_id == vpc]:
            del ec2.network_acls[name]
        ec2.groups.pop(vpc, None)
    return response


def attach_gateway(context: RequestContext) -> Response:
    """Attach an internet gateway to a VPC without one."""
    gateway, vpc = context.parameters["InternetGatewayId"], context.parameters["VpcId"]
    for other in context.backend("ec2").internet_gateways.values():
        if other.vpc and other.vpc.id == vpc and other.id != gateway:
            text = f"Network {vpc} already has an internet gateway attached"
            raise AwsError("InvalidParameterValue", text, 400)
    return context.forward()


def detach_gateway(context: RequestContext) -> Response:
    """Detach the gateway unless the VPC has public addresses."""
    vpc = context.parameters["VpcId"]
    for address in context.backend("ec2").addresses:
        if address.eni and address.eni.subnet.vpc_id == vpc:
            text = f"Network {vpc} has some mapped public address(es). "
            text += f"Please unmap those public address(es) before detaching the gateway. Mapped: {address.public_ip}."
            raise AwsError("DependencyViolation", text, 400)
    return context.forward()


def release_address(context: RequestContext) -> Response:
    """Release an address that is not in use."""
    allocation = context.parameters.get("AllocationId")
    for address in context.backend("ec2").addresses:
        if allocation and address.allocation_id == allocation and address.association_id:
            text = f"Address {allocation} is in use by {address.eni.id if address.eni else address.association_id}."
            raise AwsError("InvalidIPAddress.InUse", text, 400)
    return context.forward()


def create_nat_gateway(context: RequestContext) -> dict[str, Any]:
    """Create a NAT gateway with a free address; without an internet gateway it fails later, as in EC2."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    public = parameters.get("ConnectivityType", "public") == "public"
    if public and not parameters.get("AllocationId"):
        text = "The request must include the AllocationId parameter. Add the required parameter and retry the request."
        raise AwsError("MissingParameter", text, 400)
    if public:
        address = ec2.address_by_allocation([parameters["AllocationId"]])[0]
        if address.association_id:
            raise AwsError("Resource.AlreadyAssociated", f"{parameters['AllocationId']} is already associated.", 400)
    elif parameters.get("AllocationId"):
        text = "The AllocationId parameter is not allowed for a private NAT gateway."
        raise AwsError("InvalidParameterCombination", text, 400)
    gateway_id = context.result()["NatGateway"]["NatGatewayId"]
    gateway = ec2.nat_gateways[gateway_id]
    connected = any(other.vpc and other.vpc.id == gateway.vpc_id for other in ec2.internet_gateways.values())
    if public and not connected:
        gateway.state = "failed"
        gateway.failure_code = "Gateway.NotAttached"
        gateway.failure_message = f"Network {gateway.vpc_id} has no Internet gateway attached"
        _release_address(context, gateway)
    return {
        "NatGateway": _with_zonal_fields(
            context.invoke("ec2", "DescribeNatGateways", NatGatewayIds=[gateway_id])["NatGateways"][0]
        )
    }


def _with_zonal_fields(gateway: dict[str, Any]) -> dict[str, Any]:
    """Return the gateway with fields that moto leaves out: it is zonal and has one primary address."""
    addresses = [{**address, "IsPrimary": True} for address in gateway.get("NatGatewayAddresses") or []]
    return {**gateway, "AvailabilityMode": "zonal", "NatGatewayAddresses": addresses}


def _release_address(context: RequestContext, gateway: Any) -> None:
    ec2 = context.backend("ec2")
    for address in ec2.addresses:
        if address.eni and address.eni.id == gateway._eni.id:
            ec2.disassociate_address(address=address.public_ip)
    ec2.enis.pop(gateway._eni.id, None)


def delete_nat_gateway(context: RequestContext) -> Response:
    """Delete a NAT gateway and free its address and interface; it stays visible as deleted."""
    gateway_id = context.parameters["NatGatewayId"]
    gateway = context.backend("ec2").nat_gateways.get(gateway_id)
    if gateway is None:
        raise AwsError("NatGatewayNotFound", f"The Nat Gateway {gateway_id} was not found", 400)
    _release_address(context, gateway)
    return context.forward()


def describe_nat_gateways(context: RequestContext) -> dict[str, Any]:
    """Return moto's list, with an error for missing gateways and the primary address of each."""
    gateways = context.backend("ec2").nat_gateways
    for gateway_id in context.parameters.get("NatGatewayIds", []):
        if gateway_id not in gateways:
            raise AwsError("NatGatewayNotFound", f"NatGateway {gateway_id} was not found", 400)
    result = context.result()
    return {**result, "NatGateways": [_with_zonal_fields(gateway) for gateway in result.get("NatGateways") or []]}


def run_instances(context: RequestContext) -> Response:
    """Run instances; interfaces created with one are deleted with it unless the call says otherwise."""
    response = context.forward()
    interfaces = context.parameters.get("NetworkInterfaces", [])
    retained = {
        interface.get("NetworkInterfaceId") or interface.get("DeviceIndex", 0)
        for interface in interfaces
        if _is_retained(interface)
    }
    if response.ok:
        for instance in list(context.backend("ec2").reservations.values())[-1].instances:
            for index, interface in instance.nics.items():
                interface.delete_on_termination = not {interface.id, index} & retained
    return response


def _is_retained(interface: dict[str, Any]) -> bool:
    return bool(interface.get("NetworkInterfaceId")) or interface.get("DeleteOnTermination") is False


def terminate_instances(context: RequestContext) -> Response:
    """Terminate instances with their own interfaces, which moto leaves in the subnet."""
    ec2 = context.backend("ec2")
    response = context.forward()
    if response.ok:
        for name in context.parameters["InstanceIds"]:
            for interface in ec2.get_instance(name).nics.values():
                if interface.delete_on_termination:
                    ec2.enis.pop(interface.id, None)
    return response


ROWS = (
    OperationHandler("ec2", "CreateVpc", create_vpc),
    OperationHandler("ec2", "ModifyVpcAttribute", modify_vpc),
    OperationHandler("ec2", "DeleteVpc", delete_vpc),
    OperationHandler("ec2", "CreateSubnet", create_subnet),
    OperationHandler("ec2", "DeleteSubnet", delete_subnet),
    OperationHandler("ec2", "AttachInternetGateway", attach_gateway),
    OperationHandler("ec2", "DetachInternetGateway", detach_gateway),
    OperationHandler("ec2", "ReleaseAddress", release_address),
    OperationHandler("ec2", "CreateNatGateway", create_nat_gateway),
    OperationHandler("ec2", "DeleteNatGateway", delete_nat_gateway),
    OperationHandler("ec2", "DescribeNatGateways", describe_nat_gateways),
    OperationHandler("ec2", "RunInstances", run_instances),
    OperationHandler("ec2", "TerminateInstances", terminate_instances),
)
