"""Access points by which a job looks at all homes of a class at once, to read only: what one has to be for that."""

from __future__ import annotations

from typing import Final

from agentenv.core.service.home_metering import NAME, TAG
from agentenv.policies.view.fields import scalar
from agentenv.policies.view.graph import Graph
from agentenv.policies.view.references import known_ids
from agentenv.policies.view.resource import KubernetesObject, Resource

ACCESS_POINT: Final = "aws:efs/accessPoint:AccessPoint"


def looked_at(graph: Graph, point: Resource) -> bool | None:
    """Whether an access point is for the job that looks how large homes are, and for nothing else; None where that is
    not known.

    Its tag alone says nothing: it has a volume, and every volume that leads to it is read only, and of that job's
    namespace.
    """
    tag = point.at("tags", TAG)
    if tag.unknown:
        return None
    if scalar(tag) is None:
        return False
    answers: list[bool | None] = []
    for volume in graph.objects("", "PersistentVolume"):
        leads = _leads_to(graph, volume, point)
        if leads is None:
            answers.append(None)
        elif leads:
            answers.append(_only_looks(volume))
    if False in answers or not answers:
        return False
    return None if None in answers else True


def _leads_to(graph: Graph, volume: KubernetesObject, point: Resource) -> bool | None:
    targets = graph.targets(volume.resource, "spec", ACCESS_POINT)
    handle = volume.at("spec", "csi", "volumeHandle")
    if point in targets:
        return True
    if isinstance(handle.raw, str):
        return handle.raw.rpartition(":")[2] in known_ids(point)
    return None if handle.unknown and not targets else False


def _only_looks(volume: KubernetesObject) -> bool | None:
    fields = [volume.at("spec", "csi", "readOnly"), volume.at("spec", "claimRef", "namespace")]
    if any(one.known and one.raw != wanted for one, wanted in zip(fields, (True, NAME), strict=True)):
        return False
    if any(one.missing for one in fields) or volume.patch:
        return False
    return None if any(one.unknown for one in fields) else True
