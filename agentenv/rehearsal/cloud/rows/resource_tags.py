"""The three tag operations of services that use ResourceTags, for tags stored by a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.rehearsal.cloud.request_context import RequestContext
    from agentenv.rehearsal.cloud.store import Record


def rows(service: str, tags_of: Callable[[RequestContext], Record]) -> tuple[OperationHandler, ...]:
    """Return rows that add, remove and list tags; `tags_of` returns those of the call's resource, or raises."""

    def tag(context: RequestContext) -> dict[str, Any]:
        tags_of(context).update({pair["Key"]: pair["Value"] for pair in context.parameters["ResourceTags"]})
        return {}

    def untag(context: RequestContext) -> dict[str, Any]:
        tags = tags_of(context)
        for key in context.parameters["ResourceTagKeys"]:
            tags.pop(key, None)
        return {}

    def list_tags(context: RequestContext) -> dict[str, Any]:
        return {"ResourceTags": [{"Key": key, "Value": value} for key, value in tags_of(context).items()]}

    return (
        OperationHandler(service, "TagResource", tag),
        OperationHandler(service, "UntagResource", untag),
        OperationHandler(service, "ListTagsForResource", list_tags),
    )
