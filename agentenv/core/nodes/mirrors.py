"""Mirrors of public images and runtimes: networks without internet access need them, others start nodes without it.

Only the address changes. A copy has the same version, and is verified by the same digest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentenv.core.pinned_versions import MACHINES, Runtime, releases
from agentenv.core.values.names import named

if TYPE_CHECKING:
    from agentenv.core.nodes.node_pools import NodePool


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


def runtime_bucket(environment: str, account: str) -> str:
    """Return the name of the bucket that an environment creates; names are global, so the account is part of it."""
    return named("s3-bucket", environment, "agents-runtimes", account)


def bucket_address(bucket: str, region: str, suffix: str = "amazonaws.com") -> str:
    """Return the address of a bucket, which has a path for each object."""
    return f"https://{bucket}.s3.{region}.{suffix}"


@dataclass(frozen=True, order=True)
class RuntimeFile:
    """A file that nodes of an architecture install: its path in a mirror, its public address and its digest."""

    path: str
    address: str
    digest: str


def runtime_files(pools: Iterable[NodePool]) -> list[RuntimeFile]:
    """Return the files that nodes of these pools install, in the order of their paths."""
    runtimes = releases().runtimes
    walls = {(pool.node_class.wall.word, pool.architecture) for pool in pools if pool.node_class.wall}
    return sorted(
        RuntimeFile(
            _for(_copy(name, runtimes[name]), architecture),
            _for(runtimes[name].addresses[0], architecture),
            runtimes[name].digests[architecture],
        )
        for name, architecture in walls
        if name in runtimes
    )


def _for(template: str, architecture: str) -> str:
    return template.format(package=architecture, machine=MACHINES[architecture])


def _copy(name: str, runtime: Runtime) -> str:
    """Return the path of a copy: the name, the version, and the public address from the part with the architecture."""
    parts = runtime.addresses[0].split("/")
    first = next((place for place, part in enumerate(parts) if "{" in part), len(parts) - 1)
    return "/".join((name, runtime.version, *parts[first:]))
