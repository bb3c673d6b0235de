"""When an object is ready: a table of kinds, and what each is looked at for. Pure: an object in, a verdict out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from agentenv.rehearsal.providers.kubernetes import objects
from agentenv.rehearsal.providers.kubernetes.discovery import group_of
from agentenv.rehearsal.providers.kubernetes.objects import condition, pluck
from agentenv.rehearsal.providers.kubernetes.verdict import READY, Verdict, failed, waiting

Ready = Callable[[Mapping[str, Any]], Verdict]


def _number(obj: Mapping[str, Any], *path: str) -> int:
    found = pluck(obj, *path)
    return found if isinstance(found, int) else 0


def said(found: Mapping[str, Any]) -> str:
    """A condition in words."""
    text = f"{found.get('type')}={found.get('status')} {found.get('reason') or ''}".strip()
    return f"{text}: {found['message']}" if found.get("message") else text


def _unseen(obj: Mapping[str, Any]) -> Verdict | None:
    if not isinstance(pluck(obj, "status", "observedGeneration"), int) or not objects.settled(obj):
        return waiting(f"the controller has not yet seen {objects.kind(obj)} {objects.identity(obj)}")
    return None


def deployment(obj: Mapping[str, Any]) -> Verdict:
    if (unseen := _unseen(obj)) is not None:
        return unseen
    if pluck(obj, "spec", "paused") is True:
        return READY
    wanted = pluck(obj, "spec", "replicas")
    wanted = 1 if wanted is None else wanted
    updated, available = _number(obj, "status", "updatedReplicas"), _number(obj, "status", "availableReplicas")
    old = _number(obj, "status", "replicas") - updated
    reasons: list[str] = []
    if updated < wanted or available < wanted:
        reasons.append(f"{updated} of {wanted} replicas updated, {available} available")
    if old > 0:
        reasons.append(f"{old} old replicas still to go")
    progressing, up = condition(obj, "Progressing"), condition(obj, "Available")
    if progressing.get("status") == "False":
        reasons.append(said(progressing))
    if up.get("status") != "True":
        reasons.append(said(up) if up else "not yet Available")
    return waiting(*reasons) if reasons else READY


def stateful_set(obj: Mapping[str, Any]) -> Verdict:
    if (unseen := _unseen(obj)) is not None:
        return unseen
    wanted = pluck(obj, "spec", "replicas")
    wanted = 1 if wanted is None else wanted
    ready = _number(obj, "status", "readyReplicas")
    if ready < wanted:
        return waiting(f"{ready} of {wanted} pods ready")
    if pluck(obj, "spec", "updateStrategy", "type") == "OnDelete":
        return READY
    updated = _number(obj, "status", "updatedReplicas")
    kept = _number(obj, "spec", "updateStrategy", "rollingUpdate", "partition")
    if updated < max(0, wanted - kept):
        return waiting(f"{updated} of {max(0, wanted - kept)} pods at the new revision")
    current, update = pluck(obj, "status", "currentRevision"), pluck(obj, "status", "updateRevision")
    if kept == 0 and current != update:
        return waiting(f"revision {current} is still to become {update}")
    return READY


def daemon_set(obj: Mapping[str, Any]) -> Verdict:
    if (unseen := _unseen(obj)) is not None:
        return unseen
    wanted = _number(obj, "status", "desiredNumberScheduled")
    available = _number(obj, "status", "numberAvailable")
    updated = _number(obj, "status", "updatedNumberScheduled")
    rolling = pluck(obj, "spec", "updateStrategy", "type") != "OnDelete"
    if available < wanted or (rolling and updated < wanted):
        return waiting(f"{updated} of {wanted} nodes have the new pod, {available} available")
    return READY


def job(obj: Mapping[str, Any]) -> Verdict:
    if condition(obj, "Complete").get("status") == "True":
        return READY
    broken = condition(obj, "Failed")
    if broken.get("status") == "True":
        return failed(said(broken))
    if pluck(obj, "spec", "suspend") is True:
        return READY
    done, active = _number(obj, "status", "succeeded"), _number(obj, "status", "active")
    return waiting(f"{done} of {_number(obj, 'spec', 'completions') or 1} done, {active} running")


def pod(obj: Mapping[str, Any]) -> Verdict:
    phase = pluck(obj, "status", "phase")
    if phase == "Succeeded":
        return READY
    if phase == "Failed":
        told = pluck(obj, "status", "message") or pluck(obj, "status", "reason") or "the pod failed"
        return failed(str(told), *pod_troubles(obj))
    if condition(obj, "Ready").get("status") == "True":
        return READY
    return waiting(f"pod is {phase or 'not yet seen'}", *pod_troubles(obj))


def pod_troubles(obj: Mapping[str, Any]) -> list[str]:
    """What keeps a pod's containers, or the pod itself, from running."""
    reasons: list[str] = []
    scheduled = condition(obj, "PodScheduled")
    if scheduled.get("status") == "False":
        reasons.append(f"{scheduled.get('reason')}: {scheduled.get('message')}")
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in pluck(obj, "status", field) or []:
            for state in ("waiting", "terminated"):
                told = pluck(container, "state", state) or {}
                if told and told.get("reason") not in {None, "Completed", "ContainerCreating", "PodInitializing"}:
                    words = f": {told['message']}" if told.get("message") else ""
                    reasons.append(f"container {container.get('name')}: {told['reason']}{words}")
    return reasons


