"""What there is with certain tags."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError
from agentenv.rehearsal.providers.aws.functions.common import Arguments, region_of, tags_of


def resources(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    at = region_of(cloud, a)
    for name in ("excludeCompliantResources", "includeComplianceDetails"):
        if a.get(name):
            raise CloudError("resourcegroupstaggingapi", "GetResources", "NotSimulated", f"{name} is not simulated")
    asked: dict[str, Any] = {}
    if a.get("resourceTypeFilters"):
        asked["ResourceTypeFilters"] = a["resourceTypeFilters"]
    if a.get("resourceArnLists"):
        asked["ResourceARNList"] = a["resourceArnLists"]
    if a.get("tagFilters"):
        asked["TagFilters"] = [{"Key": one["key"], "Values": one.get("values") or []} for one in a["tagFilters"]]
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        page = cloud.call("resourcegroupstaggingapi", "GetResources", at, **asked, PaginationToken=token)
        found += page["ResourceTagMappingList"]
        token = page.get("PaginationToken") or ""
        if not token:
            break
    mappings = [{"resourceArn": one["ResourceARN"], "tags": tags_of(one), "complianceDetails": []} for one in found]
    return {"id": cloud.account(), "region": at, "resourceTagMappingLists": mappings}
