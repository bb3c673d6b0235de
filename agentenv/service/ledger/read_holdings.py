"""What is held, read from what the cluster says: claims, sandboxes, pods and volumes, with nothing of our own beside.

A pod is somebody's by its sandbox, and a sandbox by its claim, each by uid: a name may have been somebody else's. What
ran warm before it was claimed is nobody's yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from agentenv.core.classes.names import HOME, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.ledger.holdings import Holding, Pod
from agentenv.core.ledger.rows import BYTES_A_GIB, NOTHING, VOLUME_PREFIX
from agentenv.core.values.object_fields import counted, owner_uids, read_amount, required, rows, strings, text
from agentenv.core.values.quantities import Quantity
from agentenv.core.values.timestamps import parse_timestamp, parse_whole_second
from agentenv.core.workspaces.workspace import DELETED_AT
from agentenv.service.kube.sync_client import Document, section
from agentenv.service.kube.unreadable import readable

_SPACE_PREFIX = "sandbox-"
# What the daily measuring found on a volume, in bytes.
MEASURED = "sandbox.users.io/measured-bytes"
# What Fargate made of a pod's requests, and what it is billed by: "0.25vCPU 0.5GB".
_PROVISIONED = "CapacityProvisioned"


@dataclass(frozen=True)
class ListedObjects:
    """Everything of the cluster that the ledger follows from, as it was listed."""

    claims: Iterable[Document]
    sandboxes: Iterable[Document]
    pods: Iterable[Document]
    volume_claims: Iterable[Document]
    volumes: Iterable[Document]


@dataclass(frozen=True, slots=True)
class _Sandbox:
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


def holdings(listed: ListedObjects) -> list[Holding]:
    """Who holds what. Documents are let go as they are read: there may be tens of thousands."""
    pods: dict[str, list[Pod]] = {}
    for document, pod in readable("Pod", listed.pods, _pod):
        if pod is not None:
            for owner in owner_uids(document):
                pods.setdefault(owner, []).append(pod)
    volumes = dict(row for _, row in readable("PersistentVolume", listed.volumes, _named_volume))
    homes = dict(row for _, row in readable("PersistentVolumeClaim", listed.volume_claims, _named_home))
    sandboxes: dict[str, _Sandbox] = {}
    result: list[Holding] = []
    held_volumes: set[str] = set()

    def add_holding(holder: Document, labels: Mapping[str, str], sandbox_: _Sandbox | None) -> None:
        home = None if sandbox_ is None else homes.get((sandbox_.space, sandbox_.home))
        own_pods = [] if sandbox_ is None else pods.get(sandbox_.uid, [])
        holding = _holding(holder, labels, sandbox_, own_pods, home or _Home("", NOTHING))
        if holding.volume:
            held_volumes.add(holding.volume)
            measured, deleted = volumes.get(holding.volume, (None, None))
            holding = replace(holding, measured_gib=measured)
            # A claim may take long to go; its volume has recorded when it was deleted, if not of an earlier deletion.
            if deleted is not None and holder["metadata"].get("deletionTimestamp") and deleted.since >= holding.since:
                holding = replace(holding, ended=deleted.since)
        result.append(holding)

    for sandbox, sandbox_ in readable("Sandbox", listed.sandboxes, _sandbox):
        owners = owner_uids(sandbox)
        sandboxes |= dict.fromkeys(owners, sandbox_)
        labels = strings(section(section(section(sandbox, "spec"), "podTemplate"), "metadata"), "labels")
        # A declared seat is nobody's claim, and still somebody's.
        if not owners and labels.get(USER_LABEL):
            for seat, _ in readable("Sandbox", [sandbox], _holder):
                add_holding(seat, labels, sandbox_)
    for claim, uid in readable("SandboxClaim", listed.claims, _holder):
        labels = strings(section(section(claim, "spec"), "additionalPodMetadata"), "labels")
        if labels.get(USER_LABEL):
            add_holding(claim, labels, sandboxes.get(uid))
    return [
        *result,
        *(retained for name, (_, retained) in volumes.items() if retained is not None and name not in held_volumes),
    ]


def _holding(
    holder: Document, labels: Mapping[str, str], sandbox: _Sandbox | None, pods: Iterable[Pod], home: _Home
) -> Holding:
    metadata = holder["metadata"]
    return Holding(
        owner=labels[USER_LABEL],
        claim=metadata["uid"],
        sandbox_class=metadata["namespace"].removeprefix(_SPACE_PREFIX),
        workspace=labels.get(WORKSPACE_LABEL) or metadata["name"],
        since=parse_whole_second(metadata["creationTimestamp"]),
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL, ""),
        pods=tuple(sorted(pods, key=lambda pod: pod.began)),
        asleep_since=sandbox.asleep_since if sandbox else None,
        storage_gib=home.gib,
        volume=home.volume,
    )


def _holder(document: Document) -> str:
    """The uid of an object that has all that a holding is known by."""
    for key in ("name", "namespace", "creationTimestamp"):
        required(document, "metadata", key)
    parse_whole_second(document["metadata"]["creationTimestamp"])
    return required(document, "metadata", "uid")


def _named_volume(volume: Document) -> tuple[str, tuple[Decimal | None, Holding | None]]:
    return required(volume, "metadata", "name"), _volume(volume)


def _named_home(claim: Document) -> tuple[tuple[str, str], _Home]:
    return (required(claim, "metadata", "namespace"), required(claim, "metadata", "name")), _home(claim)


def _volume(volume: Document) -> tuple[Decimal | None, Holding | None]:
    """What was measured on a volume, and whose data it is where its workspace was deleted and the data is kept."""
    metadata, spec = section(volume, "metadata"), section(volume, "spec")
    labels, annotations = strings(metadata, "labels"), strings(metadata, "annotations")
    measured_bytes, since = counted(annotations.get(MEASURED)), parse_timestamp(annotations.get(DELETED_AT))
    measured = None if measured_bytes is None else Decimal(measured_bytes) / BYTES_A_GIB
    # Whoever keeps volumes dates one anew that says nothing of when: it is found again by that.
    if since is None or not labels.get(USER_LABEL):
        return measured, None
    since = since.astimezone(UTC).replace(microsecond=0)
    return measured, Holding(
        owner=labels[USER_LABEL],
        claim=f"{VOLUME_PREFIX}{required(volume, 'metadata', 'uid')}",
        sandbox_class=text(section(spec, "claimRef"), "namespace").removeprefix(_SPACE_PREFIX),
        # What the sandboxes of a task shared was of none of them.
        workspace=labels.get(WORKSPACE_LABEL) or text(section(spec, "claimRef"), "name"),
        since=since,
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL, ""),
        asleep_since=since,
        storage_gib=_amount(section(spec, "capacity").get("storage")) / BYTES_A_GIB,
        measured_gib=measured,
        volume=required(volume, "metadata", "name"),
    )


def home_of(sandbox: Document) -> str:
    """The claim of a sandbox's home: its own by its template, or one that it was given by name."""
    volumes = rows(section(section(section(sandbox, "spec"), "podTemplate"), "spec"), "volumes")
    claim_names = (
        text(section(volume, "persistentVolumeClaim"), "claimName") for volume in volumes if volume.get("name") == HOME
    )
    return next((name for name in claim_names if name), f"{HOME}-{required(sandbox, 'metadata', 'name')}")


