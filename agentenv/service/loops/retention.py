"""The pass over retained volumes: record the deletion dates of deleted workspaces, and destroy expired data.

To destroy data, the volume's reclaim policy is set to Delete. The driver then deletes the access point, and nobody can
access the folder any more. That single write requires the version of the volume that was decided on. Before it, the
destruction is recorded, and claims of the workspace are listed once more. A replica that does not know the API server's
time destroys nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL, namespace
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.classes.swarm import SHARED
from agentenv.core.lifecycle.limits import Limits
from agentenv.core.lifecycle.restore import MOVING_TO, NOBODY, RETURNING_SINCE, UNDATED, home_class
from agentenv.core.lifecycle.retention import HOLD, Home, RetentionDecision, is_in_use, retention_decision
from agentenv.core.values.object_fields import required, strings, text
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.workspace import ARCHIVE_ENDED, DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApiError, collect, section
from agentenv.service.kube.unreadable import ODD, readable
from agentenv.service.loops.context import Context
from agentenv.service.loops.scheduler import PassResult, ShouldContinue
from agentenv.service.telemetry.logs import audit
from agentenv.service.workspaces.destruction_records import Records
from agentenv.service.workspaces.restore import restore_workspace

MOST = 50
# The driver annotates volumes that it provisions. Volumes of declared seats have no such annotation, and belong to the
# stack.
MADE_BY = "pv.kubernetes.io/provisioned-by"
RECORDS_KEPT = timedelta(days=400)
_LOG = logging.getLogger(__name__)


async def apply_retention(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Apply retention to every retained volume."""
    return await _Pass(context, should_continue).take()


async def destroy_on_request(context: Context, should_continue: ShouldContinue) -> PassResult:
    """Destroy data whose destruction was requested, as soon as its volume is released."""
    return await _Pass(context, should_continue).requested()


class _Pass:
    def __init__(self, context: Context, should_continue: ShouldContinue) -> None:
        self._context = context
        self._api = context.api
        self._should_continue = should_continue
        self._records = Records(context.api, context.namespace)
        self._failures: list[str] = []
        self._steps = 0

    async def take(self) -> PassResult:
        limits = await self._context.limits()
        candidates: list[tuple[Document, Home]] = []
        existing: set[str] = set()
        async for volume, home in self._homes():
            existing.add(home.volume)
            # Volumes in use need no action, and of ten thousand they are most: keep only the others in memory.
            if not is_in_use(home):
                candidates.append((volume, home))
        # Claims are listed after the volumes, so that a workspace restored meanwhile is among them.
        deleting: dict[tuple[str, str | None, str | None], bool] = {}
        async for claim in self._api.list(CLAIMS):
            metadata = section(claim, "metadata")
            labels = strings(metadata, "labels")
            for key in labels.keys() & {WORKSPACE_LABEL, TASK_LABEL}:
                holder = (key, labels.get(USER_LABEL), labels[key])
                deleting[holder] = deleting.get(holder, True) and bool(metadata.get("deletionTimestamp"))
        left = False
        for volume, home in candidates:
            if not self._should_continue():
                break
            if self._steps >= MOST:
                left = True
                break
            key, name = _needed_by(home)
            holder = (key, home.owner, name)
            now = replace(home, workspace_exists=holder in deleting, going=deleting.get(holder, False))
            await self._decide(volume, now, limits.get(_class_of(volume), Limits()))
        self._steps += await self._finish_records(existing)
        return PassResult(self._steps, left, tuple(self._failures))

    async def requested(self) -> PassResult:
        """Process only volumes whose destruction was requested, without a pass over all volumes."""
        for volume, home in await collect(self._homes({DESTROY_REQUESTED: None})):
            if self._steps >= MOST or not self._should_continue():
                break
            if home.phase in {"Released", "Available"} and home.policy != "Delete" and not home.held:
                claims = await self._claims_of(home)
                going = all(section(claim, "metadata").get("deletionTimestamp") for claim in claims)
                await self._decide(volume, replace(home, workspace_exists=bool(claims), going=going), Limits())
        return PassResult(self._steps, self._steps >= MOST, tuple(self._failures))

    async def _decide(self, volume: Document, home: Home, limits: Limits) -> None:
        """Decide on a volume and act; a failure of one volume does not stop the others."""
        action = retention_decision(home, limits, self._context.clock.now())
        try:
            self._steps += await self._do(volume, home, action)
        except KubeApiError as refusal:
            if refusal.transient:
                raise
            self._failures.append(f"{home.volume}: {refusal}")
        except ODD as failure:
            self._failures.append(f"{home.volume} cannot be read: {type(failure).__name__}")

    async def _homes(self, marks: Mapping[str, None] = MappingProxyType({})) -> AsyncIterator[tuple[Document, Home]]:
        volumes = self._api.list(VOLUMES, labels={USER_LABEL: None, **marks})
        async for volume, home in readable("PersistentVolume", volumes, home_of, self._failures):
            provisioner = section(section(volume, "metadata"), "annotations").get(MADE_BY)
            if provisioner == DRIVER and home.workspace:
                yield volume, home

    async def _do(self, volume: Document, home: Home, action: RetentionDecision) -> bool:
        moving = section(volume["metadata"], "annotations").get(MOVING_TO)
        if moving and not home.workspace_exists and home.phase in {"Released", "Available"}:
            # The class change was interrupted.
            restored = await restore_workspace(self._api, volume, moving, now=self._context.clock.now)
            if restored.outcome == "refused":
                self._failures.append(f"{home.workspace} cannot be restored in class {moving}: {restored.why}")
            return restored.outcome == "made"
        if action.do == "date" and action.deleted_at and action.destroy_after:
            annotations = {
                DELETED_AT: format_timestamp(action.deleted_at),
                DESTROY_AFTER: format_timestamp(action.destroy_after),
            }
            return await self._patch(volume, {"metadata": {"annotations": annotations}})
        if action.do == "undate":
            return await self._patch(volume, UNDATED)
        if action.do == "release":
            return await self._patch(volume, {"spec": {"claimRef": {"uid": NOBODY}}})
        if action.do == "destroy":
            return await self._destroy(volume, home)
        if action.do == "report":
            self._failures.append(f"{home.volume} is retained: {action.why}")
        return False

    async def _patch(self, volume: Document, changes: Document) -> bool:
        return await self._api.patch(VOLUMES, volume, changes) is not None

    async def _destroy(self, volume: Document, home: Home) -> bool:
        now = self._context.clock.now()
        if not self._context.clock.known:
            _LOG.warning("nothing is destroyed: the API server's time is not known")
            return False
        if await self._claims_of(home):
            return False
        facts = {
            "owner": home.owner,
            "workspace": home.workspace,
            "class": home_class(volume),
            "mode": home.mode,
            "handle": section(volume["spec"], "csi").get("volumeHandle", ""),
            "uid": volume["metadata"]["uid"],
            "deleted": format_timestamp(home.deleted_at) if home.deleted_at else "",
            "due": format_timestamp(home.destroy_after) if home.destroy_after else "",
            "by": self._context.replica,
        }
        if not await self._records.write(home.volume, facts, now):
            return False
        if not await self._patch(volume, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}):
            return False
        audit("data of a deleted workspace is destroyed", volume=home.volume, **facts)
        return True

    async def _claims_of(self, home: Home) -> list[Document]:
        """Return the claims of a volume's workspace, in all namespaces."""
        key, name = _needed_by(home)
        return [claim async for claim in self._api.list(CLAIMS, labels={key: name}) if _is_of(claim, home)]

    async def _finish_records(self, existing: set[str]) -> int:
        """Complete the records of volumes that are gone."""
        now, finished = self._context.clock.now(), 0
        for name, facts in await collect(self._records.unfinished()):
            if name in existing or not self._should_continue():
                continue
            if await self._api.find(VOLUMES, name) is None and await self._records.finish(name, now):
                audit("data of a deleted workspace is gone", volume=name, **facts)
                finished += 1
        if self._context.clock.known:
            await self._records.close(now)
            await self._records.prune(now - RECORDS_KEPT)
        return finished


