"""Names of container images, read as container runtimes read them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# One that is too short is refused by every runtime: nothing else can be had under it either
_DIGEST = re.compile(r"sha(256|384|512):[0-9a-f]+")
_HUB = "docker.io"


@dataclass(frozen=True)
class Image:
    """`registry/path:tag@digest`; the registry and the path are given as they are meant, not as they are written."""

    registry: str
    path: str
    tag: str | None
    digest: str | None

    @property
    def place(self) -> str:
        """Where it comes from, without its version."""
        return f"{self.registry}/{self.path}"

    @property
    def pinned(self) -> bool:
        """Whether nothing else can ever be had under that name."""
        return self.digest is not None and _DIGEST.fullmatch(self.digest) is not None

    def comes_from(self, prefix: str) -> bool:
        """Whether its place is that registry or path, or below it: `a.io/team` does not begin `a.io/teamwork`."""
        wanted = prefix.rstrip("/")
        return self.place == wanted or self.place.startswith(f"{wanted}/")


def image_of(name: str) -> Image:
    """The parts of a name; the hub of Docker where no registry is written, which no name of a host can be left"
    " out of."""
    rest, _, digest = name.strip().partition("@")
    head, slash, tail = rest.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, path = head, tail
    else:
        registry, path = _HUB, rest
    path, colon, tag = path.partition(":")
    if registry in {_HUB, "index.docker.io", "registry-1.docker.io"}:
        registry, path = _HUB, path if "/" in path else f"library/{path}"
    return Image(registry.lower(), path, tag if colon else None, digest or None)
