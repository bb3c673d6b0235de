"""Seats: the objects of workspaces that the stack declares, and conflicts between seats.

Everything derives from the seat's own name and owner, so adding, removing and reordering seats does not affect others.
The uid and gid derive from the name. The path derives from the owner too, so a later owner of the same name gets
another folder, even if the files of the earlier owner are retained.
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
from agentenv.core.classes.static_volumes import StaticVolume
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
    destroy_data: bool = False  # whether its access point is deleted with it

    @property
    def uid(self) -> int:
        """Return its uid and gid, which its access point enforces."""
        return seat_id(self.name)

    @property
    def path(self) -> str:
        """Return its folder on the file system."""
        digest = b32encode(hashlib.sha256(self.user.encode()).digest()).decode().lower()[:8]
        return f"{FOLDER}/{self.name}-{digest}"

    @property
    def namespace(self) -> str:
        """Return its namespace, that of its class."""
        return namespace(self.sandbox_class)

    @property
    def claim(self) -> str:
        """Return the name of its PersistentVolumeClaim."""
        return f"{HOME}-{self.name}"

    @property
    def volume(self) -> str:
        """Return the name of its PersistentVolume."""
        return f"seat-{self.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Return the labels of its objects."""
        return {
            CLASS_LABEL: self.sandbox_class,
            USER_LABEL: self.user,
            WORKSPACE_LABEL: self.name,
            MODE_LABEL: self.mode,
        }

    @property
    def tags(self) -> dict[str, str]:
        """Return the tags of its access point."""
        return {SEAT_TAG: self.name, USER_TAG: self.user, CLASS_TAG: self.sandbox_class}


def seat_plans(settings: Settings) -> tuple[SeatPlan, ...]:
    """Return the seats that a stack declares, in the order of the settings."""
    classes = {each.name: each for each in settings.sandbox_classes}
    return tuple(
        SeatPlan(
            name=seat.name,
            sandbox_class=seat.class_,
            user=seat.user,
            size=str(seat.size or classes[seat.class_].storage.size),
            mode=seat.mode,
            budget=_dollars(seat.budget, classes[seat.class_].budget, settings.cost.per_user_cap),
            destroy_data=seat.destroy_data,
        )
        for seat in settings.workspaces
    )


def _dollars(*amounts: object) -> str | None:
    return next((str(amount) for amount in amounts if amount is not None), None)


def volume(seat: SeatPlan, handle: Any) -> Document:
    """Return the volume, which is reserved for its claim and retained when the claim is deleted."""
    return _static_volume(seat).volume(handle)


def claim(seat: SeatPlan) -> Document:
    """Return the claim of the volume."""
    return _static_volume(seat).claim()


def _static_volume(seat: SeatPlan) -> StaticVolume:
    return StaticVolume(seat.volume, seat.namespace, seat.claim, seat.labels, seat.size)


def sandbox(seat: SeatPlan, template: Mapping[str, Any]) -> Document:
    """Return the Sandbox: the class's pod template with the seat's ids and volume, without an operating mode."""
    metadata: Document = {"name": seat.name, "namespace": seat.namespace, "labels": seat.labels}
    if seat.budget is not None:
        metadata["annotations"] = {BUDGET: seat.budget}
    return {
        "apiVersion": SANDBOXES,
        "kind": "Sandbox",
        "metadata": metadata,
        # All fields of the class's template except volume claims.
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
    """An existing access point of a seat, which may no longer be declared."""

    seat: str
    user: str
    arn: str


def retained_seats(tagged: Mapping[str, Mapping[str, str]]) -> tuple[RetainedSeat, ...]:
    """Return the access points of seats among tagged resources, by ARN."""
    return tuple(
        RetainedSeat(tags[SEAT_TAG], tags.get(USER_TAG, ""), arn)
        for arn, tags in sorted(tagged.items())
        if SEAT_TAG in tags and ":access-point/" in arn
    )


def duplicate_seats(seats: Sequence[SeatPlan]) -> list[str]:
    """Return the conflicts between declared seats, each with its fix."""
    conflicts: list[str] = []
    names: dict[str, SeatPlan] = {}
    uids: dict[int, SeatPlan] = {}
    for seat in seats:
        if seat.name in names:
            conflicts.append(f"seat {seat.name} is declared twice: rename the one that has no data yet")
        elif (other := uids.get(seat.uid)) is not None:
            both = f"seats {other.name} and {seat.name} would both have uid {seat.uid}"
            conflicts.append(f"{both}: rename the one that has no data yet")
        names.setdefault(seat.name, seat)
        uids.setdefault(seat.uid, seat)
    return conflicts


def conflicting_seats(seats: Sequence[SeatPlan], retained: Sequence[RetainedSeat]) -> list[str]:
    """Return the seats whose name has retained data of another owner, each with its fixes."""
    users = {seat.name: seat.user for seat in seats}
    points_of_others: dict[tuple[str, str], list[str]] = {}
    for point in retained:
        if point.seat in users and point.user != users[point.seat]:
            points_of_others.setdefault((point.seat, point.user), []).append(point.arn.rpartition("/")[2])
    return [
        f"seat {name} is declared for {users[name]}, and {' and '.join(points)} has the data of {user or 'no owner'}"
        f" under that name: give the seat another name; or declare it for {user or 'its owner'} again; or, if that data"
        f" is no longer needed, delete {' and '.join(points)}"
        for (name, user), points in sorted(points_of_others.items())
    ]
