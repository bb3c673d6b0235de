"""Retain the volumes of claimed sandboxes: until a sandbox is claimed, its volume is deleted with it.

A slot is created with the reclaim policy Delete, so that a slot that nobody claims leaves no volume. A claimed slot's
volume is retained, whatever happens to sandbox and claim. That is done before a workspace is handed over
(`retain_volume`), and by a loop after an interruption (`retain_all_volumes`). From then on the volume has its owner's
labels. A volume with another owner's labels is never handed over or changed, however a sandbox got it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    CONSTRAINTS,
    HOME,
    MODE_LABEL,
    TASK_LABEL,
    USER_LABEL,
    VOLUME_RETAINED,
    WORKSPACE_LABEL,
)
from agentenv.core.values.object_fields import owner_uids, required, strings, text
from agentenv.core.workspaces.records import has_other_owner
from agentenv.service.kube.client import (
    CLAIMS,
    CONFIGURATIONS,
    NAMESPACES,
    SANDBOXES,
    VOLUME_CLAIMS,
    VOLUMES,
    Document,
    KubeApi,
    KubeApiError,
    section,
)
from agentenv.service.kube.project_fields import project_fields
from agentenv.service.kube.unreadable import ODD, key_of, readable
from agentenv.service.telemetry.logs import audit
from agentenv.service.workspaces import shared_volumes

# The storage kinds with a volume per sandbox.
WITH_SLOTS = ("slot", "shared")
OWNER_LABELS = (USER_LABEL, WORKSPACE_LABEL, MODE_LABEL, TASK_LABEL)
# The fields of a claim that a pass needs.
PROJECTED_FIELDS = (
    *(("metadata", key) for key in ("namespace", "name", "uid", "resourceVersion")),
    ("metadata", "annotations", VOLUME_RETAINED),
    *(("spec", "additionalPodMetadata", "labels", key) for key in OWNER_LABELS),
    ("status", "sandbox", "name"),
)

# The message does not contain the other owner's name.
FOREIGN_VOLUME = "its volume belongs to another owner"

Outcome = Literal["kept", "already", "waiting", "overtaken", "refused"]


class HomeObjects(NamedTuple):
    """A sandbox, the volume claim of its home and the volume, as far as they exist."""

    sandbox: Document | None = None
    volume_claim: Document | None = None
    volume: Document | None = None


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """The result for the volume of one claim."""

    namespace: str
    claim: str
    outcome: Outcome
    volume: str = ""
    why: str = ""
    foreign: bool = False  # refused because the volume belongs to another owner


async def retain_all_volumes(cluster: KubeApi) -> list[RetentionResult]:
    """Retain the volumes of all claims, in every class whose sandboxes have volumes."""
    results: list[RetentionResult] = []
    async for namespace_object in cluster.list(NAMESPACES, labels={CLASS_LABEL: None}):
        namespace = namespace_object["metadata"]["name"]
        constraints = await cluster.find(CONFIGURATIONS, CONSTRAINTS, namespace)
        if section(constraints or {}, "data").get("storage") in WITH_SLOTS:
            listed = await _ClassObjects.read(cluster, namespace)
            # The list is completed before any write, so that its continue token does not expire. Only the claims that
            # need a write are kept, with few fields.
            claims = readable("SandboxClaim", cluster.list(CLAIMS, namespace), listed.settled_result)
            pending = [
                row if isinstance(row, RetentionResult) else project_fields(claim, PROJECTED_FIELDS)
                async for claim, row in claims
            ]
            results += [
                row if isinstance(row, RetentionResult) else await retain_volume(cluster, row, listed)
                for row in pending
            ]
            async for shared in cluster.list(VOLUME_CLAIMS, namespace, {TASK_LABEL: None, USER_LABEL: None}):
                results += await _shared(cluster, namespace, shared)
    return results


async def _shared(cluster: KubeApi, namespace: str, volume_claim: Document) -> list[RetentionResult]:
    """Retain the shared volume of a task; return a result only if that failed."""
    _, name = key_of(volume_claim)
    try:
        await shared_volumes.retain(cluster, volume_claim)
    except KubeApiError as refusal:
        if refusal.transient:
            raise
        return [RetentionResult(namespace, name, "refused", why=str(refusal))]
    except ODD as failure:
        return [RetentionResult(namespace, name, "refused", why=f"it cannot be read: {type(failure).__name__}")]
    return []


async def retain_volume(cluster: KubeApi, claim: Document, listed: _ClassObjects | None = None) -> RetentionResult:
    """Retain the volume of a claim's sandbox; `listed` has the objects of its class, if they were listed.

    Only a claim with the outcome `kept` or `already` may be handed over. Repeating it does no harm. The claim is
    annotated last, so the next pass completes an interrupted one. The annotation is for other readers, and is verified
    each time: a claim whose sandbox was lost gets another one, with another volume.
    """
    metadata: Document = claim["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    home = listed.home(claim) if listed else await read_home(cluster, namespace, sandbox_name(claim))
    volume = volume_of(required(claim, "metadata", "uid"), home)
    if isinstance(volume, str):
        return RetentionResult(namespace, name, "waiting", why=volume)
    try:
        return await _retain(cluster, claim, volume)
    except KubeApiError as refusal:
        if refusal.transient:
            raise
        # One volume that cannot be retained does not stop the others.
        return RetentionResult(namespace, name, "refused", volume["metadata"]["name"], str(refusal))


async def _retain(cluster: KubeApi, claim: Document, volume: Document) -> RetentionResult:
    metadata: Document = claim["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    volume_name = volume["metadata"]["name"]
    retained = await retain_for(cluster, owner_labels(claim), volume)
    if retained == "foreign":
        audit_foreign_volume(volume, owner_labels(claim).get(USER_LABEL, ""), namespace, name)
        return RetentionResult(namespace, name, "refused", volume_name, FOREIGN_VOLUME, foreign=True)
    if retained == "overtaken":
        return RetentionResult(namespace, name, "overtaken", volume_name, "its volume was changed at the same time")
    is_marked = _is_marked(claim)
    if not is_marked and not await cluster.patch(
        CLAIMS, claim, {"metadata": {"annotations": {VOLUME_RETAINED: "true"}}}
    ):
        return RetentionResult(namespace, name, "overtaken", volume_name, "it was changed at the same time")
    return RetentionResult(namespace, name, "already" if is_marked and retained == "already" else "kept", volume_name)


class _ClassObjects:
    """The objects of a class, listed once: three requests per claim would be too many for thousands of claims.

    It has a row per object, as the documents of ten thousand workspaces take half a gigabyte.
    """

    def __init__(
        self,
        owners: Mapping[str, tuple[str, ...]],
        bound: Mapping[str, tuple[str, str]],
        volumes: Mapping[str, _Volume],
    ) -> None:
        self._owners, self._bound, self._volumes = owners, bound, volumes

    @classmethod
    async def read(cls, cluster: KubeApi, namespace: str) -> _ClassObjects:
        """Return the objects of a namespace."""
        sandboxes = readable("Sandbox", cluster.list(SANDBOXES, namespace), _owned_by)
        owners = {name: uids async for _, (name, uids) in sandboxes}
        claims = readable("PersistentVolumeClaim", cluster.list(VOLUME_CLAIMS, namespace), _bound_to)
        bound = {name: volume async for _, (name, volume) in claims}
        volumes = readable("PersistentVolume", cluster.list(VOLUMES), _Volume.of)
        return cls(owners, bound, {row.name: row async for _, row in volumes if row.namespace in {"", namespace}})

    def home(self, claim: Document) -> HomeObjects:
        """Return what the home of a claim's sandbox consists of, with the fields that retention reads."""
        name = sandbox_name(claim)
        uids = self._owners.get(name)
        sandbox = None if uids is None else {"metadata": {"ownerReferences": [{"uid": uid} for uid in uids]}}
        uid, volume_name = self._bound.get(f"{HOME}-{name}", ("", ""))
        row = self._volumes.get(volume_name)
        volume_claim = {"metadata": {"uid": uid}, "spec": {"volumeName": volume_name}} if uid else None
        return HomeObjects(sandbox, volume_claim, row.document(volume_name) if row else None)

    def settled_result(self, claim: Document) -> RetentionResult | None:
        """Return the result for a claim that needs no change; None for the others."""
        namespace, name = required(claim, "metadata", "namespace"), required(claim, "metadata", "name")
        volume = volume_of(required(claim, "metadata", "uid"), self.home(claim))
        if isinstance(volume, str):
            return RetentionResult(namespace, name, "waiting", why=volume)
        if _is_marked(claim) and not retention_changes(owner_labels(claim), volume):
            return RetentionResult(namespace, name, "already", volume["metadata"]["name"])
        return None


