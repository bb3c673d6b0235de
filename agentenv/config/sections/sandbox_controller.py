"""Settings of the agent-sandbox controller, which turns claims into sandboxes."""

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
        raise wrong(_DOMAIN_WORDS, "Kubernetes decides itself what its own labels mean")
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
    """How the controller works; what is left out is as its release has it."""

    claim_workers: Annotated[Workers | None, Field(description="How many claims it works on at once.")] = None
    sandbox_workers: Annotated[Workers | None, Field(description="How many sandboxes it works on at once.")] = None
    refill_rate: Annotated[
        int | None,
        Field(
            ge=0,
            le=1000,
            description="The most sandboxes a second with which a pool is filled; 0 for as many as are missing.",
        ),
    ] = None
    replenish_delay: Annotated[
        Annotated[Duration, _at_most(timedelta(hours=1), "an hour")] | None,
        Field(description="How long it waits before it fills a pool again, so that claims come first."),
    ] = None
    readiness_grace: Annotated[
        Annotated[Duration, _at_most(timedelta(days=1), "a day")] | None,
        Field(description="How long a warm sandbox may take to become ready before another takes its place."),
    ] = None
    api_connections: Annotated[
        int | None, Field(ge=1, le=64, description="How many connections to the API it works over.")
    ] = None
    tracing: Annotated[bool, Field(description="Whether it sends traces by OTLP, to where its variables say.")] = False


class SandboxController(Section):
    """The controller that turns claims into sandboxes: where it comes from, and how it runs."""

    manifests: Annotated[
        str | None,
        Field(
            title="an https address, or a folder",
            pattern=r"^(https://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?/|\.{0,2}/|[A-Za-z0-9_])[A-Za-z0-9._/-]{0,512}$",
            max_length=1024,
            description="Where the release's definitions and roles are: an address, or a folder, seen from `stacks`;"
            " without one, the address of the release that the components pin.",
        ),
    ] = None
    image: Annotated[
        Image | None, Field(description="The controller's image; without one, that of the pinned release.")
    ] = None
    place: Annotated[
        Literal["fargate", "system"],
        Field(
            description="Where it runs: on Fargate, or on the system's nodes, where it costs no more than its room and"
            " moves when one of them is taken back. Sandboxes that are there do not miss it. Its image has to be for"
            " the processors of those nodes, as the release's is."
        ),
    ] = "fargate"
    replicas: Annotated[int, Field(ge=1, le=5, description="How many there are, of which one works.")] = 2
    cpu: Annotated[Cpu, Field(description="Cores of each.")] = Quantity.parse("250m")
    memory: Annotated[
        Memory,
        Field(description="Memory of each; with what Fargate adds, the default is just the gigabyte that is paid for."),
    ] = Quantity.parse("768Mi")
    label_domains: Annotated[
        tuple[LabelDomain, ...],
        Field(max_length=32, description="Domains of labels that a claim may set beside `sandbox.users.io`."),
    ] = ()
    flags: Annotated[ControllerFlags, Field(description="How it works.")] = ControllerFlags()
