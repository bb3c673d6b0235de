"""The capabilities that a class declares, as grants; `resolve` turns them into a reach in a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from agentenv.core.capabilities.sets.boxes import ALL_PORTS, Protocol
from agentenv.core.capabilities.sets.intervals import Intervals
from agentenv.core.values.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agentenv.config.sections.capabilities import Grant as SettingsGrant
    from agentenv.config.sections.capabilities import Word

# Ranges that no grant of a CIDR includes unless it names them.
Reserved = Literal["vpc", "api-server", "metadata"]
RESERVED: tuple[Reserved, ...] = get_args(Reserved)

GIT_NAMES = (
    "bitbucket.org",
    "*.bitbucket.org",
    "codeberg.org",
    "github.com",
    "*.github.com",
    "*.githubusercontent.com",
    "gitlab.com",
    "*.gitlab.com",
)
PACKAGE_NAMES = (
    "api.nuget.org",
    "crates.io",
    "files.pythonhosted.org",
    "index.crates.io",
    "index.rubygems.org",
    "proxy.golang.org",
    "pypi.org",
    "registry.npmjs.org",
    "registry.yarnpkg.com",
    "repo.maven.apache.org",
    "repo.packagist.org",
    "rubygems.org",
    "static.crates.io",
    "sum.golang.org",
)
WEB_PORTS = Intervals.single(443)
GIT_PORTS = Intervals.of(((22, 22), (443, 443)))


class RefusedGrantError(InvalidValueError):
    """A grant that cannot be made in this cluster."""


@dataclass(frozen=True)
class Named:
    """A grant by keyword."""

    word: Word

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Addresses:
    """Ports of a range of addresses; `None` for a protocol is every protocol, and goes with all ports."""

    cidr: str
    ports: Intervals = ALL_PORTS
    protocol: Protocol | None = "TCP"
    inside: frozenset[Reserved] = frozenset()  # what of the cluster's own it may include

    def __str__(self) -> str:
        return f"cidr {self.cidr}"


@dataclass(frozen=True)
class Domain:
    """TCP ports of the hosts under a domain."""

    pattern: str
    ports: Intervals = ALL_PORTS

    def __str__(self) -> str:
        return f"domain {self.pattern}"


@dataclass(frozen=True)
class OtherClass:
    """Ports of another class's sandboxes."""

    name: str
    ports: Intervals = ALL_PORTS
    protocol: Protocol = "TCP"

    def __str__(self) -> str:
        return f"class {self.name}"


Grant = Named | Addresses | Domain | OtherClass


def grants_of(settings_grants: Iterable[SettingsGrant]) -> tuple[Grant, ...]:
    """Return the grants that a class's settings declare, in their order."""
    return tuple(_grant(grant) for grant in settings_grants)


def _grant(grant: SettingsGrant) -> Grant:
    if grant.word is not None:
        return Named(grant.word)
    ports = Intervals.of((port, port) for port in grant.ports) or ALL_PORTS
    protocol = cast("Protocol", grant.protocol.upper())
    if grant.cidr is not None:
        return Addresses(str(grant.cidr), ports, protocol)
    if grant.class_ is not None:
        return OtherClass(grant.class_, ports, protocol)
    if grant.domain is not None:
        if protocol != "TCP":
            raise RefusedGrantError(
                f"domain {grant.domain} on {protocol}", "TCP", "a proxy carries no datagrams; leave the protocol out"
            )
        return Domain(grant.domain, ports)
    raise RefusedGrantError("a grant of nothing", "a word, a cidr, a domain or a class", "leave it out")
