"""The responses that all stand-in providers share: handshake, check failures and diffs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from pulumi.runtime.proto import provider_pb2

from agentenv.rehearsal.providers.common.property_values import Path, format_path

DIFF_KINDS: Final = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class PropertyChange(Protocol):
    """A change of an input."""

    @property
    def path(self) -> Path: ...

    @property
    def verb(self) -> str: ...


def handshake() -> provider_pb2.ProviderHandshakeResponse:
    return provider_pb2.ProviderHandshakeResponse(
        accept_secrets=True, accept_resources=False, accept_outputs=False, supports_autonaming_configuration=True
    )


def configured() -> provider_pb2.ConfigureResponse:
    """Return what `handshake` returns, for engines that skip it, and that previews are supported."""
    return provider_pb2.ConfigureResponse(
        acceptSecrets=True,
        supportsPreview=True,
        acceptResources=False,
        acceptOutputs=False,
        supports_autonaming_configuration=True,
    )


def failures(problems: Iterable[tuple[str, str]]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=path, reason=reason) for path, reason in problems]


def config_diff(diffs: Sequence[str], replaces: Sequence[str]) -> provider_pb2.DiffResponse:
    """Return the diff of the provider's configuration."""
    return provider_pb2.DiffResponse(changes=_diff_changes(diffs), diffs=diffs, replaces=replaces)


def resource_diff(
    changes: Sequence[tuple[PropertyChange, bool]], replaces: Sequence[str], *, delete_before_replace: bool
) -> provider_pb2.DiffResponse:
    """Return the diff of a resource, from its changes and whether each forces a replacement."""
    return provider_pb2.DiffResponse(
        changes=_diff_changes(changes),
        replaces=replaces,
        diffs=sorted({str(change.path[0]) for change, _ in changes}),
        detailedDiff={
            format_path(change.path): provider_pb2.PropertyDiff(kind=DIFF_KINDS[change.verb, replacing], inputDiff=True)
            for change, replacing in changes
        },
        hasDetailedDiff=True,
        deleteBeforeReplace=delete_before_replace,
    )


def _diff_changes(changes: Sequence[object]) -> provider_pb2.DiffResponse.DiffChanges.ValueType:
    return provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE
