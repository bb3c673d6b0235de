"""Access tokens depend on all that they are for, and signatures are those of E2B's client."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from e2b.sandbox.signature import get_signature
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.gateway.access_tokens import access_token, epoch_of, is_access_token, is_signature, signature
from agentenv.core.workspaces.workspace import Workspace

WORKSPACE = Workspace("w-1", "u-1", "box", "user", "running", claim_uid="claim-1", token_generation=3)
SECRET, OTHER = b"s" * 32, b"t" * 32
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NOW = datetime.fromtimestamp(1_800_000_000, UTC)


def test_a_token_opens_one_workspace_of_one_generation_for_one_purpose() -> None:
    epoch = epoch_of(WORKSPACE)
    token = access_token(SECRET, epoch)
    assert is_access_token(token, SECRET, epoch)
    assert not is_access_token(token, OTHER, epoch)
    assert not is_access_token(token, SECRET, epoch, "traffic")
    assert not is_access_token("", SECRET, epoch)
    assert not is_access_token("é", SECRET, epoch)


@pytest.mark.parametrize(
    "changed",
    [{"id": "w-2"}, {"claim_uid": "claim-2"}, {"token_generation": 4}],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("shared", [False, True])
def test_an_epoch_never_comes_again(changed: dict[str, Any], *, shared: bool) -> None:
    assert epoch_of(replace(WORKSPACE, **changed), shared=shared) != epoch_of(WORKSPACE, shared=shared)


def test_the_end_of_a_share_ends_the_tokens_of_sharers_alone() -> None:
    ended = replace(WORKSPACE, share_generation=1)
    assert epoch_of(ended) == epoch_of(WORKSPACE)
    assert len({epoch_of(WORKSPACE), epoch_of(WORKSPACE, shared=True), epoch_of(ended, shared=True)}) == 3


@given(path=TEXT, user=TEXT, token=TEXT.filter(bool))
def test_signatures_are_those_of_the_client(path: str, user: str, token: str) -> None:
    assert signature(path, "read", user, token) == get_signature(path, "read", user, token)["signature"]


def test_an_expiring_signature_is_that_of_the_client() -> None:
    signed = get_signature("/a", "write", None, "token", 60)
    expiration = signed["expiration"]
    assert expiration is not None
    assert expiration >= time.time() + 58
    assert signature("/a", "write", "", "token", expiration) == signed["signature"]


def test_a_link_is_refused_when_it_has_expired_or_names_something_else() -> None:
    expiration = int((NOW + timedelta(seconds=5)).timestamp())
    signed = signature("/a", "read", "", "token", expiration)

    def accepted(**changed: object) -> bool:
        link: dict[str, object] = {"path": "/a", "operation": "read", "user": "", "token": "token"}
        link |= {"expiration": str(expiration), "now": NOW, "presented": signed}
        return is_signature(**{**link, **changed})  # pyright: ignore[reportArgumentType]

    assert accepted()
    for changed in (
        {"path": "/b"},
        {"operation": "write"},
        {"user": "root"},
        {"token": "other"},
        {"now": NOW + timedelta(seconds=6)},
        {"expiration": None},
        {"expiration": str(expiration + 1)},
        {"expiration": "١٨٠٠٠٠٠٠٠٥"},
        {"expiration": "-1"},
        {"presented": signed[:-1]},
        {"presented": "\ud800"},
    ):
        assert not accepted(**changed), changed
