"""Samples of route tables and routes."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def _table(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {"vpcId": vpc, "routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": ground.gateway(vpc)}], "tags": TAGS}


def _route(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {
        "routeTableId": ground.table(vpc),
        "destinationCidrBlock": "0.0.0.0/0",
        "gatewayId": ground.gateway(vpc),
    }


def _vpc_of(ground: Ground, table: str) -> str:
    return ground.client("ec2").describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["VpcId"]


def _through_nat(ground: Ground, old: dict[str, Any]) -> dict[str, Any]:
    subnet = ground.subnet(_vpc_of(ground, old["routeTableId"]), "10.20.9.0/24")
    created = ground.client("ec2").create_nat_gateway(SubnetId=subnet, AllocationId=ground.address())
    return {"gatewayId": None, "natGatewayId": created["NatGateway"]["NatGatewayId"]}


def _association(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {"routeTableId": ground.table(vpc), "subnetId": ground.subnet(vpc)}


def _other_table(ground: Ground, old: dict[str, Any]) -> dict[str, Any]:
    vpc = ground.client("ec2").describe_subnets(SubnetIds=[old["subnetId"]])["Subnets"][0]["VpcId"]
    return {"routeTableId": ground.table(vpc)}


def _route_elsewhere(ground: Ground, _: str, outputs: dict[str, Any]) -> None:
    ec2 = ground.client("ec2")
    where = [{"Name": "attachment.vpc-id", "Values": [_vpc_of(ground, outputs["routeTableId"])]}]
    gateway = ec2.describe_internet_gateways(Filters=where)["InternetGateways"][0]["InternetGatewayId"]
    place = {"RouteTableId": outputs["routeTableId"], "DestinationCidrBlock": outputs["destinationCidrBlock"]}
    ec2.replace_route(**place, GatewayId=gateway)


def _associate_elsewhere(ground: Ground, _: str, outputs: dict[str, Any]) -> None:
    ec2 = ground.client("ec2")
    where = [{"Name": "association.subnet-id", "Values": [outputs["subnetId"]]}]
    table = ec2.describe_route_tables(Filters=where)["RouteTables"][0]
    mine = next(a for a in table["Associations"] if a.get("SubnetId") == outputs["subnetId"])
    ec2.replace_route_table_association(
        AssociationId=mine["RouteTableAssociationId"], RouteTableId=ground.table(table["VpcId"])
    )


SAMPLES = {
    "aws:ec2/routeTable:RouteTable": Sample(
        inputs=_table,
        update={"tags": MORE_TAGS},
        update_more=lambda _, old: {
            "routes": [{"cidrBlock": "192.168.0.0/16", "gatewayId": old["routes"][0]["gatewayId"]}]
        },
        replace={"vpcId": "vpc-0123456789abcdef0"},
        behind=lambda g, i, _: g.client("ec2").delete_route(RouteTableId=i, DestinationCidrBlock="192.168.0.0/16"),
        drift=("routes",),
    ),
    "aws:ec2/route:Route": Sample(
        inputs=_route,
        update_more=_through_nat,
        replace={"destinationCidrBlock": "10.9.0.0/16"},
        behind=_route_elsewhere,
        drift=("gatewayId", "natGatewayId"),
        imports=lambda _, out: f"{out['routeTableId']}_{out['destinationCidrBlock']}",
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": Sample(
        inputs=_association,
        update_more=_other_table,
        replace={"subnetId": "subnet-0123456789abcdef0"},
        behind=_associate_elsewhere,
        drift=("routeTableId",),
        imports=lambda _, out: f"{out['subnetId']}/{out['routeTableId']}",
        another_id=True,
    ),
}
