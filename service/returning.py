"""Brings somebody back to their files: a deleted workspace, a lost one, or one that goes on in another class.

Each step is a change of what was read, of that version only, and leaves things so that asking again goes on from there;
so it does not matter where it is killed, nor how many do it at once. Until the claim is there the volume keeps the
dates of its deletion and is as deleted as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from model.classes.names import (
    CONSTRAINTS,
    HOME,
    USER_LABEL,
    WORKSPACE_LABEL,
    namespace,
)
from model.classes.retirement import RELEASES_KEY, RETIRING, current_pools
from model.ids import class_id
from model.lifecycle.returning import (
    DATES,
    MARKS,
    MOVING_TO,
    NOBODY,
    RETURNING_LABEL,
    RETURNING_SINCE,
    UNDATED,
    being_destroyed,
    claim_of,
    destroy_requested,
    home_class,
    home_name,
    lent,
    towards,
    volume_claim,
)
from model.moments import moment, written
from model.workspaces import DELETED_AT
from service.cluster import (
    CLAIMS,
    CONFIGURATIONS,
    POOLS,
    SANDBOXES,
    TEMPLATES,
    VOLUME_CLAIMS,
    VOLUMES,
    Api,
    Document,
    RefusedError,
    section,
)

Outcome = Literal["made", "there", "waiting", "overtaken", "refused"]
_NEVER = datetime.min.replace(tzinfo=UTC)
OVERTAKEN_AT_MOST = 10
DESTROYED = "its data is being destroyed"
_PARTS = ("annotations", "labels")


@dataclass(frozen=True)
class Returned:
    """How far somebody came back; of what is waiting or overtaken one asks again."""

    outcome: Outcome
    claim: str = ""
    why: str = ""


class _Not(Exception):
    """Why it goes no further just now."""

    def __init__(self, outcome: Outcome, why: str) -> None:
        super().__init__(why)
        self.outcome: Outcome = outcome


def kept_volume(api: Api, owner: str, workspace: str) -> Document | None:
    """The volume on which a deleted workspace's files are; of several the one that was deleted last."""
    found = [
        one
        for one in api.list(VOLUMES, labels={USER_LABEL: owner, WORKSPACE_LABEL: workspace})
        if section(one, "status").get("phase") in {"Released", "Available", "Bound"}
        and one["spec"].get("persistentVolumeReclaimPolicy") == "Retain"
    ]
    return max(found, key=_deleted_at, default=None)


