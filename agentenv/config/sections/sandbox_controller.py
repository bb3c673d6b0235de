"""Settings of the agent-sandbox controller, which creates sandboxes for claims."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from agentenv.config.sections.base import Section
from agentenv.config.values import Cpu, Duration, Image, Memory, text, wrong
from agentenv.core.values.quantities import Quantity

DOMAIN = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?){1,8}$"
_DOMAIN_WORDS = "a domain of your own such as team.example.com"


def _domain(value: str) -> str:
    if not re.fullmatch(DOMAIN[1:-1], value):
        raise wrong(_DOMAIN_WORDS)
    if f".{value}".endswith((".kubernetes.io", ".k8s.io")):
        raise wrong(_DOMAIN_WORDS, "labels of these domains are reserved by Kubernetes")
    return value


LabelDomain = Annotated[str, AfterValidator(_domain), WithJsonSchema(text(DOMAIN, _DOMAIN_WORDS, "team.example.com"))]
Workers = Annotated[int, Field(ge=1, le=1000)]


def _at_most(most: timedelta, words: str) -> AfterValidator:
    def check(value: timedelta) -> timedelta:
        if value > most:
            raise wrong(f"a duration of at most {words}")
        return value

    return AfterValidator(check)


class ControllerFlags(Section):
    """Flags of the controller. Each defaults to the value of its release."""

    claim_workers: Annotated[Workers | None, Field(description="Number of concurrent workers for claims.")] = None
    sandbox_workers: Annotated[Workers | None, Field(description="Number of concurrent workers for sandboxes.")] = None
    refill_rate: Annotated[
        int | None,
        Field(
            ge=0,
            le=1000,
            description="Maximum number of sandboxes per second that are created to fill a pool. `0` is unlimited.",
        ),
    ] = None
    replenish_delay: Annotated[
        Annotated[Duration, _at_most(timedelta(hours=1), "an hour")] | None,
        Field(description="Delay before a pool is replenished, so that claims have priority."),
    ] = None
    readiness_grace: Annotated[
        Annotated[Duration, _at_most(timedelta(days=1), "a day")] | None,
        Field(description="How long a warm sandbox may take to become ready before it is replaced."),
    ] = None
    api_connections: Annotated[
        int | None, Field(ge=1, le=64, description="Number of connections to the API server.")
    ] = None
    tracing: Annotated[
        bool, Field(description="Whether it exports OTLP traces, as its environment variables configure.")
    ] = False


class SandboxController(Section):
    """The agent-sandbox controller: its source, resources and flags."""

    manifests: Annotated[
        str | None,
        Field(
            title="an https address, or a folder",
            pattern=r"^(https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?/|\.{0,2}/|[A-Za-z0-9_])[A-Za-z0-9._/-]{0,512}$",
            max_length=1024,
            description="URL, or folder relative to `stacks`, with the manifests of a release. Defaults to the URL of"
            " the release that this package pins.",
        ),
    ] = None
    image: Annotated[
        Image | None, Field(description="Image of the controller. Defaults to that of the pinned release.")
    ] = None
    place: Annotated[
        Literal["fargate", "system"],
        Field(
            description="Where it runs: on Fargate, or on the system nodes. There it costs less, and moves when a node"
            " is interrupted, which does not affect running sandboxes. Its image must support the architecture of"
            " those nodes, as that of the release does."
        ),
    ] = "fargate"
    replicas: Annotated[int, Field(ge=1, le=5, description="Number of replicas, of which one is the leader.")] = 2
    cpu: Annotated[Cpu, Field(description="CPU request of a replica.")] = Quantity.parse("250m")
    memory: Annotated[
        Memory,
        Field(description="Memory request of a replica. With Fargate's overhead the default is exactly 1 GB."),
    ] = Quantity.parse("768Mi")
    label_domains: Annotated[
        tuple[LabelDomain, ...],
        Field(max_length=32, description="Label domains that a claim may use in addition to `sandbox.users.io`."),
    ] = ()
    flags: Annotated[ControllerFlags, Field(description="Flags of the controller.")] = ControllerFlags()
