"""Restore workspaces on their retained volumes: deleted and lost ones, and those that move to another class.

Each step is a write that requires the version that was read, and a repeated request continues after the last completed
step. So it may be killed at any point, and run several times at once. Until the claim is created, the volume has its
deletion dates, and the workspace counts as deleted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from agentenv.core.classes.names import CONSTRAINTS, HOME, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL, namespace
from agentenv.core.classes.retirement import RELEASES_KEY, RETIRING, current_pools
from agentenv.core.classes.swarm import task_objects
from agentenv.core.lifecycle.restore import (
    MOVING_TO,
    RETURNING_LABEL,
    being_destroyed,
    destroy_requested,
    home_class,
    home_class_template,
    home_name,
    restored_claim,
    seconds_until_gone,
    volume_claim,
)
from agentenv.core.lifecycle.retention import HOLD
from agentenv.core.values.object_fields import text
from agentenv.core.values.posix_ids import class_id
from agentenv.core.values.timestamps import parse_timestamp
from agentenv.core.workspaces.swarms import REQUESTED_COUNT
from agentenv.core.workspaces.workspace import DELETED_AT
from agentenv.service.http.problems import Problem
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    KubeApi,
    KubeApiError,
    section,
)
from agentenv.service.workspaces import shared_volumes, swarm_outcome
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
    """The progress of a restore; one that is waiting or overtaken has to be repeated."""

    outcome: Outcome
    claim: str = ""
    why: str = ""


async def retained_volume(api: KubeApi, owner: str, workspace: str) -> Document | None:
    """Return the volume with a deleted workspace's files; of several the one that was deleted last."""
    volumes = [
        volume
        async for volume in api.list(VOLUMES, labels={USER_LABEL: owner, WORKSPACE_LABEL: workspace})
        if section(volume, "status").get("phase") in {"Released", "Available", "Bound"}
        and volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain"
    ]
    return max(volumes, key=_deleted_at, default=None)


async def restore_workspace(
    api: KubeApi,
    volume: Document,
    class_name: str | None = None,
    *,
    channel: str = "stable",
    shape: Callable[[Document], Document] = lambda claim: claim,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    into: Document | None = None,
    admit: Callable[[Document], Awaitable[None]] | None = None,
) -> RestoreResult:
    """Create the claim of a deleted workspace on its own volume; in another class if one is named.

    `shape` may change the claim before it is created. `into` is the template of a swarm, which already exists with its
    pool. The deletion dates then stay until the whole swarm is ready. `admit` deletes the created claim, and raises a
    `Problem`, where a limit does not allow it; the volume then has its deletion dates still.
    """
    name = section(volume["metadata"], "labels").get(WORKSPACE_LABEL, "")
    within = class_name or target_class(volume)
    try:
        return await _Restore(api, volume, within, channel, shape=shape, now=now, into=into, admit=admit).take()
    except RestoreError as stop:
        return RestoreResult(stop.outcome, name, str(stop))
    except KubeApiError as refusal:
        return RestoreResult("waiting" if refusal.transient else "refused", name, str(refusal))


