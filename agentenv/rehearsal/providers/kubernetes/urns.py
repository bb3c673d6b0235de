"""What an URN says: the type, the kind it stands for, and the resource's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from agentenv.rehearsal.providers.kubernetes.discovery import canonical

PACKAGE: Final = "kubernetes"


class BadToken(Exception):
    """A type this provider cannot have made."""


@dataclass(frozen=True)
class Resource:
    """A resource as the engine names it."""

    urn: str
    token: str
    name: str

    @property
    def api_version(self) -> str:
        return canonical(self.token.split(":")[1])

    @property
    def kind(self) -> str:
        """The type's last part; a patch's is its object's kind and `Patch`."""
        return self.token.split(":")[2]

    def patches(self, kind: str) -> bool:
        """Whether it only lays fields over an object that is somebody else's."""
        return self.kind == f"{kind}Patch" if kind else self.kind.endswith("Patch")


def resource(urn: str) -> Resource:
    parts = urn.split("::")
    if len(parts) < 4:
        raise BadToken(f"{urn!r} is not an URN")
    token = parts[2].rsplit("$", maxsplit=1)[-1]
    pieces = token.split(":")
    if len(pieces) != 3 or pieces[0] != PACKAGE or not all(pieces):
        raise BadToken(f"{token!r} is not a type of the {PACKAGE} provider: <package>:<group>/<version>:<Kind>")
    return Resource(urn, token, "::".join(parts[3:]))
