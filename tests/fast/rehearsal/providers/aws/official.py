"""The outputs of a type or function in the official schema and SDK, for comparison."""

from __future__ import annotations

import importlib
from typing import Any, get_args, get_origin, get_type_hints

import pulumi


def strange(value: Any, kind: Any, path: str) -> list[str]:
    """The paths of a value that its kind, in the words of `shapes.json`, does not have."""
    if isinstance(value, list) and isinstance(kind, list) and kind[0] == "array":
        return [bad for part in value for bad in strange(part, kind[1], f"{path}[]")]
    if isinstance(value, dict) and isinstance(kind, list) and kind[0] == "map":
        return [bad for key, part in value.items() for bad in strange(part, kind[1], f"{path}.{key}")]
    if isinstance(value, dict) and isinstance(kind, dict):
        unknown = [f"{path}.{key}" for key in value if key not in kind]
        known = [key for key in value if key in kind]
        return unknown + [bad for key in known for bad in strange(value[key], kind[key]["t"], f"{path}.{key}")]
    return [f"{path} is {type(value).__name__}"] if isinstance(value, list | dict) and kind != "any" else []


def sdk_kind(token: str) -> type:
    """The SDK's class of a resource, or of a function's result.

    By its package: importing a module of the SDK by itself puts it in the place of the function of its name.
    """
    package, _, name = token.removeprefix("aws:").partition(":")
    module = package.partition("/")[0]
    where = importlib.import_module("pulumi_aws" if module == "index" else f"pulumi_aws.{module}")
    return getattr(where, f"{name[0].upper()}{name[1:]}Result" if name[0].islower() else name)


def unlike(kind: Any, sdk: Any, path: str) -> list[str]:
    """The paths of a kind, in the words of `shapes.json`, that the SDK's type does not have."""
    while get_origin(sdk) is pulumi.Output or type(None) in get_args(sdk):
        sdk = next(argument for argument in get_args(sdk) if argument is not type(None))
    if isinstance(kind, list):
        parts = get_args(sdk)
        return unlike(kind[1], parts[-1], f"{path}[]") if parts else [f"{path} is {sdk}"]
    if not isinstance(kind, dict):
        return []
    getters = {
        getattr(property_.fget, "_pulumi_name", name): property_.fget
        for of in getattr(sdk, "__mro__", ())
        for name, property_ in vars(of).items()
        if isinstance(property_, property)
    }
    missing = [f"{path}.{name}" for name in kind if name not in getters]
    known = [name for name in kind if name in getters]
    return missing + [
        bad
        for name in known
        for bad in unlike(kind[name]["t"], get_type_hints(getters[name])["return"], f"{path}.{name}")
    ]
