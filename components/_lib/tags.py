"""The owner of an environment, and the tags and physical names of resources that follow from it."""

import re
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.values.names import KINDS, fit, named


class Ownership(TypedDict):
    """The owner of the resources. Every resource that supports tags carries it."""

    environment: str
    """The environment, such as `dev` or `prod`: tag `environment`, and the first part of every physical name."""

    owner: pulumi.Input[str]
    """The team responsible for it: tag `owner`."""

    cost_center: pulumi.Input[str]
    """The cost center that pays for it: tag `cost-center`."""

    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """More tags for every resource. The tags that the components set themselves cannot be overridden."""


# Characters that every AWS service accepts in a name.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")

RESERVED_TAGS = ("environment", "component", "owner", "cost-center", "Name")


@dataclass(frozen=True)
class Labels:
    """The physical names and tags of one component's resources."""

    environment: str
    component: str
    base: str
    everywhere: dict[str, pulumi.Input[str]]

    @classmethod
    def for_component(cls, environment: EnvironmentFacts, component: str, base: str) -> "Labels":
        """Return the labels of a component in an environment; `base` is the component's resource name."""
        if not _PLAIN.fullmatch(base):
            raise ArgumentError("the component's name", f"'{base}'", "letters, digits and '-', a letter or digit first")
        return cls(environment.name, component, base, {**environment.tags, "component": component})

    @classmethod
    def of(cls, reader: ArgumentReader, component: str, base: str) -> "Labels":
        """Return the labels for the `ownership` of a component's arguments; `base` is the component's resource name."""
        ownership = reader.part("ownership", Ownership)
        environment = ownership.text("environment")
        for what, word in ((f"{ownership.path}.environment", environment), ("the component's name", base)):
            if not _PLAIN.fullmatch(word):
                raise ArgumentError(what, f"'{word}'", "letters, digits and '-', a letter or digit first")
        more: dict[str, Any] = ownership.values.get("tags") or {}
        for key in more:
            if key in RESERVED_TAGS:
                raise ArgumentError(
                    f"{ownership.path}.tags.{key}",
                    "a tag that the components set themselves",
                    f"any but {', '.join(RESERVED_TAGS)}",
                )
        everywhere: dict[str, pulumi.Input[str]] = {
            **more,
            "environment": environment,
            "component": component,
            "owner": ownership.values["owner"],
            "cost-center": ownership.values["cost_center"],
        }
        return cls(environment, component, base, everywhere)

    def tags(self, suffix: str, **more: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
        """Return the tags of one resource; the console shows its `Name`."""
        return {**self.everywhere, "Name": named("aws-tag-value", self.environment, self.base, suffix), **more}

    def name(self, kind: str, suffix: str, *, prefix: str = "", plain: bool = False) -> str:
        """Return the physical name of one resource, with the environment in it, within the service's length limit.

        A plain name has only lower-case letters, digits and '_'.
        """
        parts = (f"{prefix}{self.environment}", self.base, suffix)
        if not plain:
            return named(kind, *parts)
        KINDS[kind].check(name := fit("_".join(parts), KINDS[kind].limit).replace("-", "_").lower())
        return name
