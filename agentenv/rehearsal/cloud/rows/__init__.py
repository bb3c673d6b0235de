"""The operations that this endpoint answers itself: a module for each service, a row for each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.rows import (
    athena,
    budgets,
    cloudwatch,
    cost_explorer,
    data_exports,
    ec2_endpoints,
    ec2_flow_logs,
    ec2_instance_types,
    ec2_routes,
    ec2_security_group_rules,
    ec2_security_groups,
    ec2_transit_gateways,
    ec2_vpc,
    efs,
    eks_access_entries,
    eks_addons,
    eks_auth,
    eks_clusters,
    eks_node_groups,
    eks_pod_identity,
    eks_tags,
    eks_updates,
    elbv2,
    iam,
    iam_simulation,
    kms,
    logs,
    s3,
    service_quotas,
    ssm_parameters,
    sts_roles,
    sts_web_identity,
    tagging_api,
)

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import OperationHandler

TABLES = (
    ec2_vpc.ROWS,
    ec2_transit_gateways.ROWS,
    ec2_routes.ROWS,
    ec2_security_groups.ROWS,
    ec2_security_group_rules.ROWS,
    ec2_endpoints.ROWS,
    ec2_flow_logs.ROWS,
    ec2_instance_types.ROWS,
    efs.ROWS,
    eks_clusters.ROWS,
    eks_node_groups.ROWS,
    eks_addons.ROWS,
    eks_access_entries.ROWS,
    eks_pod_identity.ROWS,
    eks_auth.ROWS,
    eks_tags.ROWS,
    eks_updates.ROWS,
    elbv2.ROWS,
    iam.ROWS,
    iam_simulation.ROWS,
    sts_web_identity.ROWS,
    sts_roles.ROWS,
    kms.ROWS,
    logs.ROWS,
    s3.ROWS,
    service_quotas.ROWS,
    ssm_parameters.ROWS,
    cloudwatch.ROWS,
    budgets.ROWS,
    cost_explorer.ROWS,
    data_exports.ROWS,
    tagging_api.ROWS,
    athena.ROWS,
)

ROWS: dict[tuple[str, str], OperationHandler] = {(row.service, row.operation): row for table in TABLES for row in table}
