"""Attachments of VPCs to transit gateways: one subnet a zone, with the tags that moto drops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError, Response

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext


def attach(context: RequestContext) -> dict[str, Any]:
    """Attach a VPC in subnets of its own, at most one in each zone."""
    parameters, ec2 = context.parameters, context.backend("ec2")
    subnets = [ec2.get_subnet(subnet) for subnet in parameters["SubnetIds"]]
    if any(subnet.vpc_id != parameters["VpcId"] for subnet in subnets):
        raise AwsError("InvalidSubnetID.NotFound", f"A subnet is not in {parameters['VpcId']}", 400)
    if len({subnet.availability_zone for subnet in subnets}) < len(subnets):
        text = "Only one subnet can be specified per Availability Zone"
        raise AwsError("DuplicateSubnetsInSameZone", text, 400)
    created = context.result()["TransitGatewayVpcAttachment"]
    for specification in parameters.get("TagSpecifications", []):
        context.invoke(
            "ec2", "CreateTags", Resources=[created["TransitGatewayAttachmentId"]], Tags=specification["Tags"]
        )
        created = {**created, "Tags": specification["Tags"]}
    return {"TransitGatewayVpcAttachment": created}


def detach(context: RequestContext) -> Response:
    """Delete an existing attachment."""
    name = context.parameters["TransitGatewayAttachmentId"]
    if name not in context.backend("ec2").transit_gateway_attachments:
        text = f"Transit Gateway Attachment {name} was deleted or does not exist."
        raise AwsError("InvalidTransitGatewayAttachmentID.NotFound", text, 400)
    return context.forward()


ROWS = (
    OperationHandler("ec2", "CreateTransitGatewayVpcAttachment", attach),
    OperationHandler("ec2", "DeleteTransitGatewayVpcAttachment", detach),
)
