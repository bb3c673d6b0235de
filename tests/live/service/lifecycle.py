"""Helpers for tests of the lifecycle loops: workspaces, and passes of all loops at a chosen time.

Nobody waits for an hour here: the loops' clock is the server's and so much later as a test says.
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
from agentenv.service.loops.context import Context
from agentenv.service.loops.retention import apply_retention
from agentenv.service.loops.slots import maintain_slots
from agentenv.service.loops.workspace_passes import end_expired, suspend_idle, wake_due
from agentenv.service.workspaces.delete import delete_workspace
from agentenv.service.workspaces.retain_volume import retain_volume
from tests.fast.service.loops.cluster import RecordedMetrics, StubClock
from tests.live.conftest import REGION, World
from tests.live.controlplane.things import PATIENCE, becomes_ready
from tests.live.service.blocking import Blocking, run
from tests.live.service.conftest import EXTENSIONS, Box

OWNER = "u-4711"
ROOT = Path(__file__).parents[3]


class OwnNamespaces(KubeApi):
    """An API server of which one sees one's own class only: tests share a server."""

    def __init__(self, api: KubeApi, *spaces: str) -> None:
        self.api, self.spaces = api, spaces

    async def list(
        self, kind: Kind, namespace: str | None = None, labels: Labels | None = None
    ) -> AsyncIterator[Document]:
        async for document in self.api.list(kind, namespace, labels):
            about = document["metadata"]
            where = about.get("namespace") or section(document.get("spec") or {}, "claimRef").get("namespace")
            if (where or about["name"]) in {*self.spaces, "default"}:
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


class Stage:
    """A class with workspaces, and the loops over it."""

    def __init__(self, box: Box, world: World, *others: Box) -> None:
        self.box, self.world = box, world
        self.api = Blocking(OwnNamespaces(box.cluster.api, box.space, *(other.space for other in others)))
        self.metrics = RecordedMetrics()
        self.points = Efs(
            REGION,
            world.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id=world.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=world.environment["AWS_SECRET_ACCESS_KEY"],
        )

    def context(self, later: timedelta = timedelta(0), api: KubeApi | None = None) -> Context:
        clock = StubClock(lambda: datetime.now(UTC) + later)
        return Context(api or self.api.api, clock, self.metrics, "default", "r1", self.points, [self.box.system])

    def loops(self, later: timedelta = timedelta(0)) -> list[tuple[str, ...]]:
        """A pass of each loop; what failed in them."""
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
        """Return whether passes bring something about: what a controller overtook in one is the next one's."""

        def passed() -> bool:
            assert self.loops(later) == []
            return holds()

        return bool(until(passed, PATIENCE, every=0.5))

    def make(self, pool: str, *, keep_it: bool = True, **notes: str) -> str:
        """A workspace of a warm slot; its name."""
        name = f"w-{uuid.uuid4().hex[:8]}"
        document = claims.claim(self.box.name, pool, name, owner=OWNER, workspace=name)
        document["metadata"]["annotations"] = {LAST_ACTIVE: format_timestamp(datetime.now(UTC)), **notes}
        self.box.client.create(document)
        path = f"{EXTENSIONS}/namespaces/{self.box.space}/sandboxclaims/{name}"
        assert becomes_ready(self.box.client, path), self.box.client.get(path)
        # Whoever decides by the claim has to see the sandbox on it.
        assert until(lambda: self.volume(name), PATIENCE)
        # The controller writes to a claim that it has just seen to.
        if keep_it:
            assert until(
                lambda: run(retain_volume, self.api, self.claim(name) or {}).outcome in {"kept", "already"}, PATIENCE
            )
        return name

    def delete(self, name: str, keep_for: timedelta = timedelta(days=30), at: datetime | None = None) -> str:
        """It is deleted, and its volume is let go of; the volume."""
        volume = self.volume(name)

        def gone() -> bool:
            claim = self.claim(name)
            return claim is None or run(delete_workspace, self.api, claim, keep_for, at or datetime.now(UTC)) == "done"

        assert until(gone, PATIENCE)
        assert until(lambda: self.phase(volume) == "Released" and self.claim(name) is None, PATIENCE)
        return volume

    def clear(self) -> None:
        """Leave nothing to the next test: neither claims nor volumes that are kept."""
        claims_ = f"{EXTENSIONS}/namespaces/{self.box.space}/sandboxclaims"
        self.box.client.delete(claims_)
        assert until(lambda: not self.box.client.get(claims_)["items"], PATIENCE)

        def retained() -> list[str]:
            rows = self.api.list(VOLUMES, labels={"sandbox.users.io/user": OWNER})
            return [row["metadata"]["name"] for row in rows]

        def went() -> bool:
            for name in retained():
                self.box.client.delete(f"/api/v1/persistentvolumes/{name}")
            return not retained()

        assert until(went, PATIENCE)

    def claim(self, name: str, space: str = "") -> Document | None:
        return self.api.find(CLAIMS, name, space or self.box.space)

    def sandbox(self, name: str, space: str = "") -> str:
        claim = self.claim(name, space) or {}
        return section(section(claim, "status"), "sandbox").get("name", "")

    def mode(self, name: str) -> str:
        found = self.api.find(SANDBOXES, self.sandbox(name), self.box.space)
        return section(found or {}, "spec").get("operatingMode") or "Running"

    def volume(self, name: str, space: str = "") -> str:
        """The volume that a workspace's sandbox has."""
        sandbox = self.sandbox(name, space)
        found = self.api.find(VOLUME_CLAIMS, f"home-{sandbox}", space or self.box.space) if sandbox else None
        return section(found or {}, "spec").get("volumeName", "")

    def document(self, volume: str) -> Document | None:
        return self.api.find(VOLUMES, volume)

    def phase(self, volume: str) -> str:
        return section(self.document(volume) or {}, "status").get("phase", "gone")

    def notes(self, name: str) -> Document:
        return section((self.claim(name) or {"metadata": {}})["metadata"], "annotations")

    def homes(self, name: str) -> list[str]:
        """All volumes of a workspace."""
        rows = self.api.list(VOLUMES, labels={"sandbox.users.io/workspace": name})
        return [row["metadata"]["name"] for row in rows]

    def kill(self, action: str, name: str, step: int, *more: str) -> bool:
        """Do it in a process that is killed after its nth change; whether it was."""
        command = [sys.executable, "-m", "tests.live.service.killed_process", str(self.world.plane.kubeconfig())]
        ran = subprocess.run(
            [*command, action, self.box.space, name, str(step), *more], cwd=ROOT, check=False, capture_output=True
        )
        assert ran.returncode in {0, -9}, ran.stderr.decode()
        return ran.returncode == -9
