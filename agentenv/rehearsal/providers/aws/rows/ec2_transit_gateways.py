"""Attachments of VPCs to existing transit gateways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, CustomStep, ReadCall, ResourceType, StateCheck, Template
from agentenv.rehearsal.providers.aws.rows.ec2_vpc import ec2_tags

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NO_TABLES: Final = "route tables of transit gateways are not simulated"
NO_OPTIONS: Final = "the options of attachments are not simulated"
OPTIONS: Final = {
    "applianceModeSupport": "Options.ApplianceModeSupport",
    "dnsSupport": "Options.DnsSupport",
    "ipv6Support": "Options.Ipv6Support",
    "securityGroupReferencingSupport": "Options.SecurityGroupReferencingSupport",
}
NOT_FOUND: Final = ("InvalidTransitGatewayAttachmentID.NotFound",)
ATTACHMENT_ID: Final = {"TransitGatewayAttachmentId": "$id"}


def _update_subnets(op: Operation) -> None:
    """Add and remove subnets until the attachment has those of the inputs."""
    if op.creating:
        return
    expected, existing = set(op.inputs["subnetIds"]), set(op.state["subnetIds"])
    changes: dict[str, Any] = {
        "AddSubnetIds": sorted(expected - existing),
        "RemoveSubnetIds": sorted(existing - expected),
    }
    request = {member: ids for member, ids in changes.items() if ids}
    op.call("ModifyTransitGatewayVpcAttachment", **request, TransitGatewayAttachmentId=op.id)


ATTACHMENT = ResourceType(
    type="aws:ec2transitgateway/vpcAttachment:VpcAttachment",
    service="ec2",
    create=Call("CreateTransitGatewayVpcAttachment", ("subnetIds", "transitGatewayId", "vpcId")),
    id="TransitGatewayVpcAttachment.TransitGatewayAttachmentId",
    read=ReadCall(
        "DescribeTransitGatewayVpcAttachments",
        {"TransitGatewayAttachmentIds": ["$id"]},
        "TransitGatewayVpcAttachments[0]",
        not_found_errors=NOT_FOUND,
    ),
    updates=(CustomStep(_update_subnets, ("subnetIds",)),),
    delete=(Call("DeleteTransitGatewayVpcAttachment", constants=ATTACHMENT_ID, ignored_errors=NOT_FOUND),),
    output_sources={
        "arn": Template("arn:{partition}:ec2:{region}:{account}:transit-gateway-attachment/{id}"),
        "transitGatewayDefaultRouteTableAssociation": lambda _op, _document: True,
        "transitGatewayDefaultRouteTablePropagation": lambda _op, _document: True,
        **OPTIONS,
    },
    tags=ec2_tags("transit-gateway-attachment"),
    ready=StateCheck("State", ("available",), ("failed", "rejected", "deleted")),
    deleted_state=StateCheck("State", ("deleted", "deleting")),
    unsupported={
        **dict.fromkeys(OPTIONS, NO_OPTIONS),
        "transitGatewayDefaultRouteTableAssociation": NO_TABLES,
        "transitGatewayDefaultRouteTablePropagation": NO_TABLES,
    },
)

ROWS: Final = (ATTACHMENT,)
