"""Validate tags: reserved keys, lengths and duplicates, which the services' models do not restrict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.parameter_checks import validation_code
from agentenv.rehearsal.cloud.responses import AwsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentenv.rehearsal.cloud.requests import Call

LONGEST_KEY, LONGEST_VALUE = 128, 256
# The parameters with a call's tags; lists of keys to remove are not among them.
PLACES = ("Tags", "tags", "ResourceTags", "TagList")


def check_tags(call: Call) -> None:
    """Raise the service's error for the first invalid tag."""
    for tags in _tags_in(call.parameters):
        keys: set[str] = set()
        for key, value in tags:
            fault = _fault(key, value, keys)
            if fault:
                code = "InvalidParameterValue" if call.service == "ec2" else validation_code(call)
                raise AwsError(code, fault, 400)
            keys.add(key)


def _fault(key: str, value: str, keys: set[str]) -> str:
    if key.lower().startswith("aws:"):
        return f"Tag keys starting with 'aws:' are reserved for internal use: {key}"
    if not key or len(key) > LONGEST_KEY:
        return f"Tag keys have 1 to {LONGEST_KEY} characters, not {len(key)}: {key[:40]}"
    if len(value) > LONGEST_VALUE:
        return f"Tag values have at most {LONGEST_VALUE} characters, not {len(value)}: {key}"
    return f"Duplicate tag key '{key}' specified." if key in keys else ""


def _tags_in(parameters: dict[str, Any]) -> Iterator[list[tuple[str, str]]]:
    for place in PLACES:
        yield _pairs(parameters.get(place))
    for specification in parameters.get("TagSpecifications", []):
        yield _pairs(specification.get("Tags"))


def _pairs(tags: Any) -> list[tuple[str, str]]:
    """Return key and value of each tag, whether the service writes a list or a map."""
    if isinstance(tags, dict):
        return [(key, value) for key, value in tags.items() if isinstance(value, str)]
    if not isinstance(tags, list):
        return []
    pairs = [(tag.get("Key"), tag.get("Value", "")) for tag in tags if isinstance(tag, dict)]
    return [(key, value) for key, value in pairs if isinstance(key, str) and isinstance(value, str)]
