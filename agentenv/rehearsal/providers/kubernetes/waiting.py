"""Wait until objects are ready or deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import conditions, objects, readiness
from agentenv.rehearsal.providers.kubernetes.client import ApiError
from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from agentenv.rehearsal.providers.kubernetes.discovery import Kind, UnknownKind
from agentenv.rehearsal.providers.kubernetes.objects import Object, get_field
from agentenv.rehearsal.providers.kubernetes.readiness import READY, Verdict, waiting

DEFAULT_TIMEOUT: Final = 600.0
# Kinds that become ready soon or not at all.
KIND_TIMEOUTS: Final[Mapping[tuple[str, str], float]] = {
    ("", "PersistentVolume"): 300.0,
    ("", "PersistentVolumeClaim"): 300.0,
    ("", "ResourceQuota"): 60.0,
    ("", "Secret"): 5.0,
    ("", "Namespace"): 60.0,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): 120.0,
}
MAX_EVENTS: Final = 5  # the latest ones, in a message

ObservedObjects = Mapping[str, Object]
Report = Callable[[str], None]


class NotReady(Exception):
    """The object exists but did not become ready. `obj` is its last observed version."""

    def __init__(self, message: str, obj: Object, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.obj = obj
        self.reasons = list(reasons)


@dataclass(frozen=True)
class Stage:
    """A set of objects to watch, and the check of them."""

    kind: Kind
    namespace: str
    selectors: Mapping[str, str] = field(repr=False)
    test: Callable[[ObservedObjects], Verdict]


def until_ready(cluster: Cluster, obj: Object, desired: Mapping[str, Any], timeout: float, report: Report) -> Object:
    """Wait until an applied object is ready. `desired` has the program's inputs and annotations."""
    stages = wait_stages(cluster, obj, desired)
    if not stages:
        return obj
    wait_seconds = timeout or _annotated_timeout(desired) or KIND_TIMEOUTS.get(readiness.key(obj), DEFAULT_TIMEOUT)
    end = time.monotonic() + wait_seconds
    latest = obj
    for stage in stages:
        if _is_object_stage(stage, obj) and stage.test({objects.name(obj): latest}).done:
            continue
        verdict = waiting("nothing was seen of it")
        for observed, verdict in _watch(cluster, stage, end):
            latest = observed.get(objects.name(obj), latest) if _is_object_stage(stage, obj) else latest
            if verdict.done:
                break
            if verdict.failed:
                raise _not_ready(cluster, latest, verdict, "failed")
            report("; ".join(verdict.reasons))
        if not verdict.done:
            if cluster.cancelled.is_set():
                raise _not_ready(cluster, latest, verdict, "was cancelled while it was waited for", events=False)
            raise _not_ready(cluster, latest, verdict, f"was not ready after {wait_seconds:.0f} s")
    return latest if _is_object_stage(stages[-1], obj) else _latest(cluster, latest)


def ready_now(cluster: Cluster, obj: Object, desired: Mapping[str, Any]) -> None:
    """Check, without waiting, that an object is still ready."""
    if readiness.key(obj) not in readiness.RECHECKED or objects.has_flag(desired, objects.SKIP_AWAIT):
        return
    for stage in wait_stages(cluster, obj, desired):
        _, verdict = next(_watch(cluster, stage, time.monotonic()))
        if not verdict.done:
            raise _not_ready(cluster, obj, verdict, "is not ready")


def until_deleted(cluster: Cluster, kind: Kind, at: tuple[str, str], wait_seconds: float, report: Report) -> None:
    """Wait until a deleted object no longer exists. `at` is its namespace and name."""
    namespace, name = at
    stage = Stage(
        kind, namespace, {"fieldSelector": f"metadata.name={name}"}, lambda observed: _deleted_verdict(observed, name)
    )
    uid, verdict, last = None, READY, {}
    for observed, verdict in _watch(cluster, stage, time.monotonic() + wait_seconds):
        last = observed.get(name, last)
        now = get_field(last, "metadata", "uid")
        uid = uid or now
        if verdict.done or now != uid:
            return  # gone, or already another object of the same name
        report("; ".join(verdict.reasons))
    if cluster.cancelled.is_set():
        raise _not_ready(cluster, last, verdict, "is being deleted; waiting for that was cancelled", events=False)
    if not verdict.done:
        raise _not_ready(cluster, last, verdict, f"was still there {wait_seconds:.0f} s after it was deleted")


def wait_stages(cluster: Cluster, obj: Object, desired: Mapping[str, Any]) -> list[Stage]:
    """Return what to wait for, in order: the program's conditions, else those of the kind."""
    if objects.has_flag(desired, objects.SKIP_AWAIT):
        return []
    kind = cluster.kind(obj)
    condition_text = objects.annotation(desired, objects.WAIT_FOR)
    if condition_text:
        return [_object_stage(kind, obj, conditions.parse(condition_text))]
    key = readiness.key(obj)
    if key == ("", "PersistentVolumeClaim"):
        return [_object_stage(kind, obj, readiness.claim(_binding(cluster, obj)))]
    if key == ("", "Service"):
        return _service(cluster, kind, obj)
    if key == ("networking.k8s.io", "Ingress"):
        return _ingress(cluster, kind, obj)
    test = readiness.TABLE.get(key)
    return [_object_stage(kind, obj, test)] if test else []


def _is_object_stage(stage: Stage, obj: Object) -> bool:
    return stage.kind.kind == objects.kind(obj)


