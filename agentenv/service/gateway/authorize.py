"""Authorize each request to a host of a workspace: its visitor, the visitor's right, and its destination.

Requests to a running workspace are authorized from memory. A suspended one is resumed for visitors with that right. A
visitor who may not see a workspace gets the same response as for one that does not exist.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, Protocol
from urllib.parse import urlencode

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.gateway.hosts import Host, console_target, console_workspace, parse_host
from agentenv.core.lifecycle.deadline import timeout_is_over
from agentenv.core.workspaces.workspace import ID, Sharing, Workspace
from agentenv.service.gateway.admissions import Admission, Admissions
from agentenv.service.gateway.audit import destination_name
from agentenv.service.gateway.entry import (
    DESTINATION,
    OWN_PATHS,
    PORT,
    SANDBOX_ID,
    SANDBOX_PORT,
    TOKEN,
    Allow,
    Decision,
    Deny,
    EntryRequest,
    Headers,
    host_cookie,
    redirect,
    refusal,
    safe_path,
    waiting_page,
    with_headers,
)
from agentenv.service.gateway.rights import NoteEntry, Right, Visitor, right_to_api, right_to_port
from agentenv.service.gateway.sealing import fingerprint
from agentenv.service.gateway.visitors import (
    BROWSER_COOKIE,
    FRESH_COOKIE,
    OWN_TOKENS,
    Identified,
    Visitors,
    fresh_mark,
    is_current,
    is_signed,
    with_break_glass,
)
from agentenv.service.gateway.waking import HOLD_SECONDS, Waker
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import is_allowed
from agentenv.service.http.auth.rate_limits import RateLimiter
from agentenv.service.http.grants import check_port
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.workspaced.tokens import NoSigningKeyError
from agentenv.service.workspaces.backend_protocol import Endpoint

# A person sees the waiting page after so long; a program is held.
PATIENCE_SECONDS = 2.0
# A claim is seen as running before its pod is seen as ready, on a busy machine some seconds before.
LAG_SECONDS = 10.0
# A signed link has its right in itself: pages of every origin read what it answers, as with E2B.
_ANY_ORIGIN = (("access-control-allow-origin", "*"),)
REQUESTS_PER_MINUTE, WAKES_PER_MINUTE = 12_000, 60
DEFAULT_PORT = 8080
BROWSER_SECONDS = 600
_JSON = (("content-type", "application/json"), ("cache-control", "no-store"))
CLEAR_SITE_DATA = ("clear-site-data", '"cache", "cookies", "storage"')


class Directory(Protocol):
    """The workspaces as this replica knows them."""

    def cached(self, id_: str) -> Workspace | None:
        """Return a workspace."""
        ...

    def endpoint(self, id_: str) -> Endpoint | None:
        """Return where a running workspace is reached."""
        ...

    def lacks_workspaced(self, id_: str) -> bool:
        """Return whether what runs for a workspace has no workspaced, and never will before it is suspended."""
        ...

    async def reachable(self, id_: str, *, wait: float) -> Endpoint | None:
        """Return the endpoint once a workspace can be reached, or None after so many seconds."""
        ...


@dataclass(frozen=True)
class Domains:
    """The domains of the gateway's hosts, and whether people can sign in."""

    domain: str
    workspaces: str
    sign_in: bool = False
    sandbox_aliases: tuple[str, ...] = ()  # further hosts of the sandbox host


@dataclass(frozen=True, slots=True)
class Destination:
    """The target of a request: a workspace by id, and one of its ports."""

    id: str
    port: int
    is_sandbox_host: bool = False
    alias: str = ""
    is_console: bool = False

    @property
    def is_api(self) -> bool:
        """Return whether it is workspaced's own API."""
        return self.port == DAEMON_PORT

    @property
    def is_of_e2b(self) -> bool:
        """Return whether E2B's client may be behind the request, which knows refusals by a form of their own."""
        return (self.is_api or self.is_sandbox_host) and not self.is_console


class ReplacedError(Problem):
    """A workspace was replaced while its visitor waited: deleted and created again, or restored in another sandbox."""

    def __init__(self, id_: str) -> None:
        super().__init__("wrong-state", f"{id_} changed meanwhile", "repeat the request", retry_after=1)


