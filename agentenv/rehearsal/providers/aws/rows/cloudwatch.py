"""CloudWatch: alarms and dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Look, Name, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import JSON, among, between

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

ALARM_GONE: Final = ("ResourceNotFound", "ResourceNotFoundException")


def _pairs(dimensions: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"Name": name, "Value": value} for name, value in sorted(dimensions.items())]


def _queries(blocks: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The SDK writes a metric's statistic beside its name; the service nests the one in the other."""
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


def _shown_queries(_: Situation, document: Mapping[str, Any]) -> list[dict[str, Any]]:
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
ALARM_TURNS: Final = {"dimensions": _pairs, "metricQueries": _queries}
METRIC_ALARM = Row(
    type="aws:cloudwatch/metricAlarm:MetricAlarm",
    service="cloudwatch",
    create=Call("PutMetricAlarm", (*ALARM_INPUTS, "name"), names=ALARM_NAMES, turns=ALARM_TURNS),
    id="$in.name",
    find=Look("DescribeAlarms", {"AlarmNames": ["$id"], "AlarmTypes": ["MetricAlarm"]}, "MetricAlarms[0]"),
    also=(
        Look(
            "ListTagsForResource",
            {"ResourceARN": lambda s: s.form("arn:{partition}:cloudwatch:{region}:{account}:alarm:{id}", {})},
            puts={"Tags": "Tags"},
            gone=ALARM_GONE,
        ),
    ),
    sets=(
        Call(
            "PutMetricAlarm",
            ALARM_INPUTS,
            names=ALARM_NAMES,
            turns=ALARM_TURNS,
            given={"AlarmName": "$id"},
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeleteAlarms", given={"AlarmNames": ["$id"]}, forgives=ALARM_GONE),),
    shows={
        "name": "AlarmName",
        "arn": "AlarmArn",
        "dimensions": lambda _, d: {x["Name"]: x["Value"] for x in d.get("Dimensions") or []},
        "metricQueries": _shown_queries,
        "evaluateLowSampleCountPercentiles": "EvaluateLowSampleCountPercentile",
    },
    name=Name(longest=255, prefix_input=""),
    tags=Tags("Tags", "", "TagResource", "UntagResource", {"ResourceARN": "$out.arn"}),
    kinds={
        "treatMissingData": among("breaching", "notBreaching", "ignore", "missing"),
        "evaluateLowSampleCountPercentiles": among("evaluate", "ignore"),
        "evaluationPeriods": between(1, 10080),
        "datapointsToAlarm": between(1, 10080),
    },
    defaults={"actionsEnabled": True, "treatMissingData": "missing"},
    parse=lambda text: (text, {"name": text}),
)

DASHBOARD = Row(
    type="aws:cloudwatch/dashboard:Dashboard",
    service="cloudwatch",
    regional=True,
    create=Call("PutDashboard", ("dashboardBody", "dashboardName")),
    id="$in.dashboardName",
    find=Look(
        "GetDashboard", {"DashboardName": "$id"}, gone=("ResourceNotFound", "DashboardNotFoundError", *ALARM_GONE)
    ),
    sets=(Call("PutDashboard", ("dashboardBody",), given={"DashboardName": "$id"}, when=lambda s: not s.creating),),
    delete=(
        Call("DeleteDashboards", given={"DashboardNames": ["$id"]}, forgives=("DashboardNotFoundError", *ALARM_GONE)),
    ),
    kinds={"dashboardBody": JSON},
)

ROWS: Final = (METRIC_ALARM, DASHBOARD)
