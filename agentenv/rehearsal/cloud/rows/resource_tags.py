"""The three operations of services that write tags as ResourceTags, over wherever a row keeps them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record


def rows(service: str, tags_of: Callable[[Desk], Record]) -> tuple[Row, ...]:
    """Rows that add, take away and tell tags; `tags_of` finds those of the thing that a call names, or refuses."""

    def tag(desk: Desk) -> dict[str, Any]:
        tags_of(desk).update({one["Key"]: one["Value"] for one in desk.asked["ResourceTags"]})
        return {}

    def untag(desk: Desk) -> dict[str, Any]:
        tags = tags_of(desk)
        for key in desk.asked["ResourceTagKeys"]:
            tags.pop(key, None)
        return {}

    def tell(desk: Desk) -> dict[str, Any]:
        return {"ResourceTags": [{"Key": key, "Value": value} for key, value in tags_of(desk).items()]}

    return (
        Row(service, "TagResource", tag),
        Row(service, "UntagResource", untag),
        Row(service, "ListTagsForResource", tell),
    )
