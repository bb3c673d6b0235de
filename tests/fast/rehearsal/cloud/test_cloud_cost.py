"""Budgets, Cost Explorer, data exports and CloudWatch: kept, checked, and named as kept."""

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rehearsal.cloud.serve import Cloud

from .conftest import Ask
from .saying import ACCOUNT, allow, refused

BUDGET = {
    "BudgetName": "month",
    "BudgetLimit": {"Amount": "500", "Unit": "USD"},
    "TimeUnit": "MONTHLY",
    "BudgetType": "COST",
}
NOTE = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80.0}
MAIL = {"SubscriptionType": "EMAIL", "Address": "platform@example.com"}
pytestmark = pytest.mark.usefixtures("unchanged")


def test_a_budget_is_one_with_its_notifications_and_tags(ask: Ask, cloud: Cloud) -> None:
    budgets = ask("budgets")
    named = {"AccountId": ACCOUNT, "BudgetName": "month"}
    arn = f"arn:aws:budgets::{ACCOUNT}:budget/month"
    told = [{"Notification": NOTE, "Subscribers": [MAIL]}]
    tags = [{"Key": "owner", "Value": "platform"}]
    budgets.create_budget(AccountId=ACCOUNT, Budget=BUDGET, NotificationsWithSubscribers=told, ResourceTags=tags)
    with refused("DuplicateRecordException"):
        budgets.create_budget(AccountId=ACCOUNT, Budget=BUDGET)
    for said in (
        {"BudgetName": "a:b"},
        {"BudgetName": "b", "BudgetLimit": {"Amount": "-1", "Unit": "USD"}},
        {"BudgetName": "b", "BudgetLimit": {"Amount": "1", "Unit": "EUR"}},
        {"BudgetName": "b", "TimeUnit": "HOURLY"},
    ):
        with refused("InvalidParameterException"):
            budgets.create_budget(AccountId=ACCOUNT, Budget={**BUDGET, **said})
    assert budgets.list_tags_for_resource(ResourceARN=arn)["ResourceTags"] == tags
    budgets.tag_resource(ResourceARN=arn, ResourceTags=[{"Key": "a", "Value": "b"}])
    budgets.untag_resource(ResourceARN=arn, ResourceTagKeys=["owner"])
    assert budgets.list_tags_for_resource(ResourceARN=arn)["ResourceTags"] == [{"Key": "a", "Value": "b"}]
    with refused("NotFoundException"):
        budgets.list_tags_for_resource(ResourceARN=arn + "s")

    later = {**NOTE, "Threshold": 100.0, "ThresholdType": "PERCENTAGE"}
    budgets.update_notification(**named, OldNotification=NOTE, NewNotification=later)
    assert budgets.describe_subscribers_for_notification(**named, Notification=later)["Subscribers"] == [MAIL]
    with refused("NotFoundException"):
        budgets.describe_subscribers_for_notification(**named, Notification=NOTE)
    budgets.create_notification(**named, Notification=NOTE, Subscribers=[MAIL])
    with refused("DuplicateRecordException"):
        budgets.create_notification(**named, Notification=NOTE, Subscribers=[MAIL])
    with refused("DuplicateRecordException"):
        budgets.create_subscriber(**named, Notification=NOTE, Subscriber=MAIL)
    with refused("InvalidParameterException"):
        budgets.create_subscriber(**named, Notification=NOTE, Subscriber={**MAIL, "Address": "nobody"})
    other = {**MAIL, "Address": "other@example.com"}
    budgets.update_subscriber(**named, Notification=NOTE, OldSubscriber=MAIL, NewSubscriber=other)
    budgets.delete_subscriber(**named, Notification=NOTE, Subscriber=other)
    assert len(budgets.describe_notifications_for_budget(**named)["Notifications"]) == 1
    budgets.delete_notification(**named, Notification=later)

    limit = {"Amount": "600", "Unit": "USD"}
    start = {"Start": datetime(2026, 11, 1, tzinfo=UTC)}
    budgets.update_budget(AccountId=ACCOUNT, NewBudget={**BUDGET, "BudgetLimit": limit, "TimePeriod": start})
    shown = budgets.describe_budget(**named)["Budget"]
    assert (shown["BudgetLimit"]["Amount"], shown["TimePeriod"]["Start"]) == ("600.0", start["Start"])
    # AWS says which bill it looks at, whoever left it out.
    assert shown["BillingViewArn"] == f"arn:aws:billing::{ACCOUNT}:billingview/primary"
    budgets.delete_budget(**named)
    with refused("NotFoundException"):
        budgets.describe_notifications_for_budget(**named)
    with urllib.request.urlopen(f"{cloud.url}/_cloud/kept") as kept:  # noqa: S310 -- our own loopback
        assert "budgets CreateBudget" in json.load(kept)


