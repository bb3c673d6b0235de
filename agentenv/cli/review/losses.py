"""Find resources with data that a change would replace or delete, and whether the pull request allows it.

This is not a policy rule, because a policy pack sees neither the operation nor the old state. The operations come from
the changes, and the permissions from `policies/allowed_losses.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from agentenv.cli.review.allowed_losses import Allowance
from agentenv.cli.review.changes import Change, Sureness
from agentenv.cli.review.graph import Graph, Resource
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL

# The data that is lost with a resource of each type
DATA_RESOURCES: Mapping[str, str] = {
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
# Reported, but allowed
ADVISORY_RESOURCES: Mapping[str, str] = {"aws:cloudwatch/logGroup:LogGroup": "its log events"}
# Kinds of any API version
DATA_KINDS: Mapping[tuple[str, str], str] = {
    ("agents.x-k8s.io", "Sandbox"): "a workspace that is running or asleep",
    ("extensions.agents.x-k8s.io", "SandboxClaim"): "somebody's workspace",
    ("apiextensions.k8s.io", "CustomResourceDefinition"): "every object of that kind in the cluster",
}
# Retained for claimed sandboxes of old releases, without data of their own
RELEASE_KINDS = (("extensions.agents.x-k8s.io", "SandboxTemplate"), ("extensions.agents.x-k8s.io", "SandboxWarmPool"))
SANDBOX_NAMESPACE = "the namespace of a class with every workspace and claim in it"
RETAINED_RESOURCE = "something that was to outlive its stack"


@dataclass(frozen=True)
class Loss:
    """A resource with data that would be replaced or deleted."""

    change: Change
    lost: str
    stays: bool = False  # retained: it is no longer managed, but not deleted
    protected: bool = False
    allowed: Allowance | None = None

    @property
    def blocks(self) -> bool:
        """Return whether the pull request must allow it first."""
        return self.allowed is None and self.change.type not in ADVISORY_RESOURCES

    @property
    def sureness(self) -> Sureness:
        """Return how certain the loss is."""
        return self.change.sureness


def losses(changes: Iterable[Change], before: Graph, allowances: Iterable[Allowance], today: date) -> list[Loss]:
    """Return the resources with data that are replaced or deleted, those that block first."""
    permitted = {row.urn: row for row in allowances if row.in_force(today)}
    found: list[Loss] = []
    for change in changes:
        if change.operation not in {"replace", "delete"}:
            continue
        old = before.get(change.urn)
        lost = data_lost_with(old) if old is not None else None
        if old is not None and lost is not None:
            # A replaced resource is deleted too, unless it is retained
            allowed = next((permitted[urn] for urn in _with_holders(old, before) if urn in permitted), None)
            found.append(Loss(change, lost, old.retain, old.protect, allowed))
    return sorted(found, key=lambda loss: not loss.blocks)


def _with_holders(resource: Resource, before: Graph) -> list[str]:
    """Return its URN, and those of its parents with data: allowing the loss of a seat allows that of its parts."""
    found = [resource.urn]
    while (parent := before.get(resource.parent)) is not None:
        resource = parent
        if resource.type in DATA_RESOURCES:
            found.append(resource.urn)
    return found


def data_lost_with(resource: Resource) -> str | None:
    """Return the data that is lost with a resource, None if it has no data."""
    if (known := DATA_RESOURCES.get(resource.type) or ADVISORY_RESOURCES.get(resource.type)) is not None:
        return known
    if resource.type.startswith("kubernetes:"):
        inputs = resource.inputs
        group, kind = str(inputs.get("apiVersion", "")).rpartition("/")[0], str(inputs.get("kind", ""))
        if (known := DATA_KINDS.get((group, kind))) is not None:
            return known
        if (group, kind) in RELEASE_KINDS:
            return None
        metadata = inputs.get("metadata")
        labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
        if kind == "Namespace" and isinstance(labels, Mapping) and CLASS_LABEL in labels:
            return SANDBOX_NAMESPACE
    return RETAINED_RESOURCE if resource.custom and (resource.protect or resource.retain) else None


def unprotected(before: Graph, after: Graph) -> list[str]:
    """Return the resources with data that lose protect or retain: a later change could then delete them."""
    return [
        urn
        for urn, new in after.items()
        if (old := before.get(urn)) is not None
        and data_lost_with(new) is not None
        and ((old.protect and not new.protect) or (old.retain and not new.retain))
    ]
