"""VPCs and what is in them: what EC2 refuses, and that what goes leaves nothing behind."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow, refused, remove, subnets
from tests.fast.rehearsal.cloud.conftest import ClientFactory

NFS = {"IpProtocol": "tcp", "FromPort": 2049, "ToPort": 2049}
pytestmark = pytest.mark.usefixtures("unchanged")


@pytest.fixture
def ec2(aws_client: ClientFactory) -> Any:
    return aws_client("ec2")


@pytest.fixture
def ground(ec2: Any, unchanged: None) -> Iterator[tuple[str, list[str]]]:
    vpc, names = subnets(ec2, "aab")
    yield vpc, names
    remove(ec2, vpc, names)


def test_vpc_range_is_stored_without_host_bits(ec2: Any) -> None:
    created = ec2.create_vpc(CidrBlock="10.0.5.5/16")["Vpc"]
    assert created["CidrBlock"] == "10.0.0.0/16"
    ec2.modify_vpc_attribute(VpcId=created["VpcId"], EnableDnsSupport={"Value": False})
    with refused("InvalidParameterCombination"):
        ec2.modify_vpc_attribute(VpcId=created["VpcId"], EnableDnsHostnames={"Value": True})
    ec2.delete_vpc(VpcId=created["VpcId"])
    with refused("InvalidVpc.Range"):
        ec2.create_vpc(CidrBlock="10.0.0.0/8")


def test_subnets_lie_inside_their_vpc_and_beside_each_other(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, _ = ground
    with refused("InvalidSubnet.Range"):
        ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.0.0/24")
    with refused("InvalidSubnet.Range"):
        ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.9.0/30")
    with refused("InvalidSubnet.Conflict"):
        ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.1.128/25")
    with refused("InvalidParameterValue"):
        ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.9.0/24", AvailabilityZone="eu-west-1a")
    with refused("DependencyViolation"):
        ec2.delete_vpc(VpcId=vpc)


def test_gateways_and_addresses_in_use_are_not_deleted(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, (public, *_) = ground
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    with refused("MissingParameter"):
        ec2.create_nat_gateway(SubnetId=public)
    cut_off = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]
    assert (cut_off["State"], cut_off["FailureCode"]) == ("failed", "Gateway.NotAttached")
    ec2.delete_nat_gateway(NatGatewayId=cut_off["NatGatewayId"])

    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    other = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    with refused("InvalidParameterValue"):
        ec2.attach_internet_gateway(InternetGatewayId=other, VpcId=vpc)
    ec2.delete_internet_gateway(InternetGatewayId=other)
    nat = ec2.create_nat_gateway(SubnetId=public, AllocationId=address)["NatGateway"]
    assert nat["State"] == "available"
    (shown,) = ec2.describe_nat_gateways(NatGatewayIds=[nat["NatGatewayId"]])["NatGateways"]
    # By these the official plugin tells which of the addresses is the gateway's own.
    for answer in (nat, shown):
        assert answer["AvailabilityMode"] == "zonal"
        (own,) = answer["NatGatewayAddresses"]
        assert own["IsPrimary"] is True
        assert own["PublicIp"] == ec2.describe_addresses(AllocationIds=[address])["Addresses"][0]["PublicIp"]
    with refused("Resource.AlreadyAssociated"):
        ec2.create_nat_gateway(SubnetId=public, AllocationId=address)
    with refused("InvalidIPAddress.InUse"):
        ec2.release_address(AllocationId=address)
    with refused("DependencyViolation"):
        ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    with refused("DependencyViolation"):
        ec2.delete_internet_gateway(InternetGatewayId=gateway)
    with refused("DependencyViolation"):
        ec2.delete_subnet(SubnetId=public)
    with refused("NatGatewayNotFound"):
        ec2.describe_nat_gateways(NatGatewayIds=["nat-00000000000000000"])

    ec2.delete_nat_gateway(NatGatewayId=nat["NatGatewayId"])
    assert ec2.describe_nat_gateways(NatGatewayIds=[nat["NatGatewayId"]])["NatGateways"][0]["State"] == "deleted"
    ec2.release_address(AllocationId=address)
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)


def test_routes_have_one_target_and_one_destination(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, (subnet, other_subnet, *_) = ground
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    second = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    everywhere = {"RouteTableId": table, "DestinationCidrBlock": "0.0.0.0/0"}
    with refused("InvalidParameterValue"):
        ec2.create_route(**everywhere, GatewayId=gateway)
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    ec2.create_route(**everywhere, GatewayId=gateway)
    with refused("RouteAlreadyExists"):
        ec2.create_route(**everywhere, GatewayId=gateway)
    with refused("MissingParameter"):
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="192.0.2.0/24")
    with refused("MissingParameter"):
        ec2.create_route(RouteTableId=table, GatewayId=gateway)
    with refused("InvalidParameterCombination"):
        ec2.create_route(**everywhere, GatewayId=gateway, NatGatewayId="nat-00000000000000000")
    with refused("InvalidNatGatewayID.NotFound"):
        ec2.create_route(RouteTableId=second, DestinationCidrBlock="0.0.0.0/0", NatGatewayId="nat-00000000000000000")
    with refused("InvalidParameterValue"):
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="10.0.1.0/24", GatewayId=gateway)
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="192.0.2.77/24", GatewayId=gateway)
    routes = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
    assert {route["DestinationCidrBlock"] for route in routes} == {"10.0.0.0/16", "0.0.0.0/0", "192.0.2.0/24"}

    link = ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"]
    assert ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"] == link
    ec2.associate_route_table(RouteTableId=table, SubnetId=other_subnet)
    with refused("Resource.AlreadyAssociated"):
        ec2.associate_route_table(RouteTableId=second, SubnetId=subnet)
    with refused("DependencyViolation"):
        ec2.delete_route_table(RouteTableId=table)
    tables = ec2.describe_route_tables(Filters=[{"Name": "association.main", "Values": ["true"]}])["RouteTables"]
    main = next(found["RouteTableId"] for found in tables if found["VpcId"] == vpc)
    with refused("DependencyViolation"):
        ec2.delete_route_table(RouteTableId=main)

    ec2.disassociate_route_table(AssociationId=link)
    ec2.delete_subnet(SubnetId=other_subnet)  # takes its association with it
    ec2.delete_route_table(RouteTableId=table)
    ec2.delete_route_table(RouteTableId=second)
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    ground[1].remove(other_subnet)


def test_security_group_rules_have_one_source_and_are_unique(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, _ = ground
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=vpc)["GroupId"]
    other = ec2.create_security_group(GroupName="other", Description="d", VpcId=vpc)["GroupId"]

    def let_in(**arguments: Any) -> None:
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[{**NFS, **arguments}])

    with refused("InvalidGroup.Duplicate"):
        ec2.create_security_group(GroupName="one", Description="d", VpcId=vpc)
    for description in ("", "schön"):
        with refused("InvalidParameterValue"):
            ec2.create_security_group(GroupName="two", Description=description, VpcId=vpc)
    let_in(IpRanges=[{"CidrIp": "10.0.0.9/16"}])
    with refused("InvalidPermission.Duplicate"):
        let_in(IpRanges=[{"CidrIp": "10.0.0.0/16", "Description": "said in other words"}])
    with refused("MissingParameter"):
        let_in()
    for cidr in ("10.0.0.0/40", "10.0.0.0", "fd00::/8"):
        with refused("InvalidParameterValue"):
            let_in(IpRanges=[{"CidrIp": cidr}])
    for ports in ({"FromPort": 9, "ToPort": 1}, {"FromPort": 1, "ToPort": 70000}, {"IpProtocol": "tpc"}):
        with refused("InvalidParameterValue"):
            let_in(**ports, IpRanges=[{"CidrIp": "10.0.0.0/16"}])
    with refused("InvalidGroup.NotFound"):
        let_in(UserIdGroupPairs=[{"GroupId": "sg-00000000000000000"}])
    with refused("InvalidPrefixListId.NotFound"):
        let_in(PrefixListIds=[{"PrefixListId": "pl-00000000000000000"}])
    with refused("InvalidParameterValue"):
        let_in(IpRanges=[{"CidrIp": "10.2.0.0/16"}, {"CidrIp": "10.2.0.0/16"}])
    let_in(UserIdGroupPairs=[{"GroupId": other}])
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=other)
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[{**NFS, "IpRanges": [{"CidrIp": "10.0.7.7/16"}]}])
    with refused("InvalidPermission.NotFound"):
        ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[{**NFS, "IpRanges": [{"CidrIp": "1.0.0.0/8"}]}])
    found = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["SecurityGroups"]
    default = next(group_["GroupId"] for group_ in found if group_["GroupName"] == "default")
    with refused("CannotDelete"):
        ec2.delete_security_group(GroupId=default)
    with refused("DependencyViolation"):
        ec2.delete_vpc(VpcId=vpc)
    ec2.delete_security_group(GroupId=group)
    ec2.delete_security_group(GroupId=other)


def test_endpoint_is_unique_in_its_zone_and_route_table(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, (first, same_zone, second) = ground
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    group = ec2.create_security_group(GroupName="endpoints", Description="d", VpcId=vpc)["GroupId"]
    sts = {"VpcId": vpc, "ServiceName": "com.amazonaws.us-east-1.sts", "VpcEndpointType": "Interface"}
    s3 = {"VpcId": vpc, "ServiceName": "com.amazonaws.us-east-1.s3", "VpcEndpointType": "Gateway"}
    with refused("InvalidParameter"):
        ec2.create_vpc_endpoint(**sts, SubnetIds=[first], PrivateDnsEnabled=True)
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    with refused("DuplicateSubnetsInSameZone"):
        ec2.create_vpc_endpoint(**sts, SubnetIds=[first, same_zone])
    with refused("InvalidSecurityGroupId.NotFound"):
        ec2.create_vpc_endpoint(**sts, SubnetIds=[first], SecurityGroupIds=["sg-00000000000000000"])
    with refused("InvalidServiceName"):
        ec2.create_vpc_endpoint(**{**sts, "ServiceName": "com.amazonaws.us-east-1.stss"}, SubnetIds=[first])
    with refused("InvalidParameter"):
        ec2.create_vpc_endpoint(**{**sts, "VpcEndpointType": "Gateway"}, RouteTableIds=[table])
    with refused("InvalidPolicyDocument"):
        ec2.create_vpc_endpoint(**s3, RouteTableIds=[table], PolicyDocument="{}")
    interface = ec2.create_vpc_endpoint(**sts, SubnetIds=[first, second], SecurityGroupIds=[group])["VpcEndpoint"]
    with refused("InvalidParameter"):
        ec2.create_vpc_endpoint(**sts, SubnetIds=[first])
    gateway = ec2.create_vpc_endpoint(**s3, RouteTableIds=[table], PolicyDocument=allow(Principal="*"))["VpcEndpoint"]
    with refused("RouteAlreadyExists"):
        ec2.create_vpc_endpoint(**s3, RouteTableIds=[table])
    with refused("DependencyViolation"):
        ec2.delete_security_group(GroupId=group)
    ec2.delete_vpc_endpoints(VpcEndpointIds=[interface["VpcEndpointId"], gateway["VpcEndpointId"]])
    ec2.delete_security_group(GroupId=group)
    ec2.delete_route_table(RouteTableId=table)


def test_flow_logs_need_a_role_and_a_log_group(
    aws_client: ClientFactory, ec2: Any, ground: tuple[str, list[str]]
) -> None:
    vpc, _ = ground
    aws_client("logs").create_log_group(logGroupName="flows")
    arguments = {
        "ResourceIds": [vpc],
        "ResourceType": "VPC",
        "TrafficType": "ALL",
        "LogDestination": "arn:aws:logs:us-east-1:123456789012:log-group:flows",
    }
    with refused("InvalidParameter"):
        ec2.create_flow_logs(**arguments)
    role = "arn:aws:iam::123456789012:role/flows"
    created = ec2.create_flow_logs(**arguments, DeliverLogsPermissionArn=role)["FlowLogIds"]
    assert ec2.describe_flow_logs(FlowLogIds=created)["FlowLogs"][0]["DeliverLogsStatus"] == "SUCCESS"
    ec2.delete_flow_logs(FlowLogIds=created)
    aws_client("logs").delete_log_group(logGroupName="flows")


def test_rule_description_is_stored_but_not_part_of_its_identity(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, _ = ground
    group = ec2.create_security_group(GroupName="one", Description="d", VpcId=vpc)["GroupId"]
    other = ec2.create_security_group(GroupName="other", Description="d", VpcId=vpc)["GroupId"]
    prefixes = ec2.describe_prefix_lists()["PrefixLists"][0]["PrefixListId"]

    def permission(**words: str) -> dict[str, Any]:
        return {
            **NFS,
            "IpRanges": [{"CidrIp": "10.0.0.0/16", **words}],
            "UserIdGroupPairs": [{"GroupId": other, **words}],
            "PrefixListIds": [{"PrefixListId": prefixes, **words}],
        }

    def words_of(answer: Any) -> list[str | None]:
        return [rule.get("Description") for rule in answer["SecurityGroupRules"] if not rule["IsEgress"]]

    def descriptions() -> list[str | None]:
        where = [{"Name": "group-id", "Values": [group]}]
        found = words_of(ec2.describe_security_group_rules(Filters=where))
        (shown,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]
        sources = [*shown["IpRanges"], *shown["UserIdGroupPairs"], *shown["PrefixListIds"]]
        assert [source.get("Description") for source in sources] == found
        return found

    created = ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission(Description="first")])
    assert words_of(created) == descriptions() == ["first"] * 3
    with refused("InvalidPermission.Duplicate"):
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission(Description="other words")])
    with refused("InvalidParameterValue"):
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=[permission(Description="“quoted”")])
    ec2.update_security_group_rule_descriptions_ingress(GroupId=group, IpPermissions=[permission(Description="second")])
    assert descriptions() == ["second"] * 3
    assert {rule["GroupOwnerId"] for rule in created["SecurityGroupRules"]} == {ACCOUNT}
    of_other = created["SecurityGroupRules"][1]["SecurityGroupRuleId"]
    changed = [{"SecurityGroupRuleId": of_other, "Description": "third"}]
    ec2.update_security_group_rule_descriptions_ingress(GroupId=group, SecurityGroupRuleDescriptions=changed)
    assert descriptions() == ["second", "third", "second"]
    with refused("InvalidPermission.NotFound"):
        ec2.update_security_group_rule_descriptions_egress(GroupId=group, SecurityGroupRuleDescriptions=changed)
    anew = {**NFS, "ReferencedGroupId": group, "Description": "fourth"}
    ec2.modify_security_group_rules(
        GroupId=group, SecurityGroupRules=[{"SecurityGroupRuleId": of_other, "SecurityGroupRule": anew}]
    )
    found = ec2.describe_security_group_rules(SecurityGroupRuleIds=[of_other])["SecurityGroupRules"][0]
    assert found["GroupOwnerId"] == ACCOUNT
    assert (found["ReferencedGroupInfo"]["GroupId"], found["Description"]) == (group, "fourth")
    rest = permission()
    rest["UserIdGroupPairs"] = [{"GroupId": group}]
    ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=[rest])
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"] == []
    for name in (group, other):
        ec2.delete_security_group(GroupId=name)


def test_a_gateways_routes_follow_its_tables(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, _ = ground
    tables = [ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"] for _ in range(3)]
    first, middle, last = tables
    s3 = {"VpcId": vpc, "ServiceName": "com.amazonaws.us-east-1.s3"}
    created = ec2.create_vpc_endpoint(**s3, RouteTableIds=[first, middle])["VpcEndpoint"]
    assert created["PrivateDnsEnabled"] is False
    gateway = created["VpcEndpointId"]

    def routed() -> list[str]:
        found = ec2.describe_route_tables(RouteTableIds=tables)["RouteTables"]
        return [t["RouteTableId"] for t in found if any(r.get("GatewayId") == gateway for r in t["Routes"])]

    assert routed() == [first, middle]
    ec2.modify_vpc_endpoint(VpcEndpointId=gateway, AddRouteTableIds=[last], RemoveRouteTableIds=[first])
    assert routed() == [middle, last]
    with refused("InvalidParameter"):
        ec2.modify_vpc_endpoint(VpcEndpointId=gateway, AddSubnetIds=ground[1][:1])
    second = ec2.create_vpc_endpoint(**s3, RouteTableIds=[first])["VpcEndpoint"]["VpcEndpointId"]
    with refused("RouteAlreadyExists"):
        ec2.modify_vpc_endpoint(VpcEndpointId=second, AddRouteTableIds=[middle])
    ec2.delete_vpc_endpoints(VpcEndpointIds=[second])
    prefixes = ec2.describe_prefix_lists(Filters=[{"Name": "prefix-list-name", "Values": [s3["ServiceName"]]}])
    ec2.delete_route(RouteTableId=middle, DestinationPrefixListId=prefixes["PrefixLists"][0]["PrefixListId"])
    assert ec2.delete_vpc_endpoints(VpcEndpointIds=[gateway])["Unsuccessful"] == []
    assert routed() == []
    (gone,) = ec2.delete_vpc_endpoints(VpcEndpointIds=[gateway])["Unsuccessful"]
    assert (gone["ResourceId"], gone["Error"]["Code"]) == (gateway, "InvalidVpcEndpoint.NotFound")
    with refused("InvalidVpcEndpointId.NotFound"):
        ec2.modify_vpc_endpoint(VpcEndpointId=gateway, AddRouteTableIds=[first])
    for name in tables:
        ec2.delete_route_table(RouteTableId=name)


def test_an_endpoints_interfaces_follow_its_subnets(ec2: Any, ground: tuple[str, list[str]]) -> None:
    vpc, (first, same_zone, second) = ground
    sts = {"VpcId": vpc, "VpcEndpointType": "Interface", "ServiceName": "com.amazonaws.us-east-1.sts"}
    created = ec2.create_vpc_endpoint(**sts, SubnetIds=[first], PrivateDnsEnabled=False)["VpcEndpoint"]["VpcEndpointId"]

    def subnets_of_interfaces() -> list[str]:
        endpoint = ec2.describe_vpc_endpoints(VpcEndpointIds=[created])["VpcEndpoints"][0]
        found = ec2.describe_network_interfaces(NetworkInterfaceIds=endpoint["NetworkInterfaceIds"])
        all_here = ec2.describe_network_interfaces(Filters=[{"Name": "vpc-id", "Values": [vpc]}])
        assert len(all_here["NetworkInterfaces"]) == len(found["NetworkInterfaces"])
        return [eni["SubnetId"] for eni in found["NetworkInterfaces"]]

    with refused("DuplicateSubnetsInSameZone"):
        ec2.modify_vpc_endpoint(VpcEndpointId=created, AddSubnetIds=[same_zone])
    with refused("InvalidParameter"):
        ec2.modify_vpc_endpoint(VpcEndpointId=created, PrivateDnsEnabled=True)
    ec2.modify_vpc_endpoint(VpcEndpointId=created, AddSubnetIds=[same_zone, second], RemoveSubnetIds=[first])
    assert sorted(subnets_of_interfaces()) == sorted([same_zone, second])
    ec2.delete_vpc_endpoints(VpcEndpointIds=[created])


def test_default_security_group_admits_its_own_members(ec2: Any) -> None:
    vpc = ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"]
    where = [{"Name": "vpc-id", "Values": [vpc]}]
    [group] = ec2.describe_security_groups(Filters=where)["SecurityGroups"]
    [rule] = group["IpPermissions"]
    assert rule["IpProtocol"] == "-1"
    assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [group["GroupId"]]
    ec2.delete_vpc(VpcId=vpc)