def test_cost_allocation_tags_are_switched(ask: Ask) -> None:
    ce = ask("ce")

    def switch(status: str) -> None:
        ce.update_cost_allocation_tags_status(CostAllocationTagsStatus=[{"TagKey": "owner", "Status": status}])

    switch("Active")
    (shown,) = ce.list_cost_allocation_tags(TagKeys=["owner"])["CostAllocationTags"]
    assert (shown["Status"], shown["Type"]) == ("Active", "UserDefined")
    switch("Inactive")
    assert ce.list_cost_allocation_tags(Status="Active")["CostAllocationTags"] == []
    with refused("ValidationException"):
        switch("Asleep")


def test_anomalies_are_watched_for_by_one_monitor_a_dimension(ask: Ask) -> None:
    ce = ask("ce")
    monitor = {"MonitorName": "m", "MonitorType": "DIMENSIONAL", "MonitorDimension": "SERVICE"}
    tags = [{"Key": "a", "Value": "b"}]
    arn = ce.create_anomaly_monitor(AnomalyMonitor=monitor, ResourceTags=tags)["MonitorArn"]
    with refused("LimitExceededException"):
        ce.create_anomaly_monitor(AnomalyMonitor=monitor)
    for said in ({"MonitorType": "CUSTOM"}, {"MonitorDimension": None}, {"MonitorType": "ODD"}):
        with refused("ValidationException"):
            changed = {name: value for name, value in {**monitor, **said}.items() if value}
            ce.create_anomaly_monitor(AnomalyMonitor=changed)
    ce.update_anomaly_monitor(MonitorArn=arn, MonitorName="n")
    assert ce.get_anomaly_monitors(MonitorArnList=[arn])["AnomalyMonitors"][0]["MonitorName"] == "n"
    assert ce.list_tags_for_resource(ResourceArn=arn)["ResourceTags"] == tags
    subscription = {
        "SubscriptionName": "s",
        "MonitorArnList": [arn],
        "Subscribers": [{"Type": "EMAIL", "Address": "platform@example.com"}],
        "Frequency": "DAILY",
        "Threshold": 10.0,
    }
    for said in ({"Frequency": "IMMEDIATE"}, {"ThresholdExpression": {"Tags": {"Key": "a"}}}):
        with refused("ValidationException"):
            ce.create_anomaly_subscription(AnomalySubscription={**subscription, **said})
    with refused("UnknownMonitorException"):
        unknown = [arn[:-1] + ("0" if arn[-1] != "0" else "1")]
        ce.create_anomaly_subscription(AnomalySubscription={**subscription, "MonitorArnList": unknown})
    made = ce.create_anomaly_subscription(AnomalySubscription=subscription)["SubscriptionArn"]
    ce.update_anomaly_subscription(SubscriptionArn=made, Frequency="WEEKLY")
    assert ce.get_anomaly_subscriptions(MonitorArn=arn)["AnomalySubscriptions"][0]["Frequency"] == "WEEKLY"
    ce.delete_anomaly_subscription(SubscriptionArn=made)
    with refused("UnknownSubscriptionException"):
        ce.get_anomaly_subscriptions(SubscriptionArnList=[made])
    ce.delete_anomaly_monitor(MonitorArn=arn)
    with refused("UnknownMonitorException"):
        ce.delete_anomaly_monitor(MonitorArn=arn)
    with refused("ResourceNotFoundException"):
        ce.list_tags_for_resource(ResourceArn=arn)


