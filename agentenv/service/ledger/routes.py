"""Usage over HTTP: what an owner used and what it costs so far, by workspace and day, from the ledger's rows."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from agentenv.core.ledger.budgets import Policy, format_dollars, row_cost
from agentenv.core.ledger.rows import NOTHING, Row
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.http.caller import CurrentCaller, RequestDependencies
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.http.responses import problems
from agentenv.service.http.values import Owner

router = APIRouter(prefix="/v1/usage", tags=["usage"])
LONGEST = timedelta(days=92)


def _day_text(value: object) -> object:
    """Only what is written as a day is one: a number would be taken for a moment."""
    if isinstance(value, str) and _DAY.fullmatch(value) is None:
        raise ValueError("a day is written as 2026-11-18")
    return value


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
Day = Annotated[date, BeforeValidator(_day_text)]


class UsageQuery(BaseModel):
    """Whose usage, of which days."""

    model_config = ConfigDict(extra="forbid")

    owner: Annotated[Owner | None, Field(description="Somebody else's, for whoever looks after them.")] = None
    workspace: Annotated[str | None, Field(max_length=63, description="Of one workspace only.")] = None
    since: Annotated[Day | None, Field(description="The first day, in UTC; of the last one's month when left out.")] = (
        None
    )
    until: Annotated[
        Day | None,
        Field(description="The last day; today when left out, or the last that there may be with the first."),
    ] = None


class UsageLine(BaseModel):
    """What one workspace used on one day."""

    day: date
    workspace: str
    class_: Annotated[str, Field(alias="class")]
    mode: str
    task: str | None = None
    hours: Annotated[Decimal, Field(description="With a pod.")]
    cpu_seconds: Decimal
    memory_gib_hours: Decimal
    network_bytes: Decimal
    storage_gib_hours: Decimal
    sources: Annotated[list[str], Field(description="Where that is known from: usage/storage.")]
    dollars: Annotated[Decimal | None, Field(description="Without a share of what is there for everybody.")] = None

    model_config = ConfigDict(populate_by_name=True)


class BudgetShape(BaseModel):
    """What an owner's workspaces may cost together in a month."""

    spent: Decimal
    cap: Decimal | None = None


class Usage(BaseModel):
    """An owner's usage."""

    owner: str
    since: date
    until: date
    lines: list[UsageLine]
    dollars: Decimal | None = None
    month: BudgetShape | None = None


@router.get("", operation_id="getUsage", responses=problems(401, 403, 404, 422, 429, 503))
async def usage(
    query: Annotated[UsageQuery, Query()], caller: CurrentCaller, dependencies: RequestDependencies
) -> Usage:
    """What was used, by workspace and day. The last ten minutes may be missing."""
    owner = query.owner or caller.owner
    if not caller.can_see(owner):
        raise not_found("owner")
    ledger = dependencies.ledger
    if ledger is None:
        raise Problem("unavailable", "no ledger is kept here", "give the environment a table for it")
    since, until = days(query.since, query.until, dependencies.now().astimezone(UTC).date())
    # After the last day that there is comes none that it could end with.
    if not timedelta(0) <= until - since <= LONGEST or until == date.max:
        raise Problem(
            "malformed", f"from {since} until {until}", f"ask for at most {LONGEST.days} days, in their order"
        )
    try:
        rows = await run_in_threadpool(ledger.of_owner, owner, _midnight(since), _midnight(until + timedelta(days=1)))
        spent = await run_in_threadpool(dependencies.accounts.spent, owner) if dependencies.accounts else None
    except AwsUnavailableError as failure:
        raise Problem("unavailable", "the ledger does not answer", "ask again in a moment", retry_after=2) from failure
    chosen = [row for row in rows if query.workspace in {None, row.workspace}]
    policy = dependencies.accounts.policy if dependencies.accounts else None
    return Usage(
        owner=owner,
        since=since,
        until=until,
        lines=lines(chosen, policy),
        dollars=format_dollars(sum((row_cost(policy.rates, row) for row in chosen), NOTHING)) if policy else None,
        month=BudgetShape(spent=format_dollars(spent.total), cap=policy.user_cap) if spent and policy else None,
    )


def days(since: date | None, until: date | None, today: date) -> tuple[date, date]:
    """The first and the last day, where one of them or both were left out."""
    if until is None:
        until = today if since is None else max(since, min(today, since + min(LONGEST, date.max - since)))
    return since or until.replace(day=1), until


def lines(rows: list[Row], policy: Policy | None) -> list[UsageLine]:
    """Rows by day and workspace."""
    grouped: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row.day, row.workspace, row.sandbox_class), []).append(row)
    return [_line(group, policy) for _, group in sorted(grouped.items())]


def _line(rows: list[Row], policy: Policy | None) -> UsageLine:
    first = rows[0]
    awake = sum((row.seconds for row in rows if row.cpu_seconds or row.memory_gib_hours), NOTHING)
    return UsageLine(
        day=date.fromisoformat(first.day),
        workspace=first.workspace,
        class_=first.sandbox_class,
        mode=first.mode,
        task=first.task or None,
        hours=(awake / 3600).quantize(Decimal("0.0001")),
        cpu_seconds=sum((row.cpu_seconds for row in rows), NOTHING),
        memory_gib_hours=sum((row.memory_gib_hours for row in rows), NOTHING),
        network_bytes=sum((row.network_bytes for row in rows), NOTHING),
        storage_gib_hours=sum((row.storage_gib_hours for row in rows), NOTHING),
        sources=sorted({row.source for row in rows}),
        dollars=sum((row_cost(policy.rates, row) for row in rows), NOTHING).quantize(Decimal("0.000001"))
        if policy
        else None,
    )


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
