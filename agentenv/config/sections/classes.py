"""Settings of a sandbox class: its isolation, image, resources, capabilities, storage, pool and identity."""

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
Daemon = Literal["workspaced", "image", "none"]
SizeName = Literal["small", "medium", "large"]
Sharing = Literal["private", "team", "link", "public"]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class Burst(Section):
    """Resource limits above the requests, which a sandbox may use while the node has spare capacity."""

    cpu: Annotated[Cpu | None, Field(description="CPU limit. Defaults to the request.")] = None
    memory: Annotated[Memory | None, Field(description="Memory limit. Defaults to the request.")] = None


class Resources(Section):
    """Resource requests and limits of a sandbox."""

    cpu: Annotated[Cpu, Field(description="CPU request.")] = Quantity.parse("250m")
    memory: Annotated[Memory, Field(description="Memory request.")] = Quantity.parse("512Mi")
    ephemeral: Annotated[
        Memory,
        Field(
            description="Ephemeral storage for logs and scratch volumes. On a node a sandbox may use twice as much, of"
            " which `/tmp` has 5/8."
        ),
    ] = Quantity.parse("2Gi")
    burst: Annotated[Burst, Field(description="Limits above the requests.")] = Burst()


class Size(Section):
    """The resources of a larger workspace. Its ephemeral storage is that of the class."""

    cpu: Annotated[Cpu, Field(description="CPU request.")]
    memory: Annotated[Memory, Field(description="Memory request.")]
    burst: Annotated[Burst, Field(description="Limits above the requests.")] = Burst()


class Sizes(Section):
    """The larger sizes of a class. `resources` of the class are its size `small`, which warm sandboxes have."""

    medium: Annotated[Size | None, Field(description="The size `medium`.")] = None
    large: Annotated[Size | None, Field(description="The size `large`.")] = None


class Probe(Section):
    """The readiness probe of a sandbox: a command, or a TCP port with or without an HTTP path."""

    command: Annotated[
        tuple[str, ...], Field(max_length=64, description="A command that exits with 0 when the sandbox is ready.")
    ] = ()
    port: Annotated[
        Port | None, Field(description="A TCP port that accepts connections when the sandbox is ready.")
    ] = None
    path: Annotated[
        str | None,
        Field(
            title="a path such as /healthz",
            pattern=r"^/[A-Za-z0-9._~/-]{0,255}$",
            description="The path of an HTTP GET request to the port. Without it, a TCP connection is enough.",
        ),
    ] = None
    start_within: Annotated[
        Duration, Field(description="How long the sandbox may take to start before its container is restarted.")
    ] = timedelta(minutes=2)


class ClassStorage(Section):
    """The storage of a sandbox."""

    kind: Annotated[
        Literal["slot", "none", "scratch", "shared"],
        Field(
            description="`slot`: every warm sandbox is created with its own EFS access point. `none`: no volume."
            " `scratch`: local disk, lost on stop. `shared`: like `slot`, with another access point that the sandboxes"
            " of a task share. Defaults to `none` on Fargate."
        ),
    ] = "slot"
    size: Annotated[Memory, Field(description="Size of the volume. EFS reports it and does not enforce it.")] = (
        Quantity.parse("5Gi")
    )
    mount_path: Annotated[MountPath, Field(description="Mount path of the volume.")] = "/home/agent"


class WorkTree(Section):
    """Where programs work: in the home, or on a local disk that is synchronised to it."""

    kind: Annotated[
        Literal["home", "local"],
        Field(
            description="`home`: no other folder. `local`: `/work` on the local disk of the node, which is brought to"
            " the home at every interval and at suspend. What came after is lost with a node."
        ),
    ] = "home"
    size: Annotated[Memory, Field(description="Size of the local work tree. A sandbox beyond it is evicted.")] = (
        Quantity.parse("5Gi")
    )
    interval: Annotated[Duration, Field(description="Time between two synchronisations: the most that is lost.")] = (
        timedelta(minutes=1)
    )


class Schedule(Section):
    """A weekly period in which the pool has a different size."""

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
            description='Start time, such as "08:00".',
        ),
    ]
    end: Annotated[
        str,
        Field(
            title='a time such as "18:00" or "24:00"',
            pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$",
            description='End time, such as "18:00". "24:00" is the end of the day.',
        ),
    ]
    timezone: Annotated[
        str,
        Field(
            title="a time zone such as Europe/Berlin",
            pattern=r"^[A-Za-z_]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}$",
            description="IANA name of the time zone.",
        ),
    ] = "UTC"
    size: Annotated[int, Field(ge=0, le=10_000, description="Number of warm sandboxes in this period.")]