def _object_stage(kind: Kind, obj: Object, test: Callable[[Mapping[str, Any]], Verdict]) -> Stage:
    name = objects.name(obj)

    def verdict(observed: ObservedObjects) -> Verdict:
        return (
            test(observed[name]) if name in observed else waiting(f"{objects.kind(obj)} {name} was deleted meanwhile")
        )

    return Stage(kind, objects.namespace(obj), {"fieldSelector": f"metadata.name={name}"}, verdict)


def _service(cluster: Cluster, kind: Kind, obj: Object) -> list[Stage]:
    stages: list[Stage] = []
    if get_field(obj, "spec", "type") == "LoadBalancer":
        stages.append(_object_stage(kind, obj, readiness.load_balancer))
    if readiness.needs_endpoints(obj):
        stages.append(_endpoints(cluster, objects.namespace(obj), [objects.name(obj)]))
    return stages


def _ingress(cluster: Cluster, kind: Kind, obj: Object) -> list[Stage]:
    stages = [_object_stage(kind, obj, readiness.load_balancer)]
    services = {
        objects.name(s): s for s in cluster.list(cluster.discovery.find("v1", "Service"), objects.namespace(obj))
    }
    external = {n for n, s in services.items() if get_field(s, "spec", "type") == "ExternalName"}
    behind = [name for name in readiness.backends(obj) if name not in external]
    return [_endpoints(cluster, objects.namespace(obj), behind), *stages] if behind else stages


def _endpoints(cluster: Cluster, namespace: str, services: list[str]) -> Stage:
    def verdict(observed: ObservedObjects) -> Verdict:
        verdicts = [readiness.endpoints(list(observed.values()), service) for service in services]
        missing = [reason for v in verdicts if not v.done for reason in v.reasons]
        return waiting(*missing) if missing else READY

    selector = {"labelSelector": f"kubernetes.io/service-name={services[0]}"} if len(services) == 1 else {}
    return Stage(cluster.discovery.find("discovery.k8s.io/v1", "EndpointSlice"), namespace, selector, verdict)


def _binding(cluster: Cluster, claim: Object) -> str:
    name = get_field(claim, "spec", "storageClassName")
    if not name:
        return ""
    try:
        observed = cluster.get(cluster.discovery.find("storage.k8s.io/v1", "StorageClass"), "", str(name))
    except (ApiError, UnknownKind):
        return ""  # the class may come later, or be nobody's: then the claim waits for a volume by hand
    return str(observed.get("volumeBindingMode", ""))


def _watch(cluster: Cluster, stage: Stage, end: float) -> Iterator[tuple[ObservedObjects, Verdict]]:
    for observed in cluster.follow(stage.kind, stage.namespace, stage.selectors, end):
        yield observed, stage.test(observed)


def _deleted_verdict(observed: ObservedObjects, name: str) -> Verdict:
    if name not in observed:
        return READY
    obj = observed[name]
    held = objects.metadata(obj).get("finalizers") or []
    messages = [str(c["message"]) for c in objects.conditions(obj) if c.get("status") == "True" and c.get("message")]
    return waiting(f"finalizers hold it: {', '.join(held)}" if held else "it is being deleted", *messages)


def _annotated_timeout(desired: Mapping[str, Any]) -> float:
    try:
        return float(objects.annotation(desired, objects.TIMEOUT) or 0)
    except ValueError:
        return 0.0


def timeout_of(desired: Mapping[str, Any], timeout: float) -> float:
    return timeout or _annotated_timeout(desired) or DEFAULT_TIMEOUT


def _latest(cluster: Cluster, obj: Object) -> Object:
    """Return the current object: a later stage may have watched other objects."""
    try:
        return cluster.get(cluster.kind(obj), objects.namespace(obj), objects.name(obj))
    except ApiError:
        return obj


def _not_ready(cluster: Cluster, obj: Object, verdict: Verdict, what: str, *, events: bool = True) -> NotReady:
    reasons = [*verdict.reasons, *(readiness.condition_text(observed) for observed in objects.conditions(obj))]
    if events and not cluster.cancelled.is_set():
        reasons += recent_events(cluster, obj)
    return NotReady(f"{objects.kind(obj)} {objects.identity(obj)} {what}", obj, list(dict.fromkeys(reasons)))


def recent_events(cluster: Cluster, obj: Object) -> list[str]:
    """Return the latest events about an object and its pods."""
    place = objects.namespace(obj) or "default"
    try:
        kind = cluster.discovery.find("v1", "Event")
        observed = cluster.list(kind, place, fieldSelector=f"involvedObject.uid={get_field(obj, 'metadata', 'uid')}")
        pods = _pods(cluster, obj)
        for pod in pods[:MAX_EVENTS]:
            selector = f"involvedObject.uid={get_field(pod, 'metadata', 'uid')},type=Warning"
            observed += cluster.list(kind, place, fieldSelector=selector)
    except (ApiError, UnknownKind):
        return []  # events only explain: without the right to read them, the conditions remain
    observed.sort(key=lambda e: str(e.get("lastTimestamp") or e.get("eventTime") or ""))
    texts = [
        f"event {e.get('reason')}: {e.get('message')} ({get_field(e, 'involvedObject', 'kind')} "
        f"{get_field(e, 'involvedObject', 'name')})"
        for e in observed[-MAX_EVENTS:]
    ]
    return [f"pod {objects.name(p)}: {t}" for p in pods for t in readiness.pod_problems(p)] + texts


def _pods(cluster: Cluster, obj: Object) -> list[Object]:
    labels = get_field(obj, "spec", "selector", "matchLabels")
    if not isinstance(labels, Mapping) or not labels:
        return []
    selector = ",".join(f"{k}={v}" for k, v in labels.items())
    return cluster.list(cluster.discovery.find("v1", "Pod"), objects.namespace(obj), labelSelector=selector)
