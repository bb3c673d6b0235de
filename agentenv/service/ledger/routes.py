"""Routes of usage: an owner's usage and cost by workspace and day, from the ledger's rows."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from agentenv.core.ledger.budgets import Policy, format_dollars, row_cost
from agentenv.core.ledger.rows import NOTHING, Row
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.http.dependencies import AuthenticatedRoute, CurrentCaller, RequestDependencies
from agentenv.service.http.problems import Problem, not_found
from agentenv.service.http.responses import problems
from agentenv.service.http.values import Owner

router = APIRouter(prefix="/v1/usage", tags=["usage"], route_class=AuthenticatedRoute)
MAX_RANGE = timedelta(days=92)


def _day_text(value: object) -> object:
    """Refuse texts that are not dates: pydantic would read a number as a timestamp."""
    if isinstance(value, str) and _DAY.fullmatch(value) is None:
        raise ValueError("a day has the form 2026-11-18")
    return value


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
Day = Annotated[date, BeforeValidator(_day_text)]


class UsageQuery(BaseModel):
    """The owner and the days of a usage report."""

    model_config = ConfigDict(extra="forbid")

    owner: Annotated[Owner | None, Field(description="Another owner, for operators; default: the caller.")] = None
    workspace: Annotated[str | None, Field(max_length=63, description="Only this workspace.")] = None
    since: Annotated[Day | None, Field(description="The first day, in UTC; default: the first of `until`'s month.")] = (
        None
    )
    until: Annotated[
        Day | None,
        Field(description="The last day; default: today, or the latest that `since` allows."),
    ] = None


class UsageLine(BaseModel):
    """The usage of one workspace on one day."""

    day: date
    workspace: str
    class_: Annotated[str, Field(alias="class")]
    mode: str
    task: str | None = None
    hours: Annotated[Decimal, Field(description="Hours with a pod.")]
    cpu_seconds: Decimal
    memory_gib_hours: Decimal
    network_bytes: Decimal
    storage_gib_hours: Decimal
    sources: Annotated[list[str], Field(description="The sources of the amounts: usage/storage.")]
    dollars: Annotated[Decimal | None, Field(description="Cost, without a share of the fixed costs.")] = None

    model_config = ConfigDict(populate_by_name=True)


class BudgetShape(BaseModel):
    """The cost of an owner's month, and its cap."""

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
    """Return an owner's usage by workspace and day. The last ten minutes may be missing."""
    owner = query.owner or caller.owner
    if not caller.can_see(owner):
        raise not_found("owner")
    ledger = dependencies.ledger
    if ledger is None:
        raise Problem("unavailable", "the environment has no ledger", "ask the platform team to enable it")
    since, until = days(query.since, query.until, dependencies.now().astimezone(UTC).date())
    # The interval ends on the day after `until`, which must exist.
    if not timedelta(0) <= until - since <= MAX_RANGE or until == date.max:
        raise Problem(
            "malformed", f"from {since} until {until}", f"choose at most {MAX_RANGE.days} days, the first one first"
        )
    try:
        rows = await ledger.rows_of(owner, _midnight(since), _midnight(until + timedelta(days=1)))
        spent = await dependencies.accounts.month_of(owner) if dependencies.accounts else None
    except AwsUnavailableError as failure:
        raise Problem("unavailable", "the ledger does not answer", "retry in a few seconds", retry_after=2) from failure
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
    """Return the first and the last day, with defaults where one or both are left out."""
    if until is None:
        until = today if since is None else max(since, min(today, since + min(MAX_RANGE, date.max - since)))
    return since or until.replace(day=1), until


def lines(rows: list[Row], policy: Policy | None) -> list[UsageLine]:
    """Return the usage by day and workspace."""
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
