"""Resize the sandbox of a workspace to the size that its claim requests.

The pod is resized in place, and the Sandbox gets the same resources for its next pod. If the node refuses, the pod gets
its old resources back, and the claim says why: the workspace has its size after the next resume. If the API server
denies it, as for a quota, the request is withdrawn. Every step can be repeated, and after a kill the loop `resizing`
goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from agentenv.core.classes.pods.resources import CPU, MEMORY, ResourceRequirements, pod_resources
from agentenv.core.classes.sizes import SMALL
from agentenv.core.lifecycle.resize import Verdict, has_resources, node_verdict, with_resources
from agentenv.core.values.object_fields import owner_uids, parsed, rows, section, text
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.records import workspace_of_claim
from agentenv.core.workspaces.workspace import CURRENT_SIZE, RESIZES, SIZE, SIZE_PENDING, Workspace
from agentenv.service.kube.client import CLAIMS, POD_RESIZES, PODS, SANDBOXES, Document, KubeApi, KubeApiError
from agentenv.service.kube.record_event import claim_reference, record_event
from agentenv.service.workspaces.suspend import sandbox_of

if TYPE_CHECKING:
    from agentenv.config.sections.classes import SizeName
    from agentenv.service.catalog import Catalog

# A kubelet answers within a second or two. What takes longer is left to the loop.
ANSWER_SECONDS = 5.0
_PAUSE = 0.1
_ATTEMPTS = 8
# Earlier requests of a pod that the ledger still has to know. An owner who resizes more often in two days pays for the
# oldest at the rate of the one after it.
_MOST_RESIZES = 100


class Resizer:
    """Resizes the sandboxes of one cluster."""

    def __init__(
        self,
        api: KubeApi,
        catalog: Catalog,
        *,
        now: Callable[[], datetime],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._catalog, self._now, self._pause, self._clock = api, catalog, now, pause, clock

    def sizes_of(self, workspace: Workspace) -> Mapping[SizeName, ResourceRequirements]:
        """Return the sizes that a workspace may have; nothing where its class does not exist any more."""
        of_class = self._catalog.classes.get(workspace.class_name)
        own = {workspace.size, workspace.current_size}
        sizes = of_class.sizes if of_class is not None else {}
        return {name: size for name, size in sizes.items() if name in own or workspace.grants.allows_size(name)}

    async def request(self, claim: Document, size: SizeName, reason: str, message: str) -> bool:
        """Request another size for a claim as it was read, with an event; `resize` does the rest."""
        if not await self._annotate(claim, {SIZE: None if size == SMALL else size, SIZE_PENDING: None}):
            return False
        await record_event(self._api, claim_reference(claim), reason, message, self._now())
        return True

    async def resize(self, workspace: Workspace, wait: float = ANSWER_SECONDS) -> Workspace:
        """Return a workspace after its sandbox got the requested size, or its node refused or did not answer."""
        deadline = self._clock() + min(wait, ANSWER_SECONDS)
        for _ in range(_ATTEMPTS):
            claim = await self._api.find(CLAIMS, workspace.id, workspace.namespace)
            current = workspace_of_claim(claim) if claim else None
            if claim is None or current is None or current.claim_uid != workspace.claim_uid:
                return workspace
            workspace = current
            target = self.sizes_of(current).get(current.size)
            sandbox = await sandbox_of(self._api, claim)
            if target is None or sandbox is None or current.state == "deleting":
                return current
            verdict = await self._resize_sandbox(current, sandbox, target, deadline)
            if verdict is None:
                continue  # another client changed it meanwhile
            if verdict.outcome == "waiting" or await self._record(claim, current, verdict):
                found = await self._api.find(CLAIMS, current.id, current.namespace)
                return (workspace_of_claim(found) if found else None) or current
        return workspace

    async def _resize_sandbox(
        self, workspace: Workspace, sandbox: Document, target: ResourceRequirements, deadline: float
    ) -> Verdict | None:
        """Resize the pod, then the Sandbox; None where one of them was changed since it was read."""
        verdict = await self._resize_pod(workspace, sandbox, target, deadline)
        if verdict is None or verdict.outcome in {"waiting", "denied"}:
            return verdict
        template = section(section(section(sandbox, "spec"), "podTemplate"), "spec")
        if not has_resources(rows(template, "containers"), target):
            containers = with_resources(rows(template, "containers"), target)
            changes = {"spec": {"podTemplate": {"spec": {"containers": containers}}}}
            if not await self._api.patch(SANDBOXES, sandbox, changes):
                return None
            if verdict.why == _NO_POD:
                # A pod that was created meanwhile has the old resources.
                return await self._resize_pod(workspace, sandbox, target, deadline)
        return verdict

    async def _resize_pod(
        self, workspace: Workspace, sandbox: Document, target: ResourceRequirements, deadline: float
    ) -> Verdict | None:
        pod = await self._pod(sandbox)
        if pod is None:
            return Verdict("resized", _NO_POD)
        if not has_resources(rows(section(pod, "spec"), "containers"), target):
            if workspace.size_pending is not None and not workspace.resizing:
                return Verdict("refused", workspace.size_pending)  # before, and the pod is still the same
            try:
                if not await self._patch_pod(pod, target):
                    return None
            except KubeApiError as refusal:
                if refusal.transient or refusal.code == HTTPStatus.UNAUTHORIZED:
                    raise
                # The next pod would be denied by a quota too. A node that cannot resize pods may start a larger one.
                denied = refusal.code == HTTPStatus.FORBIDDEN
                return Verdict("denied" if denied else "refused", refusal.message)
        verdict = await self._answer(sandbox, target, deadline)
        if verdict.outcome == "refused" and (pod := await self._pod(sandbox)) is not None:
            before = self.sizes_of(workspace).get(workspace.current_size)
            if before is not None:
                await self._patch_pod(pod, before)
        return verdict

    async def _answer(self, sandbox: Document, target: ResourceRequirements, deadline: float) -> Verdict:
        """Wait for what the node of a pod says of its resources."""
        while True:
            pod = await self._pod(sandbox)
            verdict = Verdict("resized", _NO_POD) if pod is None else node_verdict(pod, target)
            if verdict.outcome != "waiting" or self._clock() >= deadline:
                return verdict
            await self._pause(_PAUSE)

    async def _pod(self, sandbox: Document) -> Document | None:
        """Return the pod of a sandbox; None while it is suspended, being deleted or not created yet."""
        metadata = sandbox["metadata"]
        pod = await self._api.find(PODS, metadata["name"], metadata["namespace"])
        gone = pod is None or section(pod, "metadata").get("deletionTimestamp")
        return None if gone or metadata["uid"] not in owner_uids(pod) else pod

    async def _patch_pod(self, pod: Document, target: ResourceRequirements) -> bool:
        containers = with_resources(rows(section(pod, "spec"), "containers"), target)
        return await self._api.patch(POD_RESIZES, pod, {"spec": {"containers": containers}}) is not None

    async def _record(self, claim: Document, workspace: Workspace, verdict: Verdict) -> bool:
        """Record on the claim what became of a request, if that is still the same; the ledger reads it too."""
        changes: dict[str, str | None] = {SIZE_PENDING: None}
        event: tuple[str, str] | None = None
        known = verdict.why if verdict.outcome == "refused" else None
        if workspace.size_pending == known and (known or workspace.size == workspace.current_size):
            return True
        if verdict.outcome == "refused":
            changes = {SIZE_PENDING: verdict.why}
            message = f"not resized to {workspace.size}: {verdict.why}. It has that size after its next resume"
            event = "ResizeRefused", message
        elif verdict.outcome == "denied":
            changes |= {SIZE: None if workspace.current_size == SMALL else workspace.current_size}
            event = "ResizeDenied", f"not resized to {workspace.size}: {verdict.why}"
        elif workspace.size != workspace.current_size:
            changes |= {CURRENT_SIZE: workspace.size, RESIZES: self._resizes(claim, workspace)}
            event = "Resized", f"from {workspace.current_size} to {workspace.size}"
        if not await self._annotate(claim, changes):
            return False
        if event is not None:
            warning = verdict.outcome != "resized"
            await record_event(self._api, claim_reference(claim), *event, self._now(), warning=warning)
        return True

    def _resizes(self, claim: Document, workspace: Workspace) -> str | None:
        """Return what the pod requested until now, beside its earlier requests."""
        of_class = self._catalog.classes.get(workspace.class_name)
        if of_class is None or workspace.current_size not in of_class.sizes:
            return None
        known = rows({"rows": parsed(text(section(claim["metadata"], "annotations"), RESIZES))}, "rows")
        # With the overhead of its runtime class, as the ledger counts it.
        requests = pod_resources(of_class.plan, workspace.current_size).to_kubernetes()["requests"]
        row = {"until": format_timestamp(self._now()), "cpu": requests[CPU], "memory": requests[MEMORY]}
        return json.dumps([*known, row][-_MOST_RESIZES:], separators=(",", ":"))

    async def _annotate(self, claim: Document, annotations: Mapping[str, Any]) -> bool:
        return await self._api.patch(CLAIMS, claim, {"metadata": {"annotations": dict(annotations)}}) is not None


_NO_POD = "it has no pod"
