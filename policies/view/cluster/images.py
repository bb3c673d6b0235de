"""Names of container images, parsed as container runtimes do."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Runtimes reject a digest that is too short, so it is as good as a full one
_DIGEST = re.compile(r"sha(256|384|512):[0-9a-f]+")
_HUB = "docker.io"


@dataclass(frozen=True)
class Image:
    """`registry/path:tag@digest`, with the default registry and path filled in."""

    registry: str
    path: str
    tag: str | None
    digest: str | None

    @property
    def repository(self) -> str:
        """Return its registry and path."""
        return f"{self.registry}/{self.path}"

    @property
    def pinned(self) -> bool:
        """Return whether the name always means the same image."""
        return self.digest is not None and _DIGEST.fullmatch(self.digest) is not None

    def is_in(self, prefix: str) -> bool:
        """Return whether it is in a registry or path: `a.io/team` is not a prefix of `a.io/teamwork`."""
        path = prefix.rstrip("/")
        return self.repository == path or self.repository.startswith(f"{path}/")


def parse_image(name: str) -> Image:
    """Parse a name. Without a registry, it is an image of Docker Hub."""
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
