"""Routes of the token exchange, in the forms that AWS SDKs support, so that a sandbox needs no code for it.

- `POST /v1/identity/sts`: what SDKs send to STS with a token file (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, and
  AWS_ENDPOINT_URL_STS pointing here). Over plain HTTP inside the VPC this is the one that every SDK accepts.
- `GET /v1/identity/credentials`: the container credentials endpoint (AWS_CONTAINER_CREDENTIALS_FULL_URI,
  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE), where the service is reached by HTTPS: SDKs refuse anything else.
- `POST /v1/identity/credentials`: the same for requests without an SDK.
- `GET /v1/identity/secrets/{name}`: one of the owner's secrets.

Callers are sandboxes with their token: no route here knows users. The source address is the connection's own.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, TypeVar
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

from fastapi import APIRouter, Header, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.credentials.exchange import Credentials, Exchange
from agentenv.service.credentials.token_bearer import LONGEST_TOKEN, RefusedExchangeError
from agentenv.service.http.dependencies import dependencies_of
from agentenv.service.http.problems import Problem
from agentenv.service.http.responses import problems
from agentenv.service.kube.client import KubeApiError

_Result = TypeVar("_Result")

_MAX_BYTES = 2 * LONGEST_TOKEN
_ACTION = "AssumeRoleWithWebIdentity"
_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"
_HEADERS = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_RETRY_SECONDS = 2
_TOO_MANY_SECONDS = 30


class ContainerCredentials(BaseModel):
    """Credentials as SDKs read them from a container credentials endpoint."""

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
    """Return AWS credentials for a sandbox, in the form of a container credentials endpoint."""
    response.headers.update(_HEADERS)
    return _container(
        await _exchange(request, lambda exchange_, source: exchange_.credentials(_bare(authorization), source))
    )


@router.post("/credentials", operation_id="exchangeToken", responses=problems(401, 403, 422, 429, 503))
async def exchange_token(request: Request, response: Response, authorization: Token = None) -> ContainerCredentials:
    """Return the same, for requests without an SDK."""
    return await credentials(request, response, authorization)


@router.get("/secrets/{name}", operation_id="readSecret", responses=problems(401, 403, 404, 422, 429, 503))
async def secret(request: Request, response: Response, name: Named, authorization: Token = None) -> SecretValue:
    """Return one of the secrets of the sandbox's owner."""
    response.headers.update(_HEADERS)
    value = await _exchange(request, lambda exchange_, source: exchange_.secret(_bare(authorization), source, name))
    return SecretValue(name=name, value=value)


@router.post("/sts", include_in_schema=False)
@router.post("/sts/", include_in_schema=False)
async def sts(request: Request) -> Response:
    """Answer an STS AssumeRoleWithWebIdentity request: it needs no AWS key, and every SDK can send it."""
    try:
        form = parse_qs((await _body(request)).decode(), max_num_fields=32)
    except ValueError:
        return _xml_error(400, "MalformedInput", "the request body is not a form")
    if form.get("Action") != [_ACTION]:
        # Such requests are meant for STS itself.
        return _xml_error(400, "InvalidAction", f"this endpoint supports only {_ACTION}; use STS's own endpoint")
    token = (form.get("WebIdentityToken") or [""])[0]
    try:
        issued = await _exchange(request, lambda exchange_, source: exchange_.credentials(token, source))
    except Problem as problem:
        if problem.status < HTTPStatus.TOO_MANY_REQUESTS:
            return _xml_error(HTTPStatus.FORBIDDEN, "AccessDenied", problem.detail)
        return _xml_error(problem.status, "Throttling", problem.detail)
    return Response(_xml(issued), media_type="text/xml", headers=_HEADERS)


async def _exchange(request: Request, operation: Callable[[Exchange, str], Awaitable[_Result]]) -> _Result:
    """Call the exchange; a refusal becomes a problem that does not reveal what was wrong."""
    exchange = dependencies_of(request).exchange
    if exchange is None:
        detail = "no class of this environment has identity `exchange`"
        raise Problem("not-allowed", detail, "ask the platform team for such a class")
    try:
        return await operation(exchange, _source(request))
    except RefusedExchangeError as refusal:
        match refusal.why:
            case "too-many":
                detail, way_out = (
                    "too many requests for credentials",
                    "use the credentials that you have until they expire",
                )
                raise Problem("too-many-requests", detail, way_out, retry_after=_TOO_MANY_SECONDS) from refusal
            case "no-token":
                detail, way_out = "the request has no token", "send the token in AWS_WEB_IDENTITY_TOKEN_FILE"
                raise Problem("not-signed-in", detail, way_out, code="NoToken", message=detail) from refusal
            case "secret" | "secrets":
                raise Problem("not-found", "no such secret", "its owner creates it with PUT /v1/secrets") from refusal
            case _:
                detail = "the token is not accepted"
                way_out = (
                    "send the token of a claimed sandbox, whose class has identity `exchange`, from its own address"
                )
                raise Problem("not-allowed", detail, way_out, code="AccessDenied", message=detail) from refusal
    except (AwsUnavailableError, KubeApiError, OSError) as failure:
        detail = "the cluster or AWS does not answer"
        raise Problem("unavailable", detail, "retry in a few seconds", retry_after=_RETRY_SECONDS) from failure


def _source(request: Request) -> str:
    return request.client.host if request.client else ""


def _bare(authorization: str | None) -> str:
    """Return the token: SDKs send it bare, people after the word Bearer."""
    text = (authorization or "").strip()
    word, _, rest = text.partition(" ")
    return rest.strip() if rest and word.lower() == "bearer" else text


async def _body(request: Request) -> bytes:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BYTES:
            raise Problem("malformed", "the request body is too long", "send only the token")
    return body


def _container(issued: Credentials) -> ContainerCredentials:
    return ContainerCredentials(
        access_key_id=issued.access_key_id,
        secret_access_key=issued.secret_access_key,
        token=issued.session_token,
        expiration=format_whole_seconds(issued.expiration),
        role_arn=issued.role,
    )


def _xml(issued: Credentials) -> str:
    parts = {
        "AccessKeyId": issued.access_key_id,
        "SecretAccessKey": issued.secret_access_key,
        "SessionToken": issued.session_token,
        "Expiration": format_whole_seconds(issued.expiration),
    }
    inside = "".join(f"<{name}>{escape(value)}</{name}>" for name, value in parts.items())
    user = f"<Arn>{escape(issued.session)}</Arn><AssumedRoleId>{escape(issued.session_id)}</AssumedRoleId>"
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
