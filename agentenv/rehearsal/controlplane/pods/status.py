"""What a kubelet reports of a pod, its phase, conditions and containers, and how it deletes the pod."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from agentenv.rehearsal.controlplane.client import ApiError, PodApi, until

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
_DELETE_SECONDS = 30.0


def now() -> str:
    """Return the current time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def running(since: str = "") -> Object:
    """Return the state of a running container."""
    return {"running": {"startedAt": since or now()}}


def waiting(reason: str, message: str) -> Object:
    """Return the state of a container that does not run yet, or not again."""
    return {"waiting": {"reason": reason, "message": message}}


def terminated(code: int, reason: str = "", since: str = "", message: str = "") -> Object:
    """Return the state of a container that has ended; a negative code is the number of a signal."""
    exit_code = 128 - code if code < 0 else code % 256
    state: Object = {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": since or now(),
        "finishedAt": now(),
    }
    if code < 0:
        state["signal"] = int(signal.Signals(-code))
    if message:
        state["message"] = message
    return {"terminated": state}


def container(
    spec: Object, state: Object, *, ready: bool = False, restarts: int = 0, last: Object | None = None
) -> Object:
    """Return the status of a container."""
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": "",
        "restartCount": restarts,
        "ready": ready,
        "started": "running" in state,
        "state": state,
        # Without these the API server refuses a resize: the node would be too old for it.
        "resources": spec.get("resources") or {},
        "allocatedResources": (spec.get("resources") or {}).get("requests") or {},
        **({} if last is None else {"lastState": last}),
    }


def pod(
    phase: str,
    address: str,
    containers: Sequence[Object],
    *,
    ready: bool,
    init: Sequence[Object] = (),
    conditions: Sequence[Object] = (),
    **more: str,
) -> Object:
    """Return the status of a pod; `conditions` are further ones, and `more` further fields, such as its reason."""
    states = {
        "PodReadyToStartContainers": True,
        "Initialized": all("terminated" in row["state"] for row in init),
        "ContainersReady": ready,
        "Ready": ready,
    }
    return {
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [
            *({"type": kind, "status": str(value), "lastTransitionTime": now()} for kind, value in states.items()),
            *conditions,
        ],
        "containerStatuses": list(containers),
        **({"initContainerStatuses": list(init)} if init else {}),
        **more,
    }


def report(client: PodApi, path: str, document: Object) -> bool:
    """Report a status; True also where the pod no longer exists. A strategic merge keeps the scheduler's condition."""
    try:
        client.request(
            "PATCH", f"{path}/status", {"status": document}, content="application/strategic-merge-patch+json"
        )
    except ApiError as error:
        if error.status != 404:
            raise
    return True


def delete(client: PodApi, path: str, pod: Object) -> None:
    """Delete a pod that has ended, as its kubelet would: a remaining pod would block the deletion of its owner."""

    def deleted() -> bool:
        try:
            client.delete(path, gracePeriodSeconds=0, preconditions={"uid": pod["metadata"]["uid"]})
        except ApiError as error:
            return error.status == 409  # another pod has that name now
        return True

    if not until(deleted, _DELETE_SECONDS):
        _LOG.error("%s could not be deleted", path)
