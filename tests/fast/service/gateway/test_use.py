"""Traffic counts as use of a workspace: one write a minute, of one replica, and never of another claim."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from agentenv.core.workspaces.workspace import Changes, Workspace
from agentenv.service.gateway.use import Use
from agentenv.service.http.problems import Problem

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
IDLE = Workspace("w-1", "u-1", "standard", "user", "running", claim_uid="c", last_active=NOW - timedelta(hours=1))


class Cluster:
    """One workspace, and the writes to it."""

    def __init__(self, workspace: Workspace | None = IDLE) -> None:
        self.workspace, self.writes = workspace, list[Changes]()
        self.refusing = False
        self.use = Use(self.update, lambda _: self.workspace, lambda: NOW)

    async def update(self, _: str, changes: Changes) -> None:
        if self.refusing:
            raise Problem("busy", "other requests keep changing it", "repeat")
        self.writes.append(changes)

    def write(self) -> list[Changes]:
        asyncio.run(self.use.write())
        return self.writes


def test_a_minutes_traffic_is_one_write() -> None:
    cluster = Cluster()
    for _ in range(1000):
        cluster.use.note(IDLE)
    assert cluster.write() == [Changes(last_active=NOW)]
    assert len(cluster.write()) == 1


def test_what_another_replica_wrote_is_not_written_again() -> None:
    cluster = Cluster(replace(IDLE, last_active=NOW - timedelta(seconds=30)))
    cluster.use.note(IDLE)
    assert cluster.write() == []


def test_replaced_and_suspended_claims_are_not_updated() -> None:
    for workspace in (None, replace(IDLE, claim_uid="another"), replace(IDLE, state="suspended")):
        cluster = Cluster(workspace)
        cluster.use.note(IDLE)
        assert cluster.write() == []


def test_a_refused_write_is_no_end() -> None:
    cluster = Cluster()
    cluster.refusing = True
    cluster.use.note(IDLE)
    assert cluster.write() == []
    cluster.refusing = False
    cluster.use.note(IDLE)
    assert len(cluster.write()) == 1
