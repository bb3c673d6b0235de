"""The version of the service's image, and the oldest one that this package deploys."""

from __future__ import annotations

import re

# Raise it with a change that an older image cannot serve, such as a new command-line flag of its program.
OLDEST_IMAGE = (0, 1, 0)

_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})")
_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)"
    r"/(?P<repository>[^:@]+)(?::[^@]+)?@(?P<digest>sha256:[0-9a-f]{64})"
)


def version_of_tag(tag: str) -> tuple[int, int, int] | None:
    """Return the version that a tag such as `1.2.0` or `v1.2.0` names; None for other tags.

    Pre-releases and builds (`1.2.0-rc1`) are other tags: nothing says what they contain.
    """
    match = _VERSION.fullmatch(tag)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def version_of_image(image: str) -> tuple[int, int, int] | None:
    """Return the version in the tag of `name:tag@digest`; None without such a tag."""
    name = image.partition("@")[0].rpartition("/")[2]
    return version_of_tag(name.partition(":")[2])


def format_version(version: tuple[int, int, int]) -> str:
    """Return a version as it is written: `1.2.0`."""
    return ".".join(map(str, version))


def ecr_image(image: str) -> dict[str, str] | None:
    """Return the account, region, repository and digest of an image in a private ECR registry; None for others."""
    match = _ECR.fullmatch(image)
    return match.groupdict() if match else None
