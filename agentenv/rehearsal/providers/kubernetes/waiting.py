"""Waiting for objects: what to watch for each kind, until ready, in vain, or out of time; and until gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import conditions, objects, readiness
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import Kind, UnknownKind
from agentenv.rehearsal.providers.kubernetes.objects import Object, pluck
from agentenv.rehearsal.providers.kubernetes.verdict import READY, Verdict, waiting

PATIENCE: Final = 600.0
# Kinds that are ready soon or never.
SHORTER: Final[Mapping[tuple[str, str], float]] = {
    ("", "PersistentVolume"): 300.0,
    ("", "PersistentVolumeClaim"): 300.0,
    ("", "ResourceQuota"): 60.0,
    ("", "Secret"): 5.0,
    ("", "Namespace"): 60.0,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): 120.0,
}
EVENTS: Final = 5  # told at most, the latest

Found = Mapping[str, Object]
Tell = Callable[[str], None]


class NotReady(Exception):
    """The object is there but did not become ready; `obj` is how it was last seen."""

    def __init__(self, message: str, obj: Object, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.obj = obj
        self.reasons = list(reasons)


@dataclass(frozen=True)
class Stage:
    """Objects to watch, and the verdict on them."""

    kind: Kind
    namespace: str
    selectors: Mapping[str, str] = field(repr=False)
    test: Callable[[Found], Verdict]


def until_ready(cluster: Cluster, obj: Object, asked: Mapping[str, Any], timeout: float, tell: Tell) -> Object:
    """Wait for an object that was just written; `asked` is what the program said, annotations included."""
    stages = stages_of(cluster, obj, asked)
    if not stages:
        return obj
    patience = timeout or _annotated(asked) or SHORTER.get(readiness.key(obj), PATIENCE)
    end = time.monotonic() + patience
    latest = obj
    for stage in stages:
        if _own(stage, obj) and stage.test({objects.name(obj): latest}).done:
            continue
        verdict = waiting("nothing was seen of it")
        for found, verdict in _watched(cluster, stage, end):
            latest = found.get(objects.name(obj), latest) if _own(stage, obj) else latest
            if verdict.done:
                break
            if verdict.failed:
                raise _not_ready(cluster, latest, verdict, "failed")
            tell("; ".join(verdict.reasons))
        if not verdict.done:
            if cluster.cancelled.is_set():
                raise _not_ready(cluster, latest, verdict, "was cancelled while it was waited for", events=False)
            raise _not_ready(cluster, latest, verdict, f"was not ready after {patience:.0f} s")
    return latest if _own(stages[-1], obj) else _again(cluster, latest)


def ready_now(cluster: Cluster, obj: Object, asked: Mapping[str, Any]) -> None:
    """Whether what was ready once still is; no waiting."""
    if readiness.key(obj) not in readiness.LOOKED_AT_AGAIN or objects.flagged(asked, objects.SKIP_AWAIT):
        return
    for stage in stages_of(cluster, obj, asked):
        _, verdict = next(_watched(cluster, stage, time.monotonic()))
        if not verdict.done:
            raise _not_ready(cluster, obj, verdict, "is not ready")


def until_gone(cluster: Cluster, kind: Kind, at: tuple[str, str], patience: float, tell: Tell) -> None:
    """Wait for a deleted object to be gone; `at` is its namespace and name. Say what holds it when it stays."""
    namespace, name = at
    stage = Stage(kind, namespace, {"fieldSelector": f"metadata.name={name}"}, lambda found: _gone(found, name))
    uid, verdict, last = None, READY, {}
    for found, verdict in _watched(cluster, stage, time.monotonic() + patience):
        last = found.get(name, last)
        now = pluck(last, "metadata", "uid")
        uid = uid or now
        if verdict.done or now != uid:
            return  # gone, or already another object of the same name
        tell("; ".join(verdict.reasons))
    if cluster.cancelled.is_set():
        raise _not_ready(cluster, last, verdict, "is being deleted; waiting for that was cancelled", events=False)
    if not verdict.done:
        raise _not_ready(cluster, last, verdict, f"was still there {patience:.0f} s after it was deleted")


def stages_of(cluster: Cluster, obj: Object, asked: Mapping[str, Any]) -> list[Stage]:
    """What to wait for, in order: what the program asks for, else what the kind needs."""
    if objects.flagged(asked, objects.SKIP_AWAIT):
        return []
    kind = cluster.kind(obj)
    wanted = objects.annotation(asked, objects.WAIT_FOR)
    if wanted:
        return [_itself(kind, obj, conditions.parse(wanted))]
    key = readiness.key(obj)
    if key == ("", "PersistentVolumeClaim"):
        return [_itself(kind, obj, readiness.claim(_binding(cluster, obj)))]
    if key == ("", "Service"):
        return _service(cluster, kind, obj)
    if key == ("networking.k8s.io", "Ingress"):
        return _ingress(cluster, kind, obj)
    test = readiness.TABLE.get(key)
    return [_itself(kind, obj, test)] if test else []


def _own(stage: Stage, obj: Object) -> bool:
    return stage.kind.kind == objects.kind(obj)


def _itself(kind: Kind, obj: Object, test: Callable[[Mapping[str, Any]], Verdict]) -> Stage:
    name = objects.name(obj)

    def verdict(found: Found) -> Verdict:
        return test(found[name]) if name in found else waiting(f"{objects.kind(obj)} {name} was deleted meanwhile")

    return Stage(kind, objects.namespace(obj), {"fieldSelector": f"metadata.name={name}"}, verdict)


def _service(cluster: Cluster, kind: Kind, obj: Object) -> list[Stage]:
    stages: list[Stage] = []
    if pluck(obj, "spec", "type") == "LoadBalancer":
        stages.append(_itself(kind, obj, readiness.load_balancer))
    if readiness.wants_endpoints(obj):
        stages.append(_endpoints(cluster, objects.namespace(obj), [objects.name(obj)]))
    return stages


def _ingress(cluster: Cluster, kind: Kind, obj: Object) -> list[Stage]:
    stages = [_itself(kind, obj, readiness.load_balancer)]
    services = {
        objects.name(s): s for s in cluster.list(cluster.discovery.find("v1", "Service"), objects.namespace(obj))
    }
    external = {n for n, s in services.items() if pluck(s, "spec", "type") == "ExternalName"}
    behind = [name for name in readiness.backends(obj) if name not in external]
    return [_endpoints(cluster, objects.namespace(obj), behind), *stages] if behind else stages


def _endpoints(cluster: Cluster, namespace: str, services: list[str]) -> Stage:
    def verdict(found: Found) -> Verdict:
        verdicts = [readiness.endpoints(list(found.values()), service) for service in services]
        missing = [reason for v in verdicts if not v.done for reason in v.reasons]
        return waiting(*missing) if missing else READY

    one = {"labelSelector": f"kubernetes.io/service-name={services[0]}"} if len(services) == 1 else {}
    return Stage(cluster.discovery.find("discovery.k8s.io/v1", "EndpointSlice"), namespace, one, verdict)


def _binding(cluster: Cluster, claim: Object) -> str:
    name = pluck(claim, "spec", "storageClassName")
    if not name:
        return ""
    try:
        found = cluster.get(cluster.discovery.find("storage.k8s.io/v1", "StorageClass"), "", str(name))
    except (ApiError, UnknownKind):
        return ""  # the class may come later, or be nobody's: then the claim waits for a volume by hand
    return str(found.get("volumeBindingMode", ""))


def _watched(cluster: Cluster, stage: Stage, end: float) -> Iterator[tuple[Found, Verdict]]:
    for found in cluster.follow(stage.kind, stage.namespace, stage.selectors, end):
        yield found, stage.test(found)


def _gone(found: Found, name: str) -> Verdict:
    if name not in found:
        return READY
    obj = found[name]
    held = objects.metadata(obj).get("finalizers") or []
    told = [str(c["message"]) for c in objects.conditions(obj) if c.get("status") == "True" and c.get("message")]
    return waiting(f"finalizers hold it: {', '.join(held)}" if held else "it is being deleted", *told)


def _annotated(asked: Mapping[str, Any]) -> float:
    try:
        return float(objects.annotation(asked, objects.TIMEOUT) or 0)
    except ValueError:
        return 0.0


def patience_of(asked: Mapping[str, Any], timeout: float) -> float:
    return timeout or _annotated(asked) or PATIENCE


def _again(cluster: Cluster, obj: Object) -> Object:
    """The object as it is at the end: a later stage may have watched something else."""
    try:
        return cluster.get(cluster.kind(obj), objects.namespace(obj), objects.name(obj))
    except ApiError:
        return obj


def _not_ready(cluster: Cluster, obj: Object, verdict: Verdict, what: str, *, events: bool = True) -> NotReady:
    reasons = [*verdict.reasons, *(readiness.said(found) for found in objects.conditions(obj))]
    if events and not cluster.cancelled.is_set():
        reasons += recent_events(cluster, obj)
    return NotReady(f"{objects.kind(obj)} {objects.identity(obj)} {what}", obj, list(dict.fromkeys(reasons)))


def recent_events(cluster: Cluster, obj: Object) -> list[str]:
    """The latest events about an object and, for what has pods, about those."""
    place = objects.namespace(obj) or "default"
    try:
        kind = cluster.discovery.find("v1", "Event")
        found = cluster.list(kind, place, fieldSelector=f"involvedObject.uid={pluck(obj, 'metadata', 'uid')}")
        pods = _pods(cluster, obj)
        for one in pods[:EVENTS]:
            selector = f"involvedObject.uid={pluck(one, 'metadata', 'uid')},type=Warning"
            found += cluster.list(kind, place, fieldSelector=selector)
    except (ApiError, UnknownKind):
        return []  # they only explain; whoever may not read them still gets the conditions
    found.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    texts = [
        f"event {e.get('reason')}: {e.get('message')} ({pluck(e, 'involvedObject', 'kind')} "
        f"{pluck(e, 'involvedObject', 'name')})"
        for e in found[-EVENTS:]
    ]
    return [f"pod {objects.name(p)}: {t}" for p in pods for t in readiness.pod_troubles(p)] + texts


def _pods(cluster: Cluster, obj: Object) -> list[Object]:
    labels = pluck(obj, "spec", "selector", "matchLabels")
    if not isinstance(labels, Mapping) or not labels:
        return []
    selector = ",".join(f"{k}={v}" for k, v in labels.items())
    return cluster.list(cluster.discovery.find("v1", "Pod"), objects.namespace(obj), labelSelector=selector)