def _owned_by(sandbox: Document) -> tuple[str, tuple[str, ...]]:
    return required(sandbox, "metadata", "name"), tuple(owner_uids(sandbox))


def _bound_to(volume_claim: Document) -> tuple[str, tuple[str, str]]:
    volume_name = text(section(volume_claim, "spec"), "volumeName")
    return required(volume_claim, "metadata", "name"), (required(volume_claim, "metadata", "uid"), volume_name)


class _Volume(NamedTuple):
    name: str
    namespace: str  # the volume claim of a bound volume
    uid: str
    version: str
    owner_labels: tuple[str | None, ...]
    policy: str
    claim_uid: str

    @classmethod
    def of(cls, volume: Document) -> _Volume:
        spec, labels = section(volume, "spec"), strings(section(volume, "metadata"), "labels")
        ref = section(spec, "claimRef")
        return cls(
            required(volume, "metadata", "name"),
            sys.intern(text(ref, "namespace")),
            required(volume, "metadata", "uid"),
            required(volume, "metadata", "resourceVersion"),
            tuple(labels.get(key) for key in OWNER_LABELS),
            sys.intern(text(spec, "persistentVolumeReclaimPolicy")),
            text(ref, "uid"),
        )

    def document(self, name: str) -> Document:
        labels = {key: value for key, value in zip(OWNER_LABELS, self.owner_labels, strict=True) if value is not None}
        return {
            "metadata": {"name": name, "uid": self.uid, "resourceVersion": self.version, "labels": labels},
            "spec": {"persistentVolumeReclaimPolicy": self.policy, "claimRef": {"uid": self.claim_uid}},
        }


