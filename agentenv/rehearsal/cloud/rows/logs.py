"""CloudWatch Logs: retention in the steps that it has, keys that exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

DAYS = (1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)


def _refuse(text: str) -> Refused:
    return Refused("InvalidParameterException", text, 400)


def retain(desk: Desk) -> Answer:
    """A number of days that Logs knows."""
    days = desk.asked["retentionInDays"]
    if days not in DAYS:
        allowed = ", ".join(map(str, DAYS))
        text = f"1 validation error detected: Value '{days}' at 'retentionInDays' failed to satisfy constraint: "
        raise _refuse(f"{text}Member must satisfy enum value set: [{allowed}]")
    return desk.forward()


def _key(desk: Desk) -> None:
    key = desk.asked.get("kmsKeyId")
    if not key:
        return
    found = desk.backend("kms").keys.get(key.rpartition("/")[2])
    if not key.startswith("arn:") or found is None or found.key_state != "Enabled":
        raise _refuse(f"The specified KMS Key Id could not be found or is not usable: {key}")


def with_key(desk: Desk) -> Answer:
    """Encrypted by a key that can be used, or not at all."""
    _key(desk)
    return desk.forward()


def _group(desk: Desk) -> Any:
    arn = desk.asked.get("resourceIdentifier") or desk.asked.get("resourceArn", "")
    name = desk.asked.get("logGroupName") or arn.partition(":log-group:")[2]
    found = desk.backend("logs").groups.get(name)
    if found is None:
        raise Refused("ResourceNotFoundException", "The specified log group does not exist.", 400)
    return found


def encrypt(desk: Desk) -> dict[str, Any]:
    """What comes from now on, by a key that can be used; moto knows a group's key from its creation only."""
    group = _group(desk)
    _key(desk)
    group.kms_key_id = desk.asked["kmsKeyId"]
    return {}


def leave_plain(desk: Desk) -> dict[str, Any]:
    """No key from now on."""
    _group(desk).kms_key_id = None
    return {}


def tags(desk: Desk) -> Answer:
    """Of a group that is there."""
    if ":log-group:" in desk.asked["resourceArn"]:
        _group(desk)
    return desk.forward()


ROWS = (
    Row("logs", "ListTagsForResource", tags),
    Row("logs", "PutRetentionPolicy", retain),
    Row("logs", "CreateLogGroup", with_key),
    Row("logs", "AssociateKmsKey", encrypt),
    Row("logs", "DisassociateKmsKey", leave_plain),
)
