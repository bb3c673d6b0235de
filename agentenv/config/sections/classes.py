"""Settings of a sandbox class: how strongly it is walled off, what it runs, and what it may use."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from agentenv.config.sections.base import Port, Section
from agentenv.config.sections.capabilities import Grant
from agentenv.config.values import Cpu, Duration, Image, Label, Memory, Money, MountPath, PolicyArn, Share
from agentenv.core.values.quantities import Quantity

Tier = Literal["verified", "standard", "untrusted"]
Mode = Literal["user", "session", "agent"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class Burst(Section):
    """What a sandbox may use for a while, when the node has it."""

    cpu: Annotated[Cpu | None, Field(description="Cores; the request when left out.")] = None
    memory: Annotated[Memory | None, Field(description="Memory; the request when left out.")] = None


class Resources(Section):
    """What a sandbox always has, and how far it may go beyond."""

    cpu: Annotated[Cpu, Field(description="Cores it always has.")] = Quantity.parse("250m")
    memory: Annotated[Memory, Field(description="Memory it always has.")] = Quantity.parse("512Mi")
    ephemeral: Annotated[Memory, Field(description="Disk for logs and scratch volumes.")] = Quantity.parse("2Gi")
    burst: Annotated[Burst, Field(description="How far it may go beyond.")] = Burst()


class Probe(Section):
    """How a sandbox tells that it is ready: a command in it that ends well, or a port that it answers on."""

    command: Annotated[tuple[str, ...], Field(max_length=64, description="A command that ends with 0 when it is.")] = ()
    port: Annotated[Port | None, Field(description="A TCP port that answers when it is.")] = None
    path: Annotated[
        str | None,
        Field(
            title="a path such as /healthz",
            pattern=r"^/[A-Za-z0-9._~/-]{0,255}$",
            description="What is asked for on the port, by HTTP; left out, a connection is enough.",
        ),
    ] = None
    start_within: Annotated[
        Duration, Field(description="How long it may take to start; beyond it the container is started again.")
    ] = timedelta(minutes=2)


class ClassStorage(Section):
    """Where a sandbox keeps its files."""

    kind: Annotated[
        Literal["slot", "none", "scratch", "shared"],
        Field(
            description="`slot`: every warm sandbox is born with an access point of its own; `none`; `scratch`: local"
            " disk, lost on stop; `shared`: a slot, and one access point more for a task's swarm. `none` on"
            " Fargate when not said."
        ),
    ] = "slot"
    size: Annotated[Memory, Field(description="The volume's size; EFS reports it and does not enforce it.")] = (
        Quantity.parse("5Gi")
    )
    mount_path: Annotated[MountPath, Field(description="Where it is mounted.")] = "/home/agent"


class Schedule(Section):
    """A time of the week at which the pool has another size."""

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7, description="Days of the week.")] = (
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
    )
    start: Annotated[
        str,
        Field(
            title='a time such as "08:00"',
            pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$",
            description='From, such as "08:00".',
        ),
    ]
    end: Annotated[
        str,
        Field(
            title='a time such as "18:00" or "24:00"',
            pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$",
            description='Until, such as "18:00"; "24:00" is the end of the day.',
        ),
    ]
    timezone: Annotated[
        str,
        Field(
            title="a time zone such as Europe/Berlin",
            pattern=r"^[A-Za-z_]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}$",
            description="Time zone by its IANA name.",
        ),
    ] = "UTC"
    size: Annotated[int, Field(ge=0, le=10_000, description="How many sandboxes are kept warm then.")]


class Pool(Section):
    """How many sandboxes are kept warm: a fixed size, or one that follows from how claims arrive."""

    size: Annotated[
        int | None, Field(ge=0, le=100_000, description="How many; 1 when nothing else is said. 0 always starts cold.")
    ] = None
    peak_claims_per_hour: Annotated[
        int | None, Field(ge=1, le=100_000, description="Claims an hour at the peak; sizes the pool instead of `size`.")
    ] = None
    replenish_seconds: Annotated[int, Field(ge=1, le=3600, description="How long a sandbox takes to become ready.")] = (
        30
    )
    miss_rate: Annotated[Share, Field(description="The share of claims that may start cold.")] = Decimal("0.01")
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=20, description="Times with another size.")] = ()


class Release(Section):
    """A version of the class beside its own, under a channel of its own."""

    channel: Annotated[Label, Field(description="Its channel; the class itself is `stable`.")] = "next"
    image: Annotated[Image, Field(description="Its image by digest.")]


class EnvironmentVariable(Section):
    """A variable that every sandbox of the class has."""

    name: Annotated[
        str,
        Field(
            title="letters, digits and '_', no digit first",
            pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$",
            description="Its name.",
        ),
    ]
    value: Annotated[str, Field(max_length=4096, description="Its value; never a secret.")]


class TokenClaim(Section):
    """A claim that a caller's token has to carry."""

    name: Annotated[str, Field(min_length=1, max_length=128, description="The claim's name.")]
    value: Annotated[str, Field(min_length=1, max_length=256, description="The value it has or contains.")]


