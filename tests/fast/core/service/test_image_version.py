"""Tests of the version in an image's name."""

from __future__ import annotations

import importlib.metadata

import pytest

from agentenv.core.service.image_version import (
    OLDEST_IMAGE,
    ecr_image,
    format_version,
    version_of_image,
    version_of_tag,
)

DIGEST = f"sha256:{'ab' * 32}"


@pytest.mark.parametrize(
    ("image", "version"),
    [
        (f"registry.example.com/service:1.2.3@{DIGEST}", (1, 2, 3)),
        (f"registry.example.com:5000/service:v10.0.1@{DIGEST}", (10, 0, 1)),
        (f"registry.example.com:5000/service@{DIGEST}", None),
        (f"registry.example.com/service:1.2@{DIGEST}", None),
        (f"registry.example.com/service:1.2.3-rc1@{DIGEST}", None),
        (f"registry.example.com/service:stable@{DIGEST}", None),
    ],
)
def test_the_version_is_read_from_the_tag(image: str, version: tuple[int, int, int] | None) -> None:
    assert version_of_image(image) == version


def test_this_release_is_not_older_than_the_oldest_supported_image() -> None:
    version = version_of_tag(importlib.metadata.version("agent-environment"))
    assert version is not None
    assert version >= OLDEST_IMAGE
    assert version_of_tag(format_version(OLDEST_IMAGE)) == OLDEST_IMAGE


@pytest.mark.parametrize(
    "host",
    [
        "111122223333.dkr.ecr.eu-west-1.amazonaws.com",
        "111122223333.dkr.ecr-fips.eu-west-1.amazonaws.com",
        "111122223333.dkr-ecr.eu-west-1.on.aws",
    ],
)
def test_the_parts_of_an_image_in_ecr(host: str) -> None:
    assert ecr_image(f"{host}/team/service:1.0.0@{DIGEST}") == {
        "account": "111122223333",
        "region": "eu-west-1",
        "repository": "team/service",
        "digest": DIGEST,
    }


def test_an_image_of_another_registry_has_no_parts_in_ecr() -> None:
    assert ecr_image(f"public.ecr.aws/team/service@{DIGEST}") is None
