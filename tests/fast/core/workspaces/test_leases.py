"""Leases: who excludes whom, how many a caller may hold, and which end when a workspace is no longer shared."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentenv.core.workspaces.leases import (
    MAX_LEASES,
    MAX_OF_OTHERS,
    MAX_PER_CALLER,
    LeaseRefused,
    attach_lease,
    leases_after_sharing,
)
from agentenv.core.workspaces.records import workspace_patch
from agentenv.core.workspaces.workspace import LEASES, SHARE_GENERATION, Changes, Lease, Workspace

NOW = datetime(2026, 11, 19, 22, tzinfo=UTC)
SHARED: dict[str, Any] = {"reader": "ro", "writer": "rw"}
AGENT = Workspace("w-1", "owner", "standard", "agent", "running", shared=SHARED)
USER = replace(AGENT, mode="user")


def lease(caller: str, name: str = "a", mode: Any = "rw", hours: int = 4) -> Lease:
    return Lease(f"{caller}/{name}", mode, NOW + timedelta(hours=hours))


def attached(workspace: Workspace, *leases: Lease) -> Workspace:
    for each in leases:
        workspace = replace(workspace, leases=attach_lease(workspace, each, NOW))
    return workspace


def test_a_reader_does_not_lock_an_agent_out() -> None:
    read = attached(AGENT, lease("reader", mode="ro"))
    assert [each.holder for each in attached(read, lease("owner")).leases] == ["reader/a", "owner/a"]
    # Nor does an agent lock out readers, but another agent.
    result = attached(AGENT, lease("owner"), lease("reader", mode="ro"))
    with pytest.raises(LeaseRefused, match=r"owner/a holds it until 2026-11-20 02:00:00 UTC"):
        attached(result, lease("writer"))


def test_others_cannot_hold_all_leases() -> None:
    full = attached(USER, *(lease("reader", f"r{number}", "ro") for number in range(MAX_PER_CALLER)))
    with pytest.raises(LeaseRefused, match="reader already has"):
        attached(full, lease("reader", "one-more", "ro"))
    # Renewing is no other lease.
    attached(full, lease("reader", "r0", "ro"))
    many = replace(USER, leases=tuple(lease(f"c-{number}", mode="ro") for number in range(MAX_OF_OTHERS)))
    with pytest.raises(LeaseRefused, match="others than its owner"):
        attached(many, lease("reader", mode="ro"))
    own = attached(many, *(lease("owner", f"o{number}") for number in range(MAX_LEASES - MAX_OF_OTHERS)))
    with pytest.raises(LeaseRefused, match="already has 32 leases"):
        attached(own, lease("owner", "one-more"))


def test_leases_end_when_a_workspace_is_no_longer_shared() -> None:
    shared = attached(USER, lease("owner"), lease("reader", mode="ro"), lease("writer"))
    shared = replace(shared, shared={**SHARED, "team:a": "rw"})
    shared = attached(shared, lease("member"))

    def left(**changed: str) -> list[str]:
        sharing: Any = {key.replace("_", ":"): value for key, value in changed.items()}
        return [each.holder.partition("/")[0] for each in leases_after_sharing(shared, sharing)]

    assert left(reader="ro", writer="rw", team_a="rw") == ["owner", "reader", "writer", "member"]
    assert left(writer="rw", team_a="rw") == ["owner", "writer", "member"]
    # A writer who may only read keeps no lease for writing, nor does anybody of a team that is left out.
    assert left(reader="ro", writer="ro", team_a="rw") == ["owner", "reader", "member"]
    assert left(reader="ro", writer="rw") == ["owner", "reader", "writer"]
    patch = workspace_patch(shared, Changes(shared={}))
    assert "reader" not in patch["metadata"]["annotations"][LEASES]
    assert LEASES not in workspace_patch(USER, Changes(shared={}))["metadata"]["annotations"]


def test_the_tokens_of_sharers_end_when_one_may_run_programs_no_more() -> None:
    shared = replace(USER, shared={"writer": "rw", "team:a": "rw", "reader": "ro"}, share_generation=2)

    def generation(**changed: Any) -> str | None:
        changes = Changes(shared={key.replace("_", ":"): value for key, value in changed.items()})
        return workspace_patch(shared, changes)["metadata"]["annotations"].get(SHARE_GENERATION)

    assert generation(writer="rw", team_a="rw") is None
    assert generation(writer="rw", team_a="rw", reader="rw", other="rw") is None
    assert generation(writer="ro", team_a="rw") == "3"
    assert generation(writer="rw") == "3"
    assert generation() == "3"
