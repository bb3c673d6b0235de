"""Map the SDK's property names to API members and back: `cidrBlock` is `CidrBlock`, `subnetIds` is `SubnetIds`.

The match ignores case and accepts the singular or the plural. A row lists the names this rule does not find. A property
that neither finds is an error that names it, so that no value is lost.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from typing import Any

from agentenv.rehearsal.providers.common.property_values import timestamp


class NoMember(Exception):
    """The API's structure has no member for a property."""


def attribute_text(value: Any) -> str:
    """Return the text of an attribute of APIs whose attributes are all texts."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def member(members: Iterable[str], name: str) -> str | None:
    """Return the member for a property name: the same letters, else the plural or the singular."""
    folded = {m.lower(): m for m in members}
    for candidate in _forms(name.lower()):
        if candidate in folded:
            return folded[candidate]
    return None


def _forms(name: str) -> list[str]:
    forms = [name, name + "s", name + "es"]
    if name.endswith("ies"):
        forms.append(name[:-3] + "y")
    elif name.endswith("y"):
        forms.append(name[:-1] + "ies")
    if name.endswith("s"):
        forms.append(name[:-1])
    return forms


def send(value: Any, shape: Any, names: Mapping[str, str], path: str = "") -> Any:  # noqa: PLR0911 - a case a type
    """Return a value in the API's form. `names` has the members that the rule does not find, by property path."""
    kind = shape.type_name
    if kind == "structure":
        return _structure(value, shape, names, path)
    if kind == "list":
        items = value if isinstance(value, list) else [value]
        return [send(item, shape.member, names, path) for item in items]
    if kind == "map":
        return {str(k): send(v, shape.value, names, path) for k, v in value.items()}
    if kind == "string":
        return ("true" if value else "false") if isinstance(value, bool) else str(value)
    if kind in {"integer", "long"}:
        return int(value)
    if kind in {"float", "double"}:
        return float(value)
    return value


def _structure(value: Any, shape: Any, names: Mapping[str, str], path: str) -> dict[str, Any]:
    fields: Any = value[0] if isinstance(value, list) and len(value) == 1 else value
    out: dict[str, Any] = {}
    for key, item in fields.items():
        here = f"{path}.{key}" if path else key
        name = names.get(here) or member(shape.members, key)
        if name is None or name not in shape.members:
            raise NoMember(f"{here}: {shape.name} has no member for it, but {', '.join(sorted(shape.members))}")
        if item is not None:
            out[name] = send(item, shape.members[name], names, here)
    return out


def find(document: Mapping[str, Any], name: str) -> tuple[bool, Any]:
    """Return whether the response has this property, and its value."""
    key = member(document, name)
    return (key is not None, document.get(key) if key else None)


def receive(value: Any, kind: Any, names: Mapping[str, str], path: str = "") -> Any:
    """Return a value of a response in the SDK's form, with the type that the schema has."""
    if value is None:
        return None
    if isinstance(kind, dict):
        if isinstance(value, list):
            return receive(value[0], kind, names, path) if value else None
        return _object(value, kind, names, path)
    if isinstance(kind, list):
        if kind[0] == "array":
            items = value if isinstance(value, list) else [value]
            return [receive(item, kind[1], names, path) for item in items]
        return {str(k): receive(v, kind[1], names, path) for k, v in pairs(value).items()}
    return _scalar(value, kind)


def _object(value: Any, kind: Mapping[str, Any], names: Mapping[str, str], path: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, fact in kind.items():
        here = f"{path}.{key}" if path else key
        present, item = (True, value.get(names[here])) if here in names else find(value, key)
        if present and item is not None:
            out[key] = receive(item, fact["t"], names, here)
    return out


def pairs(value: Any) -> dict[str, Any]:
    """Return a map, also from a list of keys and values."""
    if isinstance(value, Mapping):
        return dict(value)
    out: dict[str, Any] = {}
    for item in value:
        folded = {k.lower(): v for k, v in item.items()}
        out[str(folded.get("key", folded.get("tagkey", folded.get("name"))))] = folded.get(
            "value", folded.get("tagvalue", "")
        )
    return out


def _scalar(value: Any, kind: str) -> Any:
    if isinstance(value, datetime.datetime):
        return timestamp(value)
    if kind == "s" and isinstance(value, Mapping | list):
        return json.dumps(value, separators=(",", ":"))
    if kind == "s" and not isinstance(value, str):
        return ("true" if value else "false") if isinstance(value, bool) else str(value)
    if kind == "b" and isinstance(value, str):
        return value.lower() == "true"
    if kind in {"i", "n"} and isinstance(value, str):
        number = float(value)
        return int(number) if number.is_integer() else number
    return value
