"""Flow logs: their delivery to existing log groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext


def create(context: RequestContext) -> Response:
    """Create flow logs; delivery to a group named by ARN succeeds if it exists, while moto looks by name only."""
    parameters = context.parameters
    before = set(context.backend("ec2").flow_logs)
    if parameters.get("LogDestinationType", "cloud-watch-logs") == "cloud-watch-logs":
        role = parameters.get("DeliverLogsPermissionArn")
        if not role:
            text = "DeliverLogsPermissionArn can't be empty if LogDestinationType is cloud-watch-logs."
            raise AwsError("InvalidParameter", text, 400)
    response = context.forward()
    groups = context.backend("logs").groups
    for name, log in context.backend("ec2").flow_logs.items():
        destination = log.log_destination or ""
        if name not in before and ":log-group:" in destination:
            group = destination.partition(":log-group:")[2].removesuffix(":*")
            if group in groups:
                log.deliver_logs_status, log.deliver_logs_error_message = "SUCCESS", None
    return response


ROWS = (OperationHandler("ec2", "CreateFlowLogs", create),)
