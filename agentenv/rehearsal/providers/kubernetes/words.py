"""What the provider says to users: its refusals, partial results, and reports on the way."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.values import Bag


class Impossible(Exception):
    """A request that cannot be carried out, and why."""


class Partial(Exception):
    """The object exists but is not ready: the state keeps it, with the reasons."""

    def __init__(self, id_: str, state: Bag, inputs: Bag, message: str, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.id = id_
        self.state = state
        self.inputs = inputs
        self.reasons = [message, *reasons]


class Reporter(Protocol):
    """Who tells the user what goes on."""

    def warn(self, urn: str, text: str, /) -> None: ...

    def warn_once(self, text: str) -> None: ...

    def status(self, urn: str, text: str, /) -> None: ...


class Silent:
    """Tells nobody."""

    def warn(self, urn: str, text: str, /) -> None: ...

    def warn_once(self, text: str) -> None: ...

    def status(self, urn: str, text: str, /) -> None: ...


def what(obj: Mapping[str, Any]) -> str:
    return f"{objects.kind(obj)} {objects.identity(obj)}".strip()


def refused(obj: Mapping[str, Any], manager: str, error: Exception, done: str) -> str:
    """Why an object could not be created or updated, in the server's words and with a way out."""
    if isinstance(error, UnknownKind):
        return (
            f"{what(obj)} could not be {done}: the API server has {error}. "
            "Has its CustomResourceDefinition been created, and does this depend on it?"
        )
    hint = ""
    if isinstance(error, ApiError) and error.exists:
        hint = (
            ". To take it over use `pulumi import`; to set some of its fields use a patch resource; a renamed resource "
            "needs an alias; upsertExistingObjects on the provider overwrites what is there"
        )
    elif isinstance(error, ApiError) and error.conflict and error.causes:
        owned = [f"{cause.get('field')} is owned by {_owner(str(cause.get('message', '')))}" for cause in error.causes]
        hint = (
            f" ({'; '.join(owned)}; our field manager is {manager!r}). Leave the field to its owner, or set the "
            'annotation pulumi.com/patchForce: "true" to take it'
        )
    elif isinstance(error, ApiError) and error.gone and done == "updated":
        hint = ". If it was deleted by other means, a refresh takes it out of the state"
    return f"{what(obj)} could not be {done}: {error}{hint}"


def undeleted(kind: str, id_: str, error: ApiError) -> str:
    required = [str(c.get("field")) for c in error.causes if c.get("reason") == "FieldValueRequired"]
    if error.status == 422 and required:
        return (
            f"{kind} {id_}: this patch is the only owner of a field that is required ({', '.join(required)}). "
            "Set retainOnDelete, or let another manager own the field first"
        )
    return f"{kind} {id_} could not be deleted: {error}"


def _owner(message: str) -> str:
    found = re.search(r'conflict with "([^"]+)"', message)
    return repr(found[1]) if found else message