OwnPath = Callable[[EntryRequest, Destination], Awaitable[Decision]]


class Authorizer:
    """Decides about the requests of one replica."""

    def __init__(
        self,
        directory: Directory,
        domains: Domains,
        visitors: Visitors,
        admissions: Admissions,
        waker: Waker,
        *,
        now: Callable[[], datetime],
        sharing_of: Callable[[str], Collection[Sharing]] = lambda _: ("private",),
        resolve_alias: Callable[[str], tuple[str, int] | None] = lambda _: None,
        break_glass: Callable[[str, str], bool] = lambda _workspace, _owner: False,
        note_use: Callable[[Workspace], None] = lambda _: None,
        note_entry: NoteEntry | None = None,
        freed_at: Callable[[str], datetime | None] | None = None,
        own_path: OwnPath | None = None,
        needs_approval: Callable[[str], bool] = lambda _: False,
        signers: Callable[[], Iterable[Workspace]] | None = None,
        requests: RateLimiter | None = None,
        wakes: RateLimiter | None = None,
    ) -> None:
        """Create an authorizer.

        `sharing_of` returns how a class lets ports be shared, `resolve_alias` the id and the default port of an alias,
        `break_glass` whether an operator may enter a workspace now, `freed_at` when an alias was freed of which
        browsers may hold data. `own_path` answers the gateway's own paths, `needs_approval` returns
        whether the tools of a class wait for approvals. `signers` returns the workspaces of one machine: a signed link
        there does not name its own.
        """
        self._directory, self._domains, self._visitors = directory, domains, visitors
        self._admissions, self._waker, self._now = admissions, waker, now
        admissions.is_admitted, admissions.is_gone = self.is_admitted, self.is_gone
        self._sharing_of, self._resolve_alias, self._break_glass = sharing_of, resolve_alias, break_glass
        self._note_use, self._note_entry, self._own_path = note_use, note_entry, own_path
        self._freed_at, self._needs_approval, self._signers = freed_at, needs_approval, signers
        self._requests = requests or RateLimiter(REQUESTS_PER_MINUTE)
        self._wakes = wakes or RateLimiter(WAKES_PER_MINUTE)

    async def check(self, request: EntryRequest) -> Decision:
        """Return whether a request is routed, and where; each refusal is a response."""
        cleared: Headers = ()
        try:
            destination = self.destination(request)
            if destination is None:
                raise not_found("workspace")
            if request.path.startswith(OWN_PATHS) and not destination.is_sandbox_host:
                return await self._answer(request, destination)
            # Whether or not the visitor may enter: a former owner's visitors have no right here any more.
            freed = self._freed_at(destination.alias) if self._freed_at is not None and destination.alias else None
            if freed is not None and request.cookie(FRESH_COOKIE) != fresh_mark(freed):
                cleared = (CLEAR_SITE_DATA,)
                if (cleaning := _clean(request)) is not None:
                    return cleaning
            return with_headers(await self._check(request, destination), cleared)
        except Problem as problem:
            return refusal(problem, request, *cleared)
        except NoSigningKeyError:
            missing = Problem("unavailable", "the service has no signing key yet", "retry in a minute", retry_after=30)
            return refusal(missing, request, *cleared)

    async def _answer(self, request: EntryRequest, destination: Destination) -> Decision:
        """Answer a path of the gateway itself."""
        if self._own_path is None:
            raise not_found("workspace")
        self._requests.take(request.source)
        return await self._own_path(request, destination)

    async def _check(self, request: EntryRequest, destination: Destination) -> Decision:
        try:
            return await self._enter(request, destination)
        except ReplacedError:
            # The visitor may have another right in what has its name now, or none.
            return await self._enter(request, destination)

    async def _enter(self, request: EntryRequest, destination: Destination) -> Decision:
        workspace = self._existing(destination.id)
        identified = await self._identify(request, destination, workspace)
        if destination.is_console:
            request = replace(request, target=console_target(request.target))
        visitor = identified.visitor
        self._requests.take(request.source if visitor.identity == "public" else visitor.identity)
        right = self._right(visitor, workspace, destination)
        if right is None and workspace is not None and self._may_break_glass(visitor, workspace):
            visitor = with_break_glass(visitor)
            right = self._right(visitor, workspace, destination)
        if workspace is None or right is None:
            return self._refuse(request, identified, workspace, destination)
        if not destination.is_api:
            check_port(workspace, destination.port)
        if destination.is_api and self._needs_approval(workspace.class_name) and not _is_person(visitor):
            detail = "programs enter workspaces of this class by the tools alone, which wait for an approval"
            raise Problem("not-allowed", detail, "use the tools at /mcp, or sign in as a person")
        if _is_paused(workspace):
            return self._gone(destination) if destination.is_of_e2b else _refuse_asleep(request)
        endpoint = self._directory.endpoint(destination.id)
        if endpoint is None:
            woken = await self._wake(request, visitor, workspace, right)
            if isinstance(woken, Deny):
                return woken
            endpoint = woken
        if endpoint.claim_uid != workspace.claim_uid:
            raise ReplacedError(destination.id)
        scope = _scope(request, destination, right)
        token = await self._admissions.token(
            Admission(workspace.id, endpoint, visitor, destination.port, right.scope, scope)
        )
        self._note_use(workspace)
        if self._note_entry is not None:
            self._note_entry(
                workspace,
                visitor,
                destination_name(request.path, destination.port, api=destination.is_api),
                request.source,
            )
        headers = {DESTINATION: endpoint.destination, TOKEN: token}
        headers |= {} if destination.is_api else {PORT: str(destination.port)}
        headers |= {"cookie": identified.cookies} if identified.cookies else {}
        remove = identified.remove + ((SANDBOX_ID, SANDBOX_PORT) if destination.is_sandbox_host else ())
        answered = _ANY_ORIGIN if visitor.credential in {"read", "write"} else ()
        return Allow(headers, remove + (("cookie",) if identified.cookies == "" else ()), answered)

    async def _identify(
        self, request: EntryRequest, destination: Destination, workspace: Workspace | None
    ) -> Identified:
        if destination.is_console:
            return self._visitors.signed_in(request)
        return await self._visitors.identify(request, destination.id, workspace, api=destination.is_api)

    def destination(self, request: EntryRequest) -> Destination | None:
        """Return what a request is for; None for a host that is none of a workspace."""
        host = parse_host(request.host, self._domains.domain, self._domains.workspaces)
        if request.host.partition(":")[0] in self._domains.sandbox_aliases:
            host = Host("sandbox")
        if host is not None and host.kind == "console":
            id_ = console_workspace(request.path)
            return Destination(id_, DAEMON_PORT, is_console=True) if id_ else None
        if host is None or host.kind not in {"sandbox", "workspace"}:
            return None
        if host.kind == "sandbox":
            id_, port = request.headers.get(SANDBOX_ID, ""), request.headers.get(SANDBOX_PORT, str(DAEMON_PORT))
            if self._signers is not None and not id_ and is_signed(request, api=True):
                signer = self._visitors.signer_of(request, self._signers())
                return Destination(signer, DAEMON_PORT, is_sandbox_host=True)
            is_port = port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
            return Destination(id_, int(port), is_sandbox_host=True) if is_port and ID.fullmatch(id_) else None
        if ID.fullmatch(host.name):
            return Destination(host.name, host.port or DEFAULT_PORT)
        # An unknown alias is a workspace without an owner: the response is that of a foreign one.
        id_, default = self._resolve_alias(host.name) or ("", DEFAULT_PORT)
        return Destination(id_, host.port or default, alias=host.name)

    def _existing(self, id_: str) -> Workspace | None:
        workspace = self._directory.cached(id_)
        if workspace is None or workspace.state == "deleted" or timeout_is_over(workspace, self._now()):
            return None
        # One with a timeout does not move to another class.
        return None if workspace.timeout is not None and workspace.state == "deleting" else workspace

    def _right(self, visitor: Visitor, workspace: Workspace | None, destination: Destination) -> Right | None:
        if workspace is None:
            return None
        if destination.is_api:
            return right_to_api(visitor, workspace)
        return right_to_port(visitor, workspace, destination.port, self._sharing_of(workspace.class_name))

    def _may_break_glass(self, visitor: Visitor, workspace: Workspace) -> bool:
        caller = visitor.caller
        return caller is not None and caller.is_operator and self._break_glass(workspace.id, caller.owner)

    def is_admitted(self, admission: Admission) -> bool:
        """Return whether a visitor still has the right to a destination."""
        visitor, current = admission.visitor, self._existing(admission.workspace)
        if current is None or current.claim_uid != admission.endpoint.claim_uid or not visitor.is_valid():
            return False
        if visitor.break_glass and not self._may_break_glass(visitor, current):
            return False
        if visitor.credential in OWN_TOKENS and not is_current(visitor, current):
            return False
        right = self._right(visitor, current, Destination(admission.workspace, admission.port))
        return right is not None and right.scope == admission.right

    async def admit(self, workspace: Workspace, caller: Caller, endpoint: Endpoint) -> str:
        """Return a token for a caller of the service's own tools, in a session that ends with the right."""
        visitor, current = self._visitors.visitor_of(caller), self._existing(workspace.id) or workspace
        right = right_to_api(visitor, current)
        if right is None or not visitor.is_valid():
            raise not_found("workspace")
        # A tool for readers may start a process in order to read.
        return await self._admissions.token(
            Admission(current.id, endpoint, visitor, DAEMON_PORT, right.scope, scope="api")
        )

    def is_gone(self, admission: Admission) -> bool:
        """Return whether the pod of a visitor is gone or ends, with all that is open in it; one not ready is not."""
        pod, current = admission.endpoint, self._directory.cached(admission.workspace)
        if current is None or current.claim_uid != pod.claim_uid or current.state in {"suspended", "deleted"}:
            return True
        # Its client is to learn that it was killed, not that a right ended.
        if current.timeout is not None and current.state == "deleting":
            return True
        endpoint = self._directory.endpoint(admission.workspace)
        return endpoint is not None and endpoint.pod_uid != pod.pod_uid

    async def _wake(
        self, request: EntryRequest, visitor: Visitor, workspace: Workspace, right: Right
    ) -> Endpoint | Deny:
        hold = PATIENCE_SECONDS if request.is_navigation else HOLD_SECONDS
        if workspace.state in {"suspending", "suspended"}:
            _require_wake(workspace, right)
            self._wakes.take(visitor.identity if visitor.identity != "public" else request.source)
            woken = await self._waker.wake(workspace, hold)
            if woken is None:
                return self._still_waking(request, self._existing(workspace.id) or workspace)
            if woken.claim_uid != workspace.claim_uid:
                raise ReplacedError(workspace.id)
            if woken.state != "running":
                return self._not_running(request, woken)
        elif workspace.state == "running":
            if self._directory.lacks_workspaced(workspace.id):
                return self._not_running(request, workspace)
            hold = min(hold, LAG_SECONDS)
        elif workspace.state not in {"creating", "restarting", "moving"}:
            return self._not_running(request, workspace)
        endpoint = await self._directory.reachable(workspace.id, wait=hold)
        if endpoint is not None:
            return endpoint
        current = self._existing(workspace.id)
        if current is None:
            raise not_found("workspace")
        return self._not_running(request, current)

    def _not_running(self, request: EntryRequest, workspace: Workspace) -> Deny:
        """Return why a workspace that the visitor may enter cannot be reached."""
        id_ = workspace.id
        match workspace.state:
            case "creating" | "restarting" | "moving" | "suspending" | "suspended":
                return self._still_waking(request, workspace)
            case "running" if not self._directory.lacks_workspaced(id_):
                return self._still_waking(request, workspace)  # its pod is about to be ready, or about to be noticed
            case "running":
                detail = f"{id_} was started by a version without workspaced"
                problem = Problem("wrong-state", detail, "suspend and resume it: its files are retained")
            case "failed":
                detail = f"{id_} failed: {workspace.why}"
                problem = Problem("wrong-state", detail, "look at its events, or delete it", workspace=id_)
            case _:
                detail = f"{id_} is being deleted or moved"
                problem = Problem("wrong-state", detail, "retry in a few seconds", retry_after=2)
        return refusal(problem, request)

    def _still_waking(self, request: EntryRequest, workspace: Workspace) -> Deny:
        if request.is_navigation:
            return waiting_page()
        why = f": {workspace.why}" if workspace.why and workspace.state in {"creating", "restarting"} else ""
        problem = Problem("unavailable", f"the workspace is waking up{why}", "repeat the request", retry_after=2)
        return refusal(problem, request)

    def _refuse(
        self, request: EntryRequest, identified: Identified, workspace: Workspace | None, destination: Destination
    ) -> Deny:
        caller = identified.visitor.caller
        if caller is None and request.is_navigation and self._domains.sign_in and not destination.is_sandbox_host:
            return self._to_sign_in(request)
        if caller is not None and workspace is not None and is_allowed(caller, "see", workspace):
            if caller.has_scope("read") and not caller.is_operator:
                raise Problem("not-allowed", "you may not use it", "ask its owner to share it for use, or the port")
            if caller.is_operator:
                detail = "operators enter a workspace of another owner by break-glass alone"
                way_out = f"POST to /v1/workspaces/{workspace.id}/break-glass with your reason; its owner is informed"
                raise Problem("not-allowed", detail, way_out)
        if identified.signature:
            return _refuse_signature(identified.signature)
        if destination.is_of_e2b:
            return self._gone(destination)
        raise not_found("workspace")

    def _gone(self, destination: Destination) -> Deny:
        """Return the answer by which E2B's client knows that a sandbox does not run or does not exist."""
        body = {"message": f"The sandbox {destination.id} was not found", "code": 502, "sandboxId": destination.id}
        return Deny(502, json.dumps(body), _JSON)

    def _to_sign_in(self, request: EntryRequest) -> Deny:
        """Send a browser to sign in, and bind what comes back to it by a cookie of this host."""
        browser = request.cookie(BROWSER_COOKIE) or secrets.token_urlsafe(24)
        _, colon, port = request.host.partition(":")
        query = {"host": request.host, "path": request.target, "browser": fingerprint(browser)}
        return redirect(
            f"https://api.{self._domains.domain}{colon}{port}/v1/sign-in/enter?{urlencode(query)}",
            ("set-cookie", host_cookie(BROWSER_COOKIE, browser, BROWSER_SECONDS)),
        )


