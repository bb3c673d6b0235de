"""The tagging API: moto's results, and the EFS file systems and access points that it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext

EFS = "elasticfilesystem"
PAGE = 50
WORDS_A_FILTER = 20  # values that AWS takes for one key


def _efs_resources(context: RequestContext) -> Iterator[tuple[str, str, dict[str, str]]]:
    backend = context.backend("efs")
    kinds = (
        ("file-system", ((record.file_system_arn, id_) for id_, record in backend.file_systems_by_id.items())),
        ("access-point", ((record.access_point_arn, id_) for id_, record in backend.access_points.items())),
    )
    for kind, resources in kinds:
        for arn, id_ in resources:
            tags = context.invoke("efs", "ListTagsForResource", ResourceId=id_)["Tags"]
            yield f"{EFS}:{kind}", arn, {tag["Key"]: tag["Value"] for tag in tags}


def _matches(tags: Mapping[str, str], filters: Mapping[str, list[str]]) -> bool:
    """Return whether every key is present, with one of its values where it has any."""
    return all(key in tags and (not values or tags[key] in values) for key, values in filters.items())


def get_resources(context: RequestContext) -> dict[str, Any]:
    """Return the tagged resources of the requested kinds and tags."""
    parameters = context.parameters
    kinds, arns = parameters.get("ResourceTypeFilters") or [], parameters.get("ResourceARNList") or []
    filters = parameters.get("TagFilters") or []
    if any(len(filter_.get("Values", [])) > WORDS_A_FILTER for filter_ in filters):
        raise AwsError("InvalidParameterException", f"A tag filter takes at most {WORDS_A_FILTER} values.")
    values_by_key = {filter_["Key"]: filter_.get("Values", []) for filter_ in filters}
    mappings = [
        {"ResourceARN": arn, "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
        for kind, arn, tags in _efs_resources(context)
        if tags and (not kinds or kind in kinds or EFS in kinds) and (not arns or arn in arns)
        if _matches(tags, values_by_key)
    ]
    others = [kind for kind in kinds if kind.partition(":")[0] != EFS]
    if not kinds or others:
        forwarded = {
            name: value for name, value in parameters.items() if name not in {"PaginationToken", "ResourcesPerPage"}
        }
        mappings += _moto_mappings(context, {**forwarded, **({"ResourceTypeFilters": others} if others else {})})
    first, size = int(parameters.get("PaginationToken") or 0), parameters.get("ResourcesPerPage") or PAGE
    more = first + size < len(mappings)
    return {
        "PaginationToken": str(first + size) if more else "",
        "ResourceTagMappingList": mappings[first : first + size],
    }


def _moto_mappings(context: RequestContext, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    mappings: list[dict[str, Any]] = []
    token = ""
    while True:
        result = context.result({**parameters, **({"PaginationToken": token} if token else {})})
        mappings += result["ResourceTagMappingList"]
        token = result.get("PaginationToken", "")
        if not token:
            return mappings


ROWS = (OperationHandler("resourcegroupstaggingapi", "GetResources", get_resources),)
