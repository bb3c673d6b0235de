"""The ways in to the exchange, in the forms that the SDKs of AWS know, so that a sandbox needs no code for it.

- `POST /v1/identity/sts`: what STS is asked with a token from a file (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, and
  AWS_ENDPOINT_URL_STS leading here). Over plain HTTP inside the VPC this is the one that every SDK takes.
- `GET /v1/identity/credentials`: what a container's credentials are asked with (AWS_CONTAINER_CREDENTIALS_FULL_URI,
  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE), where the service is reached by HTTPS: SDKs refuse anything else.
- `POST /v1/identity/credentials`: the same for whoever writes a request by hand.
- `GET /v1/identity/secrets/{name}`: one of the owner's secrets.

Callers are sandboxes with their token and nothing else: no route here knows users. The address that counts is the
connection's own.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, TypeVar
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.credentials.exchange import Credentials, Exchange
from agentenv.service.credentials.token_bearer import LONGEST_TOKEN, RefusedExchangeError
from agentenv.service.http.dependencies import dependencies_of
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.kube.sync_client import SyncKubeApiError

_Found = TypeVar("_Found")

_MOST_BYTES = 2 * LONGEST_TOKEN
_ACTION = "AssumeRoleWithWebIdentity"
_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_RETRY_SECONDS = 2
_TOO_MANY_SECONDS = 30


class ContainerCredentials(BaseModel):
    """Credentials as the SDKs read them from a container's endpoint."""

    model_config = ConfigDict(populate_by_name=True)

    access_key_id: Annotated[str, Field(alias="AccessKeyId")]
    secret_access_key: Annotated[str, Field(alias="SecretAccessKey")]
    token: Annotated[str, Field(alias="Token")]
    expiration: Annotated[str, Field(alias="Expiration", description="When they end.")]
    role_arn: Annotated[str, Field(alias="RoleArn", description="The role of the sandbox's class.")]


class SecretValue(BaseModel):
    """One of the owner's secrets."""

    name: str
    value: str


router = APIRouter(prefix="/v1/identity", tags=["identity"])
Token = Annotated[str | None, Header(description="The sandbox's own token, as its file holds it.")]
Named = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


@router.get("/credentials", operation_id="getCredentials", responses=problems(401, 403, 422, 429, 503))
async def credentials(request: Request, response: Response, authorization: Token = None) -> ContainerCredentials:
    """Credentials of AWS for a sandbox, as SDKs ask for a container's."""
    response.headers.update(_HEADERS)
    return _container(await _exchange(request, lambda ours, source: ours.credentials(_bare(authorization), source)))


@router.post("/credentials", operation_id="exchangeToken", responses=problems(401, 403, 422, 429, 503))
async def exchange_token(request: Request, response: Response, authorization: Token = None) -> ContainerCredentials:
    """The same, for requests that are written by hand."""
    return await credentials(request, response, authorization)


@router.get("/secrets/{name}", operation_id="readSecret", responses=problems(401, 403, 404, 422, 429, 503))
async def secret(request: Request, response: Response, name: Named, authorization: Token = None) -> SecretValue:
    """One of the secrets of the sandbox's owner."""
    response.headers.update(_HEADERS)
    value = await _exchange(request, lambda ours, source: ours.secret(_bare(authorization), source, name))
    return SecretValue(name=name, value=value)


@router.post("/sts", include_in_schema=False)
@router.post("/sts/", include_in_schema=False)
async def sts(request: Request) -> Response:
    """What STS is asked with a token of a file: no key is needed for it, and every SDK can."""
    try:
        asked = parse_qs((await _body(request)).decode(), max_num_fields=32)
    except ValueError:
        return _xml_error(400, "MalformedInput", "the request is no form")
    if asked.get("Action") != [_ACTION]:
        # Whoever meant STS itself is told so, and not that something is wrong with what they asked.
        return _xml_error(400, "InvalidAction", f"only {_ACTION} is answered here; ask STS at its own address")
    token = (asked.get("WebIdentityToken") or [""])[0]
    try:
        given = await _exchange(request, lambda ours, source: ours.credentials(token, source))
    except Problem as problem:
        if problem.status < HTTPStatus.TOO_MANY_REQUESTS:
            return _xml_error(HTTPStatus.FORBIDDEN, "AccessDenied", problem.detail)
        return _xml_error(problem.status, "Throttling", problem.detail)
    return Response(_xml(given), media_type="text/xml", headers=_HEADERS)


