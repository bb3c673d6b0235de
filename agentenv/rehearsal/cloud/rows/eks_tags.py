"""Tags of every EKS resource; moto tags clusters only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import BELONGING

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

ARNS = ("addonArn", "accessEntryArn", "associationArn", "identityProviderConfigArn")
MOST = 50


def _tags(context: RequestContext) -> dict[str, str]:
    """Return the tags of the call's resource, which may be changed in place."""
    resource_arn = context.parameters["resourceArn"]
    for kind in BELONGING:
        for record in context.records(kind).values():
            if resource_arn in {record.get(name) for name in ARNS}:
                return record["tags"]
    for cluster in context.backend("eks").clusters.values():
        groups = {group.arn: group for group in cluster.nodegroups.values()}
        profiles = {profile.fargate_profile_arn: profile for profile in cluster.fargate_profiles.values()}
        resource = {cluster.arn: cluster, **groups, **profiles}.get(resource_arn)
        if resource is not None:
            return resource.tags
    raise AwsError("NotFoundException", f"No resource of EKS has the ARN {resource_arn}.", 404)


def tag(context: RequestContext) -> dict[str, Any]:
    """Add tags, up to the limit."""
    tags = _tags(context)
    if len({**tags, **context.parameters["tags"]}) > MOST:
        raise AwsError("BadRequestException", f"A resource can have at most {MOST} tags.", 400)
    tags.update(context.parameters["tags"])
    return {}


def untag(context: RequestContext) -> dict[str, Any]:
    """Remove tags; missing ones are no error."""
    tags = _tags(context)
    for key in context.parameters["tagKeys"]:
        tags.pop(key, None)
    return {}


ROWS = (
    OperationHandler("eks", "TagResource", tag),
    OperationHandler("eks", "UntagResource", untag),
    OperationHandler("eks", "ListTagsForResource", lambda context: {"tags": _tags(context)}),
)
