"""Budgets, Cost Explorer, data exports and CloudWatch: kept, checked, and named as kept."""

import json
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from agentenv.rehearsal.cloud.server import Cloud
from tests.fast.rehearsal.cloud.calls import ACCOUNT, allow, refused
from tests.fast.rehearsal.cloud.conftest import ClientFactory

BUDGET = {
    "BudgetName": "month",
    "BudgetLimit": {"Amount": "500", "Unit": "USD"},
    "TimeUnit": "MONTHLY",
    "BudgetType": "COST",
}
NOTE = {"NotificationType": "ACTUAL", "ComparisonOperator": "GREATER_THAN", "Threshold": 80.0}
MAIL = {"SubscriptionType": "EMAIL", "Address": "platform@example.com"}
pytestmark = pytest.mark.usefixtures("unchanged")


def test_budget_has_its_notifications_and_tags(aws_client: ClientFactory, cloud: Cloud) -> None:
    budgets = aws_client("budgets")
    named = {"AccountId": ACCOUNT, "BudgetName": "month"}
    arn = f"arn:aws:budgets::{ACCOUNT}:budget/month"
    notifications = [{"Notification": NOTE, "Subscribers": [MAIL]}]
    tags = [{"Key": "owner", "Value": "platform"}]
    budgets.create_budget(
        AccountId=ACCOUNT, Budget=BUDGET, NotificationsWithSubscribers=notifications, ResourceTags=tags
    )
    with refused("DuplicateRecordException"):
        budgets.create_budget(AccountId=ACCOUNT, Budget=BUDGET)
    for options in (
        {"BudgetName": "a:b"},
        {"BudgetName": "b", "BudgetLimit": {"Amount": "-1", "Unit": "USD"}},
        {"BudgetName": "b", "BudgetLimit": {"Amount": "1", "Unit": "EUR"}},
        {"BudgetName": "b", "TimeUnit": "HOURLY"},
    ):
        with refused("InvalidParameterException"):
            budgets.create_budget(AccountId=ACCOUNT, Budget={**BUDGET, **options})
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
    with urllib.request.urlopen(f"{cloud.url}/_cloud/kept") as stored:  # noqa: S310 -- our own loopback
        assert "budgets CreateBudget" in json.load(stored)


def test_cost_allocation_tags_are_activated_and_deactivated(aws_client: ClientFactory) -> None:
    ce = aws_client("ce")

    def switch(status: str) -> None:
        ce.update_cost_allocation_tags_status(CostAllocationTagsStatus=[{"TagKey": "owner", "Status": status}])

    switch("Active")
    (shown,) = ce.list_cost_allocation_tags(TagKeys=["owner"])["CostAllocationTags"]
    assert (shown["Status"], shown["Type"]) == ("Active", "UserDefined")
    switch("Inactive")
    assert ce.list_cost_allocation_tags(Status="Active")["CostAllocationTags"] == []
    with refused("ValidationException"):
        switch("Asleep")


