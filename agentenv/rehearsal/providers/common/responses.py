"""What every provider of ours answers alike: what it takes, what changed, and what is wrong with the inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from pulumi.runtime.proto import provider_pb2

from agentenv.rehearsal.providers.common.property_values import Path, spell

KINDS: Final = {
    ("add", False): provider_pb2.PropertyDiff.ADD,
    ("add", True): provider_pb2.PropertyDiff.ADD_REPLACE,
    ("delete", False): provider_pb2.PropertyDiff.DELETE,
    ("delete", True): provider_pb2.PropertyDiff.DELETE_REPLACE,
    ("update", False): provider_pb2.PropertyDiff.UPDATE,
    ("update", True): provider_pb2.PropertyDiff.UPDATE_REPLACE,
}


class Changed(Protocol):
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
    """The same as `handshake`, for an engine that skipped it, and that previews are answered."""
    return provider_pb2.ConfigureResponse(
        acceptSecrets=True,
        supportsPreview=True,
        acceptResources=False,
        acceptOutputs=False,
        supports_autonaming_configuration=True,
    )


def failures(problems: Iterable[tuple[str, str]]) -> list[provider_pb2.CheckFailure]:
    return [provider_pb2.CheckFailure(property=path, reason=reason) for path, reason in problems]


def settings_changed(diffs: Sequence[str], replaces: Sequence[str]) -> provider_pb2.DiffResponse:
    """What changed in the provider's own settings."""
    return provider_pb2.DiffResponse(changes=_some(diffs), diffs=diffs, replaces=replaces)


def changed(
    changes: Sequence[tuple[Changed, bool]], replaces: Sequence[str], *, first_delete: bool
) -> provider_pb2.DiffResponse:
    """What changed in a resource: each change, and whether it is one that replaces."""
    return provider_pb2.DiffResponse(
        changes=_some(changes),
        replaces=replaces,
        diffs=sorted({str(change.path[0]) for change, _ in changes}),
        detailedDiff={
            spell(change.path): provider_pb2.PropertyDiff(kind=KINDS[change.verb, replacing], inputDiff=True)
            for change, replacing in changes
        },
        hasDetailedDiff=True,
        deleteBeforeReplace=first_delete,
    )


def _some(changes: Sequence[object]) -> provider_pb2.DiffResponse.DiffChanges.ValueType:
    return provider_pb2.DiffResponse.DIFF_SOME if changes else provider_pb2.DiffResponse.DIFF_NONE
