"""Finding things by their tags: moto's own finds, and the file systems and access points that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk

OURS = "elasticfilesystem"
PAGE = 50
WORDS_A_FILTER = 20  # values that AWS takes for one key


def _files(desk: Desk) -> Iterator[tuple[str, str, dict[str, str]]]:
    backend = desk.backend("efs")
    kinds = (
        ("file-system", ((one.file_system_arn, id_) for id_, one in backend.file_systems_by_id.items())),
        ("access-point", ((one.access_point_arn, id_) for id_, one in backend.access_points.items())),
    )
    for kind, found in kinds:
        for arn, id_ in found:
            tags = desk.ask("efs", "ListTagsForResource", ResourceId=id_)["Tags"]
            yield f"{OURS}:{kind}", arn, {tag["Key"]: tag["Value"] for tag in tags}


def _matches(tags: Mapping[str, str], wanted: Mapping[str, list[str]]) -> bool:
    """Every key has to be there, with one of its values where it has any."""
    return all(key in tags and (not values or tags[key] in values) for key, values in wanted.items())


def get_resources(desk: Desk) -> dict[str, Any]:
    """What carries tags, of the kinds and with the tags that were asked for."""
    asked = desk.asked
    kinds, arns = asked.get("ResourceTypeFilters") or [], asked.get("ResourceARNList") or []
    filters = asked.get("TagFilters") or []
    if any(len(one.get("Values", [])) > WORDS_A_FILTER for one in filters):
        raise Refused("InvalidParameterException", f"A tag filter takes at most {WORDS_A_FILTER} values.")
    wanted = {one["Key"]: one.get("Values", []) for one in filters}
    found = [
        {"ResourceARN": arn, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        for kind, arn, tags in _files(desk)
        if tags and (not kinds or kind in kinds or OURS in kinds) and (not arns or arn in arns)
        if _matches(tags, wanted)
    ]
    others = [kind for kind in kinds if kind.partition(":")[0] != OURS]
    if not kinds or others:
        told = {name: value for name, value in asked.items() if name not in {"PaginationToken", "ResourcesPerPage"}}
        found += _everything(desk, {**told, **({"ResourceTypeFilters": others} if others else {})})
    first, size = int(asked.get("PaginationToken") or 0), asked.get("ResourcesPerPage") or PAGE
    more = first + size < len(found)
    return {"PaginationToken": str(first + size) if more else "", "ResourceTagMappingList": found[first : first + size]}


def _everything(desk: Desk, told: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        answer = desk.result({**told, **({"PaginationToken": token} if token else {})})
        found += answer["ResourceTagMappingList"]
        token = answer.get("PaginationToken", "")
        if not token:
            return found


ROWS = (Row("resourcegroupstaggingapi", "GetResources", get_resources),)
