"""The retained volumes of a cluster: what is known of each, and the writes that follow from a decision.

To destroy data, a Job empties the home, and the volume's reclaim policy is set to Delete. The driver then deletes the
access point, and nobody can access the folder any more. The first write requires the version of the volume that was
decided on. Before it, the destruction is recorded, and claims of the workspace are listed once more. A replica that
does not know the API server's time destroys nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.classes.swarm import SHARED
from agentenv.core.lifecycle.restore import MOVING_TO, NOBODY, RETURNING_SINCE, UNDATED, home_class, used_class
from agentenv.core.lifecycle.retention import HOLD, Home, RetentionDecision, is_in_use
from agentenv.core.service.home_emptying import EMPTYING_LABEL
from agentenv.core.service.home_emptying import MOST as MOST_EMPTYING
from agentenv.core.service.home_emptying import NAME as NAMESPACE
from agentenv.core.values.object_fields import required, strings, text
from agentenv.core.values.timestamps import format_timestamp, parse_timestamp
from agentenv.core.workspaces.workspace import ARCHIVE_ENDED, DELETED_AT, DESTROY_AFTER, DESTROY_REQUESTED, RECOVERED_AT
from agentenv.service.kube.client import CLAIMS, VOLUMES, Document, KubeApi, collect, section
from agentenv.service.kube.unreadable import readable
from agentenv.service.telemetry.logs import audit
from agentenv.service.workspaces.backend_protocol import Clock, RetainedHome
from agentenv.service.workspaces.destruction_records import Records
from agentenv.service.workspaces.empty_home import next_step, reserve
from agentenv.service.workspaces.restore import restore_workspace

# The driver annotates volumes that it provisions. Volumes of declared seats have no such annotation, and belong to the
# stack.
MADE_BY = "pv.kubernetes.io/provisioned-by"
RECORDS_KEPT = timedelta(days=400)
_LOG = logging.getLogger(__name__)


class RetainedHomes:
    """The retained volumes of one cluster."""

    def __init__(
        self, api: KubeApi, clock: Clock, namespace: str, replica: str, emptying_image: str | None = None
    ) -> None:
        self.api, self.clock, self.replica, self.emptying_image = api, clock, replica, emptying_image
        self.emptying = 0  # volumes that were being emptied when they were listed last, and since
        self.records = Records(api, namespace)

    async def candidates(self, failures: list[str]) -> AsyncIterator[RetainedVolume]:
        """Yield all volumes that are not simply in use."""
        # Volumes in use need no action, and of ten thousand they are most: keep only the others in memory.
        volumes = [(volume, home) async for volume, home in self._homes(failures) if not is_in_use(home)]
        self.emptying = sum(home.emptying for _, home in volumes)
        # Claims are listed after the volumes, so that a workspace restored meanwhile is among them.
        deleting: dict[tuple[str, str | None, str | None], bool] = {}
        async for claim in self.api.list(CLAIMS):
            metadata = section(claim, "metadata")
            labels = strings(metadata, "labels")
            for key in labels.keys() & {WORKSPACE_LABEL, TASK_LABEL}:
                holder = (key, labels.get(USER_LABEL), labels[key])
                deleting[holder] = deleting.get(holder, True) and bool(metadata.get("deletionTimestamp"))
        for volume, home in volumes:
            key, name = _needed_by(home)
            holder = (key, home.owner, name)
            now = replace(home, workspace_exists=holder in deleting, going=deleting.get(holder, False))
            yield RetainedVolume(self, volume, now, _class_of(volume), failures)

    async def requested(self, failures: list[str]) -> AsyncIterator[RetainedVolume]:
        """Yield the volumes that are being emptied, and the released ones whose destruction was requested.

        It reads no others.
        """
        emptying = await collect(self._homes(failures, {EMPTYING_LABEL: None}))
        self.emptying = len(emptying)
        for volume, home in emptying:
            yield RetainedVolume(self, volume, home, _class_of(volume), failures)
        for volume, home in await collect(self._homes(failures, {DESTROY_REQUESTED: None})):
            released = home.phase in {"Released", "Available"} and not home.emptying
            if released and home.policy != "Delete" and not home.held:
                claims = await self.claims_of(home)
                going = all(section(claim, "metadata").get("deletionTimestamp") for claim in claims)
                now = replace(home, workspace_exists=bool(claims), going=going)
                yield RetainedVolume(self, volume, now, _class_of(volume), failures)

    async def claims_of(self, home: Home) -> list[Document]:
        """Return the claims of a volume's workspace, in all namespaces."""
        key, name = _needed_by(home)
        return [claim async for claim in self.api.list(CLAIMS, labels={key: name}) if _is_of(claim, home)]

    async def complete_records(self, should_continue: Callable[[], bool]) -> int:
        """Complete the records of volumes that are gone; return their number."""
        now, finished = self.clock.now(), 0
        for name, facts in await collect(self.records.unfinished()):
            if not should_continue():
                break
            if await self.api.find(VOLUMES, name) is None and await self.records.finish(name, now):
                audit("data of a deleted workspace is gone", volume=name, **facts)
                finished += 1
        if self.clock.known:
            await self.records.close(now)
            await self.records.prune(now - RECORDS_KEPT)
        return finished

    async def _homes(
        self, failures: list[str], marks: Mapping[str, None] = MappingProxyType({})
    ) -> AsyncIterator[tuple[Document, Home]]:
        volumes = self.api.list(VOLUMES, labels={USER_LABEL: None, **marks})
        async for volume, home in readable("PersistentVolume", volumes, home_of, failures):
            provisioner = section(section(volume, "metadata"), "annotations").get(MADE_BY)
            if provisioner == DRIVER and (home.workspace or home.emptying):
                yield volume, home


