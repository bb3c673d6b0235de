"""CloudWatch: alarms that can be evaluated at all; moto keeps them and never evaluates one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

DAY, WEEK, HOUR = 86_400, 604_800, 3_600


def _refuse(text: str) -> Refused:
    return Refused("ValidationError", text, 400)


def _period(period: int, evaluations: int) -> None:
    if period not in {10, 20, 30} and period % 60:
        raise _refuse(f"Period must be 10, 20, 30 or a multiple of 60, not {period}.")
    if period * evaluations > (WEEK if period >= HOUR else DAY):
        raise _refuse("Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= 86400).")


def alarm(desk: Desk) -> Answer:
    """An alarm on one metric or on expressions; a new one has no data yet."""
    asked = desk.asked
    simple, metrics = asked.get("MetricName"), asked.get("Metrics", [])
    if bool(simple) == bool(metrics) and "EvaluationCriteria" not in asked:
        raise _refuse("An alarm has either a MetricName or Metrics.")
    missing = [name for name in ("EvaluationPeriods", "ComparisonOperator") if name not in asked]
    if missing and "EvaluationCriteria" not in asked:
        raise _refuse(f"An alarm has {' and '.join(missing)}.")
    if simple:
        if not asked.get("Namespace") or not asked.get("Period"):
            raise _refuse("An alarm on a metric has a Namespace and a Period.")
        if bool(asked.get("Statistic")) == bool(asked.get("ExtendedStatistic")):
            raise _refuse("An alarm on a metric has either a Statistic or an ExtendedStatistic.")
        _period(asked["Period"], asked.get("EvaluationPeriods", 1))
    elif metrics and sum(one.get("ReturnData", True) for one in metrics) != 1:
        raise _refuse("Exactly one element of the metrics list should return data.")
    if asked.get("DatapointsToAlarm", 1) > asked.get("EvaluationPeriods", 1):
        raise _refuse("DatapointsToAlarm may not be more than EvaluationPeriods.")
    alarms = desk.backend("cloudwatch").alarms
    is_new = asked["AlarmName"] not in alarms
    answer = desk.forward()
    if answer.ok and is_new:
        alarms[asked["AlarmName"]].state_value = "INSUFFICIENT_DATA"
    return answer


def delete_alarms(desk: Desk) -> Answer:
    """Alarms that are there."""
    known = desk.backend("cloudwatch").alarms
    missing = [name for name in desk.asked["AlarmNames"] if name not in known]
    if missing:
        raise Refused("ResourceNotFound", f"Alarms not found: {', '.join(missing)}", 404)
    return desk.forward()


def tagged(desk: Desk) -> Answer:
    """Moto's tags, of things that are there."""
    backend, arn = desk.backend("cloudwatch"), desk.asked["ResourceARN"]
    things = {one.alarm_arn for one in backend.alarms.values()} | {one.arn for one in backend.dashboards.values()}
    rules = {f":insight-rule/{name}" for name in backend.insight_rules}
    if arn not in things and not arn.endswith(tuple(rules)):
        raise Refused("ResourceNotFoundException", f"No resource of CloudWatch has the ARN {arn}.", 404)
    return desk.forward()


ROWS = (
    Row("cloudwatch", "PutMetricAlarm", alarm, kept=True),
    Row("cloudwatch", "DeleteAlarms", delete_alarms),
    # No alarm is evaluated here, so none has a history.
    Row("cloudwatch", "DescribeAlarmHistory", lambda _: {"AlarmHistoryItems": []}, kept=True),
    Row("cloudwatch", "TagResource", tagged),
    Row("cloudwatch", "UntagResource", tagged),
    Row("cloudwatch", "ListTagsForResource", tagged),
)
