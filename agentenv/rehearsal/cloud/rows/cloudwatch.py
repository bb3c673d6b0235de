"""CloudWatch: the validation of alarms; moto stores them and never evaluates one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

DAY, WEEK, HOUR = 86_400, 604_800, 3_600


def _validation_error(text: str) -> AwsError:
    return AwsError("ValidationError", text, 400)


def _check_period(period: int, evaluations: int) -> None:
    if period not in {10, 20, 30} and period % 60:
        raise _validation_error(f"Period must be 10, 20, 30 or a multiple of 60, not {period}.")
    if period * evaluations > (WEEK if period >= HOUR else DAY):
        raise _validation_error(
            "Metrics cannot be checked across more than a day (EvaluationPeriods * Period must be <= 86400)."
        )


def put_alarm(context: RequestContext) -> Response:
    """Create or update an alarm on a metric or on expressions; a new one has no data yet."""
    parameters = context.parameters
    simple, metrics = parameters.get("MetricName"), parameters.get("Metrics", [])
    if bool(simple) == bool(metrics) and "EvaluationCriteria" not in parameters:
        raise _validation_error("An alarm has either a MetricName or Metrics.")
    missing = [name for name in ("EvaluationPeriods", "ComparisonOperator") if name not in parameters]
    if missing and "EvaluationCriteria" not in parameters:
        raise _validation_error(f"An alarm has {' and '.join(missing)}.")
    if simple:
        if not parameters.get("Namespace") or not parameters.get("Period"):
            raise _validation_error("An alarm on a metric has a Namespace and a Period.")
        if bool(parameters.get("Statistic")) == bool(parameters.get("ExtendedStatistic")):
            raise _validation_error("An alarm on a metric has either a Statistic or an ExtendedStatistic.")
        _check_period(parameters["Period"], parameters.get("EvaluationPeriods", 1))
    elif metrics and sum(metric.get("ReturnData", True) for metric in metrics) != 1:
        raise _validation_error("Exactly one element of the metrics list should return data.")
    if parameters.get("DatapointsToAlarm", 1) > parameters.get("EvaluationPeriods", 1):
        raise _validation_error("DatapointsToAlarm may not be more than EvaluationPeriods.")
    alarms = context.backend("cloudwatch").alarms
    is_new = parameters["AlarmName"] not in alarms
    response = context.forward()
    if response.ok and is_new:
        alarms[parameters["AlarmName"]].state_value = "INSUFFICIENT_DATA"
    return response


def delete_alarms(context: RequestContext) -> Response:
    """Delete existing alarms."""
    alarms = context.backend("cloudwatch").alarms
    missing = [name for name in context.parameters["AlarmNames"] if name not in alarms]
    if missing:
        raise AwsError("ResourceNotFound", f"Alarms not found: {', '.join(missing)}", 404)
    return context.forward()


def check_arn(context: RequestContext) -> Response:
    """Forward tag operations of existing resources to moto."""
    backend, arn = context.backend("cloudwatch"), context.parameters["ResourceARN"]
    things = {alarm.alarm_arn for alarm in backend.alarms.values()} | {
        alarm.arn for alarm in backend.dashboards.values()
    }
    rules = {f":insight-rule/{name}" for name in backend.insight_rules}
    if arn not in things and not arn.endswith(tuple(rules)):
        raise AwsError("ResourceNotFoundException", f"No resource of CloudWatch has the ARN {arn}.", 404)
    return context.forward()


ROWS = (
    OperationHandler("cloudwatch", "PutMetricAlarm", put_alarm, stored_only=True),
    OperationHandler("cloudwatch", "DeleteAlarms", delete_alarms),
    # No alarm is evaluated here, so none has a history.
    OperationHandler("cloudwatch", "DescribeAlarmHistory", lambda _: {"AlarmHistoryItems": []}, stored_only=True),
    OperationHandler("cloudwatch", "TagResource", check_arn),
    OperationHandler("cloudwatch", "UntagResource", check_arn),
    OperationHandler("cloudwatch", "ListTagsForResource", check_arn),
)
