"""What the routes share: the backend, the classes, whoever tells callers, and what counts. One a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, cast

from fastapi import Request  # noqa: TC002 - FastAPI reads a dependency's annotations

from model.workspaces import Workspace
from service.auth.limits import Limits
from service.problems import Problem

if TYPE_CHECKING:
    from model.budgets import Policy, Spent
    from service.api.swarming import Swarming
    from service.auth.authenticating import Authenticating
    from service.backend.kubernetes import KubernetesBackend
    from service.catalog import Catalog
    from service.cluster import Api
    from service.identity.exchange import Exchange
    from service.identity.vault import Vault
    from service.ledger.store import Ledger
    from service.telemetry.metrics import Metrics


class Budgets(Protocol):
    """Says whether a workspace's budget is spent."""

    async def refusal(self, workspace: Workspace) -> Problem | None:
        """Why it may not run."""
        ...


class Accounts(Protocol):
    """Says what an owner's month costs so far."""

    @property
    def policy(self) -> Policy:
        """Rates and limits."""
        ...

    def spent(self, owner: str) -> Spent:
        """What it costs; asks the ledger."""
        ...


@dataclass
class Parts:
    """All of them."""

    backend: KubernetesBackend
    catalog: Catalog
    authenticating: Authenticating
    limits: Limits
    metrics: Metrics
    cluster: Api | None = None  # for what is done in threads
    swarming: Swarming | None = None
    budgets: Budgets | None = None
    settle: Callable[[Workspace], Awaitable[object]] | None = None  # writes down what it used until now
    ledger: Ledger | None = None
    accounts: Accounts | None = None  # what months cost
    exchange: Exchange | None = None
    vault: Vault | None = None
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))


def parts_of(request: Request) -> Parts:
    """Those of the process that a request came to."""
    return cast("Parts", request.app.state.parts)
