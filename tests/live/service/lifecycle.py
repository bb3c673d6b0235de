"""Helpers for tests of the lifecycle loops: workspaces, and passes of all loops at a chosen time.

No test waits for an hour: the clock of the loops is the server's plus an offset.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.workspace import LAST_ACTIVE
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.aws.access_points import Efs
from agentenv.service.kube.client import (
    CLAIMS,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    Kind,
    KubeApi,
    Labels,
    section,
)
from agentenv.service.loops.audit import audit_access_points
from agentenv.service.loops.catalog import retain_volumes
from agentenv.service.loops.context import Context, cluster_context
from agentenv.service.loops.retention import apply_retention
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.loops.workspace_passes import end_expired, suspend_idle, wake_due
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.retain_volume import retain_volume
from tests.fast.service.loops.cluster import RecordedMetrics, StubClock
from tests.live.conftest import REGION, LiveCluster
from tests.live.controlplane.objects import TIMEOUT, becomes_ready
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import EXTENSIONS, LiveClass

OWNER = "u-4711"
ROOT = Path(__file__).parents[3]


class OwnNamespaces(KubeApi):
    """A client that sees the namespaces of one test only, because tests share a server."""

    def __init__(self, api: KubeApi, *namespaces: str) -> None:
        self.api, self.namespaces = api, namespaces

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: Labels | None = None
    ) -> AsyncIterator[Document]:
        async for document in self.api.list(kind, namespace, labels):
            about = document["metadata"]
            where = about.get("namespace") or section(document.get("spec") or {}, "claimRef").get("namespace")
            if (where or about["name"]) in {*self.namespaces, "default"}:
                yield document

    async def find(self, kind: Kind, name: str, namespace: str | None = None) -> Document | None:
        return await self.api.find(kind, name, namespace)

    async def create(self, kind: Kind, document: Mapping[str, Any]) -> Document | None:
        return await self.api.create(kind, document)

    async def patch(self, kind: Kind, existing: Mapping[str, Any], changes: Mapping[str, Any]) -> Document | None:
        return await self.api.patch(kind, existing, changes)

    async def delete(
        self, kind: Kind, existing: Mapping[str, Any], *, any_version: bool = False, policy: str = "Background"
    ) -> bool:
        return await self.api.delete(kind, existing, any_version=any_version, policy=policy)


class Lifecycle:
    """Workspaces of one class, and the loops that maintain them."""

    def __init__(self, live_class: LiveClass, live: LiveCluster, *others: LiveClass) -> None:
        self.live_class, self.live = live_class, live
        self.api = Blocking(
            OwnNamespaces(live_class.cluster.api, live_class.namespace, *(other.namespace for other in others))
        )
        self.metrics = RecordedMetrics()
        self.points = Efs(
            REGION,
            live.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id=live.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=live.environment["AWS_SECRET_ACCESS_KEY"],
        )

    def context(self, later: timedelta = timedelta(0), api: KubeApi | None = None) -> Context:
        clock = StubClock(lambda: datetime.now(UTC) + later)
        return cluster_context(
            api or self.api.api,
            clock,
            self.metrics,
            "default",
            "r1",
            points=self.points,
            file_systems=[self.live_class.file_system],
        )

    def loops(self, later: timedelta = timedelta(0)) -> list[tuple[str, ...]]:
        """Run a pass of each loop, and return their failures."""
        context = self.context(later)
        passes = (
            retain_volumes,
            wake_due,
            suspend_idle,
            end_expired,
            apply_retention,
            maintain_slots,
            audit_access_points,
        )
        return [done.failures for pass_ in passes if (done := run(pass_, context, lambda: True)).failures]

    def done_by_loops(self, holds: Callable[[], bool], later: timedelta = timedelta(0)) -> bool:
        """Return whether passes of all loops lead to a condition; after a conflict the next pass goes on."""

        def passed() -> bool:
            assert self.loops(later) == []
            return holds()

        return bool(until(passed, TIMEOUT, every=0.5))

    def create_workspace(self, pool: str, *, retain: bool = True, **notes: str) -> str:
        """Create a workspace from the warm pool, and return its name."""
        name = f"w-{uuid.uuid4().hex[:8]}"
        document = claims.claim(self.live_class.name, pool, name, owner=OWNER, workspace=name)
        document["metadata"]["annotations"] = {LAST_ACTIVE: format_timestamp(datetime.now(UTC)), **notes}
        self.live_class.client.create(document)
        path = f"{EXTENSIONS}/namespaces/{self.live_class.namespace}/sandboxclaims/{name}"
        assert becomes_ready(self.live_class.client, path), self.live_class.client.get(path)
        # The loops find the sandbox by the status of the claim.
        assert until(lambda: self.volume(name), TIMEOUT)
        # The controller may still write to the claim.
        if retain:
            assert until(
                lambda: run(retain_volume, self.api, self.claim(name) or {}).outcome in {"kept", "already"}, TIMEOUT
            )
        return name

    def delete(self, name: str, keep_for: timedelta = timedelta(days=30), at: datetime | None = None) -> str:
        """Delete a workspace, wait until its volume is released, and return the volume."""
        volume = self.volume(name)

        def is_deleted() -> bool:
            claim = self.claim(name)
            return claim is None or run(delete_workspace, self.api, claim, keep_for, at or datetime.now(UTC)) == "done"

        assert until(is_deleted, TIMEOUT)
        assert until(lambda: self.phase(volume) == "Released" and self.claim(name) is None, TIMEOUT)
        return volume

    def delete_all(self) -> None:
        """Delete all claims and retained volumes."""
        claims_ = f"{EXTENSIONS}/namespaces/{self.live_class.namespace}/sandboxclaims"
        self.live_class.client.delete(claims_)
        assert until(lambda: not self.live_class.client.get(claims_)["items"], TIMEOUT)

        def retained() -> list[str]:
            rows = self.api.list(VOLUMES, labels={"sandbox.users.io/user": OWNER})
            return [row["metadata"]["name"] for row in rows]

        def all_deleted() -> bool:
            for name in retained():
                self.live_class.client.delete(f"/api/v1/persistentvolumes/{name}")
            return not retained()

        assert until(all_deleted, TIMEOUT)

    def claim(self, name: str, namespace: str = "") -> Document | None:
        return self.api.find(CLAIMS, name, namespace or self.live_class.namespace)

    def sandbox(self, name: str, namespace: str = "") -> str:
        claim = self.claim(name, namespace) or {}
        return section(section(claim, "status"), "sandbox").get("name", "")

    def mode(self, name: str) -> str:
        found = self.api.find(SANDBOXES, self.sandbox(name), self.live_class.namespace)
        return section(found or {}, "spec").get("operatingMode") or "Running"

    def volume(self, name: str, namespace: str = "") -> str:
        """Return the volume of a workspace's sandbox."""
        sandbox = self.sandbox(name, namespace)
        found = (
            self.api.find(VOLUME_CLAIMS, f"home-{sandbox}", namespace or self.live_class.namespace) if sandbox else None
        )
        return section(found or {}, "spec").get("volumeName", "")

    def document(self, volume: str) -> Document | None:
        return self.api.find(VOLUMES, volume)

    def phase(self, volume: str) -> str:
        return section(self.document(volume) or {}, "status").get("phase", "gone")

    def notes(self, name: str) -> Document:
        return section((self.claim(name) or {"metadata": {}})["metadata"], "annotations")

    def homes(self, name: str) -> list[str]:
        """Return all volumes of a workspace."""
        rows = self.api.list(VOLUMES, labels={"sandbox.users.io/workspace": name})
        return [row["metadata"]["name"] for row in rows]

    def kill(self, action: str, name: str, step: int, *more: str) -> bool:
        """Apply an action in a process that is killed after its nth write; return whether it was killed."""
        command = [sys.executable, "-m", "tests.live.service.killed_process", str(self.live.plane.kubeconfig())]
        ran = subprocess.run(
            [*command, action, self.live_class.namespace, name, str(step), *more],
            cwd=ROOT,
            check=False,
            capture_output=True,
        )
        assert ran.returncode in {0, -9}, ran.stderr.decode()
        return ran.returncode == -9
