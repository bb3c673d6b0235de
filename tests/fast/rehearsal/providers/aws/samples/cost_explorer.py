"""Samples of budgets, Cost Explorer and data exports."""

import json
from typing import Any

from tests.fast.rehearsal.providers.aws.samples.s3 import bucket, policy
from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample

ACCOUNT = "123456789012"
VIEW = f"arn:aws:billing::{ACCOUNT}:billingview/primary"
REPORT = "COST_AND_USAGE_REPORT"
TABLE = {
    "BILLING_VIEW_ARN": VIEW,
    "INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY": "FALSE",
    "INCLUDE_RESOURCES": "TRUE",
    "INCLUDE_SPLIT_COST_ALLOCATION_DATA": "TRUE",
    "TIME_GRANULARITY": "HOURLY",
}


def _note(percent: int, *, kind: str = "ACTUAL", address: str = "platform@example.com") -> dict[str, Any]:
    return {
        "notificationType": kind,
        "comparisonOperator": "GREATER_THAN",
        "threshold": percent,
        "thresholdType": "PERCENTAGE",
        "subscriberEmailAddresses": [address],
    }


def _silence(ground: Ground, id_: str, _: dict[str, Any]) -> object:
    budgets, where = ground.client("budgets"), {"AccountId": ACCOUNT, "BudgetName": id_.partition(":")[2]}
    note = budgets.describe_notifications_for_budget(**where)["Notifications"][0]
    note.pop("NotificationState")
    return budgets.delete_notification(**where, Notification=note)


def _export(
    place: dict[str, Any], columns: str = "line_item_resource_id", table: dict[str, str] | None = None
) -> dict[str, Any]:
    statement = f"SELECT {columns} FROM {REPORT}"  # noqa: S608 - of a test's own columns
    return {
        "export": {
            "name": place["name"],
            "dataQueries": [{"queryStatement": statement, "tableConfigurations": {REPORT: table or TABLE}}],
            "destinationConfigurations": [
                {
                    "s3Destinations": [
                        {
                            "s3Bucket": place["bucket"],
                            "s3Prefix": "usage",
                            "s3Region": "us-east-1",
                            "s3OutputConfigurations": [
                                {
                                    "format": "PARQUET",
                                    "compression": "PARQUET",
                                    "outputType": "CUSTOM",
                                    "overwrite": "OVERWRITE_REPORT",
                                }
                            ],
                        }
                    ]
                }
            ],
            "refreshCadences": [{"frequency": "SYNCHRONOUS"}],
        }
    }


def _place(ground: Ground) -> dict[str, Any]:
    name = bucket(ground)
    ground.client("s3").put_bucket_policy(Bucket=name, Policy=policy(name))
    return {"name": ground.fresh("usage"), "bucket": name}


def _same_place(inputs: dict[str, Any]) -> dict[str, Any]:
    (target,) = inputs["export"]["destinationConfigurations"][0]["s3Destinations"]
    return {"name": inputs["export"]["name"], "bucket": target["s3Bucket"]}


def _another_query(ground: Ground, id_: str, _: dict[str, Any]) -> object:
    exports = ground.client("bcm-data-exports")
    stored = exports.get_export(ExportArn=id_)["Export"]
    stored.pop("ExportArn")
    stored["DataQuery"]["QueryStatement"] = f"SELECT pricing_term FROM {REPORT}"  # noqa: S608 - as above
    return exports.update_export(ExportArn=id_, Export=stored)


def _monitor(ground: Ground) -> str:
    tag = {"Tags": {"Key": "environment", "Values": [ground.fresh("env")]}}
    monitor = {"MonitorName": "m", "MonitorType": "CUSTOM", "MonitorSpecification": tag}
    return ground.client("ce").create_anomaly_monitor(AnomalyMonitor=monitor)["MonitorArn"]


def _from(dollars: str) -> dict[str, Any]:
    return {
        "dimension": {
            "key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
            "matchOptions": ["GREATER_THAN_OR_EQUAL"],
            "values": [dollars],
        }
    }


NOTHING = dict.fromkeys(("And", "CostCategories", "Dimensions", "Not", "Or"))
SAMPLES = {
    "aws:budgets/budget:Budget": Sample(
        inputs=lambda _: {
            "budgetType": "COST",
            "timeUnit": "MONTHLY",
            "limitAmount": "500",
            "limitUnit": "USD",
            "billingViewArn": VIEW,
            "costFilters": [{"name": "TagKeyValue", "values": ["user:environment$dev"]}],
            "notifications": [_note(80), _note(100, kind="FORECASTED")],
            "tags": TAGS,
        },
        update={
            "limitAmount": "600.50",
            "notifications": [_note(90), _note(80, address="b@example.com")],
            "tags": MORE_TAGS,
        },
        replace={"name": "another"},
        behind=_silence,
        drift=("notifications",),
    ),
    "aws:costexplorer/costAllocationTag:CostAllocationTag": Sample(
        inputs=lambda g: {"tagKey": g.fresh("key"), "status": "Active"},
        update={"status": "Inactive"},
        replace={"tagKey": "another"},
        behind=lambda g, i, _: g.client("ce").update_cost_allocation_tags_status(
            CostAllocationTagsStatus=[{"TagKey": i, "Status": "Active"}]
        ),
        drift=("status",),
        stays=True,
    ),
    "aws:costexplorer/anomalyMonitor:AnomalyMonitor": Sample(
        inputs=lambda _: {
            "monitorType": "CUSTOM",
            "monitorSpecification": json.dumps(
                {**NOTHING, "Tags": {"Key": "environment", "MatchOptions": None, "Values": ["dev"]}}
            ),
            "tags": TAGS,
        },
        update={"name": "by-another-name", "tags": MORE_TAGS},
        replace={"monitorSpecification": json.dumps({"Tags": {"Key": "environment", "Values": ["prod"]}})},
        behind=lambda g, i, _: g.client("ce").update_anomaly_monitor(MonitorArn=i, MonitorName="by hand"),
        drift=("name",),
    ),
    "aws:costexplorer/anomalySubscription:AnomalySubscription": Sample(
        inputs=lambda g: {
            "frequency": "DAILY",
            "monitorArnLists": [_monitor(g)],
            "subscribers": [{"type": "EMAIL", "address": "platform@example.com"}],
            "thresholdExpression": _from("10"),
            "tags": TAGS,
        },
        update={"thresholdExpression": _from("20"), "frequency": "WEEKLY", "tags": MORE_TAGS},
        replace={"name": "another"},
        behind=lambda g, i, _: g.client("ce").update_anomaly_subscription(SubscriptionArn=i, Frequency="DAILY"),
        drift=("frequency",),
    ),
    "aws:bcmdata/export:Export": Sample(
        inputs=lambda g: {**_export(_place(g)), "tags": TAGS},
        update={"tags": MORE_TAGS},
        update_more=lambda _, inputs: _export(_same_place(inputs), "line_item_resource_id, pricing_unit"),
        replace=_export({"name": "usage", "bucket": "a-bucket"}, table={**TABLE, "TIME_GRANULARITY": "DAILY"}),
        behind=_another_query,
        drift=("export",),
    ),
}
