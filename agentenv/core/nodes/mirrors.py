"""Mirrors of public images and runtimes: networks without internet access need them, others start nodes without it.

Only the address changes. A copy has the same version, and is verified by the same digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentenv.core.pinned_versions import Runtime


@dataclass(frozen=True)
class Mirrors:
    """The addresses of mirrors; without one the public address is used."""

    registry: str | None = None
    files: str | None = None

    def image(self, public: str) -> str:
        """Return the address of an image; a copy has the same name in another registry."""
        return f"{self.registry}/{public.partition('/')[2]}" if self.registry else public

    def runtimes(self, public: Mapping[str, Runtime], *, isolated: bool = False) -> dict[str, Runtime]:
        """Return the runtimes with the copy's address first; it is the only one in an isolated network."""
        if not self.files:
            return dict(public)
        return {
            name: replace(
                runtime,
                addresses=(f"{self.files}/{_copy(name, runtime)}", *(() if isolated else runtime.addresses)),
            )
            for name, runtime in public.items()
        }

    def reaches(self, image: str, region: str) -> bool:
        """Return whether an image can be pulled through endpoints alone: from ECR in the region, or from the mirror."""
        if self.registry and image.startswith(f"{self.registry}/"):
            return True
        return bool(re.match(rf"[0-9]{{12}}\.dkr\.ecr\.{re.escape(region)}\.amazonaws\.com(\.cn)?/", image))


def _copy(name: str, runtime: Runtime) -> str:
    """Return the path of a copy: the name, the version, and the public address from the part with the architecture."""
    parts = runtime.addresses[0].split("/")
    first = next((place for place, part in enumerate(parts) if "{" in part), len(parts) - 1)
    return "/".join((name, runtime.version, *parts[first:]))