def home_of(volume: Document) -> Home:
    """Return the fields of a volume that decisions need."""
    metadata, spec = section(volume, "metadata"), section(volume, "spec")
    labels, annotations = section(metadata, "labels"), section(metadata, "annotations")
    status = section(volume, "status")
    phase = text(status, "phase")
    claim_name = text(section(spec, "claimRef"), "name")
    of_task = TASK_LABEL in labels and WORKSPACE_LABEL not in labels
    shared = claim_name if of_task and claim_name.startswith(f"{SHARED}-") else ""
    return Home(
        volume=required(volume, "metadata", "name"),
        phase="going" if metadata.get("deletionTimestamp") else phase,
        policy=text(spec, "persistentVolumeReclaimPolicy"),
        owner=text(labels, USER_LABEL),
        workspace=text(labels, WORKSPACE_LABEL) or shared,
        task=text(labels, TASK_LABEL) if shared else "",
        mode=text(labels, MODE_LABEL) or "user",
        deleted_at=parse_timestamp(annotations.get(DELETED_AT)),
        destroy_after=parse_timestamp(annotations.get(DESTROY_AFTER)),
        archive_ended=parse_timestamp(annotations.get(ARCHIVE_ENDED)),
        destroy_requested=DESTROY_REQUESTED in labels,
        held=bool(annotations.get(HOLD)),
        claimed=phase == "Bound",
        returning=parse_timestamp(annotations.get(RETURNING_SINCE)),
        released_since=parse_timestamp(status.get("lastPhaseTransitionTime")),
    )


def _needed_by(home: Home) -> tuple[str, str]:
    """Return the label key and value of the claims that use a volume, or share it."""
    return (TASK_LABEL, home.task) if home.task else (WORKSPACE_LABEL, home.workspace)


def _class_of(volume: Document) -> str:
    labels = section(section(volume, "metadata"), "labels")
    used = text(section(section(volume, "spec"), "claimRef"), "namespace").removeprefix(namespace(""))
    return used or text(labels, CLASS_LABEL)


def _is_of(claim: Document, home: Home) -> bool:
    return section(section(claim, "metadata"), "labels").get(USER_LABEL) == home.owner
