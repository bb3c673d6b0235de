"""Tests of reading workspaces from any claim or volume, and of the decisions about them."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given

from agentenv.core.ledger.budgets import LimitUsage, format_dollars
from agentenv.core.lifecycle.deadline import end_decision
from agentenv.core.lifecycle.idle import idle_decision
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.wake import wake_decision
from agentenv.core.values.object_fields import UnreadableError
from agentenv.core.workspaces.leases import LeaseRefused, attach_lease
from agentenv.core.workspaces.records import (
    format_leases,
    has_other_owner,
    is_claim_ready,
    workspace_of_claim,
    workspace_of_volume,
)
from agentenv.core.workspaces.workspace import Lease, Workspace
from agentenv.service.http.schemas import WorkspaceShape
from tests.fast.odd_objects import odd

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
MONTH = timedelta(days=30)
DOMAIN = "sandbox.users.io/"
NOTES = {
    "leases": '[{"holder":"a","mode":"rw","until":"2026-11-19T13:00:00Z"}]',
    "shared": '{"u-2":"ro"}',
    "budget": "10",
    "idle-after": "600",
    "deadline": "2026-11-20T00:00:00Z",
    "busy-until": "2026-11-20T00:00:00Z",
    "wake-at": "2026-11-20T00:00:00Z",
    "last-active": "2026-11-19T00:00:00Z",
    "deleted-at": "2026-11-19T00:00:00Z",
    "destroy-after": "2026-12-19T00:00:00Z",
    "returning-since": "2026-12-19T00:00:00Z",
    "moving-to": "other",
    "archive": "chat",
    "archive-ended": "2026-11-19T00:00:00Z",
    "suspended-because": "idle",
    "timeout": '{"seconds":300,"then":"delete","wakes":false}',
    "metadata": '{"Any key":"any text"}',
    "key": "k",
    "created-by": "u-1",
    "kept": "true",
    "cold": "why",
    "grants": '{"ports":[80],"capabilities":["dns"],"size":"small","ends":"2026-11-20T00:00:00Z"}',
}
ABOUT = {
    "name": "w-1",
    "namespace": "sandbox-box",
    "uid": "1",
    "resourceVersion": "2",
    "creationTimestamp": "2026-11-18T00:00:00Z",
    "labels": {f"{DOMAIN}{key}": "u-1" for key in ("user", "workspace", "class", "mode", "task", "destroy-requested")},
    "annotations": {f"{DOMAIN}{key}": value for key, value in NOTES.items()},
}
STATUS = {
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-11-18T00:00:00Z"}
    ],
    "sandbox": {"name": "s", "podIPs": ["10.0.0.1"]},
}
CLAIM = {"metadata": ABOUT, "spec": {"warmPoolRef": {"name": "p"}}, "status": STATUS}
VOLUME = {
    "metadata": ABOUT,
    "spec": {"claimRef": {"namespace": "sandbox-box", "name": "home-s"}},
    "status": {"phase": "Released"},
}


@given(odd(CLAIM))
def test_any_claim_gives_a_workspace_with_decisions(claim: Any) -> None:
    is_claim_ready(claim)
    try:
        found = workspace_of_claim(claim)
    except UnreadableError:
        return
    if found is not None:
        decide(found)


@given(odd(VOLUME))
def test_any_volume_gives_a_deleted_workspace_or_none(volume: Any) -> None:
    has_other_owner(volume, "u-1")
    try:
        found = workspace_of_volume(volume)
    except UnreadableError:
        return
    if found is not None:
        decide(found)


def decide(found: Workspace) -> None:
    for limits in (Limits(), Limits(*[timedelta(seconds=10**10 - 1)] * 4)):
        end_decision(found, limits, NOW)
        idle_decision(found, limits, [], NOW)
    wake_decision(found, NOW)
    if found.budget is not None:
        limited = LimitUsage(format_dollars(found.budget), found.budget, "workspace")
        assert str(limited)
        assert limited.percent >= 0
    with contextlib.suppress(LeaseRefused):
        format_leases(attach_lease(found, Lease("b", "ro", NOW + MONTH), NOW))
    assert json.dumps(asdict(found), default=str).encode()
    for text in (found.id, found.owner, found.class_name, *found.shared, *(lease.holder for lease in found.leases)):
        assert isinstance(text.encode(), bytes)
    assert WorkspaceShape.of(found, NOW).model_dump_json()
