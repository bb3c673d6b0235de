"""Brings somebody back to their files: a deleted workspace, a lost one, or one that goes on in another class.

Each step is a change of what was read, of that version only, and leaves things so that asking again goes on from there;
so it does not matter where it is killed, nor how many do it at once. Until the claim is there the volume keeps the
dates of its deletion and is as deleted as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from agentenv.core.classes.names import CONSTRAINTS, HOME, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL, namespace
from agentenv.core.classes.retirement import RELEASES_KEY, RETIRING, current_pools
from agentenv.core.classes.swarm import task_objects
from agentenv.core.lifecycle.restore import (
    MOVING_TO,
    RETURNING_LABEL,
    destroy_requested,
    home_class,
    home_class_template,
    home_name,
    restored_claim,
    volume_claim,
)
from agentenv.core.values.object_fields import text
from agentenv.core.values.posix_ids import class_id
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.swarms import REQUESTED_COUNT
from agentenv.core.workspaces.workspace import DELETED_AT
from agentenv.service.kube.sync_client import (
    CLAIMS,
    CONFIGURATIONS,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    KubeApi,
    SyncKubeApiError,
    section,
)
from agentenv.service.workspaces import shared_volumes
from agentenv.service.workspaces import swarm_outcome as swarm_fate
from agentenv.service.workspaces.bind_volume import (
    DESTROYED,
    Outcome,
    RestoreError,
    clear_deletion_dates,
    create_bound_claim,
    reserve_volume,
    reserved_volume,
)

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class RestoreResult:
    """How far somebody came back; of what is waiting or overtaken one asks again."""

    outcome: Outcome
    claim: str = ""
    why: str = ""


def retained_volume(api: KubeApi, owner: str, workspace: str) -> Document | None:
    """The volume on which a deleted workspace's files are; of several the one that was deleted last."""
    found = [
        one
        for one in api.list(VOLUMES, labels={USER_LABEL: owner, WORKSPACE_LABEL: workspace})
        if section(one, "status").get("phase") in {"Released", "Available", "Bound"}
        and one["spec"].get("persistentVolumeReclaimPolicy") == "Retain"
    ]
    return max(found, key=_deleted_at, default=None)


def restore_workspace(
    api: KubeApi,
    volume: Document,
    class_name: str | None = None,
    *,
    channel: str = "stable",
    shape: Callable[[Document], Document] = lambda claim: claim,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    into: Document | None = None,
) -> RestoreResult:
    """Make a deleted workspace's claim on its own volume; in another class where one is named.

    `shape` may add to the claim before it is made: what else was asked for. `into` is the template of a swarm, which is
    there with its pool: then the dates of the deletion stay until the swarm is whole.
    """
    name = section(volume["metadata"], "labels").get(WORKSPACE_LABEL, "")
    within = class_name or target_class(volume)
    try:
        return _Restore(api, volume, within, channel, shape=shape, now=now, into=into).take()
    except RestoreError as stop:
        return RestoreResult(stop.outcome, name, str(stop))
    except SyncKubeApiError as refusal:
        return RestoreResult("waiting" if refusal.passes else "refused", name, str(refusal))


