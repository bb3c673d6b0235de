"""CloudWatch: alarms and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import AutoName, Call, ReadCall, ResourceType, Tagging
from agentenv.rehearsal.providers.aws.value_kinds import JSON, ValueKind, between, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

ALARM_GONE: Final = ("ResourceNotFound", "ResourceNotFoundException")


def _dimensions(dimensions: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"Name": name, "Value": value} for name, value in sorted(dimensions.items())]


def _queries(blocks: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return metric queries in the API's form, which nests the metric in its statistic."""
    out: list[dict[str, Any]] = []
    for block in blocks:
        query = {k: v for k, v in block.items() if k != "metric" and v is not None}
        metric = block.get("metric")
        if metric:
            inner = {k: metric[k] for k in ("metricName", "namespace") if metric.get(k)}
            dimensions = [{"name": k, "value": v} for k, v in sorted((metric.get("dimensions") or {}).items())]
            outer = {k: metric[k] for k in ("period", "stat", "unit") if metric.get(k)}
            query["metricStat"] = {"metric": {**inner, "dimensions": dimensions}, **outer}
        out.append(query)
    return out


def _query_outputs(_: Operation, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for query in document.get("Metrics") or []:
        stat = query.get("MetricStat")
        metric = {**stat, **stat.get("Metric", {})} if stat else None
        out.append({**query, "Metric": metric} if metric else dict(query))
    return out


ALARM_INPUTS: Final = (
    *("actionsEnabled", "alarmActions", "alarmDescription", "comparisonOperator", "datapointsToAlarm", "dimensions"),
    *("evaluateLowSampleCountPercentiles", "evaluationCriteria", "evaluationInterval", "evaluationPeriods"),
    *("extendedStatistic", "insufficientDataActions", "metricName", "metricQueries", "namespace", "okActions"),
    *("period", "statistic", "threshold", "thresholdMetricId", "treatMissingData", "unit"),
)
ALARM_NAMES: Final = {"name": "AlarmName", "metricQueries": "Metrics"}
ALARM_TURNS: Final = {"dimensions": _dimensions, "metricQueries": _queries}


def _period_problem(value: Any) -> str | None:
    if value in {10, 20, 30} or (value > 0 and value % 60 == 0):
        return None
    return f"{value!r} is not a period: it is 10, 20, 30 or a multiple of 60 seconds"


PERIOD: Final = ValueKind(_period_problem)
METRIC_ALARM = ResourceType(
    type="aws:cloudwatch/metricAlarm:MetricAlarm",
    service="cloudwatch",
    create=Call("PutMetricAlarm", (*ALARM_INPUTS, "name"), member_names=ALARM_NAMES, convert=ALARM_TURNS),
    id="$in.name",
    read=ReadCall("DescribeAlarms", {"AlarmNames": ["$id"], "AlarmTypes": ["MetricAlarm"]}, "MetricAlarms[0]"),
    more_reads=(
        ReadCall(
            "ListTagsForResource",
            {"ResourceARN": lambda op: op.format("arn:{partition}:cloudwatch:{region}:{account}:alarm:{id}", {})},
            fields={"Tags": "Tags"},
            not_found_errors=ALARM_GONE,
        ),
    ),
    updates=(
        Call(
            "PutMetricAlarm",
            ALARM_INPUTS,
            member_names=ALARM_NAMES,
            convert=ALARM_TURNS,
            constants={"AlarmName": "$id"},
            condition=lambda op: not op.creating,
        ),
    ),
    delete=(Call("DeleteAlarms", constants={"AlarmNames": ["$id"]}, ignored_errors=ALARM_GONE),),
    output_sources={
        "name": "AlarmName",
        "arn": "AlarmArn",
        "dimensions": lambda _, d: {x["Name"]: x["Value"] for x in d.get("Dimensions") or []},
        "metricQueries": _query_outputs,
        "evaluateLowSampleCountPercentiles": "EvaluateLowSampleCountPercentile",
    },
    auto_name=AutoName(max_length=255, prefix_input=""),
    tags=Tagging("Tags", "", "TagResource", "UntagResource", {"ResourceARN": "$out.arn"}),
    value_kinds={
        "treatMissingData": one_of("breaching", "notBreaching", "ignore", "missing"),
        "evaluateLowSampleCountPercentiles": one_of("evaluate", "ignore"),
        "evaluationPeriods": between(1, 10080),
        "datapointsToAlarm": between(1, 10080),
        "period": PERIOD,
    },
    defaults={"actionsEnabled": True, "treatMissingData": "missing"},
    parse_import_id=lambda text: (text, {"name": text}),
)

DASHBOARD = ResourceType(
    type="aws:cloudwatch/dashboard:Dashboard",
    service="cloudwatch",
    regional=True,
    create=Call("PutDashboard", ("dashboardBody", "dashboardName")),
    id="$in.dashboardName",
    read=ReadCall(
        "GetDashboard",
        {"DashboardName": "$id"},
        not_found_errors=("ResourceNotFound", "DashboardNotFoundError", *ALARM_GONE),
    ),
    updates=(
        Call(
            "PutDashboard", ("dashboardBody",), constants={"DashboardName": "$id"}, condition=lambda op: not op.creating
        ),
    ),
    delete=(
        Call(
            "DeleteDashboards",
            constants={"DashboardNames": ["$id"]},
            ignored_errors=("DashboardNotFoundError", *ALARM_GONE),
        ),
    ),
    value_kinds={"dashboardBody": JSON},
)

ROWS: Final = (METRIC_ALARM, DASHBOARD)
