"""What is held, read from what the cluster says: claims, sandboxes, pods and volumes, with nothing of our own beside.

A pod is somebody's by its sandbox, and a sandbox by its claim, each by uid: a name may have been somebody else's. What
ran warm before it was claimed is nobody's yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from model.classes.names import HOME, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from model.holdings import Holding, Pod
from model.ledger import BYTES_A_GIB, NOTHING, VOLUME_PREFIX
from model.moments import moment, whole_second
from model.quantities import Quantity
from model.workspaces import DELETED_AT
from service.cluster import Document, section

_SPACE_PREFIX = "sandbox-"
# What the daily measuring found on a volume, in bytes.
MEASURED = "sandbox.users.io/measured-bytes"
# What Fargate made of a pod's requests, and what it is billed by: "0.25vCPU 0.5GB".
_PROVISIONED = "CapacityProvisioned"


@dataclass(frozen=True)
class Listed:
    """Everything of the cluster that the ledger follows from, as it was listed."""

    claims: Iterable[Document]
    sandboxes: Iterable[Document]
    pods: Iterable[Document]
    volume_claims: Iterable[Document]
    volumes: Iterable[Document]


@dataclass(frozen=True, slots=True)
class _Box:
    """A sandbox, as far as the ledger goes by it."""

    uid: str
    space: str
    home: str  # the claim of its volume
    asleep_since: datetime | None


@dataclass(frozen=True, slots=True)
class _Home:
    """A claim of a volume."""

    volume: str
    gib: Decimal


def holdings(listed: Listed) -> list[Holding]:
    """Who holds what. Documents are let go as they are read: there may be tens of thousands."""
    pods: dict[str, list[Pod]] = {}
    for document in listed.pods:
        if (pod := _pod(document)) is not None:
            for owner in _owners(document):
                pods.setdefault(owner, []).append(pod)
    volumes = {one["metadata"]["name"]: _volume(one) for one in listed.volumes}
    homes = {(one["metadata"]["namespace"], one["metadata"]["name"]): _home(one) for one in listed.volume_claims}
    boxes: dict[str, _Box] = {}
    found: list[Holding] = []
    held: set[str] = set()

    def hold(whose: Document, labels: Mapping[str, str], box: _Box | None) -> None:
        home = None if box is None else homes.get((box.space, box.home))
        its_pods = [] if box is None else pods.get(box.uid, [])
        holding = _holding(whose, labels, box, its_pods, home or _Home("", NOTHING))
        if holding.volume:
            held.add(holding.volume)
            measured, _ = volumes.get(holding.volume, (None, None))
            holding = replace(holding, measured_gib=measured)
        found.append(holding)

    for sandbox in listed.sandboxes:
        box, owners = _box(sandbox), _owners(sandbox)
        boxes |= dict.fromkeys(owners, box)
        labels = section(section(section(sandbox["spec"], "podTemplate"), "metadata"), "labels")
        # A declared seat is nobody's claim, and still somebody's.
        if not owners and labels.get(USER_LABEL):
            hold(sandbox, labels, box)
    for claim in listed.claims:
        labels = section(section(claim["spec"], "additionalPodMetadata"), "labels")
        if labels.get(USER_LABEL):
            hold(claim, labels, boxes.get(claim["metadata"]["uid"]))
    return [*found, *(kept for name, (_, kept) in volumes.items() if kept is not None and name not in held)]


def _holding(whose: Document, labels: Mapping[str, str], box: _Box | None, pods: Iterable[Pod], home: _Home) -> Holding:
    about = whose["metadata"]
    return Holding(
        owner=labels[USER_LABEL],
        claim=about["uid"],
        sandbox_class=about["namespace"].removeprefix(_SPACE_PREFIX),
        workspace=labels.get(WORKSPACE_LABEL) or about["name"],
        since=whole_second(about["creationTimestamp"]),
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL, ""),
        pods=tuple(sorted(pods, key=lambda pod: pod.began)),
        asleep_since=box.asleep_since if box else None,
        storage_gib=home.gib,
        volume=home.volume,
    )


def _volume(volume: Document) -> tuple[Decimal | None, Holding | None]:
    """What was measured on a volume, and whose data it is where its workspace was deleted and the data is kept."""
    about, spec = volume["metadata"], volume["spec"]
    labels, notes = section(about, "labels"), section(about, "annotations")
    said, since = notes.get(MEASURED), moment(notes.get(DELETED_AT))
    measured = Decimal(said) / BYTES_A_GIB if said and said.isdecimal() else None
    # Whoever keeps volumes dates one anew that says nothing of when: it is found again by that.
    if since is None or not labels.get(USER_LABEL):
        return measured, None
    since = since.astimezone(UTC).replace(microsecond=0)
    return measured, Holding(
        owner=labels[USER_LABEL],
        claim=f"{VOLUME_PREFIX}{about['uid']}",
        sandbox_class=section(spec, "claimRef").get("namespace", "").removeprefix(_SPACE_PREFIX),
        # What the sandboxes of a task shared was of none of them.
        workspace=labels.get(WORKSPACE_LABEL) or section(spec, "claimRef").get("name", ""),
        since=since,
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL, ""),
        asleep_since=since,
        storage_gib=_amount(section(spec, "capacity").get("storage")) / BYTES_A_GIB,
        measured_gib=measured,
        volume=about["name"],
    )


def home_of(sandbox: Document) -> str:
    """The claim of a sandbox's home: its own by its template, or one that it was given by name."""
    volumes: list[Document] = section(section(sandbox["spec"], "podTemplate"), "spec").get("volumes") or []
    named = (section(one, "persistentVolumeClaim").get("claimName") for one in volumes if one.get("name") == HOME)
    return next((name for name in named if name), f"{HOME}-{sandbox['metadata']['name']}")


