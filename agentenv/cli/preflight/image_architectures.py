"""Check that images are built for the processors of the nodes that their pods may run on.

A pod whose image lacks the processor of its node fails with "exec format error", or is never pulled. Only ECR in the
region of the stack is called, with the caller's credentials.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.config.sections.classes import SandboxClass
from agentenv.core.nodes.node_pools import architecture_of, families_of, processor
from agentenv.core.service.image_version import ecr_image

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_TIMEOUT_SECONDS = 30


def questions(settings: Settings) -> list[Question]:
    """Return a question for each image, with the processors of all of its pods."""
    names: dict[str, list[str]] = {}
    needed: dict[str, set[str]] = {}
    for name, image, architectures in _images(settings):
        names.setdefault(image, []).append(name)
        needed.setdefault(image, set()).update(architectures)
    return [
        Question(
            f"processors of the image of {', '.join(names[image])}",
            ", ".join(sorted(architectures)),
            _check(image, architectures),
        )
        for image, architectures in needed.items()
    ]


def class_architectures(sandbox_class: SandboxClass, settings: Settings) -> set[str]:
    """Return the processors on which pods of a class may run."""
    if sandbox_class.compute == "fargate":
        return {"amd64"}
    architecture = architecture_of(sandbox_class, settings.capacity)
    if architecture != "any":
        return {architecture}
    return {processor(family) for family in families_of(sandbox_class, settings.capacity)}


def _images(settings: Settings) -> Iterator[tuple[str, str, set[str]]]:
    """Yield what an image is of, the image, and the processors that it needs."""
    for row in settings.sandbox_classes:
        yield row.name, row.image, class_architectures(row, settings)
    service = settings.service
    if not service.enabled or service.image is None:
        return
    yield "the service", service.image, {processor(family) for family in settings.capacity.system.families}
    if service.workspaced is not None and settings.sandbox_classes:
        every = set[str]().union(*(class_architectures(row, settings) for row in settings.sandbox_classes))
        yield "workspaced", service.workspaced.image, every


def _check(image: str, needed: set[str]) -> Callable[[Account], Answer]:
    def answer(account: Account) -> Answer:
        repository = ecr_image(image)
        if repository is None or repository["region"] != account.region:
            where = "the registry is not ECR" if repository is None else f"the registry is in {repository['region']}"
            return Answer(None, ok=None, why=f"{where}; compare: docker buildx imagetools inspect {image}")
        found = _architectures(account, repository)
        if isinstance(found, Answer):
            return found
        if lacking := sorted(needed - found):
            why = f"not built for {', '.join(lacking)}: build it for all of them, or set the class's architecture"
            return Answer(", ".join(sorted(found)), ok=False, why=why)
        return Answer(", ".join(sorted(found)), ok=True, why="")

    return answer


def _architectures(account: Account, repository: dict[str, str]) -> set[str] | Answer:
    """Return the processors of an image in ECR, or the answer if it cannot be read."""
    where = {"registryId": repository["account"], "repositoryName": repository["repository"]}
    try:
        response = account.call(
            "ecr",
            "batch_get_image",
            **where,
            imageIds=[{"imageDigest": repository["digest"]}],
            acceptedMediaTypes=[*INDEXES, *MANIFESTS],
        )
    except AwsCallError as error:
        if error.code != "RepositoryNotFoundException":
            raise
        return Answer(None, ok=False, why=f"{error}; push the image there")
    if not response["images"]:
        reason = ", ".join(failure.get("failureCode", "") for failure in response.get("failures", []))
        return Answer(None, ok=False, why=f"ECR has no such image in {repository['repository']} ({reason}); push it")
    manifest: dict[str, Any] = json.loads(response["images"][0]["imageManifest"])
    if "manifests" in manifest:
        platforms = (row.get("platform") or {} for row in manifest["manifests"])
        # Attestations of a build have the platform `unknown`.
        return {str(row.get("architecture")) for row in platforms if row.get("os") == "linux"}
    layer = account.call("ecr", "get_download_url_for_layer", **where, layerDigest=manifest["config"]["digest"])
    try:
        with urllib.request.urlopen(layer["downloadUrl"], timeout=_TIMEOUT_SECONDS) as config:  # noqa: S310 - of ECR
            return {str(json.load(config)["architecture"])}
    except (OSError, ValueError, KeyError) as error:
        return Answer(None, ok=None, why=f"its configuration could not be read: {error}")
