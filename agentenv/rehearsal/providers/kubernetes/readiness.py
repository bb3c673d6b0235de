"""Readiness of objects by kind. The checks are pure functions from an object to a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.discovery import group_of
from agentenv.rehearsal.providers.kubernetes.objects import condition, get_field


@dataclass(frozen=True)
class Verdict:
    """Ready, waiting or failed, with the reasons."""

    done: bool
    failed: bool = False
    reasons: tuple[str, ...] = ()


READY: Final = Verdict(done=True)


def waiting(*reasons: str) -> Verdict:
    return Verdict(done=False, reasons=reasons)


def failed(*reasons: str) -> Verdict:
    """Return a verdict that ends the wait."""
    return Verdict(done=False, failed=True, reasons=reasons)


Ready = Callable[[Mapping[str, Any]], Verdict]


def _number(obj: Mapping[str, Any], *path: str) -> int:
    value = get_field(obj, *path)
    return value if isinstance(value, int) else 0


def condition_text(value: Mapping[str, Any]) -> str:
    """Return the text of a condition."""
    text = f"{value.get('type')}={value.get('status')} {value.get('reason') or ''}".strip()
    return f"{text}: {value['message']}" if value.get("message") else text


def _unseen(obj: Mapping[str, Any]) -> Verdict | None:
    if not isinstance(get_field(obj, "status", "observedGeneration"), int) or not objects.is_observed(obj):
        return waiting(f"the controller has not yet seen {objects.kind(obj)} {objects.identity(obj)}")
    return None


def deployment(obj: Mapping[str, Any]) -> Verdict:
    if (unseen := _unseen(obj)) is not None:
        return unseen
    if get_field(obj, "spec", "paused") is True:
        return READY
    replicas = get_field(obj, "spec", "replicas")
    replicas = 1 if replicas is None else replicas
    updated, available = _number(obj, "status", "updatedReplicas"), _number(obj, "status", "availableReplicas")
    old = _number(obj, "status", "replicas") - updated
    reasons: list[str] = []
    if updated < replicas or available < replicas:
        reasons.append(f"{updated} of {replicas} replicas updated, {available} available")
    if old > 0:
        reasons.append(f"{old} old replicas still to go")
    progressing, up = condition(obj, "Progressing"), condition(obj, "Available")
    if progressing.get("status") == "False":
        reasons.append(condition_text(progressing))
    if up.get("status") != "True":
        reasons.append(condition_text(up) if up else "not yet Available")
    return waiting(*reasons) if reasons else READY


def stateful_set(obj: Mapping[str, Any]) -> Verdict:
    if (unseen := _unseen(obj)) is not None:
        return unseen
    replicas = get_field(obj, "spec", "replicas")
    replicas = 1 if replicas is None else replicas
    ready = _number(obj, "status", "readyReplicas")
    if ready < replicas:
        return waiting(f"{ready} of {replicas} pods ready")
    if get_field(obj, "spec", "updateStrategy", "type") == "OnDelete":
        return READY
    updated = _number(obj, "status", "updatedReplicas")
    partition = _number(obj, "spec", "updateStrategy", "rollingUpdate", "partition")
    if updated < max(0, replicas - partition):
        return waiting(f"{updated} of {max(0, replicas - partition)} pods at the new revision")
    current, update = get_field(obj, "status", "currentRevision"), get_field(obj, "status", "updateRevision")
    if partition == 0 and current != update:
        return waiting(f"revision {current} is still to become {update}")
    return READY


def daemon_set(obj: Mapping[str, Any]) -> Verdict:
    if (unseen := _unseen(obj)) is not None:
        return unseen
    replicas = _number(obj, "status", "desiredNumberScheduled")
    available = _number(obj, "status", "numberAvailable")
    updated = _number(obj, "status", "updatedNumberScheduled")
    rolling = get_field(obj, "spec", "updateStrategy", "type") != "OnDelete"
    if available < replicas or (rolling and updated < replicas):
        return waiting(f"{updated} of {replicas} nodes have the new pod, {available} available")
    return READY


def job(obj: Mapping[str, Any]) -> Verdict:
    if condition(obj, "Complete").get("status") == "True":
        return READY
    broken = condition(obj, "Failed")
    if broken.get("status") == "True":
        return failed(condition_text(broken))
    if get_field(obj, "spec", "suspend") is True:
        return READY
    done, active = _number(obj, "status", "succeeded"), _number(obj, "status", "active")
    return waiting(f"{done} of {_number(obj, 'spec', 'completions') or 1} done, {active} running")


def pod(obj: Mapping[str, Any]) -> Verdict:
    phase = get_field(obj, "status", "phase")
    if phase == "Succeeded":
        return READY
    if phase == "Failed":
        status_text = get_field(obj, "status", "message") or get_field(obj, "status", "reason") or "the pod failed"
        return failed(str(status_text), *pod_problems(obj))
    if condition(obj, "Ready").get("status") == "True":
        return READY
    return waiting(f"pod is {phase or 'not yet seen'}", *pod_problems(obj))


def pod_problems(obj: Mapping[str, Any]) -> list[str]:
    """Return the problems of a pod and its containers."""
    reasons: list[str] = []
    scheduled = condition(obj, "PodScheduled")
    if scheduled.get("status") == "False":
        reasons.append(f"{scheduled.get('reason')}: {scheduled.get('message')}")
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in get_field(obj, "status", field) or []:
            for state in ("waiting", "terminated"):
                status_text = get_field(container, "state", state) or {}
                if status_text and status_text.get("reason") not in {
                    None,
                    "Completed",
                    "ContainerCreating",
                    "PodInitializing",
                }:
                    words = f": {status_text['message']}" if status_text.get("message") else ""
                    reasons.append(f"container {container.get('name')}: {status_text['reason']}{words}")
    return reasons


def replication_controller(obj: Mapping[str, Any]) -> Verdict:
    replicas = get_field(obj, "spec", "replicas")
    replicas = 1 if replicas is None else replicas
    available = _number(obj, "status", "availableReplicas")
    return READY if available == replicas else waiting(f"{available} of {replicas} replicas available")


def persistent_volume(obj: Mapping[str, Any]) -> Verdict:
    phase = get_field(obj, "status", "phase")
    return READY if phase in {"Available", "Bound"} else waiting(f"volume is {phase or 'not yet seen'}")


def claim(binding: str) -> Ready:
    """Return the check of a PersistentVolumeClaim. With WaitForFirstConsumer it binds when a pod uses it."""

    def test(obj: Mapping[str, Any]) -> Verdict:
        phase = get_field(obj, "status", "phase")
        if phase == "Bound" or (phase == "Pending" and binding == "WaitForFirstConsumer"):
            return READY
        if phase == "Lost":
            return failed("the volume it was bound to is gone")
        return waiting(f"claim is {phase or 'not yet seen'}")

    return test


def resource_quota(obj: Mapping[str, Any]) -> Verdict:
    hard = get_field(obj, "spec", "hard")
    return READY if hard == get_field(obj, "status", "hard") else waiting("the quota controller has not yet counted")


def token_secret(obj: Mapping[str, Any]) -> Verdict:
    if obj.get("type") != "kubernetes.io/service-account-token" or obj.get("data"):
        return READY
    return waiting("the token has not yet been written")


def definition(obj: Mapping[str, Any]) -> Verdict:
    accepted, established = condition(obj, "NamesAccepted"), condition(obj, "Established")
    if accepted.get("status") == "False":
        return failed(condition_text(accepted))
    return READY if established.get("status") == "True" else waiting("not yet Established")


def load_balancer(obj: Mapping[str, Any]) -> Verdict:
    """Check that a Service of type LoadBalancer or an Ingress has an address."""
    return READY if get_field(obj, "status", "loadBalancer", "ingress") else waiting("no address has been assigned yet")


def namespace(obj: Mapping[str, Any]) -> Verdict:
    phase = get_field(obj, "status", "phase")
    return READY if phase == "Active" else waiting(f"namespace is {phase or 'not yet seen'}")


def endpoints(slices: Sequence[Mapping[str, Any]], service: str) -> Verdict:
    """Check that a Service has a ready endpoint."""
    for slice_ in slices:
        if get_field(slice_, "metadata", "labels", "kubernetes.io/service-name") == service and any(
            get_field(endpoint, "conditions", "ready") is not False for endpoint in slice_.get("endpoints") or []
        ):
            return READY
    return waiting(f"Service {service} has no ready endpoint: does its selector match pods that are ready?")


def needs_endpoints(service: Mapping[str, Any]) -> bool:
    """Return whether a Service needs endpoints: headless, external and selector-less ones do not."""
    return (
        bool(get_field(service, "spec", "selector"))
        and get_field(service, "spec", "clusterIP") != "None"
        and get_field(service, "spec", "type") != "ExternalName"
    )


def backends(ingress: Mapping[str, Any]) -> list[str]:
    """Return the backend Services of an Ingress."""
    value: list[str] = []
    default = get_field(ingress, "spec", "defaultBackend", "service", "name")
    names = [default] if default else []
    for rule in get_field(ingress, "spec", "rules") or []:
        names += [get_field(path, "backend", "service", "name") for path in get_field(rule, "http", "paths") or []]
    for name in names:
        if name and name not in value:
            value.append(str(name))
    return value


# Kinds that are ready by what they say themselves. Service, Ingress and claims also look elsewhere: waiting.py.
TABLE: Final[Mapping[tuple[str, str], Ready]] = {
    ("", "Namespace"): namespace,
    ("", "PersistentVolume"): persistent_volume,
    ("", "Pod"): pod,
    ("", "ReplicationController"): replication_controller,
    ("", "ResourceQuota"): resource_quota,
    ("", "Secret"): token_secret,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definition,
    ("apps", "DaemonSet"): daemon_set,
    ("apps", "Deployment"): deployment,
    ("apps", "StatefulSet"): stateful_set,
    ("batch", "Job"): job,
}

# Kinds whose readiness a refresh looks at again: something may have broken them since.
RECHECKED: Final = frozenset(
    {
        ("", "Pod"),
        ("", "Service"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("networking.k8s.io", "Ingress"),
    }
)


# Kinds whose skipAwait also counts for deleting.
DELETED_WITHOUT_WAIT: Final = frozenset(
    {
        ("", "Namespace"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
    }
)


def key(obj: Mapping[str, Any]) -> tuple[str, str]:
    return group_of(objects.api_version(obj)), objects.kind(obj)
