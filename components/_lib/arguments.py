"""Reads and checks the plain arguments of a component before it creates any resource.

Arguments from another Pulumi language arrive as an unchecked dictionary in which every number is a float. Arguments
from Python may never have met a type checker. So each component reads its plain arguments through `ArgumentReader`,
which raises an error that names the wrong argument.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

import pulumi


class ArgumentError(pulumi.RunError, pulumi.InputPropertyError):
    """A wrong argument. The engine prints it without a traceback, and other languages get the path of the property."""

    def __init__(self, path: str, found: str, allowed: str) -> None:
        reason = f"found {found}; allowed: {allowed}"
        pulumi.InputPropertyError.__init__(self, path, reason)
        self.args = (f"{path}: {reason}",)


@dataclass(frozen=True)
class ArgumentReader:
    """The arguments of one component, or a nested part of them; `path` is its name in errors."""

    path: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, path: str, arguments: object, shape: type[Any]) -> "ArgumentReader":
        """Return a reader of `arguments`, which must be a dictionary with only the keys of the TypedDict `shape`."""
        if not isinstance(arguments, Mapping):
            raise ArgumentError(path, _shown(arguments), "a dictionary")
        values = cast("Mapping[str, Any]", arguments)
        known = sorted(shape.__annotations__)
        for key in values:
            if key not in known:
                matches = get_close_matches(str(key), known, n=1)
                hint = f" (did you mean '{matches[0]}'?)" if matches else ""
                raise ArgumentError(f"{path}.{key}", f"an unknown name{hint}", ", ".join(known))
        for key in sorted(getattr(shape, "__required_keys__", ())):
            if values.get(key) is None:
                raise ArgumentError(f"{path}.{key}", "nothing", f"a value; {path} requires it")
        return cls(path, values)

    def part(self, key: str, shape: type[Any]) -> "ArgumentReader":
        """Return a reader of a nested dictionary."""
        return ArgumentReader.of(f"{self.path}.{key}", self._plain(key), shape)

    def has(self, key: str) -> bool:
        """Return whether the argument is set."""
        return self.values.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string that is not empty."""
        value = self._plain(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self._error(key, value, "a string that is not empty")
        return value

    def choice(self, key: str, allowed: Collection[str], default: str | None = None) -> str:
        """Return one of the allowed values."""
        value = self._plain(key, default)
        if value not in allowed:
            raise self._error(key, value, ", ".join(sorted(allowed)))
        return str(value)

    def whole(
        self, key: str, least: int, most: int, default: int | None = None, among: Collection[int] | None = None
    ) -> int:
        """Return an integer in a range, or among a few; a float without a fraction counts as one."""
        allowed = ", ".join(map(str, sorted(among))) if among else f"a whole number from {least} to {most}"
        value = self._plain(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise self._error(key, value, allowed)
        number = int(value)
        if not least <= number <= most or (among is not None and number not in among):
            raise self._error(key, value, allowed)
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        """Return a boolean."""
        value = self._plain(key, default)
        if not isinstance(value, bool):
            raise self._error(key, value, "true or false")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of distinct strings; empty if it is not set."""
        items = self._items(key, "a list of strings")
        strings = [item for item in items if isinstance(item, str) and item.strip()]
        if len(strings) < len(items):
            raise self._error(key, items, "a list of strings")
        duplicates = sorted({string for string in strings if strings.count(string) > 1})
        if duplicates:
            raise ArgumentError(
                f"{self.path}.{key}", f"{', '.join(duplicates)} more than once", "a list of distinct strings"
            )
        return strings

    def inputs(self, key: str) -> list[pulumi.Input[str]]:
        """Return a list whose length is known, even if its items are not yet; empty if it is not set."""
        return cast("list[pulumi.Input[str]]", self._items(key, "a list"))

    def _items(self, key: str, allowed: str) -> list[object]:
        value = self._plain(key, [])
        if not isinstance(value, list | tuple):
            raise self._error(key, value, allowed)
        return list(cast("list[object]", value))

    def _plain(self, key: str, default: object = None) -> object:
        value: object = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, pulumi.Output):
            raise ArgumentError(
                f"{self.path}.{key}",
                "an output of another resource",
                "a plain value, because it decides which resources are created",
            )
        return value

    def _error(self, key: str, value: object, allowed: str) -> ArgumentError:
        return ArgumentError(f"{self.path}.{key}", _shown(value), allowed)


def _shown(value: object) -> str:
    return "nothing" if value is None else f"{value!r}"
