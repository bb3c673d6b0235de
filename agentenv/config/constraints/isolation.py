"""Refusals of what a network without a way out cannot reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row
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


def reaches_internet(one: SandboxClass) -> str:
    """Which of its capabilities leads a class to the internet; nothing where none does."""
    for grant in one.capabilities:
        if grant.word in INTERNET:
            return grant.word
        if grant.cidr is not None and grant.cidr.is_global:
            return str(grant.cidr)
    return ""


def _no_way_out(settings: Settings) -> Iterator[Finding]:
    if _isolated(settings):
        for index, one in enumerate(settings.sandbox_classes):
            if reached := reaches_internet(one):
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
    if not _isolated(settings) or settings.network.mirrors.files is not None:
        return
    fetched = releases().runtimes
    for index, one in enumerate(settings.sandbox_classes):
        word = wall_of(one.tier, one.kernel).word
        if one.compute == "karpenter" and word in fetched:
            also = (("network", "nat"), ("network", "mirrors", "files"))
            yield Finding(("sandboxClasses", index, "tier"), f"{one.tier} with nat none", also=also)


def _image_unmirrored(settings: Settings) -> Iterator[Finding]:
    if not _isolated(settings):
        return
    mirrors = Mirrors(settings.network.mirrors.registry)
    for index, one in enumerate(settings.sandbox_classes):
        place = ("sandboxClasses", index)
        images = [((*place, "image"), one.image)]
        images += [((*place, "releases", n, "image"), each.image) for n, each in enumerate(one.releases) if each.image]
        for where, image in images:
            if not mirrors.reaches(image, settings.region):
                yield Finding(where, f"{image.partition('/')[0]} with nat none", also=(("network", "nat"),))


ROWS = (
    Row(
        "internet-without-nat",
        "without NAT no packet of a sandbox reaches the internet, whatever its policy allows",
        "capabilities inside the VPC",
        "set network.nat to single, or drop the capability",
        _no_way_out,
    ),
    Row(
        "nat-none-without-endpoints",
        "without NAT, nodes reach AWS by endpoints only and never join otherwise",
        f"nat none with {', '.join(PLATFORM_ENDPOINTS)}",
        "add the endpoints, or set network.nat to single",
        _endpoints_missing,
    ),
    Row(
        "nat-none-without-registry",
        "without NAT the images of the platform's controllers, which are on the internet, cannot be pulled",
        "nat none with network.mirrors.registry",
        "copy them to ECR and name it there, or set network.nat to single",
        _platform_unmirrored,
    ),
    Row(
        "nat-none-runtime-elsewhere",
        "nodes of this tier install its runtime from the internet before they join, and never join without it",
        "tiers whose nodes install nothing, or network.mirrors.files",
        "copy the runtimes to a bucket and name it in network.mirrors.files, or set network.nat to single",
        _runtime_unmirrored,
    ),
    Row(
        "nat-none-image-elsewhere",
        "without NAT an image is pulled over endpoints only, which lead to ECR in the region",
        "images in ECR in aws:region",
        "copy the image to ECR, or set network.nat to single",
        _image_unmirrored,
    ),
)
