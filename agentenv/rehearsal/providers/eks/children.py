"""Registering children, asking functions and finding resources again, by their names in the engine's protocol.

The SDK's typed classes are left aside: they take a second to import and set defaults of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.output import UNKNOWN
from pulumi.runtime import invoke_output, is_dry_run


def present(value: Any) -> Any:
    """Without what is not there, which the SDK would send on as null where it is not at the top."""
    if isinstance(value, dict):
        return {key: present(item) for key, item in value.items() if item is not None}
    return [present(item) for item in value] if isinstance(value, list) else value


class Child(pulumi.CustomResource):
    """A resource with the outputs that are wanted of it."""

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: dict[str, Any],
        outputs: Sequence[str] = (),
        options: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(kind, name, {**dict.fromkeys(outputs), **present(inputs)}, options)

    def out(self, name: str) -> pulumi.Output[Any]:
        """One of its outputs; unknown at a preview that does not tell it."""
        found: pulumi.Output[Any] = self.__dict__[name]  # where the SDK puts what it resolves
        return found.apply(lambda value: UNKNOWN if value is None and is_dry_run() else value)

    def within(self, name: str, *path: str | int) -> pulumi.Output[Any]:
        """A part of one of its outputs."""

        def walk(value: Any) -> Any:
            for step in path:
                try:
                    value = value[step]
                except (KeyError, IndexError, TypeError):
                    return UNKNOWN if is_dry_run() else None
            return value

        return self.out(name).apply(walk)


@dataclass(frozen=True)
class Maker:
    """How the children of one component are registered: under whom, and from which packages' versions."""

    parent: pulumi.Resource
    versions: Mapping[str, str]

    def under(self, parent: pulumi.Resource) -> Maker:
        """The same, for the children of a child."""
        return Maker(parent, self.versions)

    def child(
        self,
        kind: str,
        name: str,
        inputs: dict[str, Any],
        outputs: Sequence[str] = (),
        *,
        after: Sequence[pulumi.Resource] = (),
        ignoring: Sequence[str] = (),
    ) -> Child:
        """Register a child; with the parent come its providers and the transforms that the program gave it."""
        options = pulumi.ResourceOptions(
            parent=self.parent,
            depends_on=list(after) or None,
            ignore_changes=list(ignoring) or None,
            version=self.versions.get(_package(kind)),
        )
        return Child(kind, name, inputs, outputs, options)

    def ask(self, function: str, arguments: Mapping[str, Any]) -> pulumi.Output[Any]:
        """What a function answers, as soon as its arguments are known."""
        return invoke_output(function, dict(arguments), self.asking(function))

    def asking(self, function: str) -> pulumi.InvokeOptions:
        """How a function is asked: by the provider of the component, or by the program's own."""
        return pulumi.InvokeOptions(parent=self.parent, version=self.versions.get(_package(function)))


def found_again(urn: str, outputs: Sequence[str]) -> Child:
    """A resource that the program has already, by its URN."""
    _, _, kind, name = urn.split("::", 3)
    return Child(kind.rsplit("$", maxsplit=1)[-1], name, {}, outputs, pulumi.ResourceOptions(urn=urn))


def _package(kind: str) -> str:
    return kind.split(":", maxsplit=1)[0]
