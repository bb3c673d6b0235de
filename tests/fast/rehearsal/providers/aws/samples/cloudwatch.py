"""Samples of alarms and dashboards."""

import json
from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def _body(title: str) -> str:
    widget = {"type": "text", "x": 0, "y": 0, "width": 6, "height": 3, "properties": {"markdown": title}}
    return json.dumps({"widgets": [widget]})


def _raise(ground: Ground, name: str, outputs: dict[str, Any]) -> object:
    return ground.client("cloudwatch").put_metric_alarm(
        AlarmName=name,
        MetricName=outputs["metricName"],
        Namespace=outputs["namespace"],
        Dimensions=[{"Name": k, "Value": v} for k, v in outputs["dimensions"].items()],
        ComparisonOperator=outputs["comparisonOperator"],
        EvaluationPeriods=outputs["evaluationPeriods"],
        Period=outputs["period"],
        Statistic=outputs["statistic"],
        Threshold=99,
        TreatMissingData="missing",
    )


SAMPLES = {
    "aws:cloudwatch/metricAlarm:MetricAlarm": Sample(
        inputs=lambda _: {
            "metricName": "BurstCreditBalance",
            "namespace": "AWS/EFS",
            "dimensions": {"FileSystemId": "fs-12345678"},
            "comparisonOperator": "LessThanThreshold",
            "evaluationPeriods": 2,
            "period": 300,
            "statistic": "Average",
            "threshold": 10,
            "tags": TAGS,
        },
        update={"threshold": 20, "tags": MORE_TAGS},
        replace={"name": "another"},
        behind=_raise,
        drift=("threshold",),
    ),
    "aws:cloudwatch/dashboard:Dashboard": Sample(
        inputs=lambda g: {"dashboardName": g.fresh("board"), "dashboardBody": _body("one")},
        update={"dashboardBody": _body("two")},
        replace={"dashboardName": "another"},
        behind=lambda g, i, _: g.client("cloudwatch").put_dashboard(DashboardName=i, DashboardBody=_body("three")),
        drift=("dashboardBody",),
    ),
}
