"""The guard: what holds data is neither replaced nor deleted unless the pull request itself says so.

It is no policy: a pack sees neither the operation nor what stood before. Whether something goes is read from the
changes, whether it may from `policies/allowed_losses.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from agentenv.cli.review.allowed_losses import Allowance
from agentenv.cli.review.changes import Change, Sureness
from agentenv.cli.review.graph import Graph, Resource
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL

# What goes with a resource of each type, for whoever decides
HOLDERS: Mapping[str, str] = {
    "aws:efs/fileSystem:FileSystem": "every file of every home on it",
    "aws:efs/accessPoint:AccessPoint": "the way to the files of one home; what mounts it loses them",
    "aws:kms/key:Key": "everything encrypted with it, once its deletion window is over",
    "aws:kms/replicaKey:ReplicaKey": "everything encrypted with it in that region",
    "aws:eks/cluster:Cluster": "the cluster with all that runs and is kept in it: sandboxes, claims, volumes' bindings",
    "eks:index:Cluster": "the cluster with all that runs and is kept in it: sandboxes, claims, volumes' bindings",
    "aws:dynamodb/table:Table": "its items: who had what, and what they used",
    "aws:s3/bucket:Bucket": "its objects",
    "aws:s3/bucketV2:BucketV2": "its objects",
    "aws:backup/vault:Vault": "its recovery points",
    "aws:rds/instance:Instance": "its databases",
    "aws:rds/cluster:Cluster": "its databases",
    "aws:ebs/volume:Volume": "its blocks",
    "agent-environment:index:Workspace": "a declared workspace",
    "kubernetes:core/v1:PersistentVolume": "the binding of a workspace to its files",
    "kubernetes:core/v1:PersistentVolumeClaim": "a workspace's claim on its volume, and with policy Delete its files",
    "kubernetes:storage.k8s.io/v1:StorageClass": "the class that pools and volumes name; new homes cannot be made",
}
# What is worth a line and no permission
LESSER: Mapping[str, str] = {"aws:cloudwatch/logGroup:LogGroup": "its log events"}
# Kinds in whatever group version
KINDS: Mapping[tuple[str, str], str] = {
    ("agents.x-k8s.io", "Sandbox"): "a workspace that is running or asleep",
    ("extensions.agents.x-k8s.io", "SandboxClaim"): "somebody's workspace",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "every object of that kind in the cluster",
}
# Retained so that whoever has a sandbox of an old release keeps it, and nothing by themselves
RELEASES = (("extensions.agents.x-k8s.io", "SandboxTemplate"), ("extensions.agents.x-k8s.io", "SandboxWarmPool"))
SANDBOX_NAMESPACE = "the namespace of a class with every workspace and claim in it"
KEPT = "something that was to outlive its stack"


@dataclass(frozen=True)
class Loss:
    """Something with data in it that would not stay."""

    change: Change
    lost: str
    stays: bool = False  # retained: it is no longer managed, and not gone
    protected: bool = False
    allowed: Allowance | None = None

    @property
    def blocks(self) -> bool:
        """Whether the pull request has to say something first."""
        return self.allowed is None and self.change.type not in LESSER

    @property
    def sureness(self) -> Sureness:
        """How sure it is that it goes."""
        return self.change.sureness


def losses(changes: Iterable[Change], before: Graph, allowances: Iterable[Allowance], today: date) -> list[Loss]:
    """What is replaced or deleted with data in it, what blocks first."""
    permitted = {one.urn: one for one in allowances if one.holds(today)}
    found: list[Loss] = []
    for change in changes:
        if change.operation not in {"replace", "delete"}:
            continue
        old = before.get(change.urn)
        lost = held_by(old) if old is not None else None
        if old is not None and lost is not None:
            # A replaced one is deleted all the same, unless it is retained as well
            allowed = next((permitted[urn] for urn in _with_holders(old, before) if urn in permitted), None)
            found.append(Loss(change, lost, old.retain, old.protect, allowed))
    return sorted(found, key=lambda loss: not loss.blocks)


def _with_holders(resource: Resource, before: Graph) -> list[str]:
    """Its URN, and those of the things with data that it is a part of: whoever lets a seat go lets go of its parts."""
    found = [resource.urn]
    while (parent := before.get(resource.parent)) is not None:
        resource = parent
        if resource.type in HOLDERS:
            found.append(resource.urn)
    return found


def held_by(resource: Resource) -> str | None:
    """What would be lost with a resource; None where it holds nothing."""
    if (known := HOLDERS.get(resource.type) or LESSER.get(resource.type)) is not None:
        return known
    if resource.type.startswith("kubernetes:"):
        inputs = resource.inputs
        group, kind = str(inputs.get("apiVersion", "")).rpartition("/")[0], str(inputs.get("kind", ""))
        if (known := KINDS.get((group, kind))) is not None:
            return known
        if (group, kind) in RELEASES:
            return None
        metadata = inputs.get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
        if kind == "Namespace" and isinstance(labels, Mapping) and CLASS_LABEL in labels:
            return SANDBOX_NAMESPACE
    return KEPT if resource.custom and (resource.protect or resource.retain) else None


def unguarded(before: Graph, after: Graph) -> list[str]:
    """The resources that hold data and lose their protection; a later change could then take them."""
    return [
        urn
        for urn, new in after.items()
        if (old := before.get(urn)) is not None
        and held_by(new) is not None
        and ((old.protect and not new.protect) or (old.retain and not new.retain))
    ]
