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

Domain = Annotated[
    str,
    Field(
        title="a domain such as workspaces.example.com",
        pattern=r"^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$",
        max_length=253,
    ),
]
HostedZone = Annotated[str, Field(title="the id of a Route 53 hosted zone", pattern=r"^Z[A-Z0-9]{1,31}$")]


SecretArn = Annotated[
    str,
    Field(
        title="the ARN of a secret in Secrets Manager",
        pattern=r"^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]{1,512}$",
    ),
]


class Workspaced(Section):
    """The program inside sandboxes, which serves processes, files, terminals and ports."""

    image: Annotated[Image, Field(description="Its image, by digest, built from `workspaced/Dockerfile`.")]


class SignIn(Section):
    """Signing in with a browser: the OIDC code flow with PKCE, with the issuer of the service."""

    client_id: Annotated[str, Field(min_length=1, max_length=256, description="Client id at the issuer.")]
    client_secret: Annotated[SecretArn, Field(description="Secret in Secrets Manager whose text is the client secret.")]
    scopes: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=128)], ...],
        Field(max_length=20, description="Scopes to request besides `openid`."),
    ] = ()


ToolName = Literal[
    "run",
    "send_input",
    "stop",
    "start_server",
    "write_file",
    "edit_file",
    "read_file",
    "list_files",
    "search_files",
    "suspend_workspace",
    "spawn_workspace",
]


class ApprovalWebhook(Section):
    """Where a chat or a pager is told what waits for an approval."""

    url: Annotated[Url, Field(description="Its address, by HTTPS.")]
    secret: Annotated[
        SecretArn, Field(description="Secret in Secrets Manager whose text is the key of the signature, HMAC-SHA256.")
    ]
    ranges: Annotated[
        tuple[AnyCidr, ...],
        Field(max_length=20, description="Private ranges that its host may be in. By default it has a public address."),
    ] = ()


class Approvals(Section):
    """Calls of agents' tools that wait for a person."""

    tools: Annotated[
        tuple[ToolName, ...],
        Field(max_length=20, description="Tools that ask in every class. A class with `approval: ask` asks besides."),
    ] = ()
    webhook: Annotated[
        ApprovalWebhook | None, Field(description="Who is told. Without it the console alone shows what waits.")
    ] = None


class TeamLimit(Section):
    """The number of workspaces that the members of a team may have."""

    team: Annotated[str, Field(min_length=1, max_length=128, description="The team: one of the groups of a token.")]
    workspaces: Annotated[int, Field(ge=1, le=100_000, description="Maximum number of workspaces.")]


class Dns(Section):
    """The hosted zones in which the records of the domains are created."""

    zone: Annotated[HostedZone, Field(description="Route 53 hosted zone of `domain`.")]
    workspace_zone: Annotated[
        HostedZone | None, Field(description="Route 53 hosted zone of `workspaceDomain`. Needed where that is set.")
    ] = None


class Gateway(Section):
    """Envoy, which every request to a domain of the service passes."""

    replicas: Annotated[int, Field(ge=1, le=20, description="Number of replicas.")] = 2
    cpu: Annotated[Cpu, Field(description="CPU request of a replica.")] = Quantity.parse("100m")
    memory: Annotated[Memory, Field(description="Memory of a replica. 2,000 open WebSockets use 175 MB.")] = (
        Quantity.parse("256Mi")
    )


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
        Domain | None,
        Field(description="Domain of the service. Without one it is reachable from inside the VPC only."),
    ] = None
    workspace_domain: Annotated[
        Domain | None,
        Field(
            # The longest host below it: a label of 63 characters and a dot.
            max_length=189,
            description="Domain of the ports of workspaces, a registrable domain of its own. Defaults to `domain`.",
        ),
    ] = None
    cell: Annotated[
        str,
        Field(
            title="a letter and a digit",
            pattern=r"^[a-z][0-9]$",
            description="Part of the ids of new workspaces, which tells environments behind one domain apart.",
        ),
    ] = "a0"
    reach: Annotated[
        Literal["internal", "internet"],
        Field(description="Whether the domain is reachable from the VPC and connected networks, or from the internet."),
    ] = "internal"
    certificate: Annotated[
        str | None,
        Field(
            title="the ARN of an ACM certificate",
            pattern=r"^arn:aws[a-z-]*:acm:[a-z0-9-]+:[0-9]{12}:certificate/[A-Za-z0-9-]{1,64}$",
            description="Certificate for the load balancer. It names `domain`, `*.domain` and `*.workspaceDomain`.",
        ),
    ] = None
    sign_in: Annotated[
        SignIn | None,
        Field(description="Sign-in with a browser. Without it only programs enter workspaces, with a token."),
    ] = None
    approvals: Annotated[Approvals, Field(description="Calls of agents' tools that wait for a person.")] = Approvals()
    dns: Annotated[
        Dns | None, Field(description="Hosted zones for the records. Without it you create the records yourself.")
    ] = None
    gateway: Annotated[Gateway, Field(description="Envoy in front of the service and of workspaces.")] = Gateway()
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
    max_per_owner: Annotated[
        int | None,
        Field(
            ge=1,
            le=10_000,
            description="Maximum number of workspaces of one owner in all classes, without the members of swarms.",
        ),
    ] = 100
    team_limits: Annotated[
        tuple[TeamLimit, ...],
        Field(max_length=200, description="Maximum number of workspaces of the members of teams."),
    ] = ()
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

    @property
    def own_secrets(self) -> tuple[str, ...]:
        """Return the ARNs of the secrets that the service itself reads."""
        sign_in, webhook = self.sign_in, self.approvals.webhook
        return (*([sign_in.client_secret] if sign_in else []), *([webhook.secret] if webhook else []))

    @property
    def domain_of_workspaces(self) -> str | None:
        """Return the domain of the ports of workspaces."""
        return self.workspace_domain or self.domain
