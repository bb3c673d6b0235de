"""The tags and physical names of a component's resources."""

import re
from dataclasses import dataclass

import pulumi

from agentenv.components._lib.arguments import ArgumentError
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.values.names import KINDS, fit, named

# Characters that every AWS service accepts in a name.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


@dataclass(frozen=True)
class Labels:
    """The physical names and tags of one component's resources."""

    environment: str
    component: str
    base: str
    everywhere: dict[str, pulumi.Input[str]]

    @classmethod
    def of(cls, environment: EnvironmentFacts, component: str, base: str) -> "Labels":
        """Return the labels of a component in an environment; `base` is the component's resource name."""
        if not _PLAIN.fullmatch(base):
            raise ArgumentError("the component's name", f"'{base}'", "letters, digits and '-', a letter or digit first")
        return cls(environment.name, component, base, {**environment.tags, "component": component})

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
