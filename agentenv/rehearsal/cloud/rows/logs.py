"""CloudWatch Logs: valid retention periods and existing keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

# The log groups of deleted clusters. EKS writes the last lines after the deletion, with its service-linked role, and
# creates the group again if it is gone by then.
LAST_LOGS = "_eks.last_logs"
DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)


def _invalid(text: str) -> AwsError:
    return AwsError("InvalidParameterException", text, 400)


def put_retention(context: RequestContext) -> Response:
    """Set a retention period that Logs supports."""
    days = context.parameters["retentionInDays"]
    if days not in DAYS:
        allowed = ", ".join(map(str, DAYS))
        text = f"1 validation error detected: Value '{days}' at 'retentionInDays' failed to satisfy constraint: "
        raise _invalid(f"{text}Member must satisfy enum value set: [{allowed}]")
    return context.forward()


def _check_key(context: RequestContext) -> None:
    key = context.parameters.get("kmsKeyId")
    if not key:
        return
    key_record = context.backend("kms").keys.get(key.rpartition("/")[2])
    if not key.startswith("arn:") or key_record is None or key_record.key_state != "Enabled":
        raise _invalid(f"The specified KMS Key Id could not be found or is not usable: {key}")


def create_group(context: RequestContext) -> Response:
    """Create a group, with a usable key or none."""
    _check_key(context)
    return context.forward()


def _group(context: RequestContext) -> Any:
    arn = context.parameters.get("resourceIdentifier") or context.parameters.get("resourceArn", "")
    name = context.parameters.get("logGroupName") or arn.partition(":log-group:")[2]
    group = context.backend("logs").groups.get(name)
    if group is None:
        raise AwsError("ResourceNotFoundException", "The specified log group does not exist.", 400)
    return group


def associate_key(context: RequestContext) -> dict[str, Any]:
    """Set a usable key for new data; moto sets a group's key at its creation only."""
    group = _group(context)
    _check_key(context)
    group.kms_key_id = context.parameters["kmsKeyId"]
    return {}


def disassociate_key(context: RequestContext) -> dict[str, Any]:
    """Remove the key."""
    _group(context).kms_key_id = None
    return {}


def delete_group(context: RequestContext) -> Response:
    """Delete a group. EKS creates that of a deleted cluster once more, without retention and key."""
    name = context.parameters["logGroupName"]
    response = context.forward()
    if response.ok and context.records(LAST_LOGS).pop(name, None) is not None:
        context.backend("logs").create_log_group(name, {})
    return response


def list_tags(context: RequestContext) -> Response:
    """Return the tags of an existing group."""
    if ":log-group:" in context.parameters["resourceArn"]:
        _group(context)
    return context.forward()


ROWS = (
    OperationHandler("logs", "ListTagsForResource", list_tags),
    OperationHandler("logs", "PutRetentionPolicy", put_retention),
    OperationHandler("logs", "CreateLogGroup", create_group),
    OperationHandler("logs", "DeleteLogGroup", delete_group),
    OperationHandler("logs", "AssociateKmsKey", associate_key),
    OperationHandler("logs", "DisassociateKmsKey", disassociate_key),
)
