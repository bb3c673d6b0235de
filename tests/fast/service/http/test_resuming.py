"""Resuming a deleted workspace recreates it, so the caller must be allowed to use its class."""

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


class FakeBackend:
    """A backend with one deleted workspace."""

    async def get(self, id_: str) -> Workspace:
        assert id_ == DELETED.id
        return DELETED

    async def resume(self, id_: str, *, wait: float, before_restore: RestoreCheck) -> CreateResult:
        assert (id_, wait) == (DELETED.id, 0)
        await before_restore(DELETED)
        return CreateResult(DELETED, ready=False)


def resume_as(caller: Caller) -> str:
    unchecked: Any = Dependencies
    dependencies = unchecked(FakeBackend(), Catalog(settings_of({"name": "standard"})), None, None, None, None)
    return asyncio.run(resume(DELETED.id, Response(), caller, cast("Dependencies", dependencies), 0)).id


def test_an_owner_without_access_to_the_class_cannot_restore_it() -> None:
    with pytest.raises(Problem) as refused:
        resume_as(Caller("u-1", with_implied_roles("user"), "token", {"team": "others"}))
    assert refused.value.kind == "class-not-claimable"


def test_an_owner_with_access_and_an_operator_can_restore_it() -> None:
    assert resume_as(Caller("u-1", with_implied_roles("user"), "token", {"team": "vetted"})) == "w-1"
    assert resume_as(Caller("u-9", with_implied_roles("operator"), "token")) == "w-1"
