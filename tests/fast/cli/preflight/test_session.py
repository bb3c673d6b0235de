"""The caller's session: whether it lasts for a first `pulumi up`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from agentenv.cli.preflight import session
from agentenv.cli.preflight.check import Check
from tests.fast.cli.preflight.conftest import StubbedSession
from tests.fast.config.stack_samples import settings

ROLE = "arn:aws:sts::111122223333:assumed-role/platform/jane"


def check(stubbed: StubbedSession, arn: str = ROLE) -> Check:
    identity = {"Arn": arn, "Account": "111122223333", "UserId": "x"}
    stubbed.stub("sts").add_response("get_caller_identity", identity)
    return stubbed.check(session.questions(settings()))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SESSION_TOKEN", session.EXPIRATION):
        monkeypatch.delenv(name, raising=False)


def test_users_and_renewed_roles_have_time(stubbed: StubbedSession) -> None:
    assert check(stubbed, "arn:aws:iam::111122223333:user/jane").ok is True
    assert check(StubbedSession()).limit == "renewed"


@pytest.mark.parametrize(("minutes", "ok"), [(59, False), (-5, False), (61, True)])
def test_a_session_that_ends_too_early_fails(
    stubbed: StubbedSession, monkeypatch: pytest.MonkeyPatch, minutes: int, ok: bool
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv(session.EXPIRATION, (datetime.now(UTC) + timedelta(minutes=minutes, seconds=30)).isoformat())
    found = check(stubbed)
    assert (found.ok, found.limit) == (ok, f"{max(minutes, 0)} minutes")


@pytest.mark.parametrize("end", ["", "soon"])
def test_a_session_of_unknown_length_is_unknown(
    stubbed: StubbedSession, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv(session.EXPIRATION, end)
    found = check(stubbed)
    assert (found.ok, found.limit) == (None, "not known")
    assert "ends after an hour" in found.why