class _Restore:
    """One return, from the volume to the claim."""

    def __init__(
        self,
        api: KubeApi,
        volume: Document,
        within: str,
        channel: str,
        *,
        shape: Callable[[Document], Document],
        now: Callable[[], datetime],
        into: Document | None,
    ) -> None:
        self._api = api
        self._volume = volume
        self._class = within
        self._space = namespace(within)
        self._channel = channel
        self._shape = shape
        self._now = now
        self._into = into
        labels = section(volume["metadata"], "labels")
        self._owner, self._name = labels.get(USER_LABEL, ""), labels.get(WORKSPACE_LABEL, "")
        self._task = labels.get(TASK_LABEL, "")
        self._shared: tuple[Document, Document, Document] | None = None

    def take(self) -> RestoreResult:
        if not self._owner or not self._name:
            raise RestoreError("refused", "the volume is nobody's")
        if self._stands():
            # What is on its way out with its data is not kept by being looked at.
            if not destroy_requested(self._volume):
                self._undate()
            return RestoreResult("there", self._name)
        template = self._into or self._template()
        self._refuse_remains()
        self._lend(template)
        self._wait_for_it(template)
        made = self._api.make(CLAIMS, self._claim(template))
        # Whoever takes away what nobody claims may have come in between.
        self._lend(template)
        self._undate(made=made)
        return RestoreResult("made" if made else "there", self._name)

    def _stands(self) -> bool:
        found = self._api.find(CLAIMS, self._name, self._space)
        if found is None:
            return False
        if section(found["metadata"], "labels").get(USER_LABEL) != self._owner:
            raise RestoreError("refused", f"claim {self._name} is somebody else's")
        if found["metadata"].get("deletionTimestamp"):
            raise RestoreError("waiting", "what is left of it is on its way out")
        return True

    def _template(self) -> Document:
        """The template of the class's current release, on the volume's own file system where there is one."""
        constraints = self._api.find(CONFIGURATIONS, CONSTRAINTS, self._space)
        data = section(constraints or {}, "data")
        told = data.get(RELEASES_KEY, "")
        found = [self._api.find(TEMPLATES, name, self._space) for name in current_pools(told).get(self._channel, [])]
        there = [one for one in found if one is not None and not section(one["metadata"], "annotations").get(RETIRING)]
        if not there:
            raise RestoreError("refused", f"class {self._class} has no release of channel {self._channel} just now")
        wanted = self._volume["spec"].get("storageClassName")
        chosen = next((one for one in there if _home(one).get("storageClassName") == wanted), there[0])
        # In another class there is nothing of what its task shares.
        if self._task and data.get("storage") == "shared" and home_class(self._volume) == self._class:
            self._shared = task_objects(chosen, self._task, self._owner)
        return chosen

    def _refuse_remains(self) -> None:
        """Of an earlier sandbox of that name, whose volume claim has the name of the one to come."""
        if self._api.find(SANDBOXES, self._name, self._space) is not None:
            raise RestoreError("waiting", "its earlier sandbox is on its way out")
        found = self._api.find(VOLUME_CLAIMS, home_name(self._name), self._space)
        if found is None:
            return
        if found["metadata"].get("deletionTimestamp"):
            raise RestoreError("waiting", "its earlier volume claim is on its way out")
        if found["spec"].get("volumeName") != self._volume["metadata"]["name"]:
            raise RestoreError("refused", f"{home_name(self._name)} is there, with another volume")

    def _wait_for_it(self, template: Document) -> None:
        """Make the volume claim, which names the volume and so never gets another."""
        name = home_name(self._name)
        reserve_volume(self._api, self._volume, self._space, name, self._now)
        self._volume = reserved_volume(self._api, self._volume)
        most = section(section(_home(template), "resources"), "requests").get("storage")
        create_bound_claim(self._api, self._volume, volume_claim(self._volume, self._space, self._name, most))

    def _lend(self, template: Document) -> None:
        """A template with what its task shares, or with the ids of the class that its home was made in."""
        made_in = home_class(self._volume)
        if self._shared is not None:
            self._share(*self._shared)
        if made_in == self._class or self._into is not None:
            return
        for kind, document in zip(
            (TEMPLATES, POOLS), home_class_template(template, made_in, class_id(made_in)), strict=True
        ):
            self._api.make(kind, document)

    def _share(self, volume_claim: Document, template: Document, pool: Document) -> None:
        """Make what the sandboxes of a task have in common, where it is not there."""
        there = swarm_fate.pool_of(self._api, self._space, self._task)
        if there is not None and swarm_fate.is_given_up(there):
            raise RestoreError("waiting", "the swarm of its task is on its way out")
        shared_volumes.ensure(self._api, volume_claim, self._now)
        self._api.make(TEMPLATES, template)
        if there is None:
            kept, _ = shared_volumes.of_task(self._api, self._owner, self._task)
            asked = text(section(section(kept, "metadata"), "annotations"), REQUESTED_COUNT)
            pool["metadata"]["annotations"] = {REQUESTED_COUNT: asked} if asked else {}
        self._api.make(POOLS, pool)

    def _claim(self, template: Document) -> Document:
        made_in = home_class(self._volume)
        claim = self._shape(restored_claim(self._volume, self._class, template["metadata"]["name"]))
        if made_in != self._class:
            pool, _ = home_class_template(template, made_in, class_id(made_in))
            claim["spec"]["warmPoolRef"]["name"] = pool["metadata"]["name"]
        if self._shared is not None:
            claim["spec"]["warmPoolRef"]["name"] = self._shared[2]["metadata"]["name"]
        return claim

    def _withdraw(self) -> None:
        """Delete the claim again: destruction was requested before it was there, and that wins."""
        while (claim := self._api.find(CLAIMS, self._name, self._space)) is not None:
            if section(claim, "metadata").get("deletionTimestamp") or self._api.remove(CLAIMS, claim):
                break
        raise RestoreError("refused", DESTROYED)

    def _undate(self, *, made: bool = False) -> None:
        """It was not deleted, after all."""
        if self._into is not None:
            return
        if self._shared is not None:
            shared_volumes.mark_restored(self._api, self._shared[0])
        now = clear_deletion_dates(self._api, self._volume)
        if made and now is not None and destroy_requested(now):
            self._withdraw()


def delete_unused_volume_claim(api: KubeApi, space: str, volume_claim_name: str, uid: str) -> bool:
    """Take away a volume claim that was made for somebody who never came; the volume and its files stay."""
    found = api.find(VOLUME_CLAIMS, volume_claim_name, space)
    if found is None or found["metadata"]["uid"] != uid or found["metadata"].get("ownerReferences"):
        return False
    if section(found["metadata"], "labels").get(RETURNING_LABEL) != "true":
        return False
    claimed = volume_claim_name.removeprefix(f"{HOME}-")
    if api.find(CLAIMS, claimed, space) is not None:
        return False
    volume = api.find(VOLUMES, found["spec"].get("volumeName", ""))
    if volume is not None and volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        return False
    return api.remove(VOLUME_CLAIMS, found)


def _home(template: Document) -> Document:
    homes: list[Document] = template["spec"].get("volumeClaimTemplates") or []
    return next((one["spec"] for one in homes if one["metadata"]["name"] == HOME), Document())


def target_class(volume: Document) -> str:
    """Return the class that a volume's workspace is used in, or is on its way to."""
    told = text(section(section(volume, "metadata"), "annotations"), MOVING_TO)
    within = text(section(section(volume, "spec"), "claimRef"), "namespace")
    return told or within.removeprefix(namespace(""))


def _deleted_at(volume: Document) -> datetime:
    return parse_timestamp(section(volume["metadata"], "annotations").get(DELETED_AT)) or _NEVER
