"""Whose an environment is, and what follows from it for every resource: its tags and its physical name."""

import re
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib.arguments import ArgumentError, Plain
from agentenv.core.values.names import KINDS, fit, named


class Ownership(TypedDict):
    """Whose the resources are: every one that can carry tags says so."""

    environment: str
    """The environment, such as `dev` or `prod`: a tag, and the first part of every physical name."""

    owner: pulumi.Input[str]
    """The team that answers for it: tag `owner`."""

    cost_center: pulumi.Input[str]
    """Who pays for it: tag `cost-center`."""

    tags: NotRequired[dict[str, pulumi.Input[str]]]
    """More tags for every resource; the four of ours cannot be given another meaning."""


# What every service takes as a part of a name.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")

OURS = ("environment", "component", "owner", "cost-center", "Name")


@dataclass(frozen=True)
class Labels:
    """The names and tags of one component's resources."""

    environment: str
    component: str
    base: str
    everywhere: dict[str, pulumi.Input[str]]

    @classmethod
    def of(cls, arguments: Plain, component: str, base: str) -> "Labels":
        """Labels from the `ownership` among a component's arguments; `base` is the component's resource name."""
        ownership = arguments.part("ownership", Ownership)
        environment = ownership.text("environment")
        for what, word in ((f"{ownership.path}.environment", environment), ("the component's name", base)):
            if not _PLAIN.fullmatch(word):
                raise ArgumentError(what, f"'{word}'", "letters, digits and '-', a letter or digit first")
        more: dict[str, Any] = ownership.values.get("tags") or {}
        for key in more:
            if key in OURS:
                raise ArgumentError(
                    f"{ownership.path}.tags.{key}", "a tag that is set from elsewhere", f"any but {', '.join(OURS)}"
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
        """The tags of one resource; its `Name` is what people see in the console."""
        return {**self.everywhere, "Name": named("aws-tag-value", self.environment, self.base, suffix), **more}

    def name(self, kind: str, suffix: str, *, prefix: str = "", plain: bool = False) -> str:
        """The physical name of one resource, within its service's limit; it holds the environment.

        A plain one has '_' and small letters only.
        """
        parts = (f"{prefix}{self.environment}", self.base, suffix)
        if not plain:
            return named(kind, *parts)
        KINDS[kind].check(name := fit("_".join(parts), KINDS[kind].limit).replace("-", "_").lower())
        return name
