"""Helpers for functions: the region, the filters, and the outputs of a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.providers.aws import name_mapping, shapes
from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError

Arguments = Mapping[str, Any]


def region_of(cloud: Cloud, a: Arguments) -> str:
    """Return the region of a call: the argument, else the provider's."""
    return a.get("region") or cloud.access.region


def outputs_from(token: str, document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the outputs that match members of a response, and those in `more`."""
    out: dict[str, Any] = {}
    for name, fact in shapes.shape(token).outputs.items():
        value = more[name] if name in more else name_mapping.find(document, name)[1]
        if value is not None:
            out[name] = name_mapping.receive(value, fact.type, {}, name)
    return out


def tags_of(document: Mapping[str, Any], member: str = "Tags") -> dict[str, str]:
    """Return the tags in a response as a map."""
    tags = document.get(member) or {}
    return dict(tags) if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}


def filters_of(a: Arguments, **direct: str) -> list[dict[str, Any]]:
    """Return EC2 filters from the arguments: `filters`, `tags`, and arguments that each are a filter."""
    out = [{"Name": f["name"], "Values": f["values"]} for f in a.get("filters") or []]
    out += [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted((a.get("tags") or {}).items())]
    for name, filter_ in direct.items():
        if a.get(name) is not None:
            value = a[name]
            out.append({"Name": filter_, "Values": [str(value).lower() if isinstance(value, bool) else value]})
    return out


def describe(cloud: Cloud, operation: str, region: str, member: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return what EC2 describes. An id that does not exist gives an empty list, as in the official functions."""
    try:
        return cloud.call("ec2", operation, region, **parameters)[member]
    except CloudError as error:
        if error.code.endswith("ID.NotFound"):
            return []
        raise


def only(matches: list[Any], kind: str, operation: str, service: str = "ec2") -> Any:
    """Return the only match; none or several are an error."""
    if len(matches) != 1:
        several = f"multiple {kind}s matched; use additional constraints to reduce matches to a single {kind}"
        raise CloudError(service, operation, "NotOne", several if matches else f"no matching {kind} found")
    return matches[0]
