"""Register children, invoke functions and look up existing resources, by type token.

The SDK's typed classes are not used: they take a second to import, and set defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi.output import UNKNOWN
from pulumi.runtime import invoke_output, is_dry_run

from agentenv.rehearsal.providers.common.property_values import without_none


class Child(pulumi.CustomResource):
    """A resource with the outputs that are read from it."""

    def __init__(
        self,
        kind: str,
        name: str,
        inputs: dict[str, Any],
        outputs: Sequence[str] = (),
        options: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(kind, name, {**dict.fromkeys(outputs), **without_none(inputs)}, options)

    def output(self, name: str) -> pulumi.Output[Any]:
        """Return an output. At preview it is unknown if the provider does not return it."""
        value: pulumi.Output[Any] = self.__dict__[name]  # where the SDK stores resolved outputs
        return value.apply(lambda known: UNKNOWN if known is None and is_dry_run() else known)

    def output_at(self, name: str, *path: str | int) -> pulumi.Output[Any]:
        """Return a part of an output."""

        def walk(value: Any) -> Any:
            for step in path:
                try:
                    value = value[step]
                except (KeyError, IndexError, TypeError):
                    return UNKNOWN if is_dry_run() else None
            return value

        return self.output(name).apply(walk)


@dataclass(frozen=True)
class ChildFactory:
    """Registers the children of one component, with their parent and the versions of their packages."""

    parent: pulumi.Resource
    versions: Mapping[str, str]

    def with_parent(self, parent: pulumi.Resource) -> ChildFactory:
        """Return a factory for the children of a child."""
        return ChildFactory(parent, self.versions)

    def child(
        self,
        kind: str,
        name: str,
        inputs: dict[str, Any],
        outputs: Sequence[str] = (),
        *,
        after: Sequence[pulumi.Resource] = (),
        ignore_changes: Sequence[str] = (),
    ) -> Child:
        """Register a child. It inherits the providers and the transforms of the parent."""
        options = pulumi.ResourceOptions(
            parent=self.parent,
            depends_on=list(after) or None,
            ignore_changes=list(ignore_changes) or None,
            version=self.versions.get(_package(kind)),
        )
        return Child(kind, name, inputs, outputs, options)

    def invoke(self, function: str, arguments: Mapping[str, Any]) -> pulumi.Output[Any]:
        """Return the result of a function, once its arguments are known."""
        return invoke_output(function, dict(arguments), self.invoke_options(function))

    def invoke_options(self, function: str) -> pulumi.InvokeOptions:
        """Return the options of an invoke, which select the provider of the component."""
        return pulumi.InvokeOptions(parent=self.parent, version=self.versions.get(_package(function)))


def existing_resource(urn: str, outputs: Sequence[str]) -> Child:
    """Return a resource that is already registered, by URN."""
    _, _, kind, name = urn.split("::", 3)
    return Child(kind.rsplit("$", maxsplit=1)[-1], name, {}, outputs, pulumi.ResourceOptions(urn=urn))


def _package(kind: str) -> str:
    return kind.split(":", maxsplit=1)[0]