def bring_back(
    api: Api,
    volume: Document,
    class_name: str | None = None,
    *,
    channel: str = "stable",
    shape: Callable[[Document], Document] = lambda claim: claim,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Returned:
    """Make a deleted workspace's claim on its own volume; in another class where one is named.

    `shape` may add to the claim before it is made: what else was asked for.
    """
    name = section(volume["metadata"], "labels").get(WORKSPACE_LABEL, "")
    within = class_name or _used_in(volume)
    try:
        return _Return(api, volume, within, channel, shape=shape, now=now).take()
    except _Not as stop:
        return Returned(stop.outcome, name, str(stop))
    except RefusedError as refusal:
        return Returned("waiting" if refusal.passes else "refused", name, str(refusal))


class _Return:
    """One return, from the volume to the claim."""

    def __init__(
        self,
        api: Api,
        volume: Document,
        within: str,
        channel: str,
        *,
        shape: Callable[[Document], Document],
        now: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._volume = volume
        self._class = within
        self._space = namespace(within)
        self._channel = channel
        self._shape = shape
        self._now = now
        labels = section(volume["metadata"], "labels")
        self._owner, self._name = labels.get(USER_LABEL, ""), labels.get(WORKSPACE_LABEL, "")

    def take(self) -> Returned:
        if not self._owner or not self._name:
            raise _Not("refused", "the volume is nobody's")
        if self._stands():
            self._undate()
            return Returned("there", self._name)
        template = self._template()
        self._refuse_remains()
        self._lead()
        self._wait_for_it(template)
        self._lend(template)
        made = self._api.make(CLAIMS, self._claim(template))
        # Whoever takes away what nobody claims may have come in between.
        self._lend(template)
        self._undate(made=made)
        return Returned("made" if made else "there", self._name)

    def _stands(self) -> bool:
        found = self._api.find(CLAIMS, self._name, self._space)
        if found is None:
            return False
        if section(found["metadata"], "labels").get(USER_LABEL) != self._owner:
            raise _Not("refused", f"claim {self._name} is somebody else's")
        if found["metadata"].get("deletionTimestamp"):
            raise _Not("waiting", "what is left of it is on its way out")
        return True

    def _template(self) -> Document:
        """The template of the class's current release, on the volume's own file system where there is one."""
        constraints = self._api.find(CONFIGURATIONS, CONSTRAINTS, self._space)
        told = section(constraints or {}, "data").get(RELEASES_KEY, "")
        found = [self._api.find(TEMPLATES, name, self._space) for name in current_pools(told).get(self._channel, [])]
        there = [one for one in found if one is not None and not section(one["metadata"], "annotations").get(RETIRING)]
        if not there:
            raise _Not("refused", f"class {self._class} has no release of channel {self._channel} just now")
        wanted = self._volume["spec"].get("storageClassName")
        return next((one for one in there if _home(one).get("storageClassName") == wanted), there[0])

    def _refuse_remains(self) -> None:
        """Of an earlier sandbox of that name, whose volume claim has the name of the one to come."""
        if self._api.find(SANDBOXES, self._name, self._space) is not None:
            raise _Not("waiting", "its earlier sandbox is on its way out")
        found = self._api.find(VOLUME_CLAIMS, home_name(self._name), self._space)
        if found is None:
            return
        if found["metadata"].get("deletionTimestamp"):
            raise _Not("waiting", "its earlier volume claim is on its way out")
        if found["spec"].get("volumeName") != self._volume["metadata"]["name"]:
            raise _Not("refused", f"{home_name(self._name)} is there, with another volume")

    def _lead(self) -> None:
        """Have the volume wait for the volume claim to come."""
        about, spec = self._volume["metadata"], self._volume["spec"]
        if about.get("deletionTimestamp") or being_destroyed(self._volume):
            raise _Not("refused", DESTROYED)
        ref = section(spec, "claimRef")
        phase = section(self._volume, "status").get("phase")
        if phase == "Bound":
            if (ref.get("namespace"), ref.get("name")) == (self._space, home_name(self._name)):
                return
            raise _Not("waiting", f"{ref.get('namespace')}/{ref.get('name')} still has its volume")
        if phase not in {"Released", "Available"}:
            raise _Not("waiting", f"its volume is {phase}")
        changes = towards(self._volume, self._space, self._name)
        if changes:
            changes.setdefault("metadata", {})["annotations"] = {RETURNING_SINCE: written(self._now())}
        if changes and not self._api.change(VOLUMES, self._volume, changes):
            raise _Not("overtaken", "its volume was changed at the same time")

    def _wait_for_it(self, template: Document) -> None:
        """Make the volume claim, which names the volume and so never gets another."""
        volume = self._api.find(VOLUMES, self._volume["metadata"]["name"])
        if volume is None:
            raise _Not("refused", "its volume is gone")
        if destroy_requested(volume):
            raise _Not("refused", DESTROYED)
        self._volume = volume
        most = section(section(_home(template), "resources"), "requests").get("storage")
        self._api.make(VOLUME_CLAIMS, volume_claim(volume, self._space, self._name, most))
        found = self._api.find(VOLUME_CLAIMS, home_name(self._name), self._space)
        if found is None or found["spec"].get("volumeName") != volume["metadata"]["name"]:
            raise _Not("overtaken", "its volume claim was made by somebody else")

    def _lend(self, template: Document) -> None:
        """A template with the ids of the class that its home was made in, where that is another."""
        made_in = home_class(self._volume)
        if made_in == self._class:
            return
        for kind, document in zip((TEMPLATES, POOLS), lent(template, made_in, class_id(made_in)), strict=True):
            self._api.make(kind, document)

    def _claim(self, template: Document) -> Document:
        made_in = home_class(self._volume)
        claim = self._shape(claim_of(self._volume, self._class, template["metadata"]["name"]))
        if made_in != self._class:
            pool, _ = lent(template, made_in, class_id(made_in))
            claim["spec"]["warmPoolRef"]["name"] = pool["metadata"]["name"]
        return claim

    def _withdraw(self) -> None:
        """Delete the claim again: destruction was requested before it was there, and that wins."""
        while (claim := self._api.find(CLAIMS, self._name, self._space)) is not None:
            if claim["metadata"].get("deletionTimestamp") or self._api.remove(CLAIMS, claim):
                break
        raise _Not("refused", DESTROYED)

    def _undate(self, *, made: bool = False) -> None:
        """It was not deleted, after all. Whoever is killed before this is made up for by the loop of retention.

        So is one that is overtaken too often: just now its volume is bound, and the API server's controller writes it.
        """
        told = _dates(self._volume)
        for _ in range(OVERTAKEN_AT_MOST):
            volume = self._api.find(VOLUMES, self._volume["metadata"]["name"])
            # Other dates than were read are of somebody who has deleted or moved it since.
            if volume is None or _dates(volume) != told:
                if made and volume is not None and destroy_requested(volume):
                    self._withdraw()
                return
            changes = {**UNDATED, **_kept_again(volume)}
            marked = any(section(volume["metadata"], part).keys() & UNDATED["metadata"][part].keys() for part in _PARTS)
            if not (marked or len(changes) > 1) or self._api.change(VOLUMES, volume, changes):
                return


def give_up(api: Api, space: str, volume_claim_name: str, uid: str) -> bool:
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


def _dates(volume: Document) -> Document:
    """What a volume says of its deletion."""
    about = volume["metadata"]
    said = {**section(about, "labels"), **section(about, "annotations")}
    return {key: said[key] for key in (*DATES, *MARKS) if key in said}


def _kept_again(volume: Document) -> Document:
    """What takes back that a volume was given up, by a pass that did not see that somebody was coming back to it."""
    spec: Document = {}
    if section(volume["spec"], "claimRef").get("uid") == NOBODY:
        spec["claimRef"] = {"uid": None}
    if volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        spec["persistentVolumeReclaimPolicy"] = "Retain"
    return {"spec": spec} if spec else {}


def _used_in(volume: Document) -> str:
    told = section(volume["metadata"], "annotations").get(MOVING_TO)
    return told or str(section(volume["spec"], "claimRef").get("namespace", "")).removeprefix(namespace(""))


def _deleted_at(volume: Document) -> datetime:
    return moment(section(volume["metadata"], "annotations").get(DELETED_AT)) or _NEVER
