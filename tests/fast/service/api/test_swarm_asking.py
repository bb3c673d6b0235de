"""A swarm is asked for like a workspace: a deadline that is over is told at once, not by waiting for its members."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fastapi import Response

from service.api.parts import Parts
from service.api.shapes import SwarmAsked
from service.api.swarms import create
from service.auth.callers import Caller, with_lesser
from service.catalog import Catalog
from service.problems import Problem
from tests.fast.service.backend.stage import settings_of

ANN = Caller("u-1", with_lesser("user"), "token", {"team": "vetted"})


def test_a_deadline_that_is_over_is_refused() -> None:
    made: Any = Parts
    parts = made(None, Catalog(settings_of({"name": "box"})), None, None, None)
    said = {"class": "box", "task": "build", "count": 2, "deadline": datetime.now(UTC) - timedelta(days=1)}
    asked = SwarmAsked.model_validate(said)
    with pytest.raises(Problem) as refused:
        asyncio.run(create(asked, Response(), ANN, cast("Parts", parts)))
    assert refused.value.kind == "too-late"
