"""IMG rules about images of containers, and about their registries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from agentenv.core.pinned_versions import releases
from agentenv.policies.rules.iam.trust import open_statements
from agentenv.policies.rules.registry import (
    POD,
    Outcome,
    fail,
    forbid_boolean,
    not_applicable,
    resources,
    rule,
    unknown,
)
from agentenv.policies.view.cluster.images import Image, parse_image
from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field, is_one_of
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

if TYPE_CHECKING:
    from agentenv.config import Settings

PRIVATE_ECR: Final = re.compile(r"\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$")
REPOSITORY = "aws:ecr/repository:Repository"
SCANNING = "aws:ecr/registryScanningConfiguration:RegistryScanningConfiguration"
# Registries whose tags never change: images are promoted by digest (Kubernetes, registry.k8s.io)
IMMUTABLE_REGISTRIES = ("registry.k8s.io",)


def _images(pod: PodSpec) -> Iterator[tuple[Field, Image | None, str]]:
    """Yield the image of each container and image volume; None if it is not known.

    A container without an image is skipped: it gets one later, or never starts.
    """
    names = [(container.at("image"), container.title) for container in pod.containers]
    names += [(volume.at("image", "reference"), "a volume") for volume in pod.at("volumes").elements() if volume.known]
    for name, title in names:
        if name.unknown:
            yield name, None, title
        elif isinstance(name.raw, str) and name.raw:
            yield name, parse_image(name.raw), title


@rule(
    id="IMG-01",
    title="Images are pinned by digest",
    severity="High",
    why="Anybody who can push to the registry can change what a tag means, without a change of the stack.",
    fix="Append the digest to the name: `registry.example.com/sandbox@sha256:…`.",
    equivalents={"Checkov": ("CKV_K8S_43",), "Kyverno": ("require-image-checksum",), "CIS": ("5.5.1",)},
    applies_to=POD,
    defaults="Tags of registry.k8s.io do not change once they are published, so a tag there is enough for pods other"
    " than sandboxes.",
)
def pinned(pod: PodSpec) -> Iterator[Outcome]:
    """Check every image. Pods of the platform may use a tag of a registry with immutable tags."""
    for field, image, title in _images(pod):
        if image is None:
            yield unknown(field)
        elif not image.pinned and not (_has_fixed_tag(image) and not pod.sandbox):
            yield fail(field, f"the image of {title} has no digest")


def _has_fixed_tag(image: Image) -> bool:
    return image.tag not in {None, "latest"} and image.registry in IMMUTABLE_REGISTRIES


@rule(
    id="IMG-02",
    title="Images come from allowed registries",
    severity="High",
    why="An image from an unknown registry is code from an unknown source.",
    fix="Copy the image into an allowed registry, or add its registry to `registries` in the configuration of the"
    " packs.",
    equivalents={"Kyverno": ("restrict-image-registries",)},
    applies_to=POD,
    defaults="Without a list in the configuration, images of sandboxes come from private registries of ECR, from those"
    " of the stack's classes, or are pinned by this package. All registries are allowed for other pods.",
)
def registry(pod: PodSpec) -> Iterator[Outcome]:
    """Compare the registry and path of each image with the list."""
    allowed = pod.context.registries
    if not allowed and not pod.runs_user_code:
        yield not_applicable(pod.root, "no list of registries is configured")
        return
    prefixes = allowed or default_registries(pod.context.settings)
    for field, image, title in _images(pod):
        if image is None:
            yield unknown(field)
        elif not any(image.is_in(prefix) for prefix in prefixes) and (allowed or not PRIVATE_ECR.match(image.registry)):
            source = "which is not on the list" if allowed else "and no list of registries is configured"
            yield fail(field, f"the image of {title} comes from {image.registry}, {source}")


def default_registries(settings: Settings | None) -> tuple[str, ...]:
    """Return the registries of the images of a stack's classes and daemon, and the pinned images."""
    own: list[str] = []
    for each in settings.sandbox_classes if settings is not None else ():
        own += [each.image, *(release.image for release in each.releases)]
    if settings is not None and settings.service.workspaced:
        own.append(settings.service.workspaced.image)
    pinned = (parse_image(name).repository for name in releases().images.values())
    return (*{parse_image(name).registry for name in own}, *pinned)


@rule(
    id="IMG-03",
    title="Tags of a repository are immutable",
    severity="High",
    why="Otherwise, anybody who can push can replace the image of a tag that is in use.",
    fix="Set imageTagMutability to IMMUTABLE.",
    equivalents={"Checkov": ("CKV_AWS_51",), "Security Hub": ("ECR.2",)},
    applies_to=resources(REPOSITORY),
    defaults="MUTABLE by default (ECR API reference, CreateRepository).",
)
def immutable_tags(repository: Resource) -> Iterator[Outcome]:
    """Check the setting and its exclusions, which must not have wildcards."""
    mutability = repository.at("imageTagMutability")
    if mutability.unknown:
        yield unknown(mutability)
    elif not is_one_of(mutability, {"IMMUTABLE", "IMMUTABLE_WITH_EXCLUSION"}):
        yield fail(mutability, "its tags are mutable")
    elif mutability.raw == "IMMUTABLE_WITH_EXCLUSION":
        for row in repository.at("imageTagMutabilityExclusionFilters").elements():
            if row.at("filter").known and "*" in str(row.at("filter").raw):
                yield fail(row.at("filter"), "tags that match a pattern are mutable")


@rule(
    id="IMG-04",
    title="Images of a repository are scanned",
    severity="Medium",
    why="A known vulnerability in the image is in every sandbox.",
    fix="Set imageScanningConfiguration.scanOnPush, or scan the whole registry with a RegistryScanningConfiguration.",
    equivalents={"Checkov": ("CKV_AWS_163",), "Security Hub": ("ECR.1",), "CIS": ("5.1.1",)},
    applies_to=resources(REPOSITORY),
    defaults="No scan by default (ECR API reference, ImageScanningConfiguration).",
)
def scanned(repository: Resource, graph: Graph) -> Iterator[Outcome]:
    """Check the setting of the repository, or that of the registry."""
    scan = repository.at("imageScanningConfiguration", "scanOnPush")
    if any(each.at("rules").elements() for each in graph.of_type(SCANNING)):
        return
    yield from forbid_boolean(scan, {False, None}, "pushed images are not scanned")


@rule(
    id="IMG-05",
    title="Images have a version",
    severity="Medium",
    why="`latest`, which is the default tag, may be a different image on every node.",
    fix="Use a version, or better a digest.",
    equivalents={"Checkov": ("CKV_K8S_14",), "Kyverno": ("disallow-latest-tag",)},
    applies_to=POD,
    defaults="`latest` without a tag or digest (Kubernetes, images).",
)
def version(pod: PodSpec) -> Iterator[Outcome]:
    """Check the tag of images without a digest."""
    for field, image, title in _images(pod):
        if image is None:
            yield unknown(field)
        elif image.digest is None and image.tag in {None, "", "latest"}:
            yield fail(field, f"the image of {title} has no version")


@rule(
    id="IMG-06",
    title="A repository is not public",
    severity="High",
    why="A policy for everybody lets every AWS account pull images, or push them.",
    fix="Name the accounts or roles in Principal, or add a Condition such as aws:PrincipalOrgID.",
    equivalents={"Checkov": ("CKV_AWS_32",)},
    applies_to=resources("aws:ecr/repositoryPolicy:RepositoryPolicy"),
)
def public_repository(policy: Resource) -> Iterator[Outcome]:
    """Check for statements that allow everybody, without a condition on the caller."""
    yield from open_statements(policy, "policy", "a statement allows everybody")
