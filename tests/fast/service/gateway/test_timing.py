"""The time of an answer does not tell a stranger whether a workspace exists."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import pytest

from agentenv.service.gateway.entry import Deny, EntryRequest
from tests.fast.service.gateway.entrance import MINE, NOBODYS, THEIRS, WORKSPACES, Entrance, entrance

ROUNDS = 400


def credentials(gate: Entrance) -> dict[str, dict[str, str]]:
    return {
        "none": {},
        "a person": dict(gate.bearer("u-me")),
        "a token": {"x-access-token": gate.access_token(MINE)},
    }


@pytest.mark.parametrize("credential", ["none", "a person", "a token"])
@pytest.mark.parametrize("port", [3000, 49983])
def test_an_answer_about_anothers_workspace_takes_as_long_as_about_none(credential: str, port: int) -> None:
    gate = entrance()
    headers = credentials(gate)[credential]

    async def seconds(id_: str) -> float:
        request = EntryRequest("GET", f"{port}-{id_}.{WORKSPACES}", "/", headers, "192.0.2.1")
        began = time.thread_time()
        decision: Any = await gate.authorizer.check(request)
        spent = time.thread_time() - began
        assert isinstance(decision, Deny)
        return spent

    async def run() -> tuple[list[float], list[float]]:
        theirs, nobodys = list[float](), list[float]()
        for _ in range(ROUNDS):
            # In turns, so that whatever else the machine does falls on both.
            theirs.append(await seconds(THEIRS))
            nobodys.append(await seconds(NOBODYS))
        return theirs, nobodys

    theirs, nobodys = asyncio.run(run())
    assert statistics.median(theirs) < 2 * statistics.median(nobodys)
    assert statistics.median(nobodys) < 2 * statistics.median(theirs)
