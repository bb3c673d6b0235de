"""Constraints on the workspace service."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from agentenv.config.constraints.constraint import Constraint, Finding
from agentenv.core.service.image_version import OLDEST_IMAGE, format_version, version_of_image

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

    from agentenv.config.mistakes import Place
    from agentenv.config.settings import Settings

_WORKSPACE_DOMAIN: Place = ("service", "workspaceDomain")


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


def _workspaces_of_same_site(settings: Settings) -> Iterator[Finding]:
    domain, workspace_domain = settings.service.domain, settings.service.workspace_domain
    if workspace_domain is None:
        return
    if domain is None:
        yield Finding(_WORKSPACE_DOMAIN, f"{workspace_domain} without service.domain", also=(("service", "domain"),))
    elif (site := _suffixes().privatesuffix(workspace_domain)) == _suffixes().privatesuffix(domain):
        yield Finding(_WORKSPACE_DOMAIN, f"{workspace_domain} of the site {site}", also=(("service", "domain"),))


def _open_without_own_domain(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.workspace_domain is not None:
        return
    if service.domain is not None and service.reach == "internet":
        yield Finding(("service", "reach"), "internet without workspaceDomain", also=(_WORKSPACE_DOMAIN,))
    for index, sandbox_class in enumerate(settings.sandbox_classes):
        if public := [each for each in sandbox_class.sharing or () if each in {"link", "public"}]:
            place = ("sandboxClasses", index, "sharing")
            yield Finding(place, f"{' and '.join(public)} without service.workspaceDomain", also=(_WORKSPACE_DOMAIN,))


def _sign_in_without_issuer(settings: Settings) -> Iterator[Finding]:
    service = settings.service
    if service.sign_in is not None:
        for key, value in (("issuer", service.issuer), ("domain", service.domain)):
            if value is None:
                yield Finding(("service", "signIn"), f"signIn without {key}", also=(("service", key),))


def _zones(settings: Settings) -> Iterator[Finding]:
    service, place = settings.service, ("service", "dns")
    if service.dns is None:
        return
    if service.domain is None:
        yield Finding(place, "dns without service.domain", also=(("service", "domain"),))
    elif (service.dns.workspace_zone is None) != (service.workspace_domain is None):
        found = "no workspaceZone" if service.dns.workspace_zone is None else "workspaceZone without workspaceDomain"
        yield Finding(place, found, also=(_WORKSPACE_DOMAIN,))


@cache
def _suffixes() -> PublicSuffixList:
    """Return the public suffixes, below which anybody may register a domain."""
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


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
        "workspaces-of-same-site",
        "browsers treat both domains as one site, so a program in a workspace could act on the service's pages",
        "a workspaceDomain below another registrable domain than service.domain",
        "register a domain for workspaces alone, or remove workspaceDomain",
        _workspaces_of_same_site,
    ),
    Constraint(
        "open-without-workspace-domain",
        "ports that others than their owner open must not be of one site with the service",
        "a workspaceDomain with reach internet, and with sharing by link or public",
        "set service.workspaceDomain to a registrable domain of its own",
        _open_without_own_domain,
    ),
    Constraint(
        "sign-in-without-issuer",
        "people sign in at the issuer, and return to a host of the domain",
        "signIn with issuer and domain",
        "set service.issuer and service.domain, or remove signIn",
        _sign_in_without_issuer,
    ),
    Constraint(
        "dns-zone-of-each-domain",
        "two registrable domains are two hosted zones",
        "a zone for domain, and a workspaceZone for workspaceDomain",
        "set service.dns.workspaceZone if, and only if, there is a workspaceDomain",
        _zones,
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
