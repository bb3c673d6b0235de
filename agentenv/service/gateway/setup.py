"""Create a replica's part of the gateway from its configuration; None where the environment has none."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from agentenv.core.gateway.hosts import CONSOLE
from agentenv.core.service.rbac import GATEWAY_SECRETS
from agentenv.core.workspaces.workspace import CreateResult, Workspace
from agentenv.service.approvals.approvals import Approvals, class_asks
from agentenv.service.approvals.webhook import Webhook
from agentenv.service.aws import clients as aws
from agentenv.service.aws.remote import Remote
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.access_table import AccessTable
from agentenv.service.gateway.admissions import Admissions
from agentenv.service.gateway.audit import AuditTrail
from agentenv.service.gateway.authorize import Authorizer, Domains
from agentenv.service.gateway.open_sessions import OpenSessions
from agentenv.service.gateway.own_paths import OwnPaths
from agentenv.service.gateway.sealing import SecretsCache
from agentenv.service.gateway.server import serving
from agentenv.service.gateway.sharing import aliases_in, sharing_of
from agentenv.service.gateway.sign_in import Client, SignIn
from agentenv.service.gateway.use import Use
from agentenv.service.gateway.visitors import Visitors
from agentenv.service.gateway.waking import HOLD_SECONDS, Waker
from agentenv.service.http.auth.permissions import classes_for
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.kube.client import SECRETS, KubeClient
from agentenv.service.workspaced.client import Signer, WorkspacedClient

if TYPE_CHECKING:
    import httpx2

    from agentenv.service.catalog import Catalog
    from agentenv.service.configuration import Configuration
    from agentenv.service.http.auth.authenticate import Authenticator
    from agentenv.service.http.auth.callers import Caller
    from agentenv.service.http.auth.issuer import Issuer
    from agentenv.service.http.dependencies import Dependencies
    from agentenv.service.workspaces.backend_protocol import Backend

_LOG = logging.getLogger(__name__)
ADOPT_SECONDS = 30.0


def access_cache_of(configuration: Configuration, now: Callable[[], datetime]) -> AccessCache | None:
    """Create the cache of the table of access."""
    if configuration.access_table is None:
        return None
    client = aws.client("dynamodb", configuration.region)
    return AccessCache(AccessTable(client, configuration.access_table), now=now)


def secrets_cache_of(configuration: Configuration, kube: KubeClient) -> SecretsCache:
    """Create the cache of the gateway's secrets."""
    return SecretsCache(lambda: kube.find(SECRETS, GATEWAY_SECRETS, configuration.namespace))


@dataclass(frozen=True)
class People:
    """By which people are known: the issuer, and what its tokens say."""

    authenticator: Authenticator
    issuer: Issuer
    http: httpx2.AsyncClient
    catalog: Catalog


def sign_in_of(
    configuration: Configuration,
    people: People,
    access: AccessCache,
    secrets: SecretsCache,
    now: Callable[[], datetime],
) -> SignIn | None:
    """Create the sign-in with a browser."""
    service = configuration.settings.service
    settings, domain, workspaces = service.sign_in, service.domain, service.domain_of_workspaces
    if settings is None or domain is None or workspaces is None:
        return None

    def classes_of(caller: Caller) -> list[str]:
        return classes_for(people.catalog, caller)

    return SignIn(
        Client(settings.client_id, client_secret(configuration.region, settings.client_secret), settings.scopes),
        people.issuer,
        people.http,
        domains=(domain, workspaces),
        access=access,
        secrets=secrets.current,
        person_of=people.authenticator.person,
        classes_of=classes_of,
        now=now,
    )


def approvals_of(configuration: Configuration, dependencies: Dependencies) -> Approvals | None:
    """Create the approvals of tools, and the webhook that tells of them."""
    access, service = dependencies.access_records, configuration.settings.service
    if access is None:
        return None
    settings, send = service.approvals.webhook, None
    if settings is not None:
        link = f"https://{CONSOLE}.{service.domain}/#/approvals" if service.domain else ""
        secret = client_secret(configuration.region, settings.secret)
        send = Webhook(settings.url, secret, tuple(map(str, settings.ranges)), link, dependencies.now).send
    return Approvals(access, dependencies.backend, send, dependencies.now)


