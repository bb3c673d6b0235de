"""Where a network without a way out gets from what the internet has: copies of images and of runtimes.

Only places change. A copy has the version, and what is checked of it the checksum, of what it is a copy of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentenv.core.pinned_versions import Source


@dataclass(frozen=True)
class Mirrors:
    """The places of copies; where there is none, the public one is used."""

    registry: str | None = None
    files: str | None = None

    def image(self, public: str) -> str:
        """Where an image is taken from: the copy has its name without its registry's."""
        return f"{self.registry}/{public.partition('/')[2]}" if self.registry else public

    def runtimes(self, public: Mapping[str, Source]) -> dict[str, Source]:
        """Where runtimes are taken from: each below its name and version, and below its processor as in public."""
        if not self.files:
            return dict(public)
        return {
            word: replace(one, address=f"{self.files}/{word}/{one.version}/{_by_processor(one.address)}")
            for word, one in public.items()
        }

    def reaches(self, image: str, region: str) -> bool:
        """Whether an image can be pulled through endpoints alone: from ECR in the region, or from the copies."""
        if self.registry and image.startswith(f"{self.registry}/"):
            return True
        return bool(re.match(rf"[0-9]{{12}}\.dkr\.ecr\.{re.escape(region)}\.amazonaws\.com(\.cn)?/", image))


def _by_processor(address: str) -> str:
    """The end of an address, from where it says for which processor."""
    parts = address.split("/")
    first = next((place for place, part in enumerate(parts) if "{" in part), len(parts) - 1)
    return "/".join(parts[first:])
