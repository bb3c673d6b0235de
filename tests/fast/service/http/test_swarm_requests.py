"""A swarm is asked for like a workspace: a deadline that is over is told at once, not by waiting for its members."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fastapi import Response

from agentenv.service.catalog import Catalog
from agentenv.service.http.auth.callers import Caller, with_implied_roles
from agentenv.service.http.dependencies import Dependencies
from agentenv.service.http.problems import Problem
from agentenv.service.http.schemas import SwarmCreate
from agentenv.service.http.swarms import create
from tests.fast.service.workspaces.stage import settings_of

ANN = Caller("u-1", with_implied_roles("user"), "token", {"team": "vetted"})


def test_a_deadline_that_is_over_is_refused() -> None:
    made: Any = Dependencies
    parts = made(None, Catalog(settings_of({"name": "box"})), None, None, None)
    said = {"class": "box", "task": "build", "count": 2, "deadline": datetime.now(UTC) - timedelta(days=1)}
    asked = SwarmCreate.model_validate(said)
    with pytest.raises(Problem) as refused:
        asyncio.run(create(asked, Response(), ANN, cast("Dependencies", parts)))
    assert refused.value.kind == "too-late"
