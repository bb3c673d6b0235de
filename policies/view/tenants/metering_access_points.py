"""Access points of the job that measures homes: which conditions one must meet to count as such."""

from __future__ import annotations

from typing import Final

from agentenv.core.service.home_metering import NAME, TAG
from agentenv.policies.view.fields import scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.references import known_ids
from agentenv.policies.view.resource import KubernetesObject, Resource

ACCESS_POINT: Final = "aws:efs/accessPoint:AccessPoint"


def is_for_metering(graph: Graph, point: Resource) -> bool | None:
    """Return whether only the job that measures homes can use an access point; None if that is not known.

    The tag alone is not enough: there must be a volume, and all its volumes must be read-only and reserved for the
    namespace of the job.
    """
    tag = point.at("tags", TAG)
    if tag.unknown:
        return None
    if scalar(tag) is None:
        return False
    answers: list[bool | None] = []
    for volume in graph.objects("", "PersistentVolume"):
        uses = _uses(graph, volume, point)
        if uses is None:
            answers.append(None)
        elif uses:
            answers.append(_is_read_only(volume))
    if False in answers or not answers:
        return False
    return None if None in answers else True


def _uses(graph: Graph, volume: KubernetesObject, point: Resource) -> bool | None:
    targets = graph.targets(volume.resource, "spec", ACCESS_POINT)
    handle = volume.at("spec", "csi", "volumeHandle")
    if point in targets:
        return True
    if isinstance(handle.raw, str):
        return handle.raw.rpartition(":")[2] in known_ids(point)
    return None if handle.unknown and not targets else False


def _is_read_only(volume: KubernetesObject) -> bool | None:
    fields = [volume.at("spec", "csi", "readOnly"), volume.at("spec", "claimRef", "namespace")]
    if any(field.known and field.raw != value for field, value in zip(fields, (True, NAME), strict=True)):
        return False
    if any(field.missing for field in fields) or volume.patch:
        return False
    return None if any(field.unknown for field in fields) else True
