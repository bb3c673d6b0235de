"""The function that finds resources by their tags."""

from __future__ import annotations

from typing import Any

from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError
from agentenv.rehearsal.providers.aws.functions.common import Arguments, region_of, tags_of


def resources(cloud: Cloud, a: Arguments) -> dict[str, Any]:
    region = region_of(cloud, a)
    for name in ("excludeCompliantResources", "includeComplianceDetails"):
        if a.get(name):
            raise CloudError("resourcegroupstaggingapi", "GetResources", "NotSimulated", f"{name} is not simulated")
    parameters: dict[str, Any] = {}
    if a.get("resourceTypeFilters"):
        parameters["ResourceTypeFilters"] = a["resourceTypeFilters"]
    if a.get("resourceArnLists"):
        parameters["ResourceARNList"] = a["resourceArnLists"]
    if a.get("tagFilters"):
        parameters["TagFilters"] = [{"Key": f["key"], "Values": f.get("values") or []} for f in a["tagFilters"]]
    mappings: list[dict[str, Any]] = []
    token = ""
    while True:
        page = cloud.call("resourcegroupstaggingapi", "GetResources", region, **parameters, PaginationToken=token)
        mappings += page["ResourceTagMappingList"]
        token = page.get("PaginationToken") or ""
        if not token:
            break
    results = [
        {"resourceArn": mapping["ResourceARN"], "tags": tags_of(mapping), "complianceDetails": []}
        for mapping in mappings
    ]
    return {"id": cloud.account(), "region": region, "resourceTagMappingLists": results}
