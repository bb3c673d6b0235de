"""Tags of whatever EKS has; moto tags clusters only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows.eks_common import BELONGING

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

ARNS = ("addonArn", "accessEntryArn", "associationArn", "identityProviderConfigArn")
MOST = 50


def _tags(desk: Desk) -> dict[str, str]:
    """The tags of the thing that the call names, to be read or changed in place."""
    wanted = desk.asked["resourceArn"]
    for kind in BELONGING:
        for record in desk.shelf(kind).values():
            if wanted in {record.get(name) for name in ARNS}:
                return record["tags"]
    for cluster in desk.backend("eks").clusters.values():
        groups = {group.arn: group for group in cluster.nodegroups.values()}
        profiles = {profile.fargate_profile_arn: profile for profile in cluster.fargate_profiles.values()}
        found = {cluster.arn: cluster, **groups, **profiles}.get(wanted)
        if found is not None:
            return found.tags
    raise Refused("NotFoundException", f"No resource of EKS has the ARN {wanted}.", 404)


def tag(desk: Desk) -> dict[str, Any]:
    """More tags, up to the limit."""
    tags = _tags(desk)
    if len({**tags, **desk.asked["tags"]}) > MOST:
        raise Refused("BadRequestException", f"A resource can have at most {MOST} tags.", 400)
    tags.update(desk.asked["tags"])
    return {}


def untag(desk: Desk) -> dict[str, Any]:
    """Fewer tags; those that are not there are no matter."""
    tags = _tags(desk)
    for key in desk.asked["tagKeys"]:
        tags.pop(key, None)
    return {}


ROWS = (
    Row("eks", "TagResource", tag),
    Row("eks", "UntagResource", untag),
    Row("eks", "ListTagsForResource", lambda desk: {"tags": _tags(desk)}),
)
