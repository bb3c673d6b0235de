"""Flow logs: into groups that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk


def create(desk: Desk) -> Answer:
    """Flow logs into a group named by its ARN count as delivered if the group is there; moto looks by name only."""
    asked = desk.asked
    before = set(desk.backend("ec2").flow_logs)
    if asked.get("LogDestinationType", "cloud-watch-logs") == "cloud-watch-logs":
        role = asked.get("DeliverLogsPermissionArn")
        if not role:
            text = "DeliverLogsPermissionArn can't be empty if LogDestinationType is cloud-watch-logs."
            raise Refused("InvalidParameter", text, 400)
    answer = desk.forward()
    groups = desk.backend("logs").groups
    for name, log in desk.backend("ec2").flow_logs.items():
        destination = log.log_destination or ""
        if name not in before and ":log-group:" in destination:
            group = destination.partition(":log-group:")[2].removesuffix(":*")
            if group in groups:
                log.deliver_logs_status, log.deliver_logs_error_message = "SUCCESS", None
    return answer


ROWS = (Row("ec2", "CreateFlowLogs", create),)
