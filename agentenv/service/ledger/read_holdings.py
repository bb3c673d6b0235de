"""Read who holds what from the cluster: claims, sandboxes, pods and volumes.

A pod belongs to an owner through its sandbox, and a sandbox through its claim, each by uid: names are reused. A warm
sandbox belongs to no owner until it is claimed.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from agentenv.core.classes.names import HOME, MODE_LABEL, TASK_LABEL, USER_LABEL, WORKSPACE_LABEL
from agentenv.core.ledger.holdings import EarlierRequests, Holding, Pod
from agentenv.core.ledger.rows import BYTES_A_GIB, NOTHING, VOLUME_PREFIX
from agentenv.core.lifecycle.restore import used_class
from agentenv.core.values.object_fields import (
    counted,
    owner_uids,
    parsed,
    read_amount,
    required,
    rows,
    strings,
    text,
)
from agentenv.core.values.quantities import Quantity
from agentenv.core.values.timestamps import parse_timestamp, parse_whole_second
from agentenv.core.workspaces.workspace import DELETED_AT, RESIZES
from agentenv.service.kube.client import Document, section
from agentenv.service.kube.unreadable import readable

_NAMESPACE_PREFIX = "sandbox-"
# The daily measured size of a volume, in bytes.
MEASURED = "sandbox.users.io/measured-bytes"
# The size that Fargate rounds a pod's requests up to and bills: "0.25vCPU 0.5GB".
_PROVISIONED = "CapacityProvisioned"


Documents = AsyncIterable[Document] | Iterable[Document]


@dataclass(frozen=True)
class ListedObjects:
    """The objects of the cluster that the ledger follows from."""

    claims: Documents
    sandboxes: Documents
    pods: Documents
    volume_claims: Documents
    volumes: Documents


@dataclass(frozen=True, slots=True)
class _Sandbox:
    """The facts of a sandbox that the ledger uses."""

    uid: str
    namespace: str
    home: str  # the claim of its volume
    asleep_since: datetime | None


@dataclass(frozen=True, slots=True)
class _Home:
    """The facts of a persistent volume claim that the ledger uses."""

    volume: str
    gib: Decimal


async def holdings(listed: ListedObjects) -> list[Holding]:
    """Return who holds what. Documents are dropped as they are read: there may be tens of thousands."""
    pods: dict[str, list[Pod]] = {}
    async for document, pod in readable("Pod", listed.pods, _pod):
        if pod is not None:
            for owner in owner_uids(document):
                pods.setdefault(owner, []).append(pod)
    volume_rows = readable("PersistentVolume", listed.volumes, _named_volume)
    volumes = {name: volume async for _, (name, volume) in volume_rows}
    home_rows = readable("PersistentVolumeClaim", listed.volume_claims, _named_home)
    homes = {name: home async for _, (name, home) in home_rows}
    sandboxes: dict[str, _Sandbox] = {}
    result: list[Holding] = []
    held_volumes: set[str] = set()

    def add_holding(holder: Document, labels: Mapping[str, str], sandbox_: _Sandbox | None) -> None:
        home = None if sandbox_ is None else homes.get((sandbox_.namespace, sandbox_.home))
        own_pods = [] if sandbox_ is None else pods.get(sandbox_.uid, [])
        holding = _holding(holder, labels, sandbox_, own_pods, home or _Home("", NOTHING))
        if holding.volume:
            held_volumes.add(holding.volume)
            measured, deleted = volumes.get(holding.volume, (None, None))
            holding = replace(holding, measured_gib=measured)
            # A claim may take long to be deleted; its volume records when the deletion began, unless of an earlier one.
            if deleted is not None and holder["metadata"].get("deletionTimestamp") and deleted.since >= holding.since:
                holding = replace(holding, ended=deleted.since)
        result.append(holding)

    async for sandbox, sandbox_ in readable("Sandbox", listed.sandboxes, _sandbox):
        owners = owner_uids(sandbox)
        sandboxes |= dict.fromkeys(owners, sandbox_)
        labels = strings(section(section(section(sandbox, "spec"), "podTemplate"), "metadata"), "labels")
        # A workspace declared in the stack has an owner but no claim.
        if not owners and labels.get(USER_LABEL):
            async for seat, _ in readable("Sandbox", [sandbox], _holder):
                add_holding(seat, labels, sandbox_)
    async for claim, uid in readable("SandboxClaim", listed.claims, _holder):
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
    resizes = _resizes(metadata)
    return Holding(
        owner=labels[USER_LABEL],
        claim=metadata["uid"],
        sandbox_class=metadata["namespace"].removeprefix(_NAMESPACE_PREFIX),
        workspace=labels.get(WORKSPACE_LABEL) or metadata["name"],
        since=parse_whole_second(metadata["creationTimestamp"]),
        mode=labels.get(MODE_LABEL, "user"),
        task=labels.get(TASK_LABEL, ""),
        pods=tuple(replace(pod, earlier=resizes) for pod in sorted(pods, key=lambda pod: pod.began)),
        asleep_since=sandbox.asleep_since if sandbox else None,
        storage_gib=home.gib,
        volume=home.volume,
    )


def _resizes(metadata: Document) -> tuple[EarlierRequests, ...]:
    """Return what the pods of a claim requested before they were resized, by time."""
    resizes: list[EarlierRequests] = []
    for row in rows({"rows": parsed(text(section(metadata, "annotations"), RESIZES))}, "rows"):
        until = parse_timestamp(row.get("until"))
        if until is not None:
            resizes.append(EarlierRequests(until, _amount(row.get("cpu")), _amount(row.get("memory")) / BYTES_A_GIB))
    return tuple(sorted(resizes, key=lambda row: row.until))


def _holder(document: Document) -> str:
    """Return the uid of an object that has everything that identifies a holding."""
    for key in ("name", "namespace", "creationTimestamp"):
        required(document, "metadata", key)
    parse_whole_second(document["metadata"]["creationTimestamp"])
    return required(document, "metadata", "uid")


def _named_volume(volume: Document) -> tuple[str, tuple[Decimal | None, Holding | None]]:
    return required(volume, "metadata", "name"), _volume(volume)


def _named_home(claim: Document) -> tuple[tuple[str, str], _Home]:
    return (required(claim, "metadata", "namespace"), required(claim, "metadata", "name")), _home(claim)


def _volume(volume: Document) -> tuple[Decimal | None, Holding | None]:
    """Return a volume's measured size, and the holding of its owner where its workspace was deleted."""
    metadata, spec = section(volume, "metadata"), section(volume, "spec")
    labels, annotations = strings(metadata, "labels"), strings(metadata, "annotations")
    measured_bytes, since = counted(annotations.get(MEASURED)), parse_timestamp(annotations.get(DELETED_AT))
    measured = None if measured_bytes is None else Decimal(measured_bytes) / BYTES_A_GIB
    # The retention loop dates a volume without a date; the holding begins then.
    if since is None or not labels.get(USER_LABEL):
        return measured, None
    since = since.astimezone(UTC).replace(microsecond=0)
    return measured, Holding(
        owner=labels[USER_LABEL],
        claim=f"{VOLUME_PREFIX}{required(volume, 'metadata', 'uid')}",
        sandbox_class=used_class(volume),
        # The shared volume of a task belongs to no single workspace.
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
    """Return the volume claim of a sandbox's home: from its template, or named in its volumes."""
    volumes = rows(section(section(section(sandbox, "spec"), "podTemplate"), "spec"), "volumes")
    claim_names = (
        text(section(volume, "persistentVolumeClaim"), "claimName") for volume in volumes if volume.get("name") == HOME
    )
    return next((name for name in claim_names if name), f"{HOME}-{required(sandbox, 'metadata', 'name')}")


def _sandbox(sandbox: Document) -> _Sandbox:
    uid, namespace = required(sandbox, "metadata", "uid"), required(sandbox, "metadata", "namespace")
    return _Sandbox(uid, namespace, home_of(sandbox), _asleep(sandbox))


def _home(claim: Document) -> _Home:
    spec = section(claim, "spec")
    requested = section(section(spec, "resources"), "requests").get("storage")
    return _Home(text(spec, "volumeName"), _amount(requested) / BYTES_A_GIB)


def _pod(pod: Document) -> Pod | None:
    """Return a pod from when it was scheduled; a pod that waits for a node costs nothing."""
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
    """Return when the last container ended, for a pod that will not run again."""
    if status.get("phase") not in {"Succeeded", "Failed"}:
        return None
    containers = rows(status, "containerStatuses")
    ends = [
        parse_timestamp(section(section(container, "state"), "terminated").get("finishedAt"))
        for container in containers
    ]
    return max((parse_whole_second(end.isoformat()) for end in ends if end), default=None)


def _requests(spec: Document) -> tuple[Decimal, Decimal]:
    """Return the requested cores and bytes, with the overhead of its runtime class."""
    requests = [section(section(request, "resources"), "requests") for request in rows(spec, "containers")]
    requests.append(section(spec, "overhead"))
    cores = sum((_amount(request.get("cpu")) for request in requests), NOTHING)
    return cores, sum((_amount(request.get("memory")) for request in requests), NOTHING)


def _provisioned(text: str) -> tuple[Decimal, Decimal] | None:
    cores, _, memory = text.partition(" ")
    size = read_amount(cores.removesuffix("vCPU")), read_amount(memory.removesuffix("GB"))
    return None if size[0] is None or size[1] is None else (size[0], size[1] * BYTES_A_GIB)


def _asleep(sandbox: Document) -> datetime | None:
    """Return since when a sandbox is suspended and has no pod."""
    if section(sandbox, "spec").get("operatingMode") != "Suspended":
        return None
    return _since(section(sandbox, "status"), "Suspended")


def _since(status: Document, kind: str) -> datetime | None:
    """Return since when a condition is true."""
    for condition in rows(status, "conditions"):
        since = parse_timestamp(condition.get("lastTransitionTime"))
        if condition.get("type") == kind and condition.get("status") == "True" and since:
            return parse_whole_second(since.isoformat())
    return None


def _amount(amount: object) -> Decimal:
    """Return a quantity; zero where it is missing or cannot be parsed."""
    try:
        return Quantity.parse(str(amount)).value if isinstance(amount, str | int) and amount else NOTHING
    except ValueError:
        return NOTHING
