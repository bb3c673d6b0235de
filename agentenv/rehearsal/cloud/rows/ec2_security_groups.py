"""Security groups: valid names and descriptions, and no deletion while they are in use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response
from agentenv.rehearsal.cloud.rows.ec2_dependents import check_dependents, holders_of_group

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

TEXT = re.compile(r"[a-zA-Z0-9. _\-:/()#,@\[\]+=&;{}!$*]{0,255}")


def create(context: RequestContext) -> Response:
    """Create a group with a valid name and description."""
    parameters = context.parameters
    for name in ("GroupName", "Description"):
        if not TEXT.fullmatch(parameters[name]) or not parameters[name]:
            text = f"Value ({parameters[name]}) for parameter {name} is invalid. Character sets beyond ASCII, "
            raise AwsError(
                "InvalidParameterValue", text + "more than 255 characters and emptiness are not allowed.", 400
            )
    if parameters["GroupName"].startswith("sg-"):
        text = (
            f"Value ({parameters['GroupName']}) for parameter GroupName is invalid. Group names may not begin with sg-."
        )
        raise AwsError("InvalidParameterValue", text, 400)
    if "VpcId" in parameters:
        context.backend("ec2").get_vpc(parameters["VpcId"])
    return context.forward()


def delete(context: RequestContext) -> Response:
    """Delete a group that nothing uses or references, other than a VPC's default one."""
    group = context.parameters.get("GroupId")
    existing = context.backend("ec2").get_security_group_from_id(group) if group else None
    if existing is not None:
        if existing.is_default:
            text = f'the specified group: "{group}" name: "default" cannot be deleted by a user'
            raise AwsError("CannotDelete", text, 400)
        check_dependents(holders_of_group(context, existing.id), "security group", existing.id)
    return context.forward()


ROWS = (
    OperationHandler("ec2", "CreateSecurityGroup", create),
    OperationHandler("ec2", "DeleteSecurityGroup", delete),
)
