"""Check that the registry has the service's image, and that its version fits this package."""

from __future__ import annotations

from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.service.image_version import (
    OLDEST_IMAGE,
    ecr_image,
    format_version,
    version_of_image,
    version_of_tag,
)

_LABEL = "compare the label org.opencontainers.image.version of the image"


def questions(settings: Settings) -> list[Question]:
    """Return the question about the image, where the service is deployed."""
    image = settings.service.image
    if image is None or not settings.service.enabled:
        return []
    return [
        Question(
            "image of the service", f"{format_version(OLDEST_IMAGE)} or newer", lambda account: _check(account, image)
        )
    ]


def _check(account: Account, image: str) -> Answer:
    repository = ecr_image(image)
    if repository is None:
        return _version_answer(version_of_image(image), f"the registry is not ECR; {_LABEL}")
    if repository["region"] != account.region:
        return _version_answer(version_of_image(image), f"the registry is in {repository['region']}; {_LABEL}")
    try:
        details = account.call(
            "ecr",
            "describe_images",
            registryId=repository["account"],
            repositoryName=repository["repository"],
            imageIds=[{"imageDigest": repository["digest"]}],
        )["imageDetails"]
    except AwsCallError as error:
        if error.code not in {"ImageNotFoundException", "RepositoryNotFoundException"}:
            raise
        return Answer(None, ok=False, why=f"{error}; push the image of this release there")
    tags = [tag for detail in details for tag in detail.get("imageTags", [])]
    versions = [version for tag in tags if (version := version_of_tag(tag)) is not None]
    return _version_answer(max(versions, default=None), f"none of its tags is a version; {_LABEL}")


def _version_answer(version: tuple[int, int, int] | None, unknown: str) -> Answer:
    if version is None:
        return Answer(None, ok=None, why=unknown)
    too_old = version < OLDEST_IMAGE
    why = "it does not know what this package configures; copy the image of this release" if too_old else ""
    return Answer(format_version(version), ok=not too_old, why=why)
