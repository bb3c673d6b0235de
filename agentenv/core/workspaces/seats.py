"""Declared seats: what a workspace of the stack is made of, and when it may not be made.

Everything follows from the seat's own name and owner, so that adding, removing and reordering others changes nothing.
Uid and gid follow from the name. The path follows from the owner too: whoever gets the name later gets another folder,
even where nobody noticed that files of somebody else were kept.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    HOME,
    MODE_LABEL,
    SANDBOXES,
    USER_LABEL,
    WORKSPACE_LABEL,
    namespace,
)
from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.values.posix_ids import seat_id
from agentenv.core.workspaces.claims import DO_NOT_DISRUPT

if TYPE_CHECKING:
    from agentenv.config.settings import Settings

Document = dict[str, Any]

FOLDER = "/seats"
BUDGET = "sandbox.users.io/budget"
# Beside the tags of every access point: by it, seats that nothing declares any more are found again.
SEAT_TAG, USER_TAG, CLASS_TAG = "sandbox-workspace", "sandbox-user", "sandbox-class"


@dataclass(frozen=True)
class SeatPlan:
    """One declared workspace."""

    name: str
    sandbox_class: str
    user: str
    size: str
    mode: str = "user"
    budget: str | None = None  # dollars a month

    @property
    def uid(self) -> int:
        """The user and group that it runs as, and that its access point enforces."""
        return seat_id(self.name)

    @property
    def path(self) -> str:
        """Its folder on the file system."""
        digest = b32encode(hashlib.sha256(self.user.encode()).digest()).decode().lower()[:8]
        return f"{FOLDER}/{self.name}-{digest}"

    @property
    def namespace(self) -> str:
        """Where it runs: beside the other sandboxes of its class, under the same policy and quota."""
        return namespace(self.sandbox_class)

    @property
    def claim(self) -> str:
        """Its PersistentVolumeClaim."""
        return f"{HOME}-{self.name}"

    @property
    def volume(self) -> str:
        """Its PersistentVolume; such names are the whole cluster's."""
        return f"seat-{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Whose it is, on everything of it."""
        return {
            CLASS_LABEL: self.sandbox_class,
            USER_LABEL: self.user,
            WORKSPACE_LABEL: self.name,
            MODE_LABEL: self.mode,
        }

    @property
    def tags(self) -> dict[str, str]:
        """The same on its access point."""
        return {SEAT_TAG: self.name, USER_TAG: self.user, CLASS_TAG: self.sandbox_class}


def seat_plans(settings: Settings) -> tuple[SeatPlan, ...]:
    """The seats that a stack declares, in their order."""
    classes = {one.name: one for one in settings.sandbox_classes}
    return tuple(
        SeatPlan(
            name=seat.name,
            sandbox_class=seat.class_,
            user=seat.user,
            size=str(seat.size or classes[seat.class_].storage.size),
            mode=seat.mode,
            budget=_dollars(seat.budget, classes[seat.class_].budget, settings.cost.per_user_cap),
        )
        for seat in settings.workspaces
    )


def _dollars(*amounts: object) -> str | None:
    return next((str(amount) for amount in amounts if amount is not None), None)


def volume(seat: SeatPlan, handle: Any) -> Document:
    """The volume: kept for this one claim alone, and left as it is when the claim goes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": seat.volume, "labels": seat.labels},
        "spec": {
            "capacity": {"storage": seat.size},
            "volumeMode": "Filesystem",
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            # The file system's policy takes no mount without TLS and without a role that it admits.
            "mountOptions": ["tls", "iam"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": seat.namespace,
                "name": seat.claim,
            },
            "csi": {"driver": DRIVER, "volumeHandle": handle},
        },
    }


def claim(seat: SeatPlan) -> Document:
    """The claim of that volume and of no other."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": seat.claim, "namespace": seat.namespace, "labels": seat.labels},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": seat.volume,
            "resources": {"requests": {"storage": seat.size}},
        },
    }


def sandbox(seat: SeatPlan, template: Mapping[str, Any]) -> Document:
    """The sandbox: the class's own, with the seat's ids and volume. Whether it sleeps is nobody's business here."""
    metadata: Document = {"name": seat.name, "namespace": seat.namespace, "labels": seat.labels}
    if seat.budget is not None:
        metadata["annotations"] = {BUDGET: seat.budget}
    return {
        "apiVersion": SANDBOXES,
        "kind": "Sandbox",
        "metadata": metadata,
        # Everything that a sandbox of the class has, but the claims for slots.
        "spec": {
            **{key: template[key] for key in ("service",) if key in template},
            "podTemplate": seat_pod_template(seat, template),
        },
    }


def seat_pod_template(seat: SeatPlan, template: Mapping[str, Any]) -> Document:
    """Return the pod template of a seat, from the spec that seats of its class are made from."""
    pod: Document = deepcopy(dict(template["podTemplate"]))
    metadata: Document = pod.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), **seat.labels}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), DO_NOT_DISRUPT: "true"}
    if seat.budget is not None:
        metadata["annotations"][BUDGET] = seat.budget
    spec: Document = pod["spec"]
    for context in _contexts(spec):
        context.update({key: seat.uid for key in ("runAsUser", "runAsGroup", "fsGroup") if key in context})
    spec["volumes"] = [*spec.get("volumes", []), {"name": HOME, "persistentVolumeClaim": {"claimName": seat.claim}}]
    return pod


def _contexts(spec: Document) -> Iterable[Document]:
    yield spec.setdefault("securityContext", {})
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        if "securityContext" in container:
            yield container["securityContext"]


@dataclass(frozen=True)
class RetainedSeat:
    """An access point of a seat that is there: in use, or left over from a seat that nothing declares any more."""

    seat: str
    user: str
    arn: str


def retained_seats(tagged: Mapping[str, Mapping[str, str]]) -> tuple[RetainedSeat, ...]:
    """The access points of seats among things with their tags, by ARN."""
    return tuple(
        RetainedSeat(tags[SEAT_TAG], tags.get(USER_TAG, ""), arn)
        for arn, tags in sorted(tagged.items())
        if SEAT_TAG in tags and ":access-point/" in arn
    )


def duplicate_seats(seats: Sequence[SeatPlan]) -> list[str]:
    """What is wrong with seats beside each other, each with the way out."""
    wrong: list[str] = []
    names: dict[str, SeatPlan] = {}
    uids: dict[int, SeatPlan] = {}
    for seat in seats:
        if seat.name in names:
            wrong.append(f"seat {seat.name} is declared twice: rename the one that has no data yet")
        elif (other := uids.get(seat.uid)) is not None:
            both = f"seats {other.name} and {seat.name} would both have uid {seat.uid}"
            wrong.append(f"{both}: rename the one that has no data yet")
        names.setdefault(seat.name, seat)
        uids.setdefault(seat.uid, seat)
    return wrong


def conflicting_seats(seats: Sequence[SeatPlan], kept: Sequence[RetainedSeat]) -> list[str]:
    """Seats whose name meets kept data of somebody else, each with the ways out."""
    users = {seat.name: seat.user for seat in seats}
    strange: dict[tuple[str, str], list[str]] = {}
    for one in kept:
        if one.seat in users and one.user != users[one.seat]:
            strange.setdefault((one.seat, one.user), []).append(one.arn.rpartition("/")[2])
    return [
        f"seat {name} is declared for {users[name]}, and {' and '.join(points)} keeps the data of {user or 'nobody'}"
        f" under that name: give the seat another name; or declare it for {user or 'its owner'} again; or, once nobody"
        f" wants that data, delete {' and '.join(points)}"
        for (name, user), points in sorted(strange.items())
    ]
