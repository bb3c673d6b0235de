"""Identify who comes to a host of a workspace, from memory, and which headers of the request were credentials."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, cast

from agentenv.core.gateway.access_tokens import Operation, access_token, epoch_of, is_access_token, is_signature
from agentenv.core.gateway.api_keys import Scope, key_id
from agentenv.core.values.timestamps import EARLIEST, parse_timestamp
from agentenv.core.workspaces.workspace import Workspace
from agentenv.service.gateway.access_cache import AccessCache
from agentenv.service.gateway.entry import ACCESS_TOKEN, API_KEY, TRAFFIC_TOKEN, EntryRequest, without_cookies
from agentenv.service.gateway.rights import Credential, Visitor
from agentenv.service.gateway.sealing import GatewaySecrets
from agentenv.service.http.auth.callers import Caller, Role
from agentenv.service.http.dependencies import CallerSource
from agentenv.service.http.problems import Problem, UnauthenticatedError

# Cookies of a workspace's host: of a person, of a link, and of a browser that is about to sign in.
PERSON_COOKIE, LINK_COOKIE, BROWSER_COOKIE = "__Host-workspace", "__Host-link", "__Host-browser"
# Marks a browser that holds nothing of an alias's former owner.
FRESH_COOKIE = "__Host-fresh"
COOKIES = frozenset({PERSON_COOKIE, LINK_COOKIE, BROWSER_COOKIE, FRESH_COOKIE})
PERSON_FOR = timedelta(hours=12)
LINK_FOR = timedelta(days=30)
# A token of the issuer is verified again after so long.
_REUSE = timedelta(seconds=30)
_MOST_TOKENS = 10_000
_BEARER = re.compile(r"[Bb]earer +([A-Za-z0-9._~+/=-]+)")
_OPERATIONS: Mapping[str, Operation] = {"GET": "read", "HEAD": "read", "POST": "write"}
NOBODY = Visitor("public")
# Credentials that are bound to one workspace and its generation.
OWN_TOKENS: frozenset[Credential] = frozenset({"access-token", "traffic-token", "read", "write"})


class Sessions(Protocol):
    """The sessions of people at the console."""

    def content(self, request: EntryRequest) -> dict[str, Any] | None:
        """Return the content of the request's session, if it has not ended."""
        ...

    def is_valid(self, content: Mapping[str, Any]) -> bool:
        """Return whether a session has not ended."""
        ...


@dataclass(frozen=True)
class Identified:
    """A visitor, and the parts of the request that the program must not receive."""

    visitor: Visitor
    remove: tuple[str, ...] = ()
    cookies: str | None = None  # what is left of the Cookie header; None where it stays
    signature: Literal["", "invalid", "expired"] = ""  # why the signature of a link does not count