class _Restore:
    """One restore, from the volume to the claim."""

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
        admit: Callable[[Document], Awaitable[None]] | None,
    ) -> None:
        self._api = api
        self._volume = volume
        self._class = within
        self._space = namespace(within)
        self._channel = channel
        self._shape = shape
        self._now = now
        self._into, self._admit = into, admit
        labels = section(volume["metadata"], "labels")
        self._owner, self._name = labels.get(USER_LABEL, ""), labels.get(WORKSPACE_LABEL, "")
        self._task = labels.get(TASK_LABEL, "")
        self._shared: tuple[Document, Document, Document] | None = None

    async def take(self) -> RestoreResult:
        if not self._owner or not self._name:
            raise RestoreError("refused", "the volume has no owner")
        if await self._claim_exists():
            # A request for a workspace whose data is being destroyed does not cancel the destruction.
            if not destroy_requested(self._volume):
                await self._clear_deletion_dates()
            return RestoreResult("there", self._name)
        template = self._into or await self._template()
        await self._check_leftovers()
        await self._create_templates(template)
        await self._bind_volume(template)
        claim = await self._api.create(CLAIMS, self._claim(template))
        if claim is not None and self._admit is not None:
            await self._admit(claim)
        created = claim is not None
        # The loop that deletes unused pools and templates may have run in between.
        await self._create_templates(template)
        await self._clear_deletion_dates(created=created)
        return RestoreResult("made" if created else "there", self._name)

    async def _claim_exists(self) -> bool:
        claim = await self._api.find(CLAIMS, self._name, self._space)
        if claim is None:
            return False
        if section(claim["metadata"], "labels").get(USER_LABEL) != self._owner:
            raise RestoreError("refused", f"claim {self._name} belongs to another owner")
        if claim["metadata"].get("deletionTimestamp"):
            raise RestoreError("waiting", "its earlier claim is being deleted")
        return True

    async def _template(self) -> Document:
        """Return the template of the class's current release, with the volume's storage class if there is one."""
        constraints = await self._api.find(CONFIGURATIONS, CONSTRAINTS, self._space)
        data = section(constraints or {}, "data")
        releases = data.get(RELEASES_KEY, "")
        templates = [
            await self._api.find(TEMPLATES, name, self._space)
            for name in current_pools(releases).get(self._channel, [])
        ]
        usable = [
            template
            for template in templates
            if template is not None and not section(template["metadata"], "annotations").get(RETIRING)
        ]
        if not usable:
            raise RestoreError("refused", f"class {self._class} has no current release of channel {self._channel}")
        storage_class = self._volume["spec"].get("storageClassName")
        chosen = next(
            (template for template in usable if _home(template).get("storageClassName") == storage_class), usable[0]
        )
        # Shared volumes of a task exist in its own class only.
        if self._task and data.get("storage") == "shared" and home_class(self._volume) == self._class:
            self._shared = task_objects(chosen, self._task, self._owner)
        return chosen

    async def _check_leftovers(self) -> None:
        """Raise while the sandbox or the volume claim of the earlier workspace of that name exists."""
        if await self._api.find(SANDBOXES, self._name, self._space) is not None:
            raise RestoreError("waiting", "its earlier sandbox is being deleted")
        volume_claim = await self._api.find(VOLUME_CLAIMS, home_name(self._name), self._space)
        if volume_claim is None:
            return
        if volume_claim["metadata"].get("deletionTimestamp"):
            raise RestoreError("waiting", "its earlier volume claim is being deleted")
        if volume_claim["spec"].get("volumeName") != self._volume["metadata"]["name"]:
            raise RestoreError("refused", f"{home_name(self._name)} exists with another volume")

    async def _bind_volume(self, template: Document) -> None:
        """Create the volume claim, which names the volume, so that no other volume is bound to it."""
        name = home_name(self._name)
        await reserve_volume(self._api, self._volume, self._space, name, self._now)
        self._volume = await reserved_volume(self._api, self._volume)
        capacity = section(section(_home(template), "resources"), "requests").get("storage")
        await create_bound_claim(self._api, self._volume, volume_claim(self._volume, self._space, self._name, capacity))

    async def _create_templates(self, template: Document) -> None:
        """Create the template and pool for the task's shared volume, or for the POSIX ids of the home's first class."""
        created_class = home_class(self._volume)
        if self._shared is not None:
            await self._create_shared_objects(*self._shared)
        if created_class == self._class or self._into is not None:
            return
        for kind, document in zip(
            (TEMPLATES, POOLS), home_class_template(template, created_class, class_id(created_class)), strict=True
        ):
            await self._api.create(kind, document)

    async def _create_shared_objects(self, volume_claim: Document, template: Document, pool: Document) -> None:
        """Create the objects that the sandboxes of a task share, if they do not exist."""
        existing = await swarm_outcome.pool_of(self._api, self._space, self._task)
        if existing is not None and swarm_outcome.is_given_up(existing):
            raise RestoreError("waiting", "the swarm of its task is being deleted")
        await shared_volumes.ensure(self._api, volume_claim, self._now)
        await self._api.create(TEMPLATES, template)
        if existing is None:
            retained, _ = await shared_volumes.of_task(self._api, self._owner, self._task)
            requested = text(section(section(retained, "metadata"), "annotations"), REQUESTED_COUNT)
            pool["metadata"]["annotations"] = {REQUESTED_COUNT: requested} if requested else {}
        await self._api.create(POOLS, pool)

    def _claim(self, template: Document) -> Document:
        created_class = home_class(self._volume)
        claim = self._shape(restored_claim(self._volume, self._class, template["metadata"]["name"]))
        if created_class != self._class:
            pool, _ = home_class_template(template, created_class, class_id(created_class))
            claim["spec"]["warmPoolRef"]["name"] = pool["metadata"]["name"]
        if self._shared is not None:
            claim["spec"]["warmPoolRef"]["name"] = self._shared[2]["metadata"]["name"]
        return claim

    async def _delete_claim(self) -> None:
        """Delete the claim again: destruction was requested before the claim was created, and takes precedence."""
        while (claim := await self._api.find(CLAIMS, self._name, self._space)) is not None:
            if section(claim, "metadata").get("deletionTimestamp") or await self._api.delete(CLAIMS, claim):
                break
        raise RestoreError("refused", DESTROYED)

    async def _clear_deletion_dates(self, *, created: bool = False) -> None:
        """Remove the deletion dates, as the workspace is restored."""
        if self._into is not None:
            return
        if self._shared is not None:
            await shared_volumes.mark_restored(self._api, self._shared[0])
        current = await clear_deletion_dates(self._api, self._volume)
        if created and current is not None and destroy_requested(current):
            await self._delete_claim()


