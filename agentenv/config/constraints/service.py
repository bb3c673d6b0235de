"""Refusals of the workspace service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Finding, Row

if TYPE_CHECKING:
    from agentenv.config.settings import Settings


def _in_clear(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.domain is not None and service.certificate is None:
        yield Finding(
            ("service", "domain"), f"{service.domain} without certificate", also=(("service", "certificate"),)
        )


def _certificate_elsewhere(settings: Settings) -> Iterator[Finding]:
    certificate = settings.service.certificate
    if certificate is not None and (there := certificate.split(":")[3]) != settings.region:
        yield Finding(("service", "certificate"), f"one of {there} in {settings.region}", also=(("region",),))


def _open_to_all(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.domain is not None and service.reach == "internet" and not service.callers:
        yield Finding(("service", "reach"), "internet without callers", also=(("service", "callers"),))


def _nobody_known(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.domain is not None and service.reach == "internet" and service.issuer is None:
        yield Finding(("service", "reach"), "internet without issuer", also=(("service", "issuer"),))


def _domain_of_nothing(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.enabled and service.domain is not None and service.image is None:
        yield Finding(("service", "image"), f"nothing, with the domain {service.domain}", also=(("service", "domain"),))


ROWS = (
    Row(
        "service-in-clear",
        "whoever reads a caller's token on the way is that caller",
        "a domain with a certificate of ACM",
        "set service.certificate to one for the domain, in the environment's region",
        _in_clear,
    ),
    Row(
        "certificate-of-another-region",
        "a load balancer takes certificates of its own region only",
        "a certificate of the environment's region",
        "ask ACM for the certificate in this region",
        _certificate_elsewhere,
    ),
    Row(
        "service-open-to-all",
        "a service that anybody may knock at is one that anybody tries",
        "the ranges that callers come from",
        "set service.callers, or leave reach internal",
        _open_to_all,
    ),
    Row(
        "callers-without-issuer",
        "outside the cluster there are no service accounts, so that nobody could be known",
        "an issuer of tokens with reach internet",
        "set service.issuer, or leave reach internal",
        _nobody_known,
    ),
    Row(
        "domain-without-service",
        "a domain leads to a service that is deployed, and nobody publishes its image",
        "the image of the service by its digest",
        "build it from the Dockerfile, push it to a registry of yours, and name its digest in service.image",
        _domain_of_nothing,
    ),
)
