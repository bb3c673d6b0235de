"""Another class makes a workspace anew and running: so nobody has one whose budget is spent by asking for another."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from agentenv.core.workspaces.workspace import Changes, CreateResult, Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import WorkspaceUpdate
from agentenv.service.http.workspaces import update
from tests.fast.service.workspaces.stage import settings_of

ASLEEP = Workspace("w-1", "u-1", "standard", "user", "suspended", suspended_because="budget")
OWNER = Caller("u-1", with_implied_roles("user"), "token", {"team": "vetted"})
ADMIN = Caller("u-9", with_implied_roles("admin"), "token")


class Kept:
    """A backend that has the one, asleep, and remembers what was changed."""

    def __init__(self) -> None:
        self.changed: list[Changes] = []

    async def get(self, id_: str) -> Workspace:
        assert id_ == ASLEEP.id
        return ASLEEP

    async def update(self, id_: str, changes: Changes, *, wait: float) -> CreateResult:
        assert (id_, wait) == (ASLEEP.id, 0)
        self.changed.append(changes)
        return CreateResult(ASLEEP, ready=False)


class Spent:
    """Five dollars are spent, which is all that there is, but in the class with a budget of its own."""

    async def refusal(self, workspace: Workspace) -> Problem | None:
        limit = (
            workspace.budget or {"standard": Decimal(5), "other": Decimal(5), "dear": Decimal(20)}[workspace.class_name]
        )
        return Problem("budget-spent", f"{limit} are spent", "wait") if limit <= 5 else None


def changed(caller: Caller, **said: Any) -> list[Changes]:
    made: Any = Dependencies
    backend = Kept()
    catalog = Catalog(settings_of({"name": "standard"}, {"name": "other"}, {"name": "dear"}))
    parts = cast("Dependencies", replace(made(backend, catalog, None, None, None), budgets=Spent()))
    asyncio.run(update(ASLEEP.id, WorkspaceUpdate.model_validate(said), caller, parts, 0))
    return backend.changed


def test_what_a_budget_put_to_sleep_is_not_had_awake_in_another_class() -> None:
    with pytest.raises(Problem) as refused:
        changed(OWNER, **{"class": "other"})
    assert refused.value.kind == "budget-spent"
    # What does not start it is nobody's matter.
    assert changed(OWNER, **{"class": "standard"})
    assert changed(OWNER, labels={"a": "b"})


def test_the_limits_of_the_other_class_hold_it_and_those_that_are_given_with_it() -> None:
    assert changed(OWNER, **{"class": "dear"})
    assert changed(ADMIN, **{"class": "other"}, budget=9)
    with pytest.raises(Problem) as refused:
        changed(ADMIN, **{"class": "dear"}, budget=4)
    assert refused.value.kind == "budget-spent"
