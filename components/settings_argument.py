"""The settings of an environment as a component argument, in the form of a stack file's `config`.

The plan of a class depends on more than the class: its parent, the network, and the classes that may reach it. So a
component that needs one class takes all settings.
"""

import json
from functools import lru_cache
from typing import Any, cast

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.tags import Ownership
from agentenv.config import Mistakes, Settings, read
from agentenv.config.mistakes import NAMESPACE
from agentenv.config.reader import REGION_KEY
from agentenv.core.environment import EnvironmentFacts


def ownership(environment: EnvironmentFacts) -> Ownership:
    """Return the ownership argument of a component."""
    fixed = ("environment", "owner", "cost-center")
    return {
        "environment": environment.name,
        "owner": environment.tags["owner"],
        "cost_center": environment.tags["cost-center"],
        "tags": {key: value for key, value in environment.tags.items() if key not in fixed},
    }


def to_argument(settings: Settings) -> dict[str, Any]:
    """Return the settings as a component argument."""
    values: dict[str, Any] = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    values.pop("environment")
    return {REGION_KEY: values.pop("region"), **{f"{NAMESPACE}:{name}": value for name, value in values.items()}}


def read_settings(reader: ArgumentReader) -> Settings:
    """Return the settings among a component's arguments; mistakes in them raise an argument error."""
    environment = reader.part("ownership", Ownership).text("environment")
    values = reader.values.get("settings")
    if not isinstance(values, dict):
        raise ArgumentError(f"{reader.path}.settings", f"{values!r}", "a dictionary like `config` of a stack file")
    return _read(json.dumps(values, sort_keys=True), environment)


def _whole(value: Any) -> Any:
    """Return a value with whole floats as integers: from other languages every number arrives as a float."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=8)
def _read(values: str, environment: str) -> Settings:
    """Read the settings, once for all classes of an environment."""
    try:
        return read(_whole(json.loads(values)), environment)
    except Mistakes as mistakes:
        raise ArgumentError("settings", f"mistakes\n{mistakes}", "settings without mistakes") from None
