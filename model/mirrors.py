"""Where a network without a way out gets from what the internet has: copies of images and of runtimes.

Only places change. A copy has the version, and what is checked of it the checksum, of what it is a copy of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from model.releases import Source


@dataclass(frozen=True)
class Mirrors:
    """The places of copies; where there is none, the public one is used."""

    registry: str | None = None
    files: str | None = None

    def image(self, public: str) -> str:
        """Where an image is taken from: the copy has its name without its registry's."""
        return f"{self.registry}/{public.partition('/')[2]}" if self.registry else public

    def runtimes(self, public: Mapping[str, Source]) -> dict[str, Source]:
        """Where runtimes are taken from: each below its name and version, in files of the same names."""
        if not self.files:
            return dict(public)
        return {
            word: replace(one, address=f"{self.files}/{word}/{one.version}/{one.address.rsplit('/', 1)[1]}")
            for word, one in public.items()
        }

    def reaches(self, image: str, region: str) -> bool:
        """Whether an image can be pulled through endpoints alone: from ECR in the region, or from the copies."""
        if self.registry and image.startswith(f"{self.registry}/"):
            return True
        return bool(re.match(rf"[0-9]{{12}}\.dkr\.ecr\.{re.escape(region)}\.amazonaws\.com(\.cn)?/", image))
