"""A change of class recreates a workspace running, so the budget of the new class must not be spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
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

SUSPENDED = Workspace("w-1", "u-1", "standard", "user", "suspended", suspended_because="budget")
OWNER = Caller("u-1", with_implied_roles("user"), "token", {"team": "vetted"})
ADMIN = Caller("u-9", with_implied_roles("admin"), "token")


class FakeBackend:
    """A backend with one suspended workspace, which records its changes."""

    def __init__(self) -> None:
        self.changed: list[Changes] = []

    async def get(self, id_: str) -> Workspace:
        assert id_ == SUSPENDED.id
        return SUSPENDED

    async def change(self, id_: str, build: Callable[[Workspace], Changes], *, wait: float) -> CreateResult:
        assert (id_, wait) == (SUSPENDED.id, 0)
        self.changed.append(build(SUSPENDED))
        return CreateResult(SUSPENDED, ready=False)


class FakeBudgets:
    """Five dollars are spent: the limit of all classes but the one with a budget of its own."""

    def refusal(self, workspace: Workspace) -> Problem | None:
        limit = (
            workspace.budget or {"standard": Decimal(5), "other": Decimal(5), "dear": Decimal(20)}[workspace.class_name]
        )
        return Problem("budget-spent", f"{limit} are spent", "wait") if limit <= 5 else None


def changes_of(caller: Caller, **fields: Any) -> list[Changes]:
    unchecked: Any = Dependencies
    backend = FakeBackend()
    catalog = Catalog(settings_of({"name": "standard"}, {"name": "other"}, {"name": "dear"}))
    dependencies = cast(
        "Dependencies", replace(unchecked(backend, catalog, None, None, None, None), budgets=FakeBudgets())
    )
    asyncio.run(update(SUSPENDED.id, WorkspaceUpdate.model_validate(fields), caller, dependencies, 0))
    return backend.changed


def test_a_change_of_class_does_not_resume_a_workspace_over_its_budget() -> None:
    with pytest.raises(Problem) as refused:
        changes_of(OWNER, **{"class": "other"})
    assert refused.value.kind == "budget-spent"
    # Changes that do not start it are allowed.
    assert changes_of(OWNER, **{"class": "standard"})
    assert changes_of(OWNER, labels={"a": "b"})


def test_the_limits_of_the_new_class_and_of_the_request_apply() -> None:
    assert changes_of(OWNER, **{"class": "dear"})
    assert changes_of(ADMIN, **{"class": "other"}, budget=9)
    with pytest.raises(Problem) as refused:
        changes_of(ADMIN, **{"class": "dear"}, budget=4)
    assert refused.value.kind == "budget-spent"