async def delete_unused_volume_claim(api: KubeApi, space: str, volume_claim_name: str, uid: str) -> bool:
    """Delete a volume claim of a restore that was not completed; the volume and its files are retained."""
    volume_claim = await api.find(VOLUME_CLAIMS, volume_claim_name, space)
    if (
        volume_claim is None
        or volume_claim["metadata"]["uid"] != uid
        or volume_claim["metadata"].get("ownerReferences")
    ):
        return False
    if section(volume_claim["metadata"], "labels").get(RETURNING_LABEL) != "true":
        return False
    claimed = volume_claim_name.removeprefix(f"{HOME}-")
    if await api.find(CLAIMS, claimed, space) is not None:
        return False
    volume = await api.find(VOLUMES, volume_claim["spec"].get("volumeName", ""))
    if volume is not None and volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        return False
    return await api.delete(VOLUME_CLAIMS, volume_claim)


def refuse_destroyed(volume: Document, id_: str) -> None:
    """Raise a `Problem` if the data is being destroyed, with the seconds until it is gone."""
    if not being_destroyed(volume):
        return
    if HOLD in section(section(volume, "metadata"), "annotations"):
        raise Problem(
            "wrong-state",
            f"the data of {id_} is to be destroyed, but a hold prevents it",
            "use another key, or ask the platform team",
            workspace=id_,
        )
    seconds = seconds_until_gone(volume)
    raise Problem(
        "wrong-state",
        f"{id_} was deleted, and its data is being destroyed: it is gone in about {seconds} seconds",
        "repeat the request when it is gone: the new workspace has an empty home",
        retry_after=seconds,
        workspace=id_,
        gone_in=seconds,
    )


def _home(template: Document) -> Document:
    homes: list[Document] = template["spec"].get("volumeClaimTemplates") or []
    return next((template_["spec"] for template_ in homes if template_["metadata"]["name"] == HOME), Document())


def target_class(volume: Document) -> str:
    """Return the class in which a volume's workspace is used, or to which it is moving."""
    moving_to = text(section(section(volume, "metadata"), "annotations"), MOVING_TO)
    namespace_ = text(section(section(volume, "spec"), "claimRef"), "namespace")
    return moving_to or namespace_.removeprefix(namespace(""))


def _deleted_at(volume: Document) -> datetime:
    return parse_timestamp(section(volume["metadata"], "annotations").get(DELETED_AT)) or _NEVER
