"""The cost controls' graph: alerts, the bucket of the bill and its readers, queries and the dashboard."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from agentenv.components._lib.aws_context import AwsContext
from agentenv.components.cost.cost_controls import CostControls
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


def controls(settings: dict[str, Any], *, keep_data: bool = False, **more: Any) -> CostControls:
    facts = replace(FACTS, cluster_name="agents", keep_data=keep_data)
    return CostControls("costs", replace(planned({"cost": settings}).costs, environment=facts), **more)


def build_graph(
    *, preview: bool = False, keep_data: bool = False, more: dict[str, Any] | None = None, **settings: Any
) -> Graph:
    return registered(lambda: controls({**ALL, **settings}, keep_data=keep_data, **(more or {})), preview=preview)


def test_without_settings_nothing_is_created() -> None:
    assert registered(lambda: controls({})).aws_resources() == []
    assert {
        resource.type for resource in registered(lambda: controls({"platformDashboard": True})).aws_resources()
    } == {"aws:cloudwatch/dashboard:Dashboard"}


# -- who is told ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("at", "notices"), [(80, 3), (100, 2)])
def test_budget_alerts_on_actual_and_forecasted_costs(at: int, notices: int) -> None:
    budget = build_graph(noticeAt=at).resource("Budget").inputs
    assert (budget["limitAmount"], budget["timeUnit"], budget["budgetType"]) == ("500.50", "MONTHLY", "COST")
    thresholds = {
        (notification["notificationType"], notification["threshold"]) for notification in budget["notifications"]
    }
    assert thresholds == {("ACTUAL", at), ("ACTUAL", 100), ("FORECASTED", 100)}
    assert len(budget["notifications"]) == notices
    assert all(
        notification["subscriberEmailAddresses"] == ["platform@example.com"] for notification in budget["notifications"]
    )


def test_a_budget_is_of_the_environment_only_where_tags_split_the_bill() -> None:
    for tags in ("active", "activate"):
        (only,) = build_graph(costTags=tags).resource("Budget").inputs["costFilters"]
        assert only == {"name": "TagKeyValue", "values": ["user:environment$dev"]}
    # A filter by a tag that is not active matches nothing, and such a budget is never spent.
    assert "costFilters" not in build_graph(costTags="none").resource("Budget").inputs


def test_cost_tags_are_activated_on_request_and_stay_active() -> None:
    cost_tags = build_graph().of("CostAllocationTag")
    assert {tag.inputs["tagKey"] for tag in cost_tags} == {"environment", "component", "owner", "cost-center"}
    assert all(tag.inputs["status"] == "Active" and tag.retain for tag in cost_tags)
    assert {tag.inputs["tagKey"] for tag in build_graph(costLabels=True).of("CostAllocationTag")} >= {
        "sandbox.users.io/user",
        "sandbox.users.io/class",
    }
    for tags in ("none", "active"):
        assert build_graph(costTags=tags).of("CostAllocationTag") == []


def test_the_account_that_pays_watches_a_tag_and_another_one_its_services() -> None:
    paying = build_graph().resource("AnomalyMonitor").inputs
    assert paying["monitorType"] == "CUSTOM"
    specification = json.loads(paying["monitorSpecification"])
    assert specification["Tags"] == {"Key": "environment", "MatchOptions": None, "Values": ["dev"]}
    # The official provider reads all that there could be, and takes what is left out for a change.
    assert set(specification) == {"And", "CostCategories", "Dimensions", "Not", "Or", "Tags"}
    member = build_graph(costTags="active").resource("AnomalyMonitor").inputs
    assert (member["monitorType"], member["monitorDimension"]) == ("DIMENSIONAL", "SERVICE")


def test_an_existing_monitor_is_used() -> None:
    arn = f"arn:aws:ce::{ACCOUNT}:anomalymonitor/11111111-2222-3333-4444-555555555555"
    graph = build_graph(anomalyMonitor=arn, anomalyFrom="25")
    assert graph.of("AnomalyMonitor") == []
    subscription = graph.resource("AnomalySubscription").inputs
    assert subscription["monitorArnLists"] == [arn]
    assert subscription["thresholdExpression"]["dimension"]["values"] == ["25"]
    # Mail is sent once a day or week: at once it would have to be a topic.
    assert (subscription["frequency"], subscription["subscribers"][0]["type"]) == ("DAILY", "EMAIL")


# -- where the bill lies ----------------------------------------------------------------------------------------------


def test_the_bills_bucket_is_private_encrypted_and_forgets() -> None:
    graph = build_graph(usageExportDays=93)
    bucket = graph.resource("Bucket").inputs
    assert bucket["bucket"] == BUCKET
    blocked = graph.resource("BucketPublicAccessBlock").inputs
    assert all(blocked[key] for key in blocked if key != "bucket")
    assert len(blocked) == 5
    assert graph.resource("BucketOwnershipControls").inputs["rule"] == {"objectOwnership": "BucketOwnerEnforced"}
    (rule,) = graph.resource("BucketServerSideEncryptionConfiguration").inputs["rules"]
    assert rule["applyServerSideEncryptionByDefault"] == {"sseAlgorithm": "AES256"}
    rules = graph.resource("BucketLifecycleConfiguration").inputs["rules"]
    ends = {rule["filter"]["prefix"]: rule["expiration"]["days"] for rule in rules}
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
def test_only_exports_of_this_account_are_allowed(
    action: str, resource: str, context: dict[str, str], answer: str
) -> None:
    ours = {
        "aws:SecureTransport": "true",
        "aws:SourceAccount": ACCOUNT,
        # Exports are of us-east-1, wherever the bucket is.
        "aws:SourceArn": f"arn:aws:bcm-data-exports:us-east-1:{ACCOUNT}:export/dev-costs-usage",
    }
    document = json.loads(build_graph().resource("BucketPolicy").inputs["policy"])
    service = "bcm-data-exports.amazonaws.com"
    assert decided(document, service, action, {**ours, **context}, on=resource) == answer


def test_the_export_is_by_the_hour_with_split_costs_and_waits_until_it_may_write() -> None:
    graph = build_graph()
    export = graph.resource("Export")
    definition = export.inputs["export"]
    (query,) = definition["dataQueries"]
    table = query["tableConfigurations"]["COST_AND_USAGE_REPORT"]
    assert table == {
        "BILLING_VIEW_ARN": f"arn:aws:billing::{ACCOUNT}:billingview/primary",
        "INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY": "FALSE",
        "INCLUDE_RESOURCES": "TRUE",
        "INCLUDE_SPLIT_COST_ALLOCATION_DATA": "TRUE",
        "TIME_GRANULARITY": "HOURLY",
    }
    (target,) = definition["destinationConfigurations"][0]["s3Destinations"]
    assert (target["s3Bucket"], target["s3Region"]) == (BUCKET, REGION)
    (output,) = target["s3OutputConfigurations"]
    assert (output["format"], output["overwrite"]) == ("PARQUET", "OVERWRITE_REPORT")
    assert graph.comes_before(graph.resource("BucketPolicy"), export)
    assert graph.comes_before(graph.resource("BucketPublicAccessBlock"), graph.resource("BucketPolicy"))
    assert KINDS["data-export"].accepts(definition["name"])


def test_the_policy_is_known_before_the_bucket_is_there() -> None:
    """A rule that judges it at a preview would otherwise have nothing to judge."""
    assert build_graph(preview=True).resource("BucketPolicy").inputs["policy"] != UNKNOWN


@pytest.mark.parametrize("keep_data", [True, False])
def test_bill_is_retained_where_data_is_protected(*, keep_data: bool) -> None:
    graph = build_graph(keep_data=keep_data)
    of_bucket = [resource for resource in graph.aws_resources() if resource.type.startswith("aws:s3/")]
    assert len(of_bucket) == 6
    for resource in of_bucket:
        assert (bool(resource.protect), bool(resource.retain)) == (keep_data, keep_data)
    assert graph.resource("Bucket").inputs.get("forceDestroy", False) is not keep_data
    assert not any(resource.protect for resource in graph.aws_resources() if resource not in of_bucket)


# -- what is asked of it ----------------------------------------------------------------------------------------------


def test_the_table_has_what_the_export_writes_where_it_writes_it() -> None:
    graph = build_graph()
    table = graph.resource("CatalogTable").inputs
    selected = graph.resource("Export").inputs["export"]["dataQueries"][0]["queryStatement"]
    assert [column["name"] for column in table["storageDescriptor"]["columns"]] == [column.name for column in COLUMNS]
    assert all(column.name in selected for column in COLUMNS)
    (target,) = graph.resource("Export").inputs["export"]["destinationConfigurations"][0]["s3Destinations"]
    name = graph.resource("Export").inputs["export"]["name"]
    assert table["storageDescriptor"]["location"] == f"s3://{BUCKET}/{target['s3Prefix']}/{name}/data/"
    month = table["parameters"]["storage.location.template"]
    assert month == f"s3://{BUCKET}/{target['s3Prefix']}/{name}/data/BILLING_PERIOD=${{billing_period}}/"
    assert [partition_key["name"] for partition_key in table["partitionKeys"]] == ["billing_period"]


def test_queries_are_limited_by_the_workgroup() -> None:
    graph = build_graph(queryScanLimit="1Gi")
    configuration = graph.resource("Workgroup").inputs["configuration"]
    assert configuration["enforceWorkgroupConfiguration"] is True
    assert configuration["bytesScannedCutoffPerQuery"] == 2**30
    results = configuration["resultConfiguration"]
    assert results["outputLocation"] == f"s3://{BUCKET}/results/"
    assert results["encryptionConfiguration"] == {"encryptionOption": "SSE_S3"}
    queries = {query.inputs["name"]: query.inputs for query in graph.of("NamedQuery")}
    assert set(queries) == {"per-user-and-day", "shared-costs", "reconciliation-gap"}
    database = graph.resource("CatalogDatabase").inputs["name"]
    assert KINDS["glue-database"].accepts(database)
    for query in queries.values():
        assert (query["database"], query["workgroup"]) == (database, "dev-costs-usage")
        assert f'"{database}"."usage"' in query["query"]
        assert ":pod/agents/" in query["query"]


# -- the dashboard ----------------------------------------------------------------------------------------------------


def test_the_dashboard_knows_no_user() -> None:
    graph = build_graph(more={"file_system_ids": ["fs-1", "fs-2"], "log_groups": ["/flows", "/aws/eks/agents/cluster"]})
    body = json.loads(graph.resource("Dashboard").inputs["dashboardBody"])
    metrics = [metric for widget in body["widgets"] for metric in widget["properties"].get("metrics", [])]
    assert {widget["properties"].get("region", REGION) for widget in body["widgets"]} == {REGION}
    dimensions: set[str] = set()
    for _, _, *rest in metrics:
        named = [part for part in rest if isinstance(part, str)]
        dimensions.update(named[::2])
    assert dimensions == {
        *("ClusterName", "Service", "Type", "Resource", "Class", "FileSystemId", "StorageClass", "LogGroupName")
    }
    # Of our own a metric would cost 30 cents a month, and there would be one a user before anybody noticed.
    assert {namespace for namespace, *_ in metrics} == {"AWS/EKS", "AWS/Usage", "AWS/EFS", "AWS/Logs"}
    places = [(widget["x"], widget["y"]) for widget in body["widgets"]]
    assert len(set(places)) == len(places)
    assert {"fs-1", "fs-2", "/flows"} < {part for metric in metrics for part in metric if isinstance(part, str)}


def test_settings_reach_the_component() -> None:
    assert not planned().costs.enabled
    assert planned({"cost": {"costTags": "activate"}}).costs.enabled
    chosen = {"monthlyBudget": "400.50", "alertTo": "a@example.com", "costTags": "active"}
    assert planned({"cost": chosen}).costs.enabled
    graph = registered(lambda: controls(chosen))
    assert [budget.inputs["limitAmount"] for budget in graph.of("Budget")] == ["400.50"]


def test_outputs_have_names_and_empty_texts_for_absent_resources() -> None:
    def outputs_of(layout: dict[str, Any]) -> Graph:
        def build() -> pulumi.Output[Any]:
            component = controls(layout)
            return pulumi.Output.all(
                component.usage_bucket, component.usage_database, component.usage_workgroup, component.budget_name
            )

        return registered(build)

    assert outputs_of(ALL).result == [BUCKET, "dev_costs_usage", "dev-costs-usage", "dev-costs-month"]
    assert outputs_of({}).result == [""] * 4
