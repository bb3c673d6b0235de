"""Compare the quota needs of both revisions, and with an account its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenv.cli.preflight import quotas
from agentenv.config import Settings


@dataclass(frozen=True)
class QuotaNeed:
    """The need of one quota before and after, and its limit, None if no account was asked."""

    name: str
    before: int | None
    after: int | None
    limit: int | str | None = None
    ok: bool | None = None
    why: str = ""

    @property
    def changed(self) -> bool:
        """Return whether the need changes."""
        return self.before != self.after

    def as_json(self) -> dict[str, Any]:
        """Return the need as the report's JSON has it."""
        return vars(self).copy()


def quota_needs(before: Settings | None, after: Settings | None, *, with_limits: bool = False) -> list[QuotaNeed]:
    """Return the quota needs of both revisions; with `with_limits`, also the account's limits."""
    then = {row.name: _number(row.needed) for row in quotas.questions(before)} if before else {}
    if after is None:
        return [QuotaNeed(name, amount, None) for name, amount in then.items()]
    questions = quotas.questions(after)
    found = [QuotaNeed(row.name, then.get(row.name), _number(row.needed)) for row in questions]
    if with_limits:
        from agentenv.cli.preflight.aws_calls import Account
        from agentenv.cli.preflight.check import run_checks

        account = Account(after.region)
        found = [
            QuotaNeed(need.name, need.before, need.after, check.limit, check.ok, check.why)
            for need, check in zip(found, run_checks(questions, account), strict=True)
        ]
    removed = [
        QuotaNeed(name, amount, None) for name, amount in then.items() if name not in {need.name for need in found}
    ]
    return [*found, *removed]


def _number(amount: object) -> int | None:
    return amount if isinstance(amount, int) else None
