"""URNs: the type, the kind and the name of a resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentenv.rehearsal.providers.kubernetes.discovery import canonical

PACKAGE: Final = "kubernetes"


class InvalidType(Exception):
    """The type does not belong to this provider."""


@dataclass(frozen=True)
class Resource:
    """A resource, by its URN."""

    urn: str
    token: str
    name: str

    @property
    def api_version(self) -> str:
        return canonical(self.token.split(":")[1])

    @property
    def kind(self) -> str:
        """Return the last part of the type. A patch has the suffix `Patch`."""
        return self.token.split(":")[2]

    def patches(self, kind: str) -> bool:
        """Return whether the resource is a patch, which only sets fields of an existing object."""
        return self.kind == f"{kind}Patch" if kind else self.kind.endswith("Patch")


def resource(urn: str) -> Resource:
    parts = urn.split("::")
    if len(parts) < 4:
        raise InvalidType(f"{urn!r} is not an URN")
    token = parts[2].rsplit("$", maxsplit=1)[-1]
    pieces = token.split(":")
    if len(pieces) != 3 or pieces[0] != PACKAGE or not all(pieces):
        raise InvalidType(f"{token!r} is not a type of the {PACKAGE} provider: <package>:<group>/<version>:<Kind>")
    return Resource(urn, token, "::".join(parts[3:]))
