"""Reachability of an API server for the deployer: by the public ranges, or by a rule and a route of the VPC."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.cloud.rows.eks_certificate import authority
from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.auth.account import Account
from tests.fast.rehearsal.cloud.calls import refused, remove, subnets, trust
from tests.fast.rehearsal.cloud.conftest import ClientFactory

OFFICE = "10.9.0.0/16"
TRANSIT = "arn:aws:ec2:us-east-1:123456789012:transit-gateway/tgw-0a1b2c3d4e5f60718"


def post(cloud: Cloud, page: str, body: Any, method: str = "POST") -> None:
    request = urllib.request.Request(f"{cloud.url}/_cloud/{page}", json.dumps(body).encode(), method=method)  # noqa: S310 -- our own loopback
    urllib.request.urlopen(request).close()  # noqa: S310 -- our own loopback


def deployer_at(cloud: Cloud, address: str) -> None:
    plane = {"endpoint": "https://127.0.0.1:7443", "issuer": "https://127.0.0.1:7443/id"}
    post(cloud, "eks", {**plane, "certificate_authority": authority(), "deployer_address": address})


@pytest.fixture(scope="module")
def cluster(cloud: Cloud, aws_client: ClientFactory) -> Iterator[dict[str, Any]]:
    """A private cluster in a VPC that nothing leads into."""
    iam, eks, ec2 = aws_client("iam"), aws_client("eks"), aws_client("ec2")
    vpc, places = subnets(ec2)
    role = iam.create_role(RoleName="reached", AssumeRolePolicyDocument=trust())["Role"]["Arn"]
    config = {"subnetIds": places, "endpointPrivateAccess": True, "endpointPublicAccess": False}
    yield eks.create_cluster(name="p", roleArn=role, resourcesVpcConfig=config)["cluster"]
    post(cloud, "eks", None, "DELETE")
    eks.delete_cluster(name="p")
    iam.delete_role(RoleName="reached")
    remove(ec2, vpc, places)


@pytest.fixture
def account(cloud: Cloud) -> Account:
    return Account(cloud.url, "us-east-1", "AKIAIOSFODNN7EXAMPLE", "no secret", "p")


def test_a_private_cluster_is_reached_by_a_rule_and_a_route(
    cloud: Cloud, aws_client: ClientFactory, cluster: dict[str, Any], account: Account
) -> None:
    ec2, config = aws_client("ec2"), cluster["resourcesVpcConfig"]
    deployer_at(cloud, "10.9.0.1")
    assert "no ingress rule" in account.unreachable("p")
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": OFFICE}]}
    ec2.authorize_security_group_ingress(GroupId=config["clusterSecurityGroupId"], IpPermissions=[rule])
    assert "has no route to 10.9.0.1" in account.unreachable("p")

    post(cloud, "existing", [TRANSIT])
    gateway, vpc = TRANSIT.rpartition("/")[2], config["vpcId"]
    tables = [ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"] for _ in config["subnetIds"]]
    links = [
        ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"]
        for table, subnet in zip(tables, config["subnetIds"], strict=True)
    ]
    route = {"DestinationCidrBlock": OFFICE, "TransitGatewayId": gateway}
    with refused("InvalidTransitGatewayID.NotFound"):  # the VPC is not attached
        ec2.create_route(RouteTableId=tables[0], **route)
    attached = {"TransitGatewayId": gateway, "VpcId": vpc, "SubnetIds": config["subnetIds"]}
    created = ec2.create_transit_gateway_vpc_attachment(**attached)["TransitGatewayVpcAttachment"]
    ec2.create_route(RouteTableId=tables[0], **route)
    assert config["subnetIds"][1] in account.unreachable("p")  # the route of its table is still missing
    ec2.create_route(RouteTableId=tables[1], **route)
    assert account.unreachable("p") == ""
    deployer_at(cloud, "10.8.0.1")
    assert "no ingress rule" in account.unreachable("p")

    ec2.delete_transit_gateway_vpc_attachment(TransitGatewayAttachmentId=created["TransitGatewayAttachmentId"])
    for link, table in zip(links, tables, strict=True):
        ec2.disassociate_route_table(AssociationId=link)
        ec2.delete_route_table(RouteTableId=table)
    ec2.delete_transit_gateway(TransitGatewayId=gateway)


def test_a_public_range_is_reached_from_that_range_only(
    cloud: Cloud, aws_client: ClientFactory, cluster: dict[str, Any], account: Account
) -> None:
    public = {"endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]}
    aws_client("eks").update_cluster_config(name="p", resourcesVpcConfig=public)
    deployer_at(cloud, "203.0.113.7")
    assert account.unreachable("p") == ""
    deployer_at(cloud, "198.51.100.7")
    assert "no ingress rule" in account.unreachable("p")


def test_without_a_deployer_every_address_is_assumed(cloud: Cloud, account: Account) -> None:
    deployer_at(cloud, "")
    assert account.unreachable("p") == ""