@dataclass
class RetainedVolume(RetainedHome):
    """A volume with its home as they were read."""

    cluster: RetainedHomes
    volume: Document
    home: Home
    class_name: str
    failures: list[str]

    async def apply(self, decision: RetentionDecision) -> bool:
        """Take the action of a decision, or continue a class change that was interrupted."""
        home = self.home
        moving = section(self.volume["metadata"], "annotations").get(MOVING_TO)
        if moving and not home.workspace_exists and home.phase in {"Released", "Available"}:
            return await self._move(moving)
        if decision.do == "report":
            self.failures.append(f"{home.volume} is retained: {decision.why}")
        if decision.do == "date" and decision.deleted_at and decision.destroy_after:
            annotations = {
                DELETED_AT: format_timestamp(decision.deleted_at),
                DESTROY_AFTER: format_timestamp(decision.destroy_after),
            }
            return await self._patch({"metadata": {"annotations": annotations}})
        if decision.do == "undate":
            return await self._patch(UNDATED)
        if decision.do == "release":
            return await self._patch({"spec": {"claimRef": {"uid": NOBODY}}})
        if decision.do == "empty":
            return await self._empty()
        return decision.do == "destroy" and await self._destroy()

    async def _move(self, to: str) -> bool:
        restored = await restore_workspace(self.cluster.api, self.volume, to, now=self.cluster.clock.now)
        if restored.outcome == "refused":
            self.failures.append(f"{self.home.workspace} cannot be restored in class {to}: {restored.why}")
        return restored.outcome == "made"

    async def _patch(self, changes: Document) -> bool:
        return await self.cluster.api.patch(VOLUMES, self.volume, changes) is not None

    async def _destroy(self) -> bool:
        cluster, home = self.cluster, self.home
        now = cluster.clock.now()
        if not cluster.clock.known:
            _LOG.warning("nothing is destroyed: the API server's time is not known")
            return False
        busy = cluster.emptying_image is not None and cluster.emptying >= MOST_EMPTYING
        if busy or await cluster.claims_of(home):
            return False
        facts = {
            "owner": home.owner,
            "workspace": home.workspace,
            "class": home_class(self.volume),
            "mode": home.mode,
            "handle": section(self.volume["spec"], "csi").get("volumeHandle", ""),
            "uid": self.volume["metadata"]["uid"],
            "deleted": format_timestamp(home.deleted_at) if home.deleted_at else "",
            "due": format_timestamp(home.destroy_after) if home.destroy_after else "",
            "by": cluster.replica,
        }
        if not await cluster.records.write(home.volume, facts, now):
            return False
        empties = cluster.emptying_image is not None
        if not await (reserve(cluster.api, self.volume) if empties else self._delete_when_released()):
            return False
        cluster.emptying += 1
        audit("data of a deleted workspace is destroyed", volume=home.volume, **facts)
        return True

    async def _empty(self) -> bool:
        """Do the next steps of emptying a home, until it waits for its Job or for a controller."""
        cluster, home, now = self.cluster, self.home, self.cluster.clock.now()
        if cluster.emptying_image is None:
            self.failures.append(f"{home.volume} is being emptied, and this service has no image for it")
            return False
        done = False
        while (step := await next_step(cluster.api, self.volume, cluster.emptying_image, now)) == "step":
            done = True
        if step == "failed":
            self.failures.append(f"{home.volume} cannot be emptied: see the log of its Job in {NAMESPACE}")
        if step != "complete":
            return done
        if not await cluster.records.add(home.volume, {"emptied": format_timestamp(now)}):
            return False
        if not await self._delete_when_released():
            return False
        audit("the home of a deleted workspace is empty", volume=home.volume, owner=home.owner)
        return True

    async def _delete_when_released(self) -> bool:
        return await self._patch({"spec": {"persistentVolumeReclaimPolicy": "Delete"}})


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
        emptying=EMPTYING_LABEL in labels,
        held=bool(annotations.get(HOLD)),
        claimed=phase == "Bound",
        returning=parse_timestamp(annotations.get(RETURNING_SINCE)),
        recovered=RECOVERED_AT in annotations,
        released_since=parse_timestamp(status.get("lastPhaseTransitionTime")),
    )


def _needed_by(home: Home) -> tuple[str, str]:
    """Return the label key and value of the claims that use a volume, or share it."""
    return (TASK_LABEL, home.task) if home.task else (WORKSPACE_LABEL, home.workspace)


def _class_of(volume: Document) -> str:
    labels = section(section(volume, "metadata"), "labels")
    return used_class(volume) or text(labels, CLASS_LABEL)


def _is_of(claim: Document, home: Home) -> bool:
    return section(section(claim, "metadata"), "labels").get(USER_LABEL) == home.owner
