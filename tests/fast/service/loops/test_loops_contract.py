"""The loops over the workspaces of a cluster do what the loops of every backend do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from agentenv.core.ledger.published import PublishedSpend
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.records import claim_annotations, workspace_of_claim, workspace_of_volume
from agentenv.core.workspaces.workspace import CreateRequest, Event, Workspace
from agentenv.service.kube.client import CLAIMS, EVENTS, PODS, SANDBOXES, VOLUME_CLAIMS, VOLUMES, Document
from agentenv.service.ledger.budgets import Budgets
from agentenv.service.ledger.published import PublishedBudgets
from agentenv.service.loops.catalog import loops_of_workspaces
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.suspend import suspend
from tests.fast.service.fake_api_server import Api
from tests.fast.service.loops.cluster import OWNER, SPACE, START, Cluster, ready
from tests.fast.service.loops.loops_contract import CONTRACT, LoopSubject, SpentAccounts


class ClusterSubject(LoopSubject):
    """The workspaces of a cluster, whose controllers act in `settle`."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.api = Api(self.cluster.server)
        self.accounts = SpentAccounts(self.now, "box")
        published = PublishedBudgets(self.accounts.policy, Metrics(), self.now)

        async def publish(spend: PublishedSpend) -> None:
            published.spend = spend

        context = self.cluster.context(monotonic=self._monotonic)
        budgets = Budgets(context.backend, self.accounts, published, Metrics(), publish=publish)
        context.refuse_wake = budgets.refuse_wake
        context.accounts = self.accounts
        self.backend = context.backend
        self.loops = loops_of_workspaces(context, budgets)

    def _monotonic(self) -> float:
        return (self.now() - START).total_seconds()

    async def create(self, name: str, **fields: Any) -> str:
        request = CreateRequest(OWNER, name, "box", OWNER, **fields)
        self.cluster.workspace(name, **claim_annotations(request, self.now()))
        for kind, space in ((CLAIMS, SPACE), (VOLUMES, "")):
            found = self.cluster.server.objects[kind, space, name if kind is CLAIMS else f"pv-{name}"]
            found["metadata"]["labels"]["sandbox.users.io/mode"] = request.mode
        spec = self.cluster.server.objects[CLAIMS, SPACE, name]["spec"]
        spec["additionalPodMetadata"]["labels"]["sandbox.users.io/mode"] = request.mode
        self._start(name)
        return name

    def _start(self, name: str) -> None:
        self.cluster.server.put(PODS, {"metadata": {"name": f"box-{name}", "namespace": SPACE}, "status": {}})

    async def change(self, id_: str, **fields: Any) -> None:
        found = self._claim(id_)
        kind, document = (CLAIMS, found) if found else (VOLUMES, self.cluster.server.find(VOLUMES, f"pv-{id_}") or {})
        values = {f"sandbox.users.io/{key.replace('_', '-')}": format_timestamp(at) for key, at in fields.items()}
        assert self.cluster.server.patch(kind, document, {"metadata": {"annotations": values}})

    async def get(self, id_: str) -> Workspace | None:
        claim = self._claim(id_)
        volume = self.cluster.server.find(VOLUMES, f"pv-{id_}")
        return workspace_of_claim(claim) if claim else workspace_of_volume(volume) if volume else None

    async def delete(self, id_: str, keep_for: timedelta) -> None:
        assert await delete_workspace(self.api, self._claim(id_) or {}, keep_for, self.now()) == "done"
        await self.settle()

    async def suspend(self, id_: str) -> None:
        assert await suspend(self.api, self._claim(id_) or {}, "asked") == "done"
        await self.settle()

    async def fail(self, id_: str) -> None:
        pod = {"metadata": {"name": f"box-{id_}", "namespace": SPACE}, "status": {"phase": "Failed"}}
        self.cluster.server.put(PODS, {**pod, "status": {"phase": "Failed", "reason": "Evicted"}})
        claim = self._claim(id_) or {}
        failed = {"type": "Ready", "status": "False", "reason": "PodFailed", "message": "the pod failed"}
        self.cluster.server.put(CLAIMS, {**claim, "status": {**claim["status"], "conditions": [failed]}})

    async def events(self, id_: str) -> list[Event]:
        events = self.cluster.server.list(EVENTS)
        rows = [event for event in events if event["involvedObject"]["name"] == id_]
        times = [parse_timestamp(event["lastTimestamp"]) for event in rows]
        return [Event(at, id_, event["reason"], event["message"]) for event, at in zip(rows, times, strict=True) if at]

    def pass_by(self, **interval: float) -> None:
        self.cluster.now += timedelta(**interval)

    def now(self) -> datetime:
        return self.cluster.now

    async def settle(self) -> None:
        server = self.cluster.server
        for (kind, space, name), document in [*server.objects.items()]:
            if kind is SANDBOXES:
                self._settle_sandbox(space, name.removeprefix("box-"), document)
        for (kind, _, name), document in [*server.objects.items()]:
            if kind is VOLUMES and document["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                del server.objects[VOLUMES, "", name]

    def _settle_sandbox(self, space: str, name: str, sandbox: Document) -> None:
        server, claim = self.cluster.server, self._claim(name)
        asleep = sandbox["spec"]["operatingMode"] == "Suspended"
        if claim is None or asleep:
            server.objects.pop((PODS, space, f"box-{name}"), None)
        if claim is None:
            del server.objects[SANDBOXES, space, f"box-{name}"]
            del server.objects[VOLUME_CLAIMS, space, f"home-box-{name}"]
            volume = server.find(VOLUMES, f"pv-{name}") or {}
            status = {"phase": "Released", "lastPhaseTransitionTime": format_timestamp(self.now())}
            server.put(VOLUMES, {**volume, "status": status})
            return
        pod = server.find(PODS, f"box-{name}", space)
        if pod is None and not asleep:
            self._start(name)
        if asleep or pod is None:
            row = {**ready(self.now()), "status": str(not asleep)}
            row["reason"] = "SandboxSuspended" if asleep else "SandboxReady"
            server.put(CLAIMS, {**claim, "status": {**claim["status"], "conditions": [row]}})

    def _claim(self, name: str) -> Document | None:
        return self.cluster.server.find(CLAIMS, name, SPACE)


@pytest.mark.parametrize("holds", CONTRACT, ids=lambda holds: holds.__name__)
def test_the_contract_of_loops(holds: Callable[[LoopSubject], Awaitable[None]]) -> None:
    async def run() -> None:
        await holds(ClusterSubject())

    asyncio.run(run())
