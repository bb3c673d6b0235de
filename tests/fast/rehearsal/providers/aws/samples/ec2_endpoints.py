"""Samples of VPC endpoints and flow logs."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample, retag


def _gateway(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {
        "vpcId": vpc,
        "serviceName": "com.amazonaws.us-east-1.s3",
        "routeTableIds": [ground.table(vpc)],
        "tags": TAGS,
    }


def _interface(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {
        "vpcId": vpc,
        "serviceName": "com.amazonaws.us-east-1.sts",
        "vpcEndpointType": "Interface",
        "subnetIds": [ground.subnet(vpc)],
        "securityGroupIds": [ground.group(vpc)],
        "privateDnsEnabled": False,
        "tags": TAGS,
    }


def _more_doors(ground: Ground, old: dict[str, Any]) -> dict[str, Any]:
    vpc = old["vpcId"]
    subnets = [*old["subnetIds"], ground.subnet(vpc, "10.20.2.0/24", "us-east-1b")]
    return {"subnetIds": subnets, "securityGroupIds": [ground.group(vpc)]}


def _flow_log(ground: Ground) -> dict[str, Any]:
    return {
        "vpcId": ground.vpc(),
        "logDestination": ground.log_group(),
        "iamRoleArn": ground.role_arn(),
        "trafficType": "ALL",
        "maxAggregationInterval": 60,
        "tags": TAGS,
    }


SAMPLES = {
    "aws:ec2/vpcEndpoint:VpcEndpoint": Sample(
        inputs=_gateway,
        update={"tags": MORE_TAGS},
        update_more=lambda g, old: {"routeTableIds": [*old["routeTableIds"], g.table(old["vpcId"])]},
        replace={"serviceName": "com.amazonaws.us-east-1.dynamodb"},
        behind=lambda g, i, out: g.client("ec2").modify_vpc_endpoint(
            VpcEndpointId=i, RemoveRouteTableIds=out["routeTableIds"][:1]
        ),
        drift=("routeTableIds",),
    ),
    "aws:ec2/flowLog:FlowLog": Sample(
        inputs=_flow_log,
        update={"tags": MORE_TAGS},
        replace={"trafficType": "REJECT"},
        behind=retag,
        drift=("tags",),
    ),
}

# The other form of a type whose forms share little.
OTHERS = {
    "aws:ec2/vpcEndpoint:VpcEndpoint": Sample(
        inputs=_interface,
        update={"tags": MORE_TAGS},
        update_more=_more_doors,
        replace={"serviceName": "com.amazonaws.us-east-1.logs"},
        behind=lambda g, i, out: g.client("ec2").modify_vpc_endpoint(
            VpcEndpointId=i, RemoveSubnetIds=out["subnetIds"][:1]
        ),
        drift=("subnetIds",),
    ),
}