def test_dimension_has_at_most_one_anomaly_monitor(aws_client: ClientFactory) -> None:
    ce = aws_client("ce")
    monitor = {"MonitorName": "m", "MonitorType": "DIMENSIONAL", "MonitorDimension": "SERVICE"}
    tags = [{"Key": "a", "Value": "b"}]
    (default,) = ce.get_anomaly_monitors()["AnomalyMonitors"]
    assert default["MonitorName"] == "Default-Services-Monitor"
    with refused("ValidationException"):
        ce.create_anomaly_monitor(AnomalyMonitor=monitor)
    ce.delete_anomaly_monitor(MonitorArn=default["MonitorArn"])
    arn = ce.create_anomaly_monitor(AnomalyMonitor=monitor, ResourceTags=tags)["MonitorArn"]
    with refused("ValidationException"):
        ce.create_anomaly_monitor(AnomalyMonitor=monitor)
    for options in ({"MonitorType": "CUSTOM"}, {"MonitorDimension": None}, {"MonitorType": "ODD"}):
        with refused("ValidationException"):
            changed = {name: value for name, value in {**monitor, **options}.items() if value}
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
    for options in ({"Frequency": "IMMEDIATE"}, {"ThresholdExpression": {"Tags": {"Key": "a"}}}):
        with refused("ValidationException"):
            ce.create_anomaly_subscription(AnomalySubscription={**subscription, **options})
    impact = {
        "Key": "ANOMALY_TOTAL_IMPACT_ABSOLUTE",
        "MatchOptions": ["GREATER_THAN_OR_EQUAL"],
        "Values": ["10"],
    }
    without = {name: value for name, value in subscription.items() if name != "Threshold"}
    for wrong in ({"Values": ["-5"]}, {"Values": ["much"]}, {"Key": "SERVICE"}, {"MatchOptions": ["EQUALS"]}):
        with refused("ValidationException"):
            expression = {"Dimensions": {**impact, **wrong}}
            ce.create_anomaly_subscription(AnomalySubscription={**without, "ThresholdExpression": expression})
    joined = {"And": [{"Dimensions": impact}, {"Dimensions": {**impact, "Key": "ANOMALY_TOTAL_IMPACT_PERCENTAGE"}}]}
    both = ce.create_anomaly_subscription(AnomalySubscription={**without, "ThresholdExpression": joined})
    ce.delete_anomaly_subscription(SubscriptionArn=both["SubscriptionArn"])
    with refused("UnknownMonitorException"):
        unknown = [arn[:-1] + ("0" if arn[-1] != "0" else "1")]
        ce.create_anomaly_subscription(AnomalySubscription={**subscription, "MonitorArnList": unknown})
    created = ce.create_anomaly_subscription(AnomalySubscription=subscription)["SubscriptionArn"]
    ce.update_anomaly_subscription(SubscriptionArn=created, Frequency="WEEKLY")
    assert ce.get_anomaly_subscriptions(MonitorArn=arn)["AnomalySubscriptions"][0]["Frequency"] == "WEEKLY"
    ce.delete_anomaly_subscription(SubscriptionArn=created)
    with refused("UnknownSubscriptionException"):
        ce.get_anomaly_subscriptions(SubscriptionArnList=[created])
    ce.delete_anomaly_monitor(MonitorArn=arn)
    with refused("UnknownMonitorException"):
        ce.delete_anomaly_monitor(MonitorArn=arn)
    with refused("ResourceNotFoundException"):
        ce.list_tags_for_resource(ResourceArn=arn)


