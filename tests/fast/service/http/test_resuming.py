"""A deleted workspace is made anew when it is resumed: for that its class has to be one that may be asked for."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from fastapi import Response

from agentenv.core.workspaces.workspace import CreateResult, Workspace
from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.workspaces import resume
from agentenv.service.workspaces.backend_protocol import RestoreCheck
from tests.fast.service.workspaces.stage import settings_of

DELETED = Workspace("w-1", "u-1", "standard", "user", "deleted")


class Kept:
    """A backend that has the one, deleted."""

    async def get(self, id_: str) -> Workspace:
        assert id_ == DELETED.id
        return DELETED

    async def resume(self, id_: str, *, wait: float, before_restore: RestoreCheck) -> CreateResult:
        assert (id_, wait) == (DELETED.id, 0)
        await before_restore(DELETED)
        return CreateResult(DELETED, ready=False)


def resumed(caller: Caller) -> str:
    made: Any = Dependencies
    parts = made(Kept(), Catalog(settings_of({"name": "standard"})), None, None, None)
    return asyncio.run(resume(DELETED.id, Response(), caller, cast("Dependencies", parts), 0)).id


def test_whoever_may_no_longer_ask_for_its_class_does_not_have_it_back() -> None:
    with pytest.raises(Problem) as refused:
        resumed(Caller("u-1", with_implied_roles("user"), "token", {"team": "others"}))
    assert refused.value.kind == "class-not-claimable"


def test_whoever_may_and_whoever_looks_after_workspaces_does() -> None:
    assert resumed(Caller("u-1", with_implied_roles("user"), "token", {"team": "vetted"})) == "w-1"
    assert resumed(Caller("u-9", with_implied_roles("operator"), "token")) == "w-1"
