"""The table: a row for each resource type, in a module for each family."""

from __future__ import annotations

from typing import Final

from agentenv.rehearsal.providers.aws.row import Row
from agentenv.rehearsal.providers.aws.rows import athena as asking
from agentenv.rehearsal.providers.aws.rows import budgets, logs
from agentenv.rehearsal.providers.aws.rows import cloudwatch as watch
from agentenv.rehearsal.providers.aws.rows import cost_explorer as billing
from agentenv.rehearsal.providers.aws.rows import dynamodb as tables
from agentenv.rehearsal.providers.aws.rows import ec2_endpoints as doors
from agentenv.rehearsal.providers.aws.rows import ec2_routes as routes
from agentenv.rehearsal.providers.aws.rows import ec2_security_group_rules as rules
from agentenv.rehearsal.providers.aws.rows import ec2_security_groups as firewall
from agentenv.rehearsal.providers.aws.rows import ec2_vpc as network
from agentenv.rehearsal.providers.aws.rows import efs as storage
from agentenv.rehearsal.providers.aws.rows import eks_clusters as cluster
from agentenv.rehearsal.providers.aws.rows import eks_resources as cluster_parts
from agentenv.rehearsal.providers.aws.rows import iam as identity
from agentenv.rehearsal.providers.aws.rows import iam_roles as roles
from agentenv.rehearsal.providers.aws.rows import kms as keys
from agentenv.rehearsal.providers.aws.rows import s3 as buckets
from agentenv.rehearsal.providers.aws.rows import sqs_eventbridge as messages

FAMILIES: Final = (
    network,
    routes,
    firewall,
    rules,
    doors,
    identity,
    roles,
    keys,
    logs,
    storage,
    cluster,
    cluster_parts,
    messages,
    watch,
    tables,
    buckets,
    asking,
    billing,
    budgets,
)
TABLE: Final[dict[str, Row]] = {row.type: row for family in FAMILIES for row in family.ROWS}
