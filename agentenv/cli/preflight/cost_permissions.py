"""What whoever runs `pulumi up` has to be allowed to do for the cost controls that a stack asks for."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.config import Settings

_TAGS = ("TagResource", "UntagResource", "ListTagsForResource")
BUDGETS = ("ModifyBudget", "ViewBudget", *_TAGS)
COST_TAGS = ("UpdateCostAllocationTagsStatus", "ListCostAllocationTags")
ANOMALIES = (
    *("CreateAnomalyMonitor", "GetAnomalyMonitors", "UpdateAnomalyMonitor", "DeleteAnomalyMonitor"),
    *("CreateAnomalySubscription", "GetAnomalySubscriptions", "UpdateAnomalySubscription"),
    *("DeleteAnomalySubscription", *_TAGS),
)
EXPORTS = ("CreateExport", "GetExport", "UpdateExport", "DeleteExport", *_TAGS)
BUCKET = (
    *("CreateBucket", "DeleteBucket", "ListBucket", "ListBucketVersions", "DeleteObject", "DeleteObjectVersion"),
    *("GetBucketTagging", "PutBucketTagging", "GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"),
    *("GetBucketPublicAccessBlock", "PutBucketPublicAccessBlock"),
    *("GetBucketOwnershipControls", "PutBucketOwnershipControls"),
    *("GetEncryptionConfiguration", "PutEncryptionConfiguration"),
    *("GetLifecycleConfiguration", "PutLifecycleConfiguration"),
    # The provider reads all there is to a bucket, asked for or not.
    *("GetAccelerateConfiguration", "GetBucketAcl", "GetBucketCORS", "GetBucketLogging", "GetBucketRequestPayment"),
    *("GetBucketVersioning", "GetBucketWebsite", "GetBucketObjectLockConfiguration", "GetReplicationConfiguration"),
)
CATALOGUE = (
    *("CreateDatabase", "GetDatabase", "UpdateDatabase", "DeleteDatabase", "GetTags", "TagResource", "UntagResource"),
    *("CreateTable", "GetTable", "UpdateTable", "DeleteTable", "GetPartitionIndexes"),
)
WORKGROUP = (
    *("CreateWorkGroup", "GetWorkGroup", "UpdateWorkGroup", "DeleteWorkGroup"),
    *("CreateNamedQuery", "GetNamedQuery", "DeleteNamedQuery", *_TAGS),
)
DASHBOARD = ("PutDashboard", "GetDashboard", "DeleteDashboards")


def rights(settings: Settings, account: str, partition: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Service, operations and what they are on."""
    cost, ours = settings.cost, f"{settings.environment}-agents-costs"
    at = f"arn:{partition}:{{}}:{settings.region}:{account}:"
    if cost.monthly_budget is not None:
        yield "budgets", BUDGETS, f"arn:{partition}:budgets::{account}:budget/{ours}-month"
    if cost.cost_tags == "activate":
        yield "ce", COST_TAGS, "*"
    if cost.anomaly_alerts:
        yield "ce", ANOMALIES, "*"
    if cost.usage_export:
        yield "s3", BUCKET, f"arn:{partition}:s3:::{ours}-usage-{account}"
        # An export of the bill is a report to policies as well.
        yield "cur", ("PutReportDefinition",), "*"
        yield "bcm-data-exports", EXPORTS, "*"
        yield "glue", CATALOGUE, at.format("glue") + f"database/{ours.replace('-', '_')}_usage"
        yield "athena", WORKGROUP, at.format("athena") + f"workgroup/{ours}-usage"
    if cost.platform_dashboard:
        yield "cloudwatch", DASHBOARD, f"arn:{partition}:cloudwatch::{account}:dashboard/{ours}-platform"
