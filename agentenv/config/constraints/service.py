"""Constraints on the workspace service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.service.image_version import OLDEST_IMAGE, format_version, version_of_image

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


def _without_tls(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.domain is not None and service.certificate is None:
        yield Finding(
            ("service", "domain"), f"{service.domain} without certificate", also=(("service", "certificate"),)
        )


def _certificate_in_another_region(settings: Settings) -> Iterator[Finding]:
    certificate = settings.service.certificate
    if certificate is not None and (certificate_region := certificate.split(":")[3]) != settings.region:
        yield Finding(
            ("service", "certificate"),
            f"a certificate in {certificate_region}, not {settings.region}",
            also=(("region",),),
        )


def _open_to_internet(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.domain is not None and service.reach == "internet" and not service.callers:
        yield Finding(("service", "reach"), "internet without callers", also=(("service", "callers"),))


def _without_issuer(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.domain is not None and service.reach == "internet" and service.issuer is None:
        yield Finding(("service", "reach"), "internet without issuer", also=(("service", "issuer"),))


def _domain_without_image(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.enabled and service.domain is not None and service.image is None:
        yield Finding(("service", "image"), f"nothing, with the domain {service.domain}", also=(("service", "domain"),))


def _image_too_old(settings: Settings) -> Iterator[Finding]:
    image = settings.service.image
    version = version_of_image(image) if settings.service.enabled and image is not None else None
    if version is not None and version < OLDEST_IMAGE:
        yield Finding(("service", "image"), f"version {format_version(version)}")


CONSTRAINTS = (
    Constraint(
        "service-in-clear",
        "without TLS, tokens of callers can be intercepted",
        "a domain with an ACM certificate",
        "set service.certificate to one for the domain, in the environment's region",
        _without_tls,
    ),
    Constraint(
        "certificate-of-another-region",
        "a load balancer uses certificates of its own region only",
        "a certificate in the environment's region",
        "request the certificate in this region",
        _certificate_in_another_region,
    ),
    Constraint(
        "service-open-to-all",
        "the service would be open to the whole internet",
        "the source ranges of callers",
        "set service.callers, or set reach: internal",
        _open_to_internet,
    ),
    Constraint(
        "callers-without-issuer",
        "callers outside of the cluster have no service account, so none could authenticate",
        "a token issuer with reach internet",
        "set service.issuer, or set reach: internal",
        _without_issuer,
    ),
    Constraint(
        "domain-without-service",
        "a domain needs a deployed service, and the service has no public image",
        "the image of the service by digest",
        "build it from the Dockerfile, push it to your registry, and set service.image to its digest",
        _domain_without_image,
    ),
    Constraint(
        "service-image-too-old",
        "an older image does not know what this package configures",
        f"an image of version {format_version(OLDEST_IMAGE)} or newer",
        "copy the image of this release to your registry, and set service.image to it",
        _image_too_old,
    ),
)