async def _exchange(request: Request, ask: Callable[[Exchange, str], _Found]) -> _Found:
    """What the exchange answers, or the problem that its refusal is: it tells no caller what was wrong."""
    exchange = dependencies_of(request).exchange
    if exchange is None:
        raise Problem("not-allowed", "no identity is given out here", "the platform's settings say for which classes")
    try:
        return await run_in_threadpool(ask, exchange, _source(request))
    except RefusedExchangeError as refusal:
        match refusal.why:
            case "too-many":
                detail, out = "credentials are asked for too often", "keep those that you have until they end"
                raise Problem("too-many-requests", detail, out, retry_after=_TOO_MANY_SECONDS) from refusal
            case "no-token":
                detail, out = "there is no token", "bring the one in AWS_WEB_IDENTITY_TOKEN_FILE"
                raise Problem("not-signed-in", detail, out, code="NoToken", message=detail) from refusal
            case "secret" | "secrets":
                raise Problem("not-found", "there is no such secret", "its owner puts it with the API") from refusal
            case _:
                detail = "this token gives nothing here"
                out = "a claimed sandbox of a class with identity `exchange` brings its own, from its own address"
                raise Problem("not-allowed", detail, out, code="AccessDenied", message=detail) from refusal
    except (AwsUnavailableError, SyncKubeApiError, OSError) as failure:
        detail = "the cluster or AWS does not answer"
        raise Problem("unavailable", detail, "ask again in a moment", retry_after=_RETRY_SECONDS) from failure


def _source(request: Request) -> str:
    return request.client.host if request.client else ""


def _bare(authorization: str | None) -> str:
    """The token: SDKs write what the file holds, people a word before it."""
    text = (authorization or "").strip()
    word, _, rest = text.partition(" ")
    return rest.strip() if rest and word.lower() == "bearer" else text


async def _body(request: Request) -> bytes:
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > _MOST_BYTES:
            raise Problem("malformed", "the request is too long", "send the token and nothing beside it")
    return found


def _container(given: Credentials) -> ContainerCredentials:
    return ContainerCredentials(
        access_key_id=given.access_key_id,
        secret_access_key=given.secret_access_key,
        token=given.session_token,
        expiration=format_whole_seconds(given.expiration),
        role_arn=given.role,
    )


def _xml(given: Credentials) -> str:
    parts = {
        "AccessKeyId": given.access_key_id,
        "SecretAccessKey": given.secret_access_key,
        "SessionToken": given.session_token,
        "Expiration": format_whole_seconds(given.expiration),
    }
    inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in parts.items())
    user = f"<Arn>{escape(given.session)}</Arn><AssumedRoleId>{escape(given.session_id)}</AssumedRoleId>"
    return (
        f'<{_ACTION}Response xmlns="{_NAMESPACE}"><{_ACTION}Result><Credentials>{inside}</Credentials>'
        f"<AssumedRoleUser>{user}</AssumedRoleUser></{_ACTION}Result>"
        f"<ResponseMetadata><RequestId>{uuid.uuid4()}</RequestId></ResponseMetadata></{_ACTION}Response>"
    )


def _xml_error(status: int, code: str, message: str) -> Response:
    text = (
        f'<ErrorResponse xmlns="{_NAMESPACE}"><Error><Type>Sender</Type><Code>{code}</Code>'
        f"<Message>{escape(message)}</Message></Error><RequestId>{uuid.uuid4()}</RequestId></ErrorResponse>"
    )
    return Response(text, status_code=status, media_type="text/xml", headers=_HEADERS)
