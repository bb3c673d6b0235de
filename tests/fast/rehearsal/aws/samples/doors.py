"""Samples of VPC endpoints and flow logs."""

from typing import Any

from tests.fast.rehearsal.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample, retag


def _endpoint(ground: Ground) -> dict[str, Any]:
    vpc = ground.vpc()
    return {
        "vpcId": vpc,
        "serviceName": "com.amazonaws.us-east-1.s3",
        "routeTableIds": [ground.table(vpc)],
        "tags": TAGS,
    }


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
        inputs=_endpoint,
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
