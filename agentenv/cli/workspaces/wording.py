"""The problems of the service in words of the command line: routes and fields become commands and options."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentenv.client import ApiError

_LISTS = {
    "workspace": "workspace list",
    "key": "keys list",
    "secret": "secrets list",
    "swarm": "swarm list",
    "owner": "login --show",
}
# Fields of requests that are options of another name, or of the same name.
_OPTIONS: Mapping[str, str] = {
    "shared": "--share",
    "start: warm": "--warm",
    "idle_after": "--idle-after",
    **{name: f"--{name}" for name in ("budget", "count", "everybody", "fit", "key", "owner", "parent", "size", "task")},
    **{name: f"--{name}" for name in ("agent", "class", "mode", "session", "wait")},
}
# Why a workspace is suspended, where a word of the API is none of a person's
_REASONS = {"asked": "on request"}
_PHRASES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"list each (\w+) that you may see with GET"), lambda found: f"see {_command(_LISTS.get(found[1]))}"),
    (re.compile(r"GET /v1/classes lists"), "`agentenv classes` lists"),
    (re.compile(r"GET /v1/me"), "`agentenv login --show`"),
    (re.compile(r"by POST to /v1/workspaces/(\S+)/resume"), r"with `agentenv workspace resume \1`"),
    (re.compile(r"resume it first: POST to its /resume"), "resume it first with `agentenv workspace resume`"),
    (re.compile(r"change the workspace by PATCH"), "change it with `agentenv workspace update`"),
    (re.compile(r"PUT /v1/workspaces/(\S+)/ports first"), r"share it first with `agentenv workspace share \1`"),
    (re.compile(r"PUT /v1/secrets"), "`agentenv secrets put`"),
    (re.compile(r" and the header `Idempotency-Key`"), ""),
    (re.compile(r"correct the fields in `errors`; see /openapi.json"), "correct them"),
    (re.compile(r"send `Authorization: Bearer`.*"), "sign in with `agentenv login`"),
    (re.compile(r"\b(?:body|query|path)\.([a-z_]+)"), lambda found: _option(found[1])),
    (re.compile(r"`([a-z_]+(?:: warm)?)`"), lambda found: f"`{_option(found[1])}`"),
)


def text_of(error: ApiError) -> str:
    """Return the title, the detail and the fix of a problem."""
    problem = error.problem
    if error.status == 404 and problem.get("type") == "about:blank":
        return "there is nothing of this name at the service"
    parts = (problem.get("title"), problem.get("detail"), problem.get("way_out"))
    return in_words("; ".join(filter(None, parts))) or str(error)


def reason_text(reason: str) -> str:
    """Return the reason of a suspension."""
    return _REASONS.get(reason, reason)


def event_text(reason: str, message: str) -> str:
    """Return the message of an event."""
    return reason_text(message) if reason == "Suspended" else message


def in_words(text: str) -> str:
    """Return a text with commands and options in place of routes and fields."""
    for pattern, replacement in _PHRASES:
        text = pattern.sub(replacement, text)
    return text


def _option(field: str) -> str:
    return _OPTIONS.get(field, field)


def _command(name: str | None) -> str:
    return f"`agentenv {name}`" if name else "`agentenv --help`"