def test_export_needs_write_access_to_its_bucket(aws_client: ClientFactory) -> None:
    exports, s3 = aws_client("bcm-data-exports"), aws_client("s3")
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
    for options in (
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
            exports.create_export(Export={**export, **options})
    exports.update_export(ExportArn=arn, Export={**export, "Description": "d"})
    shown = exports.get_export(ExportArn=arn)
    assert (shown["Export"]["Description"], shown["ExportStatus"]["StatusCode"]) == ("d", "HEALTHY")
    assert [export["ExportArn"] for export in exports.list_exports()["Exports"]] == [arn]
    exports.tag_resource(ResourceArn=arn, ResourceTags=[{"Key": "c", "Value": "d"}])
    exports.untag_resource(ResourceArn=arn, ResourceTagKeys=["a"])
    assert exports.list_tags_for_resource(ResourceArn=arn)["ResourceTags"] == [{"Key": "c", "Value": "d"}]
    exports.delete_export(ExportArn=arn)
    with refused("ResourceNotFoundException"):
        exports.get_export(ExportArn=arn)
    s3.delete_bucket(Bucket="bills")


def test_export_stores_its_properties_and_refuses_unknown_columns(aws_client: ClientFactory, cloud: Cloud) -> None:
    exports, s3 = aws_client("bcm-data-exports"), aws_client("s3")
    s3.create_bucket(Bucket="bills")
    resource = "arn:aws:s3:::bills/*"
    may = {"Principal": {"Service": "bcm-data-exports.amazonaws.com"}, "Action": "s3:PutObject", "Resource": resource}
    output = {"OutputType": "CUSTOM", "Format": "PARQUET", "Compression": "PARQUET", "Overwrite": "OVERWRITE_REPORT"}
    target = {"S3Bucket": "bills", "S3Prefix": "p", "S3Region": "us-east-1", "S3OutputConfigurations": output}

    def export(columns: str, **table: str) -> dict[str, Any]:
        query: dict[str, Any] = {"QueryStatement": f"SELECT {columns} FROM COST_AND_USAGE_REPORT"}  # noqa: S608
        if table:
            query["TableConfigurations"] = {"COST_AND_USAGE_REPORT": table}
        return {
            "Name": "bills",
            "DataQuery": query,
            "DestinationConfigurations": {"S3Destination": target},
            "RefreshCadence": {"Frequency": "SYNCHRONOUS"},
        }

    # A policy that is for somebody else's exports, or for another folder, does not let ours in.
    for options in (
        {"Condition": {"StringEquals": {"aws:SourceAccount": "210987654321"}}},
        {"Condition": {"ArnLike": {"aws:SourceArn": f"arn:aws:bcm-data-exports:eu-west-1:{ACCOUNT}:export/*"}}},
        {"Resource": "arn:aws:s3:::bills/elsewhere/*"},
    ):
        s3.put_bucket_policy(Bucket="bills", Policy=allow(**{**may, **options}))
        with refused("ValidationException"):
            exports.create_export(Export=export("line_item_usage_amount"))
    ours = {
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
        "ArnLike": {"aws:SourceArn": f"arn:aws:bcm-data-exports:us-east-1:{ACCOUNT}:export/*"},
    }
    s3.put_bucket_policy(Bucket="bills", Policy=allow(**may, Condition=ours))
    for columns in ("line_item_resource_id", "split_line_item_split_cost", "what_nobody_has"):
        with refused("ValidationException"):
            exports.create_export(Export=export(columns, TIME_GRANULARITY="HOURLY"))
    arn = exports.create_export(Export=export("line_item_resource_id", INCLUDE_RESOURCES="TRUE"))["ExportArn"]
    stored = exports.get_export(ExportArn=arn)["Export"]["DataQuery"]["TableConfigurations"]["COST_AND_USAGE_REPORT"]
    assert stored == {
        "BILLING_VIEW_ARN": f"arn:aws:billing::{ACCOUNT}:billingview/primary",
        "INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY": "FALSE",
        "INCLUDE_RESOURCES": "TRUE",
        "INCLUDE_SPLIT_COST_ALLOCATION_DATA": "FALSE",
        "TIME_GRANULARITY": "HOURLY",
    }
    elsewhere = boto3.client(
        "bcm-data-exports",
        endpoint_url=cloud.url,
        region_name="eu-west-1",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="no secret",
    )
    for ask_elsewhere in (
        lambda: elsewhere.create_export(Export=export("line_item_usage_amount")),
        lambda: elsewhere.get_export(ExportArn=arn),
        elsewhere.list_exports,
        lambda: elsewhere.list_executions(ExportArn=arn),
        lambda: elsewhere.list_tags_for_resource(ResourceArn=arn),
        lambda: elsewhere.delete_export(ExportArn=arn),
    ):
        with refused("InvalidSignatureException"):
            ask_elsewhere()
    exports.delete_export(ExportArn=arn)
    s3.delete_bucket(Bucket="bills")


def test_bucket_is_encrypted_and_refuses_blocked_public_policies(
    aws_client: ClientFactory,
) -> None:
    s3 = aws_client("s3")
    s3.create_bucket(Bucket="bills")

    def algorithm() -> str:
        (rule,) = s3.get_bucket_encryption(Bucket="bills")["ServerSideEncryptionConfiguration"]["Rules"]
        return rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]

    assert algorithm() == "AES256"
    by_key = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms"}}]}
    s3.put_bucket_encryption(Bucket="bills", ServerSideEncryptionConfiguration=by_key)
    assert algorithm() == "aws:kms"
    s3.delete_bucket_encryption(Bucket="bills")
    assert algorithm() == "AES256"
    public = allow(Principal="*", Resource="arn:aws:s3:::bills/*")
    s3.put_bucket_policy(Bucket="bills", Policy=public)
    s3.delete_bucket_policy(Bucket="bills")
    s3.put_public_access_block(Bucket="bills", PublicAccessBlockConfiguration={"BlockPublicPolicy": True})
    for condition in ({}, {"Bool": {"aws:SecureTransport": "true"}}, {"StringLike": {"aws:SourceVpc": "vpc-*"}}):
        with refused("AccessDenied"):
            s3.put_bucket_policy(
                Bucket="bills", Policy=allow(Principal="*", Resource="arn:aws:s3:::bills/*", Condition=condition)
            )
    # What "public" means there: a fixed VPC or network is not everybody.
    for condition in ({"StringEquals": {"aws:SourceVpc": "vpc-1"}}, {"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}):
        s3.put_bucket_policy(
            Bucket="bills", Policy=allow(Principal="*", Resource="arn:aws:s3:::bills/*", Condition=condition)
        )
    s3.delete_bucket(Bucket="bills")


def test_workgroup_with_queries_needs_a_recursive_delete(aws_client: ClientFactory) -> None:
    athena = aws_client("athena")
    place = {"OutputLocation": "s3://answers/here/", "EncryptionConfiguration": {"EncryptionOption": "SSE_S3"}}
    with refused("InvalidRequestException"):
        athena.get_work_group(WorkGroup="asking")
    for options in (
        {"BytesScannedCutoffPerQuery": 5},
        {"ResultConfiguration": {"OutputLocation": "answers"}},
        {"ResultConfiguration": {**place, "EncryptionConfiguration": {"EncryptionOption": "SSE_KMS"}}},
        {"EngineVersion": {"SelectedEngineVersion": "Athena engine version 9"}},
    ):
        with refused("InvalidRequestException"):
            athena.create_work_group(Name="asking", Configuration=options)
    athena.create_work_group(Name="asking", Configuration={"ResultConfiguration": place})
    changes = {"BytesScannedCutoffPerQuery": 10**9, "ResultConfigurationUpdates": {"OutputLocation": "s3://answers/b/"}}
    athena.update_work_group(WorkGroup="asking", ConfigurationUpdates=changes, State="DISABLED", Description="d")
    shown = athena.get_work_group(WorkGroup="asking")["WorkGroup"]
    assert (shown["State"], shown["Description"]) == ("DISABLED", "d")
    assert shown["Configuration"]["BytesScannedCutoffPerQuery"] == 10**9
    assert shown["Configuration"]["ResultConfiguration"] == {**place, "OutputLocation": "s3://answers/b/"}
    with refused("InvalidRequestException"):
        athena.create_named_query(Name="q", Database="d", QueryString="SELECT 1", WorkGroup="nowhere")
    stored = athena.create_named_query(Name="q", Database="d", QueryString="SELECT 1", WorkGroup="asking")[
        "NamedQueryId"
    ]
    with refused("InvalidRequestException"):
        athena.delete_work_group(WorkGroup="asking")
    athena.delete_work_group(WorkGroup="asking", RecursiveDeleteOption=True)
    for ask_for in (athena.get_named_query, athena.delete_named_query):
        with refused("InvalidRequestException"):
            ask_for(NamedQueryId=stored)
    with refused("InvalidRequestException"):
        athena.delete_work_group(WorkGroup="primary")


def test_alarms_and_dashboards_are_stored_and_validated(aws_client: ClientFactory) -> None:
    watch = aws_client("cloudwatch")
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
    for options in (
        {"ComparisonOperator": "Odd"},
        {"Period": 45},
        {"Period": 3600, "EvaluationPeriods": 200},
        {"DatapointsToAlarm": 3},
        {"Statistic": None},
        {"MetricName": None},
        {"EvaluationPeriods": None},
    ):
        with refused("ValidationError"):
            watch.put_metric_alarm(**{name: value for name, value in {**alarm, **options}.items() if value is not None})
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
