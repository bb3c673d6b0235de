"""Security groups: names and words that EC2 takes, and that they stay while anything wears them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Answer, Refused
from agentenv.rehearsal.cloud.rows.ec2_dependents import holders_of_group, refuse_dependents

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

TEXT = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}")


def create(desk: Desk) -> Answer:
    """A group with a name and a description that EC2 takes."""
    asked = desk.asked
    for name in ("GroupName", "Description"):
        if not TEXT.fullmatch(asked[name]) or not asked[name]:
            text = f"Value ({asked[name]}) for parameter {name} is invalid. Character sets beyond ASCII, "
            raise Refused(
                "InvalidParameterValue", text + "more than 255 characters and emptiness are not allowed.", 400
            )
    if asked["GroupName"].startswith("sg-"):
        text = f"Value ({asked['GroupName']}) for parameter GroupName is invalid. Group names may not begin with sg-."
        raise Refused("InvalidParameterValue", text, 400)
    if "VpcId" in asked:
        desk.backend("ec2").get_vpc(asked["VpcId"])
    return desk.forward()


def delete(desk: Desk) -> Answer:
    """Only a group that nothing wears or names goes, and never a VPC's default one."""
    group = desk.asked.get("GroupId")
    found = desk.backend("ec2").get_security_group_from_id(group) if group else None
    if found is not None:
        if found.is_default:
            text = f'the specified group: "{group}" name: "default" cannot be deleted by a user'
            raise Refused("CannotDelete", text, 400)
        refuse_dependents(holders_of_group(desk, found.id), "security group", found.id)
    return desk.forward()


ROWS = (
    Row("ec2", "CreateSecurityGroup", create),
    Row("ec2", "DeleteSecurityGroup", delete),
)