def _box(sandbox: Document) -> _Box:
    about = sandbox["metadata"]
    return _Box(about["uid"], about["namespace"], home_of(sandbox), _asleep(sandbox))


def _home(claim: Document) -> _Home:
    spec = claim["spec"]
    asked = section(section(spec, "resources"), "requests").get("storage")
    return _Home(spec.get("volumeName") or "", _amount(asked) / BYTES_A_GIB)


def _pod(pod: Document) -> Pod | None:
    """A pod from when it had a place on a node; one that waits for a node costs nobody anything."""
    status = section(pod, "status")
    placed = _since(status, "PodScheduled")
    if placed is None:
        return None
    provisioned = _provisioned(section(pod["metadata"], "annotations").get(_PROVISIONED) or "")
    cores, memory = provisioned or _requests(pod["spec"])
    return Pod(
        uid=pod["metadata"]["uid"], began=placed, ended=_ended(status), cores=cores, memory_gib=memory / BYTES_A_GIB
    )


def _ended(status: Document) -> datetime | None:
    """When the last of it ended, for a pod that will not run again: its node has its place back from then on."""
    if status.get("phase") not in {"Succeeded", "Failed"}:
        return None
    containers: list[Document] = status.get("containerStatuses") or []
    ends = [section(section(one, "state"), "terminated").get("finishedAt") for one in containers]
    return max((whole_second(end) for end in ends if end), default=None)


def _requests(spec: Document) -> tuple[Decimal, Decimal]:
    """Cores and bytes that are set aside for it, with what its wall takes."""
    asked = [section(section(one, "resources"), "requests") for one in spec.get("containers", [])]
    asked.append(section(spec, "overhead"))
    cores = sum((_amount(one.get("cpu")) for one in asked), NOTHING)
    return cores, sum((_amount(one.get("memory")) for one in asked), NOTHING)


def _provisioned(text: str) -> tuple[Decimal, Decimal] | None:
    cores, _, memory = text.partition(" ")
    try:
        size = Decimal(cores.removesuffix("vCPU")), Decimal(memory.removesuffix("GB"))
    except InvalidOperation:
        return None
    return (size[0], size[1] * BYTES_A_GIB) if all(part.is_finite() and part >= 0 for part in size) else None


def _asleep(sandbox: Document) -> datetime | None:
    """Since when it has no pod because it is to have none."""
    if section(sandbox, "spec").get("operatingMode") != "Suspended":
        return None
    return _since(section(sandbox, "status"), "Suspended")


def _since(status: Document, kind: str) -> datetime | None:
    """Since when a condition holds."""
    conditions: list[Document] = status.get("conditions") or []
    for one in conditions:
        if one.get("type") == kind and one.get("status") == "True" and one.get("lastTransitionTime"):
            return whole_second(one["lastTransitionTime"])
    return None


def _owners(thing: Document) -> list[str]:
    owners: list[dict[str, Any]] = thing["metadata"].get("ownerReferences") or []
    return [owner["uid"] for owner in owners]


def _amount(text: object) -> Decimal:
    """A quantity; nothing where there is none, or one that only Kubernetes can read."""
    try:
        return Quantity.parse(str(text)).value if text else NOTHING
    except ValueError:
        return NOTHING