class Pool(Section):
    """The warm pool of a class: a fixed size, or a size derived from the rate of claims."""

    size: Annotated[
        int | None,
        Field(
            ge=0, le=100_000, description="Number of warm sandboxes. Defaults to 1. With `0` every claim starts cold."
        ),
    ] = None
    peak_claims_per_hour: Annotated[
        int | None,
        Field(
            ge=1, le=100_000, description="Claims per hour at the peak; the pool is sized from it instead of `size`."
        ),
    ] = None
    replenish_seconds: Annotated[int, Field(ge=1, le=3600, description="Seconds until a new sandbox is ready.")] = 30
    miss_rate: Annotated[Share, Field(description="Accepted share of claims that start cold.")] = Decimal("0.01")
    schedules: Annotated[tuple[Schedule, ...], Field(max_length=20, description="Periods with a different size.")] = ()


class Release(Section):
    """Another version of the class, available under its own channel."""

    channel: Annotated[Label, Field(description="Name of the channel. The class itself is `stable`.")] = "next"
    image: Annotated[Image, Field(description="The image, by digest.")]


class EnvironmentVariable(Section):
    """An environment variable of every sandbox of the class."""

    name: Annotated[
        str,
        Field(
            title="letters, digits and '_', no digit first",
            pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$",
            description="Name of the variable.",
        ),
    ]
    value: Annotated[str, Field(max_length=4096, description="Value of the variable. It must not be a secret.")]


class TokenClaim(Section):
    """A claim that the token of a caller must contain."""

    name: Annotated[str, Field(min_length=1, max_length=128, description="Name of the claim.")]
    value: Annotated[str, Field(min_length=1, max_length=256, description="Value of the claim, or an item of it.")]


class ClaimableBy(Section):
    """The callers that may claim a sandbox of the class."""

    roles: Annotated[
        tuple[Literal["user", "operator", "admin"], ...], Field(description="Callers with one of these roles.")
    ] = ("user",)
    tokens: Annotated[
        tuple[TokenClaim, ...], Field(description="Callers with a token that contains one of these claims.")
    ] = ()


class Identity(Section):
    """How sandboxes of this class authenticate to AWS."""

    kind: Annotated[
        Literal["none", "irsa", "pod-identity", "exchange"],
        Field(
            description="`irsa` and `pod-identity`: all sandboxes of the class share an IAM role. `exchange`: each"
            " claim gets its own credentials, tagged with its owner."
        ),
    ] = "none"
    policies: Annotated[tuple[PolicyArn, ...], Field(max_length=10, description="IAM policies of the role.")] = ()