async def read_home(api: KubeApi, namespace: str, sandbox_name: str) -> HomeObjects:
    """Read the objects of a sandbox's home."""
    if not sandbox_name:
        return HomeObjects()
    sandbox, volume_claim = await asyncio.gather(
        api.find(SANDBOXES, sandbox_name, namespace), api.find(VOLUME_CLAIMS, f"{HOME}-{sandbox_name}", namespace)
    )
    volume_name = text(section(volume_claim, "spec"), "volumeName")
    return HomeObjects(sandbox, volume_claim, await api.find(VOLUMES, volume_name) if volume_name else None)


def sandbox_name(claim: Document) -> str:
    """Return the name of a claim's sandbox, or an empty string."""
    return text(section(section(claim, "status"), "sandbox"), "name")


def volume_of(claim_uid: str, home: HomeObjects) -> Document | str:
    """Return the home volume of a claim's sandbox, or the reason why there is none yet."""
    sandbox, volume_claim, volume = home
    if sandbox is None or claim_uid not in owner_uids(sandbox):
        return "it has no sandbox yet"
    if volume_claim is None or volume is None:
        return "its sandbox has no volume yet"
    # By uid: an earlier volume claim of the same name may have another owner's volume.
    if section(section(volume, "spec"), "claimRef").get("uid") != volume_claim["metadata"]["uid"]:
        return "its volume is not bound yet"
    return volume


async def retain_for(
    api: KubeApi, labels: Mapping[str, str], volume: Document
) -> Literal["kept", "already", "overtaken", "foreign"]:
    """Retain a volume, as it was read, for the owner in the labels; another owner's is not changed."""
    if has_other_owner(volume, labels.get(USER_LABEL, "")):
        return "foreign"
    changes = retention_changes(labels, volume)
    if not changes:
        return "already"
    return "kept" if await api.patch(VOLUMES, volume, changes) is not None else "overtaken"


def retention_changes(labels: Mapping[str, str], volume: Document) -> Document:
    """Return the changes by which a volume is retained for the owner in the labels; empty if there are none."""
    wanted_labels = {key: labels[key] for key in OWNER_LABELS if key in labels}
    missing = wanted_labels.items() - strings(section(volume, "metadata"), "labels").items()
    changes: Document = {"metadata": {"labels": dict(missing)}} if missing else {}
    if section(volume, "spec").get("persistentVolumeReclaimPolicy") != "Retain":
        changes["spec"] = {"persistentVolumeReclaimPolicy": "Retain"}
    return changes


def audit_foreign_volume(volume: Document, owner: str, namespace: str, workspace: str) -> None:
    """Write to the audit log that a claim got another owner's volume."""
    metadata: Document = volume["metadata"]
    audit(
        "a volume of another owner was not handed over",
        volume=metadata["name"],
        owner=section(metadata, "labels").get(USER_LABEL, ""),
        claimed_by=owner,
        workspace=workspace,
        namespace=namespace,
    )


def owner_labels(claim: Document) -> dict[str, str]:
    """Return the owner and workspace labels of a claim's pod."""
    return strings(section(section(claim, "spec"), "additionalPodMetadata"), "labels")


def _is_marked(claim: Document) -> bool:
    return section(section(claim, "metadata"), "annotations").get(VOLUME_RETAINED) == "true"