class ClaimableBy(Section):
    """Who may have a sandbox of the class."""

    roles: Annotated[
        tuple[Literal["user", "operator", "admin"], ...], Field(description="Callers with these roles.")
    ] = ("user",)
    tokens: Annotated[
        tuple[TokenClaim, ...], Field(description="Callers whose token carries one of these claims.")
    ] = ()


class Identity(Section):
    """What a sandbox is to AWS."""

    kind: Annotated[
        Literal["none", "irsa", "pod-identity", "exchange"],
        Field(
            description="`irsa` and `pod-identity` give all sandboxes of the class one role; `exchange` gives each"
            " claim credentials of its own, tagged with its owner."
        ),
    ] = "none"
    policies: Annotated[tuple[PolicyArn, ...], Field(max_length=10, description="The role's policies.")] = ()


class SandboxClass(Section):
    """A kind of sandbox: one namespace, one service account, one quota, one network policy, one uid and gid."""

    name: Annotated[Label, Field(description="The class's name; its namespace is `sandbox-<name>`.")]
    tier: Annotated[
        Tier,
        Field(
            description="How strongly it is walled off: `verified` shares the node's kernel, `standard` runs under"
            " gVisor, `untrusted` has a kernel of its own."
        ),
    ] = "standard"
    kernel: Annotated[
        Literal["kata", "nitro"],
        Field(description="Where an untrusted sandbox on nodes has its kernel from: nested virtualization, or EKS."),
    ] = "kata"
    compute: Annotated[Literal["karpenter", "fargate"], Field(description="What it runs on.")] = "karpenter"
    capacity: Annotated[
        Literal["spot", "on-demand", "both"], Field(description="How the nodes are bought; `both` prefers Spot.")
    ] = "on-demand"
    architecture: Annotated[
        Literal["any", "arm64", "amd64"], Field(description="Which processors the image runs on; `any` prefers arm64.")
    ] = "any"
    runtime_class: Annotated[
        str | None,
        Field(
            title="the name of a runtime class",
            pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            description="Left out, the tier decides; it must agree.",
        ),
    ] = None
    enforced_by: Annotated[
        Literal["auto", "network-policy", "security-group"],
        Field(description="What holds the capabilities: a NetworkPolicy on nodes, a security group on Fargate."),
    ] = "auto"
    image: Annotated[Image, Field(description="The image by digest.")]
    command: Annotated[tuple[str, ...], Field(max_length=64, description="Instead of the image's entry point.")] = ()
    args: Annotated[tuple[str, ...], Field(max_length=64, description="Instead of the image's arguments.")] = ()
    env: Annotated[tuple[EnvironmentVariable, ...], Field(description="Variables of every sandbox.")] = ()
    probe: Annotated[
        Probe | None,
        Field(description="How it tells that it is ready; left out, it is as soon as it runs."),
    ] = None
    resources: Annotated[Resources, Field(description="What a sandbox has.")] = Resources()
    gpu: Annotated[int, Field(ge=0, le=8, description="Graphics processors a sandbox.")] = 0
    capabilities: Annotated[
        tuple[Grant, ...],
        Field(max_length=64, description="What it may reach; nothing at all when empty, not even DNS."),
    ] = ()
    storage: Annotated[ClassStorage, Field(description="Where it keeps its files.")] = ClassStorage()
    pool: Annotated[Pool, Field(description="How many are kept warm.")] = Pool()
    max_sandboxes: Annotated[
        int | None,
        Field(
            ge=1,
            le=100_000,
            description="The most there may be, warm and claimed; left out, those kept warm and as many again,"
            " ten at least.",
        ),
    ] = None
    claim_env: Annotated[
        bool, Field(description="Whether a claim may bring variables of its own; each such claim starts cold.")
    ] = False
    claimable_by: Annotated[ClaimableBy, Field(description="Who may have one.")] = ClaimableBy()
    modes: Annotated[
        tuple[Mode, ...], Field(min_length=1, max_length=3, description="What its workspaces may be for.")
    ] = ("user", "session", "agent")
    suspend_after: Annotated[Duration, Field(description="How long it idles before it sleeps.")] = timedelta(minutes=20)
    max_lifetime: Annotated[
        Duration | None, Field(description="How long a workspace may live at most; for ever when left out.")
    ] = None
    budget: Annotated[Money | None, Field(description="Dollars a workspace and month, instead of the cap a user.")] = (
        None
    )
    identity: Annotated[Identity, Field(description="What it is to AWS.")] = Identity()
    parent: Annotated[Label | None, Field(description="The class whose capabilities this one may not exceed.")] = None
    releases: Annotated[tuple[Release, ...], Field(max_length=4, description="Versions beside this one.")] = ()
