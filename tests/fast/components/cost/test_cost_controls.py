"""The cost controls' graph: who is told, where the bill lies and who gets at it, and what is asked of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components.cost.cost_controls import CostControls
from agentenv.components.cost.cost_iam import usage_bucket
from agentenv.core.usage_export.columns import COLUMNS
from agentenv.core.values.names import KINDS
from tests.fast.components.graph import ACCOUNT, REGION, UNKNOWN, Graph, registered
from tests.fast.components.iam import decided
from tests.fast.components.shapes import FACTS, planned

ALL: dict[str, Any] = {
    "monthlyBudget": "500.50",
    "alertTo": "platform@example.com",
    "costTags": "activate",
    "usageExport": True,
    "anomalyAlerts": True,
    "platformDashboard": True,
}
BUCKET = f"dev-costs-usage-{ACCOUNT}"
HERE = AwsContext("aws", "amazonaws.com", REGION, ACCOUNT)


def controls(settings: dict[str, Any], *, kept: bool = False, **more: Any) -> CostControls:
    facts = replace(FACTS, cluster_name="agents", keep_data=kept)
    return CostControls("costs", replace(planned({"cost": settings}).costs, environment=facts), **more)


def graph(*, preview: bool = False, kept: bool = False, more: dict[str, Any] | None = None, **settings: Any) -> Graph:
    return registered(lambda: controls({**ALL, **settings}, kept=kept, **(more or {})), preview=preview)


def test_nothing_is_made_that_was_not_asked_for() -> None:
    assert registered(lambda: controls({})).cloud() == []
    assert {one.type for one in registered(lambda: controls({"platformDashboard": True})).cloud()} == {
        "aws:cloudwatch/dashboard:Dashboard"
    }


# -- who is told ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "notices"), [(80, 3), (100, 2)])
def test_a_budget_tells_of_a_part_of_all_and_of_what_is_to_come(at: int, notices: int) -> None:
    made = graph(noticeAt=at).one("Budget").inputs
    assert (made["limitAmount"], made["timeUnit"], made["budgetType"]) == ("500.50", "MONTHLY", "COST")
    told = {(one["notificationType"], one["threshold"]) for one in made["notifications"]}
    assert told == {("ACTUAL", at), ("ACTUAL", 100), ("FORECASTED", 100)}
    assert len(made["notifications"]) == notices
    assert all(one["subscriberEmailAddresses"] == ["platform@example.com"] for one in made["notifications"])


def test_a_budget_is_of_the_environment_only_where_tags_split_the_bill() -> None:
    for tags in ("active", "activate"):
        (only,) = graph(costTags=tags).one("Budget").inputs["costFilters"]
        assert only == {"name": "TagKeyValue", "values": ["user:environment$dev"]}
    # A filter by a tag that is not active matches nothing, and such a budget is never spent.
    assert "costFilters" not in graph(costTags="none").one("Budget").inputs


def test_tags_are_activated_where_that_was_asked_for_and_stay_active() -> None:
    made = graph().of("CostAllocationTag")
    assert {one.inputs["tagKey"] for one in made} == {"environment", "component", "owner", "cost-center"}
    assert all(one.inputs["status"] == "Active" and one.retain for one in made)
    assert {one.inputs["tagKey"] for one in graph(costLabels=True).of("CostAllocationTag")} >= {
        "sandbox.users.io/user",
        "sandbox.users.io/class",
    }
    for tags in ("none", "active"):
        assert graph(costTags=tags).of("CostAllocationTag") == []


def test_the_account_that_pays_watches_a_tag_and_another_one_its_services() -> None:
    paying = graph().one("AnomalyMonitor").inputs
    assert paying["monitorType"] == "CUSTOM"
    said = json.loads(paying["monitorSpecification"])
    assert said["Tags"] == {"Key": "environment", "MatchOptions": None, "Values": ["dev"]}
    # The official provider reads all that there could be, and takes what is left out for a change.
    assert set(said) == {"And", "CostCategories", "Dimensions", "Not", "Or", "Tags"}
    member = graph(costTags="active").one("AnomalyMonitor").inputs
    assert (member["monitorType"], member["monitorDimension"]) == ("DIMENSIONAL", "SERVICE")


def test_a_monitor_that_stands_is_used() -> None:
    arn = f"arn:aws:ce::{ACCOUNT}:anomalymonitor/11111111-2222-3333-4444-555555555555"
    made = graph(anomalyMonitor=arn, anomalyFrom="25")
    assert made.of("AnomalyMonitor") == []
    subscription = made.one("AnomalySubscription").inputs
    assert subscription["monitorArnLists"] == [arn]
    assert subscription["thresholdExpression"]["dimension"]["values"] == ["25"]
    # Mail is sent once a day or week: at once it would have to be a topic.
    assert (subscription["frequency"], subscription["subscribers"][0]["type"]) == ("DAILY", "EMAIL")


# -- where the bill lies ----------------------------------------------------------------------------------------------


def test_the_bills_bucket_is_private_encrypted_and_forgets() -> None:
    made = graph(usageExportDays=93)
    bucket = made.one("Bucket").inputs
    assert bucket["bucket"] == BUCKET
    blocked = made.one("BucketPublicAccessBlock").inputs
    assert all(blocked[key] for key in blocked if key != "bucket")
    assert len(blocked) == 5
    assert made.one("BucketOwnershipControls").inputs["rule"] == {"objectOwnership": "BucketOwnerEnforced"}
    (rule,) = made.one("BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}
    rules = made.one("BucketLifecycleConfiguration").inputs["rules"]
    ends = {one["filter"]["prefix"]: one["expiration"]["days"] for one in rules}
    assert ends == {"usage/": 93, "results/": 30}


@pytest.mark.parametrize(
    ("action", "resource", "context", "answer"),
    [
        ("s3:PutObject", f"arn:aws:s3:::{BUCKET}/usage/x", {}, "allow"),
        ("s3:GetBucketPolicy", f"arn:aws:s3:::{BUCKET}", {}, "allow"),
        ("s3:GetObject", f"arn:aws:s3:::{BUCKET}/usage/x", {}, "silent"),
        ("s3:PutObject", f"arn:aws:s3:::{BUCKET}/usage/x", {"aws:SourceAccount": "210987654321"}, "silent"),
        (
            "s3:PutObject",
            f"arn:aws:s3:::{BUCKET}/usage/x",
            {"aws:SourceArn": "arn:aws:bcm-data-exports:us-east-1:210987654321:export/theirs"},
            "silent",
        ),
        ("s3:PutObject", f"arn:aws:s3:::{BUCKET}/usage/x", {"aws:SecureTransport": "false"}, "deny"),
    ],
)
def test_only_exports_of_this_account_are_let_in(
    action: str, resource: str, context: dict[str, str], answer: str
) -> None:
    ours = {
        "aws:SecureTransport": "true",
        "aws:SourceAccount": ACCOUNT,
        # Exports are of us-east-1, wherever the bucket is.
        "aws:SourceArn": f"arn:aws:bcm-data-exports:us-east-1:{ACCOUNT}:export/dev-costs-usage",
    }
    document = usage_bucket(HERE, BUCKET)
    service = "bcm-data-exports.amazonaws.com"
    assert decided(document, service, action, {**ours, **context}, on=resource) == answer


def test_the_export_is_by_the_hour_with_split_costs_and_waits_until_it_may_write() -> None:
    made = graph()
    export = made.one("Export")
    said = export.inputs["export"]
    (query,) = said["dataQueries"]
    table = query["tableConfigurations"]["COST_AND_USAGE_REPORT"]
    assert table == {
        "BILLING_VIEW_ARN": f"arn:aws:billing::{ACCOUNT}:billingview/primary",
        "INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY": "FALSE",
        "INCLUDE_RESOURCES": "TRUE",
        "INCLUDE_SPLIT_COST_ALLOCATION_DATA": "TRUE",
        "TIME_GRANULARITY": "HOURLY",
    }
    (target,) = said["destinationConfigurations"][0]["s3Destinations"]
    assert (target["s3Bucket"], target["s3Region"]) == (BUCKET, REGION)
    (output,) = target["s3OutputConfigurations"]
    assert (output["format"], output["overwrite"]) == ("PARQUET", "OVERWRITE_REPORT")
    assert made.comes_before(made.one("BucketPolicy"), export)
    assert made.comes_before(made.one("BucketPublicAccessBlock"), made.one("BucketPolicy"))
    assert KINDS["data-export"].accepts(said["name"])


def test_the_policy_is_known_before_the_bucket_is_there() -> None:
    """A rule that judges it at a preview would otherwise have nothing to judge."""
    assert graph(preview=True).one("BucketPolicy").inputs["policy"] != UNKNOWN


@pytest.mark.parametrize("kept", [True, False])
def test_the_bill_outlives_the_stack_where_data_is_kept(*, kept: bool) -> None:
    made = graph(kept=kept)
    of_bucket = [one for one in made.cloud() if one.type.startswith("aws:s3/")]
    assert len(of_bucket) == 6
    for one in of_bucket:
        assert (bool(one.protect), bool(one.retain)) == (kept, kept)
    assert made.one("Bucket").inputs.get("forceDestroy", False) is not kept
    assert not any(one.protect for one in made.cloud() if one not in of_bucket)


# -- what is asked of it ----------------------------------------------------------------------------------------------


def test_the_table_has_what_the_export_writes_where_it_writes_it() -> None:
    made = graph()
    table = made.one("CatalogTable").inputs
    selected = made.one("Export").inputs["export"]["dataQueries"][0]["queryStatement"]
    assert [one["name"] for one in table["storageDescriptor"]["columns"]] == [one.name for one in COLUMNS]
    assert all(one.name in selected for one in COLUMNS)
    (target,) = made.one("Export").inputs["export"]["destinationConfigurations"][0]["s3Destinations"]
    name = made.one("Export").inputs["export"]["name"]
    assert table["storageDescriptor"]["location"] == f"s3://{BUCKET}/{target['s3Prefix']}/{name}/data/"
    month = table["parameters"]["storage.location.template"]
    assert month == f"s3://{BUCKET}/{target['s3Prefix']}/{name}/data/BILLING_PERIOD=${{billing_period}}/"
    assert [one["name"] for one in table["partitionKeys"]] == ["billing_period"]


def test_whoever_asks_is_bound_by_the_workgroup() -> None:
    made = graph(queryScanLimit="1Gi")
    said = made.one("Workgroup").inputs["configuration"]
    assert said["enforceWorkgroupConfiguration"] is True
    assert said["bytesScannedCutoffPerQuery"] == 2**30
    results = said["resultConfiguration"]
    assert results["outputLocation"] == f"s3://{BUCKET}/results/"
    assert results["encryptionConfiguration"] == {"encryptionOption": "SSE_S3"}
    kept = {one.inputs["name"]: one.inputs for one in made.of("NamedQuery")}
    assert set(kept) == {"per-user-and-day", "shared-costs", "reconciliation-gap"}
    database = made.one("CatalogDatabase").inputs["name"]
    assert KINDS["glue-database"].accepts(database)
    for query in kept.values():
        assert (query["database"], query["workgroup"]) == (database, "dev-costs-usage")
        assert f'"{database}"."usage"' in query["query"]
        assert ":pod/agents/" in query["query"]


# -- the dashboard ----------------------------------------------------------------------------------------------------


def test_the_dashboard_knows_no_user() -> None:
    made = graph(more={"file_system_ids": ["fs-1", "fs-2"], "log_groups": ["/flows", "/aws/eks/agents/cluster"]})
    body = json.loads(made.one("Dashboard").inputs["dashboardBody"])
    metrics = [metric for one in body["widgets"] for metric in one["properties"].get("metrics", [])]
    assert {one["properties"].get("region", REGION) for one in body["widgets"]} == {REGION}
    dimensions: set[str] = set()
    for _, _, *rest in metrics:
        named = [part for part in rest if isinstance(part, str)]
        dimensions.update(named[::2])
    assert dimensions == {
        *("ClusterName", "Service", "Type", "Resource", "Class", "FileSystemId", "StorageClass", "LogGroupName")
    }
    # Of our own a metric would cost 30 cents a month, and there would be one a user before anybody noticed.
    assert {namespace for namespace, *_ in metrics} == {"AWS/EKS", "AWS/Usage", "AWS/EFS", "AWS/Logs"}
    places = [(one["x"], one["y"]) for one in body["widgets"]]
    assert len(set(places)) == len(places)
    assert {"fs-1", "fs-2", "/flows"} < {part for metric in metrics for part in metric if isinstance(part, str)}


def test_what_the_settings_say_reaches_the_component() -> None:
    assert not planned().costs.enabled
    assert planned({"cost": {"costTags": "activate"}}).costs.enabled
    chosen = {"monthlyBudget": "400.50", "alertTo": "a@example.com", "costTags": "active"}
    assert planned({"cost": chosen}).costs.enabled
    made = registered(lambda: controls(chosen))
    assert [one.inputs["limitAmount"] for one in made.of("Budget")] == ["400.50"]


def test_it_hands_out_names_and_empty_ones_for_what_is_not_there() -> None:
    def told(layout: dict[str, Any]) -> Graph:
        def build() -> pulumi.Output[Any]:
            made = controls(layout)
            return pulumi.Output.all(made.usage_bucket, made.usage_database, made.usage_workgroup, made.budget_name)

        return registered(build)

    assert told(ALL).result == [BUCKET, "dev_costs_usage", "dev-costs-usage", "dev-costs-month"]
    assert told({}).result == [""] * 4
