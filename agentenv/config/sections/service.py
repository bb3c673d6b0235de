"""Settings of the workspace service."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Port, Section
from agentenv.config.values import AnyCidr, Cpu, Duration, Image, Memory, Url
from agentenv.core.values.quantities import Quantity

Who = Annotated[
    str,
    Field(
        min_length=1,
        max_length=256,
        title="a value of the roles claim, or a service account as namespace/name",
        description="A value of the roles claim, or a service account as `namespace/name`.",
    ),
]


class Service(Section):
    """The service that gives, keeps and takes away workspaces."""

    enabled: Annotated[bool, Field(description="Whether it runs.")] = True
    image: Annotated[
        Image | None,
        Field(description="Its image by digest, built from the Dockerfile here; without one it is not deployed."),
    ] = None
    replicas: Annotated[int, Field(ge=1, le=20, description="How many of it run.")] = 2
    issuer: Annotated[
        Url | None, Field(description="Who signs callers' tokens; left out, only service accounts are known.")
    ] = None
    audience: Annotated[str, Field(min_length=1, max_length=256, description="The audience of their tokens.")] = (
        "agent-environment"
    )
    roles_claim: Annotated[
        str, Field(min_length=1, max_length=128, description="The claim of a token that lists its bearer's roles.")
    ] = "groups"
    owner_claim: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=128,
            description="The claim that is a bearer's opaque id; made of issuer and subject when left out.",
        ),
    ] = None
    operators: Annotated[
        tuple[Who, ...],
        Field(max_length=50, description="Who sees everybody's workspaces, puts them to sleep, wakes and ends them."),
    ] = ()
    admins: Annotated[
        tuple[Who, ...],
        Field(max_length=50, description="Who may do all of that, change budgets and destroy data."),
    ] = ()
    domain: Annotated[
        str | None,
        Field(
            title="a domain such as workspaces.example.com",
            pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$",
            max_length=253,
            description="The domain it is reached under from outside; inside the VPC only when left out.",
        ),
    ] = None
    reach: Annotated[
        Literal["internal", "internet"],
        Field(description="From where its domain is reached: the VPC and networks tied to it, or everywhere."),
    ] = "internal"
    certificate: Annotated[
        str | None,
        Field(
            title="the ARN of a certificate of ACM",
            pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]{1,64}$",
            description="The certificate of its domain, which the load balancer in front of it shows.",
        ),
    ] = None
    callers: Annotated[
        tuple[AnyCidr, ...],
        Field(max_length=50, description="From which ranges its domain is reached; the VPC and its peers when empty."),
    ] = ()
    cpu: Annotated[Cpu, Field(description="Cores of each of it.")] = Quantity.parse("100m")
    memory: Annotated[Memory, Field(description="Memory of each of it; 10,000 workspaces take 250 MB.")] = (
        Quantity.parse("384Mi")
    )
    prometheus: Annotated[
        Url | None, Field(description="Where usage is asked for; left out, requests stand for what was used.")
    ] = None
    traces: Annotated[
        Url | None, Field(description="Where traces are sent, an OTLP endpoint over HTTP; none are when left out.")
    ] = None
    port: Annotated[Port, Field(description="The port it listens on.")] = 8080
    requests_per_minute: Annotated[
        int, Field(ge=1, le=100_000, description="How many calls a caller may make in a minute.")
    ] = 300
    lease: Annotated[
        Duration, Field(description="How long an agent's hold on a workspace lasts without a heartbeat.")
    ] = timedelta(minutes=2)
    session_retention: Annotated[
        Duration, Field(description="How long a session's data outlives its chat's archive.")
    ] = timedelta(days=7)
    ledger_retention: Annotated[Duration, Field(description="How long the ledger's rows are kept.")] = timedelta(
        days=400
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="What it logs.")] = "info"

    @property
    def deployed(self) -> bool:
        """Whether it runs in the environment: nothing of it is published, so it has to be said which image it is."""
        return self.enabled and self.image is not None