def replication_controller(obj: Mapping[str, Any]) -> Verdict:
    wanted = pluck(obj, "spec", "replicas")
    wanted = 1 if wanted is None else wanted
    available = _number(obj, "status", "availableReplicas")
    return READY if available == wanted else waiting(f"{available} of {wanted} replicas available")


def persistent_volume(obj: Mapping[str, Any]) -> Verdict:
    phase = pluck(obj, "status", "phase")
    return READY if phase in {"Available", "Bound"} else waiting(f"volume is {phase or 'not yet seen'}")


def claim(binding: str) -> Ready:
    """A PersistentVolumeClaim, by its class's binding mode: with WaitForFirstConsumer it binds when a pod comes."""

    def test(obj: Mapping[str, Any]) -> Verdict:
        phase = pluck(obj, "status", "phase")
        if phase == "Bound" or (phase == "Pending" and binding == "WaitForFirstConsumer"):
            return READY
        if phase == "Lost":
            return failed("the volume it was bound to is gone")
        return waiting(f"claim is {phase or 'not yet seen'}")

    return test


def resource_quota(obj: Mapping[str, Any]) -> Verdict:
    hard = pluck(obj, "spec", "hard")
    return READY if hard == pluck(obj, "status", "hard") else waiting("the quota controller has not yet counted")


def token_secret(obj: Mapping[str, Any]) -> Verdict:
    if obj.get("type") != "kubernetes.io/service-account-token" or obj.get("data"):
        return READY
    return waiting("the token has not yet been written")


def definition(obj: Mapping[str, Any]) -> Verdict:
    accepted, established = condition(obj, "NamesAccepted"), condition(obj, "Established")
    if accepted.get("status") == "False":
        return failed(said(accepted))
    return READY if established.get("status") == "True" else waiting("not yet Established")


def load_balancer(obj: Mapping[str, Any]) -> Verdict:
    """A Service of type LoadBalancer, or an Ingress: has it an address?"""
    return READY if pluck(obj, "status", "loadBalancer", "ingress") else waiting("no address has been assigned yet")


def namespace(obj: Mapping[str, Any]) -> Verdict:
    phase = pluck(obj, "status", "phase")
    return READY if phase == "Active" else waiting(f"namespace is {phase or 'not yet seen'}")


def endpoints(slices: Sequence[Mapping[str, Any]], service: str) -> Verdict:
    """Whether a Service has an endpoint that answers."""
    for one in slices:
        if pluck(one, "metadata", "labels", "kubernetes.io/service-name") == service and any(
            pluck(endpoint, "conditions", "ready") is not False for endpoint in one.get("endpoints") or []
        ):
            return READY
    return waiting(f"Service {service} has no ready endpoint: does its selector match pods that are ready?")


def wants_endpoints(service: Mapping[str, Any]) -> bool:
    """Whether pods are to stand behind it: not for headless, external or hand-made ones."""
    return (
        bool(pluck(service, "spec", "selector"))
        and pluck(service, "spec", "clusterIP") != "None"
        and pluck(service, "spec", "type") != "ExternalName"
    )


def backends(ingress: Mapping[str, Any]) -> list[str]:
    """The Services that an Ingress sends to."""
    found: list[str] = []
    default = pluck(ingress, "spec", "defaultBackend", "service", "name")
    names = [default] if default else []
    for rule in pluck(ingress, "spec", "rules") or []:
        names += [pluck(path, "backend", "service", "name") for path in pluck(rule, "http", "paths") or []]
    for name in names:
        if name and name not in found:
            found.append(str(name))
    return found


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
LOOKED_AT_AGAIN: Final = frozenset(
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
DELETED_UNSEEN: Final = frozenset(
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