class Visitors:
    """Identifies visitors for one replica."""

    def __init__(
        self,
        authenticator: CallerSource,
        access: AccessCache | None,
        secrets: Callable[[], GatewaySecrets],
        now: Callable[[], datetime],
        *,
        sessions: Sessions | None = None,
    ) -> None:
        """`secrets` raises a `Problem` while there are none; `sessions` are those of the console."""
        self._sessions = sessions
        self._authenticator, self._access, self._secrets, self._now = authenticator, access, secrets, now
        self._verified: OrderedDict[bytes, tuple[datetime, Caller]] = OrderedDict()

    async def identify(self, request: EntryRequest, id_: str, workspace: Workspace | None, *, api: bool) -> Identified:
        """Return who comes to a workspace, which may not exist; `api` says whether to workspaced's own API.

        At workspaced's API a token of the issuer or a key that is invalid raises a `Problem`, whatever workspace it
        is for. At a program's port it may be the program's own: of the same issuer for another audience.
        """
        headers = request.headers
        left = without_cookies(headers.get("cookie", ""), COOKIES)
        cookies = left if left != headers.get("cookie", "") else None
        own = self._own_token(request, id_, workspace, api=api)
        if own is not None:
            visitor, header = own
            return Identified(visitor, (header,) if header else (), cookies)
        caller, remove = await self._caller(request, api=api)
        if caller is not None:
            return Identified(self.visitor_of(caller), remove, cookies)
        person = self._by_cookie(request)
        why = self._signature_refusal(request, id_, workspace) if person is None and is_signed(request, api=api) else ""
        return Identified(person or NOBODY, remove, cookies, why)

    def signed_in(self, request: EntryRequest) -> Identified:
        """Return who is signed in at the console; no other credential counts there, and none is passed on.

        Only a page of the console itself sends it: a link from elsewhere neither wakes a workspace nor reads a file.
        """
        content = None
        if self._sessions is not None and request.headers.get("sec-fetch-site") == "same-origin":
            content = self._sessions.content(request) if request.is_same_origin else None
        caller = caller_of(content) if content is not None else None
        until = parse_timestamp(content.get("until")) if content is not None else None
        if self._sessions is None or self._access is None or content is None or caller is None or until is None:
            raise UnauthenticatedError("nobody is signed in at the console")
        visitor, sessions = self._visitor_of_person(caller, self._access, until), self._sessions

        def is_valid() -> bool:
            return _holds(lambda: sessions.is_valid(content)) and visitor.is_valid()

        credentials = ("authorization", ACCESS_TOKEN, TRAFFIC_TOKEN, API_KEY)
        return Identified(replace(visitor, is_valid=is_valid), credentials, "")

    def _own_token(
        self, request: EntryRequest, id_: str, workspace: Workspace | None, *, api: bool
    ) -> tuple[Visitor, str] | None:
        """Return the bearer of a token of the workspace, and the header that has it."""
        headers = request.headers
        presented, traffic = headers.get(ACCESS_TOKEN), headers.get(TRAFFIC_TOKEN)
        signed = is_signed(request, api=api)
        if not (presented or traffic or signed):
            return None
        secret = self._secrets().access
        # One that does not exist takes as long, and no token was made of it.
        for epoch in epochs_of(workspace) if workspace is not None else (id_, id_):
            if presented and is_access_token(presented, secret, epoch):
                return Visitor(_identity("access-token", epoch), "access-token"), ACCESS_TOKEN
            if traffic and not api and is_access_token(traffic, secret, epoch, "traffic"):
                return Visitor(_identity("traffic-token", epoch), "traffic-token"), TRAFFIC_TOKEN
            if signed and (operation := self._signed(request, secret, epoch)) is not None:
                return Visitor(_identity(operation, epoch), operation), ""
        return None

    def signer_of(self, request: EntryRequest, workspaces: Iterable[Workspace]) -> str:
        """Return the workspace whose token signed a link, expired or not; an empty text if none did."""
        secret = self._secrets().access
        signed = (
            workspace.id
            for workspace in workspaces
            if any(self._signed(request, secret, epoch, EARLIEST) for epoch in epochs_of(workspace))
        )
        return next(signed, "")

    def _signature_refusal(
        self, request: EntryRequest, id_: str, workspace: Workspace | None
    ) -> Literal["invalid", "expired"]:
        """Return why a link is refused. Only who had a valid one learns more than for one that does not exist."""
        secret, epochs = self._secrets().access, epochs_of(workspace) if workspace is not None else (id_, id_)
        was_valid = [self._signed(request, secret, epoch, EARLIEST) is not None for epoch in epochs]
        return "expired" if workspace is not None and any(was_valid) else "invalid"

    def _signed(
        self, request: EntryRequest, secret: bytes, epoch: str, now: datetime | None = None
    ) -> Operation | None:
        query, operation = request.query, _OPERATIONS.get(request.method)
        # workspaced takes the first value of a repeated name, and a user from the header where the query has none.
        if operation is None or request.has_repeated_query or "authorization" in request.headers:
            return None
        path, user, token = query.get("path", ""), query.get("username", ""), access_token(secret, epoch)
        expiration = query.get("signature_expiration")
        is_valid = is_signature(
            query.get("signature", ""), path, operation, user, token, expiration=expiration, now=now or self._now()
        )
        return operation if is_valid else None

    async def _caller(self, request: EntryRequest, *, api: bool) -> tuple[Caller | None, tuple[str, ...]]:
        """Return the caller of a credential of ours, and the headers with ours; others are the program's."""
        match = _BEARER.fullmatch(request.headers.get("authorization", ""))
        presented = ((API_KEY, request.headers.get(API_KEY, "")), ("authorization", match[1] if match else ""))
        remove = tuple(header for header, token in presented if key_id(token) is not None)
        for header, token in presented:
            try:
                caller = await self._verify(token, request.source) if token else None
            except UnauthenticatedError:
                if api:
                    raise
                continue
            if caller is not None:
                return caller, tuple({*remove, header})
        if api and match is not None:
            # A review of it would need a request to the API server.
            raise UnauthenticatedError(
                "the gateway does not accept this token, such as one of a service account; create an API key with it"
            )
        return None, remove

    async def _verify(self, token: str, source: str) -> Caller | None:
        key, now = hashlib.sha256(token.encode()).digest(), self._now()
        verified = self._verified.get(key)
        if verified is not None and verified[0] > now:
            return verified[1]
        caller = await self._authenticator.bearer(token, source)
        if caller is not None and caller.source == "token":
            self._verified[key] = now + _REUSE, caller
            while len(self._verified) > _MOST_TOKENS:
                self._verified.popitem(last=False)
        return caller

    def restored(self, document: Mapping[str, Any]) -> Visitor | None:
        """Return the visitor that another replica admitted."""
        identity, credential = str(document.get("identity")), document.get("credential")
        broken = document.get("break_glass") is True
        if credential in {*OWN_TOKENS, "none"}:
            return Visitor(identity, cast("Credential", credential))
        if credential == "link" and self._access is not None:
            return self._visitor_of_link(self._access, identity.removeprefix("link:"))
        content = document.get("caller")
        caller = caller_of(cast("Mapping[str, Any]", content)) if isinstance(content, dict) else None
        until = parse_timestamp(document.get("until"))
        if caller is None:
            return None
        if until is not None and self._access is not None:
            visitor = self._visitor_of_person(caller, self._access, until)
        else:
            visitor = self.visitor_of(caller)
        return with_break_glass(visitor) if broken else visitor

    def visitor_of(self, caller: Caller) -> Visitor:
        """Return a caller as a visitor, who is one as long as the key is valid."""
        kind, _, id_ = caller.session.partition(".")
        if kind == "key" and self._access is not None:
            access = self._access
            return Visitor(caller.session, "caller", caller, is_valid=lambda: _holds(lambda: access.key(id_)))
        return Visitor(f"owner:{caller.owner}", "caller", caller)

    def _visitor_of_link(self, access: AccessCache, id_: str) -> Visitor | None:
        record = access.link(id_)
        if record is None:
            return None
        named = record.workspace, record.port, record.wake
        return Visitor(f"link:{id_}", "link", link=named, is_valid=lambda: _holds(lambda: access.link(id_)))

    def _by_cookie(self, request: EntryRequest) -> Visitor | None:
        """Return the visitor of a cookie of this host, where the request may use cookies."""
        access = self._access
        person, link = request.cookie(PERSON_COOKIE), request.cookie(LINK_COOKIE)
        if access is None or not (person or link) or not request.is_same_origin:
            return None
        host = request.host.partition(":")[0].lower()
        if person and (content := self._secrets().unseal("person", person, PERSON_FOR, self._now())):
            caller, until = caller_of(content), parse_timestamp(content.get("until"))
            if content.get("host") == host and caller is not None and until is not None:
                visitor = self._visitor_of_person(caller, access, until)
                if not access.has_ended(caller.session) and visitor.is_valid():
                    return visitor
        if link and (content := self._secrets().unseal("link", link, LINK_FOR, self._now())):
            visitor = self._visitor_of_link(access, str(content.get("link")))
            return visitor if content.get("host") == host else None
        return None

    def _visitor_of_person(self, caller: Caller, access: AccessCache, until: datetime) -> Visitor:
        def is_valid() -> bool:
            return _holds(lambda: not access.has_ended(caller.session)) and self._now() < until

        return Visitor(f"person:{caller.session}", "caller", caller, until=until, is_valid=is_valid)


