"""Errors and messages of the provider for users."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.discovery import UnknownKind
from agentenv.rehearsal.providers.kubernetes.values import PropertyMap


class InvalidRequest(Exception):
    """The request cannot be executed, and why."""


class InitFailed(Exception):
    """The object exists but is not ready. The engine keeps it in the state, with the reasons."""

    def __init__(self, id_: str, state: PropertyMap, inputs: PropertyMap, message: str, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.id = id_
        self.state = state
        self.inputs = inputs
        self.reasons = [message, *reasons]


class Reporter(Protocol):
    """Receives warnings and progress messages for the user."""

    def warn(self, urn: str, text: str, /) -> None: ...

    def warn_once(self, text: str) -> None: ...

    def status(self, urn: str, text: str, /) -> None: ...


class NullReporter:
    """Drops all messages."""

    def warn(self, urn: str, text: str, /) -> None: ...

    def warn_once(self, text: str) -> None: ...

    def status(self, urn: str, text: str, /) -> None: ...


def describe(obj: Mapping[str, Any]) -> str:
    return f"{objects.kind(obj)} {objects.identity(obj)}".strip()


def write_error_message(obj: Mapping[str, Any], manager: str, error: Exception, action: str) -> str:
    """Return why an object could not be created or updated, with the server's message and a fix."""
    if isinstance(error, UnknownKind):
        return (
            f"{describe(obj)} could not be {action}: the API server has {error}. "
            "Has its CustomResourceDefinition been created, and does this depend on it?"
        )
    hint = ""
    if isinstance(error, ApiError) and error.already_exists:
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
    elif isinstance(error, ApiError) and error.not_found and action == "updated":
        hint = ". If it was deleted by other means, a refresh takes it out of the state"
    return f"{describe(obj)} could not be {action}: {error}{hint}"


def delete_error_message(kind: str, id_: str, error: ApiError) -> str:
    required = [str(c.get("field")) for c in error.causes if c.get("reason") == "FieldValueRequired"]
    if error.status == 422 and required:
        return (
            f"{kind} {id_}: this patch is the only owner of a field that is required ({', '.join(required)}). "
            "Set retainOnDelete, or let another manager own the field first"
        )
    return f"{kind} {id_} could not be deleted: {error}"


def _owner(message: str) -> str:
    match = re.search(r'conflict with "([^"]+)"', message)
    return repr(match[1]) if match else message
