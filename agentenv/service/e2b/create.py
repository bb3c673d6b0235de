"""Create the workspace of a new sandbox: its class from the template, its mode and key from the metadata."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from agentenv.core.workspaces.workspace import MODES, CreateRequest, Mode, Timeout
from agentenv.service.catalog import Catalog, Class
from agentenv.service.e2b.bodies import NewSandbox
from agentenv.service.e2b.not_offered import refuse_options
from agentenv.service.e2b.sandboxes import DEFAULT_TEMPLATE
from agentenv.service.http.auth.callers import Caller
from agentenv.service.http.auth.permissions import first_class, require_first_class
from agentenv.service.http.create_request import create_request
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import WorkspaceCreate

MAX_METADATA = 16_384  # bytes, with the names
_TEMPLATE = re.compile(r"[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)?")
_IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,180}")


@dataclass(frozen=True)
class Named:
    """The mode of a sandbox, and the key by which later requests find it again; None for a new one each time."""

    mode: Mode
    key: str | None


def named(metadata: Mapping[str, str] | None) -> Named:
    """Return mode and key that metadata name, with both `mode` and `key`; others are data of the caller's program."""
    mode, key = (metadata or {}).get("mode"), (metadata or {}).get("key")
    for each in MODES:
        if mode == each and key is not None:
            return Named(each, key)
    return Named("session", None)


def release_of(catalog: Catalog, caller: Caller, template: str, mode: Mode) -> tuple[Class, str]:
    """Return the class and channel of a template; without a class of its name, `base` is the first that is allowed."""
    name, _, channel = template.partition(":")
    if template == DEFAULT_TEMPLATE and name not in catalog.classes:
        return require_first_class(catalog, caller, mode), "stable"
    if not _TEMPLATE.fullmatch(template) or name not in catalog.classes:
        way_out = "name a class, or class:channel; GET /e2b/templates lists them"
        raise Problem("class-unknown", f"there is no template {template!r}", way_out)
    of_class = catalog.get(name)
    return of_class, of_class.release(channel or "stable").channel


def templates_by_mode(catalog: Catalog, caller: Caller, template: str) -> Mapping[Mode, str]:
    """Return what a template in a filter names in each mode: itself, but for `base` what a creation makes of it."""
    if template != DEFAULT_TEMPLATE or template in catalog.classes:
        return dict.fromkeys(MODES, template)
    found: dict[Mode, Class | None] = {mode: first_class(catalog, caller, mode) for mode in MODES}
    return {mode: of_class.name for mode, of_class in found.items() if of_class is not None}


def timeout_of(body: NewSandbox, mode: Mode) -> Timeout:
    """Return the timeout of a new sandbox. Unless it says so, only a session is destroyed when it is over."""
    pauses = body.auto_pause if body.auto_pause is not None else mode != "session"
    wakes = body.auto_resume.enabled if body.auto_resume is not None else mode != "session"
    if wakes and not pauses:
        if body.auto_resume is not None:
            raise _malformed("autoResume needs autoPause", "set `autoPause` with it")
        wakes = False
    return Timeout(body.timeout, "suspend" if pauses else "delete", wakes)


async def sandbox_request(
    dependencies: Dependencies, caller: Caller, body: NewSandbox, idempotency_key: str | None
) -> CreateRequest:
    """Return what to create for a new sandbox; raise a `Problem` where the caller may not request it."""
    name = named(body.metadata)
    of_class, channel = release_of(dependencies.catalog, caller, body.template, name.mode)
    refuse_long_life(of_class, body.timeout)
    if len(json.dumps(body.metadata or {}).encode()) > MAX_METADATA:
        raise _malformed(f"metadata: more than {MAX_METADATA} bytes", "keep long texts in files of the sandbox")
    request = await create_request(
        dependencies, caller, _workspace(of_class.name, channel, name, idempotency_key), None
    )
    refuse_options(body, of_class)
    timeout = timeout_of(body, name.mode)
    return replace(
        request,
        deadline=dependencies.now() + timedelta(seconds=timeout.seconds),
        timeout=timeout,
        metadata=dict(body.metadata or {}),
        # One that its key finds again is compared with later requests, and they may have another timeout.
        idle_after=idle_after(of_class, timeout.seconds) if name.key is None and idempotency_key is None else None,
    )


def idle_after(of_class: Class, seconds: int) -> timedelta | None:
    """Return the idle time of a sandbox with a timeout: it is not suspended before, as its caller set its life."""
    return timedelta(seconds=seconds) if timedelta(seconds=seconds) > of_class.idle_after else None


def refuse_long_life(of_class: Class, seconds: int) -> None:
    """Raise a `Problem` for a timeout beyond the maximum lifetime of a class."""
    longest = of_class.max_lifetime
    if longest is not None and timedelta(seconds=seconds) > longest:
        limit = int(longest.total_seconds())
        raise _malformed(f"timeout: more than the {limit} s of class {of_class.name}", f"choose {limit} or less")


def _workspace(class_name: str, channel: str, name: Named, idempotency_key: str | None) -> WorkspaceCreate:
    if idempotency_key is not None and not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise _malformed("Idempotency-Key: it is not 1 to 180 printable characters", "send a UUID")
    key = name.key
    if key is None:
        key = f"idempotent-{idempotency_key}" if idempotency_key is not None else secrets.token_hex(16)
    fields: dict[str, Any] = {"class": class_name, "channel": channel, "mode": name.mode}
    if name.mode != "user":
        fields[name.mode] = key
    elif key:
        fields["key"] = key
    try:
        return WorkspaceCreate.model_validate(fields)
    except ValidationError:
        raise _malformed(
            f"metadata: {key!r} is no key of mode {name.mode}", "use up to 200 printable characters"
        ) from None


def _malformed(detail: str, way_out: str) -> Problem:
    return Problem("malformed", detail, way_out)
