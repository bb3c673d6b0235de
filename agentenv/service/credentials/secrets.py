"""Routes of owners' secrets: put, list and delete. A secret's value is never returned here."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from agentenv.core.iam.identity_exchange import ExchangeError
from agentenv.service.aws.clients import AwsRefusedError, AwsUnavailableError
from agentenv.service.credentials.vault import MAX_BYTES, StoredSecret, Vault
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, Dependencies, RequestDependencies
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.http.responses import problems
from agentenv.service.telemetry.logs import audit

_Result = TypeVar("_Result")

router = APIRouter(prefix="/v1/secrets", tags=["identity"], route_class=AuthenticatedRoute)
Named = Annotated[str, Path(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]


class SecretPut(BaseModel):
    """The value of a secret."""

    model_config = ConfigDict(extra="forbid")

    value: Annotated[str, Field(min_length=1, max_length=MAX_BYTES // 4, repr=False)]


class SecretShape(BaseModel):
    """A secret, without its value."""

    name: str
    reference: Annotated[str, Field(description="Its name in Secrets Manager.")]
    arn: str
    changed: datetime | None = None


class SecretList(BaseModel):
    """All secrets of one owner."""

    secrets: list[SecretShape]


@router.get("", operation_id="listSecrets", responses=problems(401, 403, 429, 503))
async def all_secrets(caller: CurrentCaller, dependencies: RequestDependencies) -> SecretList:
    """List the caller's secrets by name."""
    secrets = await _call_vault(dependencies, lambda vault: vault.all(caller.owner))
    return SecretList(secrets=[_shape(secret) for secret in secrets])


@router.put("/{name}", operation_id="putSecret", responses=problems(401, 403, 422, 429, 503))
async def put(name: Named, body: SecretPut, caller: CurrentCaller, dependencies: RequestDependencies) -> SecretShape:
    """Create or replace a secret. The caller's sandboxes can read it by name; nobody else's can."""
    stored = await _call_vault(dependencies, lambda vault: vault.put(caller.owner, name, body.value))
    audit("secret put", owner=caller.owner, secret_name=name)
    return _shape(stored)


@router.delete(
    "/{name}", operation_id="deleteSecret", status_code=204, responses=problems(401, 403, 404, 422, 429, 503)
)
async def delete(name: Named, caller: CurrentCaller, dependencies: RequestDependencies) -> Response:
    """Delete a secret; within a week it can be recovered by putting it again."""
    if not await _call_vault(dependencies, lambda vault: vault.delete(caller.owner, name)):
        raise not_found("secret")
    audit("secret deleted", owner=caller.owner, secret_name=name)
    return Response(status_code=204)


async def _call_vault(dependencies: Dependencies, operation: Callable[[Vault], _Result]) -> _Result:
    vault = dependencies.vault
    if vault is None:
        detail = "the environment has no secrets, as no class has an identity"
        raise Problem("not-allowed", detail, "ask the platform team for such a class")
    try:
        return await vault.calls.run(operation, vault)
    except ExchangeError as failure:
        raise Problem("malformed", str(failure), "choose another name") from failure
    except AwsRefusedError as failure:
        raise Problem("unavailable", f"AWS refused it: {failure.code}", "tell the platform team") from failure
    except AwsUnavailableError as failure:
        raise Problem("unavailable", "AWS does not answer", "retry in a few seconds", retry_after=2) from failure


def _shape(stored: StoredSecret) -> SecretShape:
    return SecretShape(name=stored.name, reference=stored.reference, arn=stored.arn, changed=stored.changed)
