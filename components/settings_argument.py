"""The settings of an environment as an argument: what a stack file has under `config`, read like one.

What a class is follows from more than itself: who may reach it, which ranges are the cluster's own, whose parent it is.
So components that need a class are given all settings, in the one form in which people write them down.
"""

import json
from functools import lru_cache
from typing import Any, cast

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.tags import Ownership
from agentenv.config import Mistakes, Settings, read
from agentenv.config.mistakes import NAMESPACE
from agentenv.config.reader import REGION_KEY


def to_argument(settings: Settings) -> dict[str, Any]:
    """The settings as the argument of a component."""
    said: dict[str, Any] = settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
    said.pop("environment")
    return {REGION_KEY: said.pop("region"), **{f"{NAMESPACE}:{name}": value for name, value in said.items()}}


def read_settings(reader: ArgumentReader) -> Settings:
    """The settings among a component's arguments; what is wrong with them is wrong with the argument."""
    environment = reader.part("ownership", Ownership).text("environment")
    said = reader.values.get("settings")
    if not isinstance(said, dict):
        raise ArgumentError(f"{reader.path}.settings", f"{said!r}", "a dictionary, as a stack file has it under config")
    return _read(json.dumps(said, sort_keys=True), environment)


def _whole(value: Any) -> Any:
    """Without fractions that are none: from another language every number comes as one."""
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in cast("list[Any]", value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=8)
def _read(said: str, environment: str) -> Settings:
    """Read once for all the classes of an environment."""
    try:
        return read(_whole(json.loads(said)), environment)
    except Mistakes as mistakes:
        raise ArgumentError("settings", f"mistakes\n{mistakes}", "settings without any") from None
