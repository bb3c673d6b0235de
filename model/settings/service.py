"""Settings of the workspace service."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from model.settings.section import Port, Section
from model.settings.values import Duration, Image, Url


class Service(Section):
    """The service that gives, keeps and takes away workspaces."""

    enabled: Annotated[bool, Field(description="Whether it runs.")] = True
    image: Annotated[Image | None, Field(description="Its image by digest; the released one when left out.")] = None
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
    domain: Annotated[
        str | None,
        Field(
            title="a domain such as workspaces.example.com",
            pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$",
            max_length=253,
            description="The domain it is reached under from outside; inside the VPC only when left out.",
        ),
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
