"""Samples of the VPC and what lies in it."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample, retag


def _eip_elsewhere(ground: Ground, old: dict[str, Any]) -> dict[str, Any]:
    ec2 = ground.client("ec2")
    interface = ec2.create_network_interface(SubnetId=ground.subnet(ground.vpc()))["NetworkInterface"]
    return {"networkInterface": interface["NetworkInterfaceId"]}


def _nat(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    ground.gateway(vpc)
    return {"allocationId": ground.address(), "subnetId": ground.subnet(vpc), "tags": TAGS}


def _attachment(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    gateway = ground.client("ec2").create_transit_gateway()["TransitGateway"]["TransitGatewayId"]
    return {"transitGatewayId": gateway, "vpcId": vpc, "subnetIds": [ground.subnet(vpc)], "tags": TAGS}


def _more_subnets(ground: Ground, old: dict[str, Any]) -> dict[str, Any]:
    return {"subnetIds": [ground.subnet(old["vpcId"], "10.20.2.0/24", "us-east-1b")]}


SAMPLES = {
    "aws:ec2transitgateway/vpcAttachment:VpcAttachment": Sample(
        inputs=_attachment,
        update={"tags": MORE_TAGS},
        update_more=_more_subnets,
        replace={"transitGatewayId": "tgw-0a1b2c3d4e5f60718"},
        behind=retag,
        drift=("tags",),
    ),
    "aws:ec2/vpc:Vpc": Sample(
        inputs=lambda _: {"cidrBlock": "10.1.0.0/16", "enableDnsHostnames": True, "tags": TAGS},
        update={"enableDnsHostnames": False, "tags": MORE_TAGS},
        replace={"cidrBlock": "10.2.0.0/16"},
        behind=lambda g, i, _: g.client("ec2").modify_vpc_attribute(VpcId=i, EnableDnsSupport={"Value": False}),
        drift=("enableDnsSupport",),
    ),
    "aws:ec2/subnet:Subnet": Sample(
        inputs=lambda g: {
            "vpcId": g.vpc(),
            "cidrBlock": "10.20.3.0/24",
            "availabilityZone": "us-east-1b",
            "tags": TAGS,
        },
        update={"mapPublicIpOnLaunch": True, "tags": MORE_TAGS},
        replace={"availabilityZone": "us-east-1c"},
        behind=lambda g, i, _: g.client("ec2").modify_subnet_attribute(
            SubnetId=i, MapPublicIpOnLaunch={"Value": False}
        ),
        drift=("mapPublicIpOnLaunch",),
    ),
    "aws:ec2/internetGateway:InternetGateway": Sample(
        inputs=lambda g: {"vpcId": g.vpc(), "tags": TAGS},
        update={"tags": MORE_TAGS},
        update_more=lambda g, _: {"vpcId": g.vpc()},
        behind=retag,
        drift=("tags",),
    ),
    "aws:ec2/eip:Eip": Sample(
        inputs=lambda _: {"domain": "vpc", "tags": TAGS},
        update={"tags": MORE_TAGS},
        update_more=_eip_elsewhere,
        replace={"publicIpv4Pool": "ipv4pool-ec2-012345"},
        behind=retag,
        drift=("tags",),
    ),
    "aws:ec2/natGateway:NatGateway": Sample(
        inputs=_nat,
        update={"tags": MORE_TAGS},
        replace={"connectivityType": "private", "allocationId": None},
        behind=retag,
        drift=("tags",),
    ),
}