def is_signed(request: EntryRequest, *, api: bool) -> bool:
    """Return whether a request is for a signed link to a file."""
    return api and request.path == "/files" and "signature=" in request.target


def fresh_mark(freed: datetime) -> str:
    """Return the value of the cookie that marks a browser, for one change of the alias's owner."""
    return str(int(freed.timestamp()))


def epochs_of(workspace: Workspace) -> tuple[str, str]:
    """Return the epochs of a workspace's valid tokens: of those of its owner, and of those of sharers."""
    return epoch_of(workspace), epoch_of(workspace, shared=True)


def is_current(visitor: Visitor, workspace: Workspace) -> bool:
    """Return whether the bearer of a workspace's own token has a valid one."""
    return visitor.identity in {_identity(visitor.credential, epoch) for epoch in epochs_of(workspace)}


def _identity(credential: Credential, epoch: str) -> str:
    return f"{credential}:{epoch}"


def document_of(visitor: Visitor) -> dict[str, Any]:
    """Return what another replica needs to know of a visitor."""
    caller = visitor.caller
    identity = visitor.identity.removeprefix("glass:") if visitor.break_glass else visitor.identity
    return {
        "identity": identity,
        "credential": visitor.credential,
        "break_glass": visitor.break_glass,
        "caller": content_of(caller) if caller is not None else None,
        "until": visitor.until.isoformat() if visitor.until is not None else None,
    }


def with_break_glass(visitor: Visitor) -> Visitor:
    """Return an operator's visit by break-glass."""
    return replace(visitor, identity=f"glass:{visitor.identity}", break_glass=True)


def content_of(caller: Caller) -> dict[str, Any]:
    """Return what a sealed session holds of its person."""
    return {
        "session": caller.session,
        "owner": caller.owner,
        "roles": sorted(caller.roles),
        "teams": sorted(caller.teams),
        "classes": sorted(caller.classes or ()),
        "scopes": sorted(caller.scopes) if caller.scopes is not None else None,
        "workspace": caller.workspace,
    }


def caller_of(content: Mapping[str, Any]) -> Caller | None:
    """Return the person of a sealed session."""
    session, owner = content.get("session"), content.get("owner")
    if not (isinstance(session, str) and isinstance(owner, str) and owner):
        return None
    roles = cast("frozenset[Role]", _texts(content.get("roles")))
    teams, classes = _texts(content.get("teams")), _texts(content.get("classes"))
    scopes = cast("frozenset[Scope]", _texts(content["scopes"])) if content.get("scopes") is not None else None
    bound = str(content.get("workspace") or "")
    return Caller(
        owner, roles, "session", teams=teams, scopes=scopes, classes=classes, workspace=bound, session=session
    )


def _texts(values: Any) -> frozenset[str]:
    return frozenset(map(str, cast("Iterable[object]", values))) if isinstance(values, list) else frozenset()


def _holds(check: Callable[[], object]) -> bool:
    """Return whether a check holds; while the table of access does not answer, an open session goes on."""
    try:
        return bool(check())
    except Problem:
        return True