def _clean(request: EntryRequest) -> Deny | None:
    """Return the answer by which a browser deletes what it holds of an alias's former owner, before anything else."""
    if request.is_navigation:
        return redirect(f"{OWN_PATHS}fresh?{urlencode({'path': safe_path(request.target)})}", CLEAR_SITE_DATA)
    if request.headers.get("service-worker") == "script":
        # A script that cannot be updated is removed by the header, and serves no page of the new owner.
        return refusal(not_found("page"), request, CLEAR_SITE_DATA)
    return None


def _refuse_signature(why: Literal["invalid", "expired"]) -> Deny:
    """Return the answer of E2B's own service to a signature that does not count."""
    message = "signature is already expired" if why == "expired" else "invalid signature"
    return Deny(401, json.dumps({"code": 401, "message": message}), _JSON)


def _is_person(visitor: Visitor) -> bool:
    return visitor.caller is not None and visitor.caller.source in {"session", "token"}


def _is_paused(workspace: Workspace) -> bool:
    """Return whether a workspace is suspended, or about to be, and traffic does not resume it."""
    because = workspace.suspended_because
    is_suspended = because != "moving" and (workspace.state == "suspended" or because is not None)
    return is_suspended and workspace.timeout is not None and not workspace.timeout.wakes


def _refuse_asleep(request: EntryRequest) -> Deny:
    problem = Problem("wrong-state", "it is paused until its client connects to it", "connect to it, or resume it")
    return refusal(problem, request)


def _scope(request: EntryRequest, destination: Destination, right: Right) -> str:
    """Return the scope of the token for workspaced: the least that the request needs."""
    if right.scope == "port":
        return f"port:{destination.port}"
    # Who may start processes may also do so by SSH.
    return "ssh" if right.scope == "api" and request.path.startswith("/ssh") else right.scope


def _require_wake(workspace: Workspace, right: Right) -> None:
    if not right.wake:
        detail = "it is asleep, and you may not wake it"
        raise Problem("wrong-state", detail, "ask its owner to wake it, or to let you do so")
    # A timeout that suspends starts anew.
    if workspace.suspended_because == "deadline" and workspace.timeout is None:
        raise Problem("too-late", "its deadline is over", "have its owner set a later deadline and resume it")
