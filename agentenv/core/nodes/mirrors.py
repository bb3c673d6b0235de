"""Mirrors of public images and runtimes, for networks without internet access.

Only the address changes. A copy has the same version and checksum.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentenv.core.pinned_versions import Source


@dataclass(frozen=True)
class Mirrors:
    """The addresses of mirrors; without one the public address is used."""

    registry: str | None = None
    files: str | None = None

    def image(self, public: str) -> str:
        """Return the address of an image; a copy has the same name in another registry."""
        return f"{self.registry}/{public.partition('/')[2]}" if self.registry else public

    def runtimes(self, public: Mapping[str, Source]) -> dict[str, Source]:
        """Return the sources of runtimes; a copy is below its name, version and architecture."""
        if not self.files:
            return dict(public)
        return {
            word: replace(source, address=f"{self.files}/{word}/{source.version}/{_by_processor(source.address)}")
            for word, source in public.items()
        }

    def reaches(self, image: str, region: str) -> bool:
        """Return whether an image can be pulled through endpoints alone: from ECR in the region, or from the mirror."""
        if self.registry and image.startswith(f"{self.registry}/"):
            return True
        return bool(re.match(rf"[0-9]{{12}}\.dkr\.ecr\.{re.escape(region)}\.amazonaws\.com(\.cn)?/", image))


def _by_processor(address: str) -> str:
    """Return the end of an address, from the part with its architecture."""
    parts = address.split("/")
    first = next((place for place, part in enumerate(parts) if "{" in part), len(parts) - 1)
    return "/".join(parts[first:])