def client_secret(region: str, arn: str) -> Callable[[], Awaitable[str]]:
    """Return a function that reads the secret of the service as a client of the issuer, once it is needed."""
    client, calls = aws.client("secretsmanager", region), Remote("Secrets Manager")

    async def read() -> str:
        try:
            answer = await calls.run(aws.call, client, "get_secret_value", SecretId=arn)
        except (aws.AwsRefusedError, aws.AwsUnavailableError) as failure:
            _LOG.error("the client secret cannot be read", extra={"facts": {"why": str(failure)}})
            detail = "the service cannot read its client secret"
            raise Problem("unavailable", detail, "tell the platform team", retry_after=30) from None
        return str(answer["SecretString"])

    return read


@contextlib.asynccontextmanager
async def running_gateway(
    configuration: Configuration,
    dependencies: Dependencies,
    signer: Signer,
    secrets: SecretsCache,
    *,
    sandbox_aliases: tuple[str, ...] = (),
    signers: Callable[[], Iterable[Workspace]] | None = None,
) -> AsyncGenerator[Authorizer | None]:
    """Serve the authorization of the gateway's requests while the context is open.

    `sandbox_aliases` are further hosts of the sandbox host, and `signers` the workspaces that signed links may be of
    which do not name theirs.
    """
    service, backend, access = configuration.settings.service, dependencies.backend, dependencies.access_records
    domain, workspaces = service.domain, service.domain_of_workspaces
    if configuration.authorizer_port is None or domain is None or workspaces is None:
        yield None
        return
    client = WorkspacedClient(signer)
    waker = Waker(lambda workspace, on_requested: resume(dependencies, workspace, on_requested))
    use = Use(lambda id_, changes: backend.update(id_, changes, wait=0), backend.cached, dependencies.now)
    visitors = Visitors(
        dependencies.authenticator, access, secrets.current, dependencies.now, sessions=dependencies.sessions
    )
    sessions = OpenSessions(access.store, dependencies.now) if access is not None else None
    admissions = Admissions(signer, client, monotonic=time.monotonic)
    if sessions is not None:
        admissions.on_enter = sessions.note
    trail = AuditTrail(access.store, service.ledger_retention, dependencies.now) if access is not None else None
    dependencies.note_entry = trail.note if trail is not None else None
    authorizer = Authorizer(
        backend,
        Domains(domain, workspaces, sign_in=dependencies.sign_in is not None, sandbox_aliases=sandbox_aliases),
        visitors,
        admissions,
        waker,
        now=dependencies.now,
        sharing_of=lambda name: sharing_of(dependencies.catalog, name),
        note_use=use.note,
        note_entry=dependencies.note_entry,
        freed_at=access.freed_at if access is not None else None,
        needs_approval=lambda name: class_asks(dependencies.catalog.settings, name),
        signers=signers,
        own_path=OwnPaths(access, secrets.current, dependencies.now).answer if access is not None else None,
        resolve_alias=aliases_in(access),
        break_glass=lambda id_, owner: access is not None and access.break_glass(id_, owner) is not None,
    )
    dependencies.admit = authorizer.admit
    running = [use.run(), admissions.run()]
    if trail is not None and sessions is not None:
        running += [trail.run(), sessions.run(), adopt_sessions(admissions, sessions, visitors, backend)]
    tasks = [asyncio.create_task(work) for work in running]
    try:
        async with serving(authorizer.check, f"{configuration.host}:{configuration.authorizer_port}"):
            yield authorizer
    finally:
        for task in tasks:
            task.cancel()
        await waker.close()
        await use.write()
        if trail is not None and sessions is not None:
            await trail.write()
            await sessions.write()
        await client.close()


async def adopt_sessions(admissions: Admissions, sessions: OpenSessions, visitors: Visitors, backend: Backend) -> None:
    """Take over the open sessions of other replicas, which may be gone soon, once workspaces are known."""
    while True:
        await asyncio.sleep(ADOPT_SECONDS)
        if not backend.is_synced():
            continue
        try:
            admissions.adopt(await sessions.read(visitors.restored))
        except (Problem, aws.AwsRefusedError, aws.AwsUnavailableError) as failure:
            _LOG.warning("open sessions cannot be read", extra={"facts": {"why": str(failure)}})


async def resume(dependencies: Dependencies, workspace: Workspace, on_requested: Callable[[], None]) -> CreateResult:
    """Resume a workspace for a visitor, if its budget is not spent; it is never restored from retained data."""

    async def refuse_restore(_: Workspace) -> None:
        raise not_found("workspace")

    if dependencies.budgets is not None and (spent := dependencies.budgets.refusal(workspace)) is not None:
        raise spent
    return await dependencies.backend.resume(
        workspace.id, wait=HOLD_SECONDS, before_restore=refuse_restore, on_requested=on_requested
    )
