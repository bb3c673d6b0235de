"""Request bodies and queries of the `e2b` clients, in their spelling. Unknown fields are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

from agentenv.service.http.values import MONTH

DEFAULT_TIMEOUT = 300
_MAX_VARIABLE = 1 << 17  # bytes, with the name, `=` and the final NUL: no program starts with a longer one

Life = Annotated[int, Field(ge=0, le=MONTH)]


class Body(BaseModel):
    """The base of all bodies."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


def _variables(variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return variables that programs can start with; raise a `ValueError` for others."""
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError("a name is empty or has `=` in it, or there is a NUL byte")
        if len(f"{name}={value}".encode()) >= _MAX_VARIABLE:
            raise ValueError("a variable has more than 128 KiB; write it to a file of the sandbox")
    return variables


class AutoResume(Body):
    """The setting whether traffic resumes a paused sandbox."""

    enabled: bool


class NewSandbox(Body):
    """A request for a sandbox."""

    template: Annotated[str, Field(alias="templateID", min_length=1, max_length=256)]
    timeout: Life = DEFAULT_TIMEOUT
    auto_pause: Annotated[bool | None, Field(alias="autoPause")] = None
    auto_pause_memory: Annotated[bool | None, Field(alias="autoPauseMemory")] = None
    auto_resume: Annotated[AutoResume | None, Field(alias="autoResume")] = None
    secure: bool | None = None  # every sandbox is
    allow_internet_access: bool | None = None
    network: dict[str, Any] | None = None
    metadata: dict[str, str] | None = None
    variables: Annotated[Annotated[Mapping[str, str], AfterValidator(_variables)] | None, Field(alias="envVars")] = None
    mcp: dict[str, Any] | None = None
    iam: dict[str, Any] | None = None
    volume_mounts: Annotated[list[Any] | None, Field(alias="volumeMounts")] = None


class Connect(Body):
    """A request to connect to a sandbox: a paused one is resumed."""

    timeout: Life = DEFAULT_TIMEOUT
    memory: bool | None = None


class Resume(Body):
    """A request to resume a paused sandbox."""

    timeout: Life = 15
    auto_pause: Annotated[bool | None, Field(alias="autoPause")] = None
    memory: bool | None = None


class Pause(Body):
    """A request to pause a sandbox."""

    memory: bool | None = None
    require_healthy_guest: Annotated[bool | None, Field(alias="requireHealthyGuest")] = None


class NewTimeout(Body):
    """Another timeout, from now."""

    timeout: Life


class Refresh(Body):
    """A request to keep a sandbox for so many seconds more, at least."""

    duration: Life = 15


# What clients before 2.51 send for options that their caller leaves out.
_SENDS_DEFAULTS = re.compile(r"e2b-(python|js)-sdk/([01]|2\.([1-4]?[0-9]|50))\.")
_DEFAULTS: Mapping[str, object] = {
    "allow_internet_access": True,
    "auto_pause": False,
    "auto_pause_memory": True,
    "auto_resume": AutoResume(enabled=False),
    "memory": True,
}
_B = TypeVar("_B", bound=Body)


def requested(body: _B, client: str) -> _B:
    """Return a body without the defaults that its client, by its user agent, sends for options that are left out."""
    if not _SENDS_DEFAULTS.match(client):
        return body
    left_out = (name for name, default in _DEFAULTS.items() if getattr(body, name, None) == default)
    return body.model_copy(update=dict.fromkeys(left_out))


class ListQuery(BaseModel):
    """The filters and the page of a list of sandboxes."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    metadata: Annotated[str | None, Field(max_length=16_384)] = None
    state: Annotated[list[str], Field(max_length=4)] = []
    order: Annotated[str, Field(pattern="^(asc|desc)$")] = "desc"
    started_after: Annotated[AwareDatetime | None, Field(alias="startedAfter")] = None
    template: Annotated[str | None, Field(max_length=256)] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 100
    next_token: Annotated[str | None, Field(alias="nextToken", max_length=256)] = None
