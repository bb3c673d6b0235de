"""What functions have in common: where they ask, by which filters, and how an answer becomes outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws import shapes
from agentenv.rehearsal.providers.aws.api_calls import Cloud, CloudError

Arguments = Mapping[str, Any]


def region_of(cloud: Cloud, a: Arguments) -> str:
    return a.get("region") or cloud.access.region


def told(token: str, document: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The outputs the rule finds in an answer."""
    out: dict[str, Any] = {}
    for name, fact in shapes.shape(token).outputs.items():
        value = more[name] if name in more else spelling.find(document, name)[1]
        if value is not None:
            out[name] = spelling.receive(value, fact.type, {}, name)
    return out


def tags_of(document: Mapping[str, Any], at: str = "Tags") -> dict[str, str]:
    found = document.get(at) or {}
    return dict(found) if isinstance(found, Mapping) else {tag["Key"]: tag["Value"] for tag in found}


def filters_of(a: Arguments, **direct: str) -> list[dict[str, Any]]:
    """EC2's filters from a function's: those written as filters, tags, and arguments that are filters themselves."""
    out = [{"Name": f["name"], "Values": f["values"]} for f in a.get("filters") or []]
    out += [{"Name": f"tag:{key}", "Values": [value]} for key, value in sorted((a.get("tags") or {}).items())]
    for name, filter_ in direct.items():
        if a.get(name) is not None:
            value = a[name]
            out.append({"Name": filter_, "Values": [str(value).lower() if isinstance(value, bool) else value]})
    return out


def described(cloud: Cloud, operation: str, at: str, member: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return what EC2 describes; nothing where an id does not exist, which the official functions do not tell apart."""
    try:
        return cloud.call("ec2", operation, at, **parameters)[member]
    except CloudError as error:
        if error.code.endswith("ID.NotFound"):
            return []
        raise


def only(found: list[Any], what: str, operation: str, service: str = "ec2") -> Any:
    if len(found) != 1:
        several = f"multiple {what}s matched; use additional constraints to reduce matches to a single {what}"
        raise CloudError(service, operation, "NotOne", several if found else f"no matching {what} found")
    return found[0]
