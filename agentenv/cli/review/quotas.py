"""What the environment takes of the account's quotas, before and after; with an account to ask, of how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenv.cli.preflight import quotas
from agentenv.config import Settings


@dataclass(frozen=True)
class Need:
    """One quota: how much is needed before and after, and how much there is, None where nobody was asked."""

    name: str
    before: int | None
    after: int | None
    limit: int | str | None = None
    ok: bool | None = None
    why: str = ""

    @property
    def changed(self) -> bool:
        """Whether another amount is needed."""
        return self.before != self.after

    def as_json(self) -> dict[str, Any]:
        """As the report prints it."""
        return vars(self).copy()


def needs(before: Settings | None, after: Settings | None, *, ask: bool = False) -> list[Need]:
    """The quotas of both revisions; with `ask`, the account's limits too."""
    then = {one.name: _whole(one.needed) for one in quotas.questions(before)} if before else {}
    if after is None:
        return [Need(name, amount, None) for name, amount in then.items()]
    asked = quotas.questions(after)
    found = [Need(one.name, then.get(one.name), _whole(one.needed)) for one in asked]
    if ask:
        from agentenv.cli.preflight.aws_calls import Account
        from agentenv.cli.preflight.check import checked

        account = Account(after.region)
        found = [
            Need(need.name, need.before, need.after, check.limit, check.ok, check.why)
            for need, check in zip(found, checked(asked, account), strict=True)
        ]
    gone = [Need(name, amount, None) for name, amount in then.items() if name not in {need.name for need in found}]
    return [*found, *gone]


def _whole(amount: object) -> int | None:
    return amount if isinstance(amount, int) else None
