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


class Workspaced(Section):
    """The program inside sandboxes, which serves processes, files, terminals and ports."""

    image: Annotated[Image, Field(description="Its image, by digest, built from `workspaced/Dockerfile`.")]


class Service(Section):
    """The workspace service, which creates, suspends, resumes and deletes workspaces."""

    enabled: Annotated[bool, Field(description="Whether the service is deployed. It needs `image`, too.")] = True
    image: Annotated[
        Image | None,
        Field(description="The image, by digest, built from this repository's Dockerfile. Needed for a deployment."),
    ] = None
    workspaced: Annotated[
        Workspaced | None,
        Field(description="The program inside sandboxes. Without it callers cannot reach into a sandbox."),
    ] = None
    replicas: Annotated[int, Field(ge=1, le=20, description="Number of replicas.")] = 2
    issuer: Annotated[
        Url | None,
        Field(description="Issuer of the tokens of callers. Without one only service accounts can authenticate."),
    ] = None
    audience: Annotated[str, Field(min_length=1, max_length=256, description="Audience of the tokens.")] = (
        "agent-environment"
    )
    roles_claim: Annotated[
        str, Field(min_length=1, max_length=128, description="Token claim that lists the roles of the caller.")
    ] = "groups"
    owner_claim: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=128,
            description="Token claim with the opaque id of the caller. Derived from issuer and subject by default.",
        ),
    ] = None
    operators: Annotated[
        tuple[Who, ...],
        Field(
            max_length=50, description="Callers that may list, suspend, resume and delete the workspaces of all users."
        ),
    ] = ()
    admins: Annotated[
        tuple[Who, ...],
        Field(max_length=50, description="Operators that may also change budgets and destroy data."),
    ] = ()
    domain: Annotated[
        str | None,
        Field(
            title="a domain such as workspaces.example.com",
            pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$",
            max_length=253,
            description="Public domain of the service. Without one it is reachable from inside the VPC only.",
        ),
    ] = None
    reach: Annotated[
        Literal["internal", "internet"],
        Field(description="Whether the domain is reachable from the VPC and connected networks, or from the internet."),
    ] = "internal"
    certificate: Annotated[
        str | None,
        Field(
            title="the ARN of an ACM certificate",
            pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]{1,64}$",
            description="Certificate of the domain, for the load balancer.",
        ),
    ] = None
    callers: Annotated[
        tuple[AnyCidr, ...],
        Field(max_length=50, description="Source ranges that may reach the domain. Defaults to the VPC and its peers."),
    ] = ()
    cpu: Annotated[Cpu, Field(description="CPU request of a replica.")] = Quantity.parse("100m")
    memory: Annotated[Memory, Field(description="Memory request of a replica. 10,000 workspaces use 250 MB.")] = (
        Quantity.parse("384Mi")
    )
    prometheus: Annotated[
        Url | None,
        Field(description="Prometheus URL for usage data. Without one, metering uses requests instead of usage."),
    ] = None
    traces: Annotated[
        Url | None, Field(description="OTLP endpoint (HTTP) for traces. Without one no traces are exported.")
    ] = None
    port: Annotated[Port, Field(description="Port that it listens on.")] = 8080
    requests_per_minute: Annotated[
        int, Field(ge=1, le=100_000, description="Rate limit of a caller, in requests per minute.")
    ] = 300
    lease: Annotated[
        Duration, Field(description="How long the lease of an agent on a workspace is valid without a heartbeat.")
    ] = timedelta(minutes=2)
    session_retention: Annotated[
        Duration, Field(description="How long the data of a session is retained after its chat is archived.")
    ] = timedelta(days=7)
    ledger_retention: Annotated[Duration, Field(description="How long rows of the ledger are retained.")] = timedelta(
        days=400
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="Log level.")] = "info"

    @property
    def deployed(self) -> bool:
        """Return whether the service is deployed: it has no public image, so `image` must be set."""
        return self.enabled and self.image is not None