def test_an_export_goes_where_it_may_write(ask: Ask) -> None:
    exports, s3 = ask("bcm-data-exports"), ask("s3")
    output = {"OutputType": "CUSTOM", "Format": "PARQUET", "Compression": "PARQUET", "Overwrite": "OVERWRITE_REPORT"}
    target = {"S3Bucket": "bills", "S3Prefix": "p", "S3Region": "us-east-1", "S3OutputConfigurations": output}
    export: dict[str, Any] = {
        "Name": "bills",
        "DataQuery": {"QueryStatement": "SELECT line_item_usage_amount FROM COST_AND_USAGE_REPORT"},
        "DestinationConfigurations": {"S3Destination": target},
        "RefreshCadence": {"Frequency": "SYNCHRONOUS"},
    }
    with refused("ValidationException"):
        exports.create_export(Export=export)
    s3.create_bucket(Bucket="bills")
    with refused("ValidationException"):
        exports.create_export(Export=export)
    may = {"Principal": {"Service": "bcm-data-exports.amazonaws.com"}, "Action": "s3:PutObject"}
    s3.put_bucket_policy(Bucket="bills", Policy=allow(**may, Resource="arn:aws:s3:::bills/*"))
    arn = exports.create_export(Export=export, ResourceTags=[{"Key": "a", "Value": "b"}])["ExportArn"]
    for said in (
        {},
        {"Name": "no good"},
        {"Name": "b", "DataQuery": {"QueryStatement": "SELECT a FROM NOWHERE"}},
        {
            "Name": "b",
            "DestinationConfigurations": {
                "S3Destination": {**target, "S3OutputConfigurations": {**output, "Compression": "GZIP"}}
            },
        },
    ):
        with refused("ValidationException"):
            exports.create_export(Export={**export, **said})
    exports.update_export(ExportArn=arn, Export={**export, "Description": "d"})
    shown = exports.get_export(ExportArn=arn)
    assert (shown["Export"]["Description"], shown["ExportStatus"]["StatusCode"]) == ("d", "HEALTHY")
    assert [one["ExportArn"] for one in exports.list_exports()["Exports"]] == [arn]
    exports.tag_resource(ResourceArn=arn, ResourceTags=[{"Key": "c", "Value": "d"}])
    exports.untag_resource(ResourceArn=arn, ResourceTagKeys=["a"])
    assert exports.list_tags_for_resource(ResourceArn=arn)["ResourceTags"] == [{"Key": "c", "Value": "d"}]
    exports.delete_export(ExportArn=arn)
    with refused("ResourceNotFoundException"):
        exports.get_export(ExportArn=arn)
    s3.delete_bucket(Bucket="bills")


def test_alarms_and_dashboards(ask: Ask) -> None:
    watch = ask("cloudwatch")
    alarm: dict[str, Any] = {
        "AlarmName": "a",
        "MetricName": "m",
        "Namespace": "n",
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 2,
        "Threshold": 1.5,
        "ComparisonOperator": "GreaterThanThreshold",
        "Tags": [{"Key": "a", "Value": "b"}],
    }
    watch.put_metric_alarm(**alarm)
    shown = watch.describe_alarms(AlarmNames=["a"])["MetricAlarms"][0]
    assert (shown["StateValue"], shown["Threshold"], shown["Period"]) == ("INSUFFICIENT_DATA", 1.5, 60)
    assert watch.list_tags_for_resource(ResourceARN=shown["AlarmArn"])["Tags"] == alarm["Tags"]
    for said in (
        {"ComparisonOperator": "Odd"},
        {"Period": 45},
        {"Period": 3600, "EvaluationPeriods": 200},
        {"DatapointsToAlarm": 3},
        {"Statistic": None},
        {"MetricName": None},
        {"EvaluationPeriods": None},
    ):
        with refused("ValidationError"):
            watch.put_metric_alarm(**{name: value for name, value in {**alarm, **said}.items() if value is not None})
    with refused("ResourceNotFoundException"):
        watch.list_tags_for_resource(ResourceARN=shown["AlarmArn"] + "s")
    moment = datetime.now(UTC)
    watch.put_metric_data(Namespace="n", MetricData=[{"MetricName": "m", "Value": 2.5, "Timestamp": moment}])
    hour = timedelta(hours=1)
    query = {"Metric": {"Namespace": "n", "MetricName": "m"}, "Period": 60, "Stat": "Sum"}
    (found,) = watch.get_metric_data(
        MetricDataQueries=[{"Id": "q", "MetricStat": query}], StartTime=moment - hour, EndTime=moment + hour
    )["MetricDataResults"]
    assert found["Values"] == [2.5]
    body = json.dumps({"widgets": []})
    watch.put_dashboard(DashboardName="d", DashboardBody=body)
    assert watch.get_dashboard(DashboardName="d")["DashboardBody"] == body
    with refused("InvalidParameterInput"):
        watch.put_dashboard(DashboardName="d", DashboardBody="{")
    watch.delete_dashboards(DashboardNames=["d"])
    with refused("ResourceNotFound"):
        watch.get_dashboard(DashboardName="d")
    watch.delete_alarms(AlarmNames=["a"])
    with refused("ResourceNotFound"):
        watch.delete_alarms(AlarmNames=["a"])
