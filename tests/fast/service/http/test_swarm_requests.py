"""Requests for swarms are checked like those for workspaces, before anything is created."""

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


def test_a_deadline_in_the_past_is_refused() -> None:
    unchecked: Any = Dependencies
    dependencies = unchecked(None, Catalog(settings_of({"name": "box"})), None, None, None, None)
    fields = {"class": "box", "task": "build", "count": 2, "deadline": datetime.now(UTC) - timedelta(days=1)}
    body = SwarmCreate.model_validate(fields)
    with pytest.raises(Problem) as refused:
        asyncio.run(create(body, Response(), ANN, cast("Dependencies", dependencies)))
    assert refused.value.kind == "too-late"
