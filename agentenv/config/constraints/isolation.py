"""Constraints on networks without NAT, which cannot reach public addresses, and on mirrors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.config.sections.capabilities import INTERNET
from agentenv.config.sections.network import PLATFORM_ENDPOINTS
from agentenv.core.nodes.mirrors import Mirrors
from agentenv.core.nodes.tiers import wall_of
from agentenv.core.pinned_versions import releases

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings


def _isolated(settings: Settings) -> bool:
    return settings.network.nat == "none" and settings.network.existing is None


def reaches_internet(sandbox_class: SandboxClass) -> str:
    """Return the first capability of a class that reaches the internet; an empty string without one."""
    for grant in sandbox_class.capabilities:
        if grant.word in INTERNET:
            return grant.word
        if grant.cidr is not None and grant.cidr.is_global:
            return str(grant.cidr)
    return ""


def _internet_without_nat(settings: Settings) -> Iterator[Finding]:
    if _isolated(settings):
        for index, sandbox_class in enumerate(settings.sandbox_classes):
            if reached := reaches_internet(sandbox_class):
                place = ("sandboxClasses", index, "capabilities")
                yield Finding(place, f"{reached} with nat none", also=(("network", "nat"),))


def _endpoints_missing(settings: Settings) -> Iterator[Finding]:
    network = settings.network
    missing = [name for name in PLATFORM_ENDPOINTS if name not in network.endpoints]
    if _isolated(settings) and missing:
        place = ("network", "endpoints")
        yield Finding(
            place, f"nat none without {', '.join(missing)}", f"add {', '.join(missing)}", (("network", "nat"),)
        )


def _platform_unmirrored(settings: Settings) -> Iterator[Finding]:
    if _isolated(settings) and settings.network.mirrors.registry is None:
        yield Finding(("network", "mirrors", "registry"), "nothing with nat none", also=(("network", "nat"),))


def _runtime_unmirrored(settings: Settings) -> Iterator[Finding]:
    mirrors = settings.network.mirrors
    if not _isolated(settings) or mirrors.bucket or mirrors.files is not None:
        return
    fetched = releases().runtimes
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        word = wall_of(sandbox_class.tier, sandbox_class.kernel).word
        if sandbox_class.compute == "karpenter" and word in fetched:
            also = (("network", "nat"), ("network", "mirrors"))
            yield Finding(("sandboxClasses", index, "tier"), f"{sandbox_class.tier} with nat none", also=also)


def _two_mirrors(settings: Settings) -> Iterator[Finding]:
    if settings.network.mirrors.bucket and settings.network.mirrors.files is not None:
        yield Finding(("network", "mirrors", "bucket"), "true beside files", also=(("network", "mirrors", "files"),))


def _image_unmirrored(settings: Settings) -> Iterator[Finding]:
    if not _isolated(settings):
        return
    mirrors = Mirrors(settings.network.mirrors.registry)
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        images = [((*place, "image"), sandbox_class.image)]
        images += [
            ((*place, "releases", n, "image"), release.image)
            for n, release in enumerate(sandbox_class.releases)
            if release.image
        ]
        for where, image in images:
            if not mirrors.reaches(image, settings.region):
                yield Finding(where, f"{image.partition('/')[0]} with nat none", also=(("network", "nat"),))


CONSTRAINTS = (
    Constraint(
        "internet-without-nat",
        "without NAT no sandbox reaches the internet, whatever its capabilities allow",
        "capabilities inside the VPC",
        "set network.nat to single, or remove the capability",
        _internet_without_nat,
    ),
    Constraint(
        "nat-none-without-endpoints",
        "without NAT, nodes reach AWS through endpoints only and cannot join the cluster without them",
        f"nat none with {', '.join(PLATFORM_ENDPOINTS)}",
        "add the endpoints, or set network.nat to single",
        _endpoints_missing,
    ),
    Constraint(
        "nat-none-without-registry",
        "without NAT the platform's public images cannot be pulled",
        "nat none with network.mirrors.registry",
        "copy the images to ECR and set network.mirrors.registry, or set network.nat to single",
        _platform_unmirrored,
    ),
    Constraint(
        "nat-none-runtime-elsewhere",
        "nodes of this tier download a runtime from the internet, and cannot join the cluster without it",
        "tiers whose nodes download no runtime, network.mirrors.bucket, or network.mirrors.files",
        "set network.mirrors.bucket to true, or network.nat to single",
        _runtime_unmirrored,
    ),
    Constraint(
        "bucket-beside-files",
        "nodes read one mirror of runtimes",
        "bucket or files",
        "remove one of them",
        _two_mirrors,
    ),
    Constraint(
        "nat-none-image-elsewhere",
        "without NAT images are pulled through endpoints only, which reach ECR in the region",
        "images in ECR in aws:region",
        "copy the image to ECR, or set network.nat to single",
        _image_unmirrored,
    ),
)
