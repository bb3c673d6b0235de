"""Reads a component's plain arguments, and says what is wrong with one by its name before anything is made of it.

The engine hands a component called from another language a plain dictionary with every number as a float, and nobody
has checked its words; a type checker may never have seen the one from Python. So each component reads its plain
arguments through `Plain`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

import pulumi


class ArgumentError(pulumi.RunError, pulumi.InputPropertyError):
    """A wrong argument: the engine prints it without a traceback, and other languages are told the property's path."""

    def __init__(self, path: str, found: str, allowed: str) -> None:
        reason = f"found {found}; allowed: {allowed}"
        pulumi.InputPropertyError.__init__(self, path, reason)
        self.args = (f"{path}: {reason}",)


@dataclass(frozen=True)
class Plain:
    """The arguments of one component, or of one part of them, under the name it has in the error."""

    path: str
    values: Mapping[str, Any]

    @classmethod
    def of(cls, path: str, given: object, shape: type[Any]) -> "Plain":
        """A view of `given`, which has to be a dictionary with keys of the TypedDict `shape` only."""
        if not isinstance(given, Mapping):
            raise ArgumentError(path, _told(given), "a dictionary")
        values = cast("Mapping[str, Any]", given)
        known = sorted(shape.__annotations__)
        for key in values:
            if key not in known:
                near = get_close_matches(str(key), known, n=1)
                hint = f" (did you mean '{near[0]}'?)" if near else ""
                raise ArgumentError(f"{path}.{key}", f"a name that is not known{hint}", ", ".join(known))
        for key in sorted(getattr(shape, "__required_keys__", ())):
            if values.get(key) is None:
                raise ArgumentError(f"{path}.{key}", "nothing", f"a value; {path} cannot do without it")
        return cls(path, values)

    def part(self, key: str, shape: type[Any]) -> "Plain":
        """A nested dictionary."""
        return Plain.of(f"{self.path}.{key}", self._known(key), shape)

    def has(self, key: str) -> bool:
        """Whether a value was given."""
        return self.values.get(key) is not None

    def text(self, key: str, default: str | None = None) -> str:
        """A string that is not empty."""
        value = self._known(key, default)
        if not isinstance(value, str) or not value.strip():
            raise self._wrong(key, value, "a word")
        return value

    def choice(self, key: str, allowed: Collection[str], default: str | None = None) -> str:
        """One of a few words."""
        value = self._known(key, default)
        if value not in allowed:
            raise self._wrong(key, value, ", ".join(sorted(allowed)))
        return str(value)

    def whole(
        self, key: str, least: int, most: int, default: int | None = None, among: Collection[int] | None = None
    ) -> int:
        """A whole number in a range or among a few; a float with nothing behind its point is one."""
        allowed = ", ".join(map(str, sorted(among))) if among else f"a whole number from {least} to {most}"
        value = self._known(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise self._wrong(key, value, allowed)
        number = int(value)
        if not least <= number <= most or (among is not None and number not in among):
            raise self._wrong(key, value, allowed)
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self._known(key, default)
        if not isinstance(value, bool):
            raise self._wrong(key, value, "true or false")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of different words; empty when it was not given."""
        items = self._items(key, "a list of words")
        words = [item for item in items if isinstance(item, str) and item.strip()]
        if len(words) < len(items):
            raise self._wrong(key, items, "a list of words")
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            raise ArgumentError(f"{self.path}.{key}", f"{', '.join(twice)} more than once", "a list of different words")
        return words

    def inputs(self, key: str) -> list[pulumi.Input[str]]:
        """A list whose length is known, whatever is known of what stands in it; empty when it was not given."""
        return cast("list[pulumi.Input[str]]", self._items(key, "a list"))

    def _items(self, key: str, allowed: str) -> list[object]:
        value = self._known(key, [])
        if not isinstance(value, list | tuple):
            raise self._wrong(key, value, allowed)
        return list(cast("list[object]", value))

    def _known(self, key: str, default: object = None) -> object:
        value: object = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, pulumi.Output):
            raise ArgumentError(
                f"{self.path}.{key}",
                "a value that is known only once something else has been made",
                "a value known before, because it decides which resources there are",
            )
        return value

    def _wrong(self, key: str, value: object, allowed: str) -> ArgumentError:
        return ArgumentError(f"{self.path}.{key}", _told(value), allowed)


def _told(value: object) -> str:
    return "nothing" if value is None else f"{value!r}"
