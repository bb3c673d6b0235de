"""The table of supported resource types: one row per type, one module per AWS service."""

from __future__ import annotations

from typing import Final

from agentenv.rehearsal.providers.aws.row import ResourceType
from agentenv.rehearsal.providers.aws.rows import (
    athena,
    budgets,
    cloudwatch,
    cost_explorer,
    dynamodb,
    ec2_endpoints,
    ec2_routes,
    ec2_security_group_rules,
    ec2_security_groups,
    ec2_transit_gateways,
    ec2_vpc,
    efs,
    eks_clusters,
    eks_resources,
    elbv2,
    iam,
    iam_roles,
    kms,
    logs,
    route53,
    s3,
    sqs_eventbridge,
)

MODULES: Final = (
    ec2_vpc,
    ec2_transit_gateways,
    ec2_routes,
    ec2_security_groups,
    ec2_security_group_rules,
    ec2_endpoints,
    iam,
    iam_roles,
    kms,
    logs,
    efs,
    eks_clusters,
    eks_resources,
    sqs_eventbridge,
    cloudwatch,
    dynamodb,
    s3,
    athena,
    cost_explorer,
    budgets,
    elbv2,
    route53,
)
TABLE: Final[dict[str, ResourceType]] = {row.type: row for module in MODULES for row in module.ROWS}
