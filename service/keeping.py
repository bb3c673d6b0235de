"""Keeps what claimed sandboxes write: a slot's volume goes with its sandbox until somebody has it.

A slot is born with a volume that is deleted with it, so that slots which nobody claims leave nothing behind. Once one
is claimed its volume has to stay, whatever becomes of sandbox and claim: that is done before a workspace is handed over
(`keep`), and made up for where it was not (`keep_all`). The volume then says whose it is, for as long as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from model.capabilities.surroundings import CLASS_LABEL
from model.classes.names import CONSTRAINTS, HOME, KEPT, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from service.cluster import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    Api,
    Document,
    RefusedError,
    section,
)

# Kinds of storage by which a sandbox has a volume of its own.
WITH_SLOTS = ("slot", "shared")
WHOSE = (USER_LABEL, WORKSPACE_LABEL, MODE_LABEL, TASK_LABEL)

Find = Callable[..., Document | None]
Outcome = Literal["kept", "already", "waiting", "overtaken", "refused"]


@dataclass(frozen=True)
class Kept:
    """How it stands with the volume of one claim."""

    namespace: str
    claim: str
    outcome: Outcome
    volume: str = ""
    why: str = ""


def keep_all(cluster: Api) -> list[Kept]:
    """See to every claim of every class whose sandboxes have volumes."""
    found: list[Kept] = []
    for space in cluster.list(NAMESPACES, labels={CLASS_LABEL: None}):
        namespace = space["metadata"]["name"]
        constraints = cluster.find(CONFIGURATIONS, CONSTRAINTS, namespace)
        if section(constraints or {}, "data").get("storage") in WITH_SLOTS:
            claims = [*cluster.list(CLAIMS, namespace)]
            listed = _Listed(cluster, namespace)
            found += [keep(cluster, claim, listed.find) for claim in claims]
    return found


def keep(cluster: Api, claim: Document, find: Find | None = None) -> Kept:
    """Have the volume of a claim's sandbox stay; `find` is where to look things up, if not one by one.

    Only a claim of which this says `kept` or `already` may be handed over. What is done is done again without harm, and
    the claim is marked last: a pass that was killed is made up for by the next. The mark is for others to read; whether
    it is true is looked up every time, for a claim whose sandbox was lost gets another one, with another volume.
    """
    about: Document = claim["metadata"]
    namespace, name = about["namespace"], about["name"]
    volume = _volume_of(find or cluster.find, claim)
    if isinstance(volume, str):
        return Kept(namespace, name, "waiting", why=volume)
    try:
        return _kept(cluster, claim, volume)
    except RefusedError as refusal:
        if refusal.passes:
            raise
        # One that cannot be kept is no reason to lose the others.
        return Kept(namespace, name, "refused", volume["metadata"]["name"], str(refusal))


def _kept(cluster: Api, claim: Document, volume: Document) -> Kept:
    about: Document = claim["metadata"]
    namespace, name = about["namespace"], about["name"]
    own = volume["metadata"]["name"]
    changes = _changes(claim, volume)
    if changes and not cluster.change(VOLUMES, volume, changes):
        return Kept(namespace, name, "overtaken", own, "its volume was changed at the same time")
    marked = section(about, "annotations").get(KEPT) == "true"
    if not marked and not cluster.change(CLAIMS, claim, {"metadata": {"annotations": {KEPT: "true"}}}):
        return Kept(namespace, name, "overtaken", own, "it was changed at the same time")
    return Kept(namespace, name, "already" if marked and not changes else "kept", own)


class _Listed:
    """What of a class a pass looks up, listed once: three calls a claim would be too many for thousands of claims."""

    def __init__(self, cluster: Api, namespace: str) -> None:
        self._things: dict[tuple[object, str], Document] = {}
        for kind in (SANDBOXES, VOLUME_CLAIMS, VOLUMES):
            within = None if kind is VOLUMES else namespace
            self._things |= {(kind, one["metadata"]["name"]): one for one in cluster.list(kind, within)}

    def find(self, kind: object, name: str, namespace: str | None = None) -> Document | None:  # noqa: ARG002 - the same
        """One of them."""
        return self._things.get((kind, name))


def _volume_of(find: Find, claim: Document) -> Document | str:
    """The volume that a claim's sandbox has as its home, or why there is none yet."""
    about: Document = claim["metadata"]
    namespace = about["namespace"]
    chosen = section(section(claim, "status"), "sandbox").get("name")
    sandbox = find(SANDBOXES, chosen, namespace) if chosen else None
    if sandbox is None or not _owned(sandbox, about["uid"]):
        return "it has no sandbox yet"
    volume_claim = find(VOLUME_CLAIMS, f"{HOME}-{chosen}", namespace)
    bound = section(volume_claim or {}, "spec").get("volumeName")
    volume = find(VOLUMES, bound) if bound else None
    if volume_claim is None or volume is None:
        return "its sandbox has no volume yet"
    # By uid: a claim of the same name may have been there before, and its volume may be somebody else's.
    if section(volume["spec"], "claimRef").get("uid") != volume_claim["metadata"]["uid"]:
        return "its volume is not bound yet"
    return volume


def _changes(claim: Document, volume: Document) -> Document:
    """What of a volume is not yet as it has to be."""
    metadata = section(section(claim["spec"], "additionalPodMetadata"), "labels")
    whose = {key: metadata[key] for key in WHOSE if key in metadata}
    missing = whose.items() - section(volume["metadata"], "labels").items()
    changes: Document = {"metadata": {"labels": dict(missing)}} if missing else {}
    if volume["spec"]["persistentVolumeReclaimPolicy"] != "Retain":
        changes["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
    return changes


def _owned(thing: Document, uid: str) -> bool:
    owners: list[Document] = thing["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == uid for owner in owners)