class SandboxClass(Section):
    """A class of sandboxes. They share a namespace, a service account, a quota, a network policy, a uid and a gid."""

    name: Annotated[Label, Field(description="Name of the class. Its namespace is `sandbox-<name>`.")]
    tier: Annotated[
        Tier,
        Field(
            description="Isolation tier: `verified` shares the node's kernel, `standard` runs under gVisor, `untrusted`"
            " has its own kernel."
        ),
    ] = "standard"
    kernel: Annotated[
        Literal["kata", "nitro"],
        Field(description="How an untrusted sandbox on nodes gets its own kernel: Kata Containers, or EKS with Nitro."),
    ] = "kata"
    compute: Annotated[Literal["karpenter", "fargate"], Field(description="Where sandboxes run.")] = "karpenter"
    capacity: Annotated[
        Literal["spot", "on-demand", "both"], Field(description="Capacity type of the nodes. `both` prefers Spot.")
    ] = "on-demand"
    architecture: Annotated[
        Literal["any", "arm64", "amd64"],
        Field(
            description="CPU architecture of the image. `any` prefers arm64; a class whose homes last runs on one"
            " architecture only, because what is installed in a home does not run on the other."
        ),
    ] = "any"
    runtime_class: Annotated[
        str | None,
        Field(
            title="the name of a runtime class",
            pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
            description="Runtime class. It must match the tier, from which it defaults.",
        ),
    ] = None
    enforced_by: Annotated[
        Literal["auto", "network-policy", "security-group"],
        Field(
            description="How capabilities are enforced: by a NetworkPolicy on nodes, by a security group on Fargate."
        ),
    ] = "auto"
    image: Annotated[Image, Field(description="The image, by digest.")]
    daemon: Annotated[
        Daemon | None,
        Field(
            description="The program that callers reach in a sandbox. `workspaced`: that of this project, as the first"
            " process. `image`: one of the image, such as E2B's `envd`. `none`: no program. Defaults to `workspaced`"
            " with `service.workspaced`, else to `none`."
        ),
    ] = None
    command: Annotated[
        tuple[str, ...],
        Field(
            max_length=64,
            description="Replaces the entry point of the image, which `workspaced` does not start without it.",
        ),
    ] = ()
    args: Annotated[tuple[str, ...], Field(max_length=64, description="Replaces the arguments of the image.")] = ()
    env: Annotated[tuple[EnvironmentVariable, ...], Field(description="Environment variables of every sandbox.")] = ()
    probe: Annotated[
        Probe | None,
        Field(description="Readiness probe. Without one a sandbox is ready as soon as it runs."),
    ] = None
    resources: Annotated[Resources, Field(description="Resource requests and limits of a sandbox.")] = Resources()
    sizes: Annotated[
        Sizes,
        Field(
            description="Larger sizes, which a workspace requests or grows to near its memory limit. Its sandbox is"
            " resized in place."
        ),
    ] = Sizes()
    gpu: Annotated[int, Field(ge=0, le=8, description="GPUs of each sandbox.")] = 0
    capabilities: Annotated[
        tuple[Grant, ...],
        Field(max_length=64, description="Allowed egress. An empty list allows nothing, not even DNS."),
    ] = ()
    storage: Annotated[ClassStorage, Field(description="Storage of a sandbox.")] = ClassStorage()
    work_tree: Annotated[WorkTree, Field(description="Where programs work.")] = WorkTree()
    pool: Annotated[Pool, Field(description="The warm pool.")] = Pool()
    max_sandboxes: Annotated[
        int | None,
        Field(
            ge=1,
            le=100_000,
            description="Maximum number of sandboxes, warm and claimed. Defaults to the number of warm"
            " sandboxes plus the same number again (at least 10).",
        ),
    ] = None
    claim_env: Annotated[
        bool, Field(description="Whether a claim may set its own environment variables. Each such claim starts cold.")
    ] = False
    claimable_by: Annotated[ClaimableBy, Field(description="The callers that may claim a sandbox.")] = ClaimableBy()
    modes: Annotated[
        tuple[Mode, ...], Field(min_length=1, max_length=3, description="Allowed modes of its workspaces.")
    ] = ("user", "session", "agent")
    sharing: Annotated[
        tuple[Sharing, ...] | None,
        Field(
            min_length=1,
            max_length=4,
            description="Allowed sharing of the ports of its workspaces. Defaults to `private` and `team`, and `link`"
            " with `service.workspaceDomain`.",
        ),
    ] = None
    approval: Annotated[
        Literal["none", "ask"],
        Field(
            description="`ask`: agents' tools that run or change something wait for a person's approval. API keys and"
            " access tokens then enter by these tools alone."
        ),
    ] = "none"
    suspend_after: Annotated[Duration, Field(description="Idle time after which a workspace is suspended.")] = (
        timedelta(minutes=20)
    )
    suspend_grace: Annotated[
        Duration,
        Field(description="How long processes may take to end after SIGTERM, before the rest is killed."),
    ] = timedelta(seconds=20)
    max_lifetime: Annotated[
        Duration | None, Field(description="Maximum lifetime of a workspace. Unlimited by default.")
    ] = None
    budget: Annotated[
        Money | None, Field(description="Budget of a workspace in dollars per month, instead of the cap per user.")
    ] = None
    max_per_owner: Annotated[
        int | None,
        Field(ge=1, le=10_000, description="Maximum number of workspaces of one owner in this class."),
    ] = None
    identity: Annotated[Identity, Field(description="How sandboxes of this class authenticate to AWS.")] = Identity()
    parent: Annotated[
        Label | None, Field(description="Name of the parent class, whose capabilities this class may not exceed.")
    ] = None
    releases: Annotated[tuple[Release, ...], Field(max_length=4, description="Other versions of the class.")] = ()
