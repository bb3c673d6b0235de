"""Check that the registry has the images of the service and of workspaced, and the version of the first."""

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
    """Return the questions about the images of the service and of workspaced, where they are deployed."""
    service = settings.service
    if service.image is None or not service.enabled:
        return []
    oldest = f"{format_version(OLDEST_IMAGE)} or newer"
    image, inside = service.image, service.workspaced
    checks = [Question("image of the service", oldest, lambda account: _check_version(account, image))]
    if inside is not None:
        checks.append(
            Question("image of workspaced", "in the registry", lambda account: _check_image(account, inside.image))
        )
    return checks


def _check_version(account: Account, image: str) -> Answer:
    tags = _tags(account, image)
    if isinstance(tags, Answer):
        return tags
    if tags is None:
        return _version_answer(version_of_image(image), f"{_elsewhere(image)}; {_LABEL}")
    versions = [version for tag in tags if (version := version_of_tag(tag)) is not None]
    return _version_answer(max(versions, default=None), f"none of its tags is a version; {_LABEL}")


def _check_image(account: Account, image: str) -> Answer:
    tags = _tags(account, image)
    if isinstance(tags, Answer):
        return tags
    return Answer("found", ok=True, why="") if tags is not None else Answer(None, ok=None, why=_elsewhere(image))


def _tags(account: Account, image: str) -> list[str] | Answer | None:
    """Return the tags of an image in ECR; an answer if it is missing, None for another registry or region."""
    repository = ecr_image(image)
    if repository is None or repository["region"] != account.region:
        return None
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
    return [tag for detail in details for tag in detail.get("imageTags", [])]


def _elsewhere(image: str) -> str:
    repository = ecr_image(image)
    return "the registry is not ECR" if repository is None else f"the registry is in {repository['region']}"


def _version_answer(version: tuple[int, int, int] | None, unknown: str) -> Answer:
    if version is None:
        return Answer(None, ok=None, why=unknown)
    too_old = version < OLDEST_IMAGE
    why = "it does not know what this package configures; copy the image of this release" if too_old else ""
    return Answer(format_version(version), ok=not too_old, why=why)
