"""IMG: what containers are made of, and the registries that keep it."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.policies.rules.registry import POD, Outcome, fail, not_applicable, resources, rule, unknown
from agentenv.policies.view.cluster.images import Image, image_of
from agentenv.policies.view.cluster.pods import PodSpec
from agentenv.policies.view.fields import Field, is_one_of, scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.resource import Resource

REPOSITORY = "aws:ecr/repository:Repository"
SCANNING = "aws:ecr/registryScanningConfiguration:RegistryScanningConfiguration"
# Tags there are never moved: images are promoted by digest, and a promoted tag stays (Kubernetes, registry.k8s.io)
STEADY = ("registry.k8s.io",)


def _images(pod: PodSpec) -> Iterator[tuple[Field, Image | None, str]]:
    """The image of each container and of each volume that is one, None where it is not known.

    A container without one gets it later, or never starts.
    """
    named = [(container.at("image"), container.title) for container in pod.containers]
    named += [(volume.at("image", "reference"), "a volume") for volume in pod.at("volumes").elements() if volume.known]
    for name, title in named:
        if name.unknown:
            yield name, None, title
        elif isinstance(name.raw, str) and name.raw:
            yield name, image_of(name.raw), title


@rule(
    id="IMG-01",
    title="An image is named by its digest",
    severity="High",
    why="What a tag means is up to whoever may push: the same pod is another program tomorrow, and nobody has"
    " decided so.",
    do="Write the digest behind the name: `registry.example.com/sandbox@sha256:…`.",
    equivalents={"Checkov": ("CKV_K8S_43",), "Kyverno": ("require-image-checksum",), "CIS": ("5.5.1",)},
    about=POD,
    defaults="Tags of registry.k8s.io do not move once they are published, so a version there is enough for"
    " anything but a sandbox.",
)
def pinned(pod: PodSpec) -> Iterator[Outcome]:
    """Every container; the platform's own may have a version of a registry whose tags stay."""
    for field, image, title in _images(pod):
        if image is None:
            yield unknown(field)
        elif not image.pinned and not (_steady(image) and not pod.sandbox):
            yield fail(field, f"the image of {title} is not named by a digest")


def _steady(image: Image) -> bool:
    return image.tag not in {None, "latest"} and image.registry in STEADY


@rule(
    id="IMG-02",
    title="Images come from registries that are known",
    severity="High",
    why="An image of a registry that nobody keeps is code of somebody whom nobody knows.",
    do="Copy the image into a registry of the list, or add its registry to the packs' `registries`.",
    equivalents={"Kyverno": ("restrict-image-registries",)},
    about=POD,
    defaults="Every registry where the packs are given no list.",
)
def registry(pod: PodSpec) -> Iterator[Outcome]:
    """By registry and path, as the container runtime reads the name."""
    known = pod.situation.registries
    if not known:
        yield not_applicable(pod.root, "no list of registries is given")
        return
    for field, image, title in _images(pod):
        if image is None:
            yield unknown(field)
        elif not any(image.comes_from(one) for one in known):
            yield fail(field, f"the image of {title} comes from {image.registry}, which is not on the list")


@rule(
    id="IMG-03",
    title="A repository's tags stay what they are",
    severity="High",
    why="Whoever may push can put another program under a tag that is in use.",
    do="Set imageTagMutability to IMMUTABLE.",
    equivalents={"Checkov": ("CKV_AWS_51",), "Security Hub": ("ECR.2",)},
    about=resources(REPOSITORY),
    defaults="MUTABLE where nothing is said (ECR API reference, CreateRepository).",
)
def immutable_tags(repository: Resource) -> Iterator[Outcome]:
    """Exclusions are tags that move, unless they are named one by one."""
    mutability = repository.at("imageTagMutability")
    if mutability.unknown:
        yield unknown(mutability)
    elif not is_one_of(mutability, {"IMMUTABLE", "IMMUTABLE_WITH_EXCLUSION"}):
        yield fail(mutability, "its tags may be moved")
    elif mutability.raw == "IMMUTABLE_WITH_EXCLUSION":
        for row in repository.at("imageTagMutabilityExclusionFilters").elements():
            if row.at("filter").known and "*" in str(row.at("filter").raw):
                yield fail(row.at("filter"), "a pattern of tags may be moved")


@rule(
    id="IMG-04",
    title="A repository's images are scanned",
    severity="Medium",
    why="A known flaw in the image is in every sandbox.",
    do="Set imageScanningConfiguration.scanOnPush, or scan the whole registry by a RegistryScanningConfiguration.",
    equivalents={"Checkov": ("CKV_AWS_163",), "Security Hub": ("ECR.1",), "CIS": ("5.1.1",)},
    about=resources(REPOSITORY),
    defaults="No scan where nothing is said (ECR API reference, ImageScanningConfiguration).",
)
def scanned(repository: Resource, graph: Graph) -> Iterator[Outcome]:
    """By the repository's own setting, or by the registry's."""
    scan = repository.at("imageScanningConfiguration", "scanOnPush")
    if any(one.at("rules").elements() for one in graph.of_type(SCANNING)):
        return
    if scan.unknown:
        yield unknown(scan)
    elif scan.raw is not True:
        yield fail(scan, "nobody looks for flaws in what is pushed")


@rule(
    id="IMG-05",
    title="An image has a version",
    severity="Medium",
    why="`latest`, which is also what no tag means, is a different program on every node that pulls it.",
    do="Name a version, and better the digest.",
    equivalents={"Checkov": ("CKV_K8S_14",), "Kyverno": ("disallow-latest-tag",)},
    about=POD,
    defaults="`latest` where neither tag nor digest is given (Kubernetes, images).",
)
def version(pod: PodSpec) -> Iterator[Outcome]:
    """A digest is one, whatever the tag beside it says."""
    for field, image, title in _images(pod):
        if image is None:
            yield unknown(field)
        elif image.digest is None and image.tag in {None, "", "latest"}:
            yield fail(field, f"the image of {title} is whatever is latest")


@rule(
    id="IMG-06",
    title="A repository is not everybody's",
    severity="High",
    why="A policy for everybody lets any account of AWS pull the images, or push into them.",
    do="Name the accounts or roles in Principal, or bound it by a Condition such as aws:PrincipalOrgID.",
    equivalents={"Checkov": ("CKV_AWS_32",)},
    about=resources("aws:ecr/repositoryPolicy:RepositoryPolicy"),
)
def public_repository(policy: Resource) -> Iterator[Outcome]:
    """A statement that allows, for everybody, without a condition."""
    document = policy.at("policy").parsed()
    if document.unknown:
        yield unknown(document)
        return
    statements = document.at("Statement")
    for statement in statements.elements() if isinstance(statements.raw, list) else [statements]:
        principal = statement.at("Principal")
        named = (
            {scalar(one) for one in _several(principal.at("AWS"))}
            if isinstance(principal.raw, dict)
            else {scalar(principal)}
        )
        open_to_all = "*" in named or statement.at("NotPrincipal").known
        if statement.at("Effect").raw == "Allow" and open_to_all and not statement.at("Condition").known:
            yield fail(document, "a statement allows it to everybody")
        elif statement.holds_unknown() and statement.at("Effect").raw != "Deny":
            yield unknown(document)


def _several(field: Field) -> list[Field]:
    return field.elements() if isinstance(field.raw, list) else [field]
