"""Check that the caller's credentials last for a first `pulumi up`."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings

# A first `up` takes 40 to 60 minutes: ten for the control plane, the rest for nodes, add-ons, and load balancers.
FIRST_UP = timedelta(minutes=60)
# `aws configure export-credentials` and credential helpers set it beside the keys.
EXPIRATION = "AWS_CREDENTIAL_EXPIRATION"


def questions(_: Settings) -> list[Question]:
    """Return the question about the session of the caller."""
    return [Question("the caller's session", "60 minutes", _check_session)]


def _check_session(account: Account) -> Answer:
    if ":assumed-role/" not in account.identity["Arn"]:
        return Answer("no session", ok=True, why="")
    why = "a first `up` takes 40 to 60 minutes, and a role that another role assumed ends after an hour"
    if "AWS_SESSION_TOKEN" not in os.environ:
        # A profile or a role of the machine: the provider renews it.
        return Answer("renewed", ok=True, why="")
    end = _expiration()
    if end is None:
        return Answer("not known", ok=None, why=f"{why}: sign in right before it, or use a profile, which renews it")
    left = end - datetime.now(UTC)
    minutes = max(int(left / timedelta(minutes=1)), 0)
    return Answer(f"{minutes} minutes", ok=left >= FIRST_UP, why="" if left >= FIRST_UP else f"{why}: sign in again")


def _expiration() -> datetime | None:
    try:
        end = datetime.fromisoformat(os.environ.get(EXPIRATION, ""))
    except ValueError:
        return None
    return end if end.tzinfo else end.replace(tzinfo=UTC)