def _sandbox(sandbox: Document) -> _Sandbox:
    uid, space = required(sandbox, "metadata", "uid"), required(sandbox, "metadata", "namespace")
    return _Sandbox(uid, space, home_of(sandbox), _asleep(sandbox))


def _home(claim: Document) -> _Home:
    spec = section(claim, "spec")
    requested = section(section(spec, "resources"), "requests").get("storage")
    return _Home(text(spec, "volumeName"), _amount(requested) / BYTES_A_GIB)


def _pod(pod: Document) -> Pod | None:
    """A pod from when it had a place on a node; one that waits for a node costs nobody anything."""
    status = section(pod, "status")
    placed = _since(status, "PodScheduled")
    if placed is None:
        return None
    provisioned = _provisioned(text(section(section(pod, "metadata"), "annotations"), _PROVISIONED))
    cores, memory = provisioned or _requests(section(pod, "spec"))
    return Pod(
        uid=required(pod, "metadata", "uid"),
        began=placed,
        ended=_ended(status),
        cores=cores,
        memory_gib=memory / BYTES_A_GIB,
    )


def _ended(status: Document) -> datetime | None:
    """When the last of it ended, for a pod that will not run again: its node has its place back from then on."""
    if status.get("phase") not in {"Succeeded", "Failed"}:
        return None
    containers = rows(status, "containerStatuses")
    ends = [
        parse_timestamp(section(section(container, "state"), "terminated").get("finishedAt"))
        for container in containers
    ]
    return max((parse_whole_second(end.isoformat()) for end in ends if end), default=None)


def _requests(spec: Document) -> tuple[Decimal, Decimal]:
    """Cores and bytes that are set aside for it, with what its wall takes."""
    requests = [section(section(request, "resources"), "requests") for request in rows(spec, "containers")]
    requests.append(section(spec, "overhead"))
    cores = sum((_amount(request.get("cpu")) for request in requests), NOTHING)
    return cores, sum((_amount(request.get("memory")) for request in requests), NOTHING)


def _provisioned(text: str) -> tuple[Decimal, Decimal] | None:
    cores, _, memory = text.partition(" ")
    size = read_amount(cores.removesuffix("vCPU")), read_amount(memory.removesuffix("GB"))
    return None if size[0] is None or size[1] is None else (size[0], size[1] * BYTES_A_GIB)


def _asleep(sandbox: Document) -> datetime | None:
    """Since when it has no pod because it is to have none."""
    if section(sandbox, "spec").get("operatingMode") != "Suspended":
        return None
    return _since(section(sandbox, "status"), "Suspended")


def _since(status: Document, kind: str) -> datetime | None:
    """Since when a condition holds."""
    for condition in rows(status, "conditions"):
        since = parse_timestamp(condition.get("lastTransitionTime"))
        if condition.get("type") == kind and condition.get("status") == "True" and since:
            return parse_whole_second(since.isoformat())
    return None


def _amount(amount: object) -> Decimal:
    """A quantity; nothing where there is none, or one that only Kubernetes can read."""
    try:
        return Quantity.parse(str(amount)).value if isinstance(amount, str | int) and amount else NOTHING
    except ValueError:
        return NOTHING
