"""A workspace made through the service, as people have one: timed, put to sleep, woken on the same data, and ended.

The service runs as processes of the stack's own pods; its callers here are service accounts, whose tokens the API
server signs for the service's audience. Whoever asks next gets another workspace, with another home.
"""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentenv.config.sections.service import Service as Settings
from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import EXTENSIONS, namespace
from agentenv.core.service.rbac import NAME
from agentenv.rehearsal.controlplane.client import ApiError, Client, until
from agentenv.rehearsal.controlplane.pods import listen_addresses as listening
from agentenv.rehearsal.controlplane.ports import DIRECTLY
from agentenv.rehearsal.scenario import storage_probe as slots
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed, Slot

Object = dict[str, Any]

# What needs a running container or a real certificate, and is tried in tests against stubs of the other side.
NOT_SIMULATED = (
    "workspace service: listeners of its load balancer",
    "storage metering: what its jobs find in homes, for no container runs",
    "workspaces: exec, ssh, port-forward and cp, for no container runs",
)
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}"
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_PATIENCE_SECONDS = 60.0
_LET_GO_SECONDS = 60.0


@dataclass(frozen=True)
class Made:
    """A workspace that was made through the service, and what it had."""

    milliseconds: float
    slot: Slot | None


class Service:
    """The service of a stack that is up, as one of its callers."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self._token = address, token

    def ask(self, method: str, path: str, body: Object | None = None, seconds: float = _PATIENCE_SECONDS) -> Object:
        """One request; ProbeFailed, with the service's own words, unless it did what was asked."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}{path}", data, headers, method=method)  # noqa: S310 - loopback
        try:
            with DIRECTLY.open(request, timeout=seconds) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as refusal:
            raise ProbeFailed(f"the service answers {method} {path} with {refusal.code}: {_words(refusal)}") from None
        except OSError as failure:
            raise ProbeFailed(f"the service does not answer {method} {path}: {failure}") from failure


def deployed(client: Client) -> bool:
    """Whether the stack has the service."""
    return client.find(DEPLOYMENT) is not None


def addresses(client: Client, plane: Path) -> list[str]:
    """Where its Ready pods answer."""
    pods = client.get(f"/api/v1/namespaces/{NAME}/pods")["items"]
    ready = [pod for pod in pods if _ready(pod) and "deletionTimestamp" not in pod["metadata"]]
    found = [listening.address(plane, pod["metadata"]["uid"], "--port") for pod in ready]
    return [one for one in found if one is not None]


@contextmanager
def caller(client: Client, plane: Path, audience: str | None = None, name: str | None = None) -> Iterator[Service]:
    """The service, as a service account of this rehearsal's own."""
    found = until(lambda: addresses(client, plane), _PATIENCE_SECONDS)
    if not found:
        raise ProbeFailed("no pod of the workspace service is Ready")
    name = name or f"rehearsal-{secrets.token_hex(3)}"
    about = {"name": name, "namespace": "default"}
    client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about})
    try:
        spec = {"audiences": [audience or Settings().audience], "expirationSeconds": 3600}
        wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        token = client.ask("POST", f"{_ACCOUNTS}/{name}/token", wanted)["status"]["token"]
        yield Service(found[0], token)
    finally:
        client.delete(f"{_ACCOUNTS}/{name}")


def workspace(client: Client, service: Service, pool: Object) -> Made:
    """Make one of a pool's class, put it to sleep, wake it, end it; its home has to be the same all the while."""
    asked = {"class": pool["metadata"]["labels"][CLASS_LABEL], "mode": _mode(client, pool), "key": "rehearsal"}
    if asked["mode"] != "user":
        asked[{"session": "session", "agent": "agent"}[asked["mode"]]] = "rehearsal"
    began = time.monotonic()
    made = service.ask("POST", "/v1/workspaces?wait=60", asked)
    took = (time.monotonic() - began) * 1000
    try:
        _demand(made, "running")
        again = service.ask("POST", "/v1/workspaces?wait=60", asked)
        if again["id"] != made["id"]:
            raise ProbeFailed(f"asked for twice by one key, the service made {made['id']} and {again['id']}")
        before = _slot(client, made)
        service.ask("POST", f"/v1/workspaces/{made['id']}/suspend")
        _settled(service, made, "suspended")
        service.ask("POST", f"/v1/workspaces/{made['id']}/resume?wait=60")
        _settled(service, made, "running")
        if (after := _slot(client, made)) != before:
            raise ProbeFailed(f"a workspace went to sleep with {before} and woke up with {after}")
    finally:
        service.ask("DELETE", f"/v1/workspaces/{made['id']}?destroy=true")
        _gone(client, made)
    return Made(round(took, 1), before)


def _mode(client: Client, pool: Object) -> str:
    """A mode that the pool's class is for."""
    found = client.find(f"/api/v1/namespaces/{pool['metadata']['namespace']}/configmaps/sandbox-class") or {}
    offered = (found.get("data") or {}).get("modes") or "user"
    return offered.split(",")[0].strip()


def _claim(client: Client, made: Object) -> Object | None:
    return client.find(f"/apis/{EXTENSIONS}/namespaces/{namespace(made['class'])}/sandboxclaims/{made['id']}")


def _slot(client: Client, made: Object) -> Slot | None:
    claim = _claim(client, made)
    if claim is None:
        raise ProbeFailed(f"the service tells of {made['id']}, of which there is no claim")
    return slots.slot_of(client, claim)


def _demand(told: Object, state: str) -> None:
    if told["state"] != state:
        raise ProbeFailed(f"a workspace is {told['state']} and not {state}: {told.get('why') or 'nobody says why'}")


def _settled(service: Service, made: Object, state: str) -> None:
    path = f"/v1/workspaces/{made['id']}"
    if not until(lambda: service.ask("GET", path)["state"] == state, _PATIENCE_SECONDS):
        _demand(service.ask("GET", path), state)


def _gone(client: Client, made: Object) -> None:
    """Until its claim and its home are gone.

    The service comes by every ten minutes to destroy what is to be destroyed; that it does is seen in its own tests.
    Nobody waits for that here: once it has said so of a volume, the volume is let go as the service would.
    """
    if not until(lambda: _claim(client, made) is None, _PATIENCE_SECONDS):
        raise ProbeFailed(f"the claim of {made['id']} is still there, a minute after it was deleted")
    for volume in _volumes(client, made):
        path = f"/api/v1/persistentvolumes/{volume['metadata']['name']}"
        try:
            client.merge(path, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
        except ApiError as error:
            if error.status != 404:
                raise
    if not until(lambda: not _volumes(client, made), _LET_GO_SECONDS):
        raise ProbeFailed(f"the home of {made['id']} is still there, a minute after it was let go")


def _volumes(client: Client, made: Object) -> list[Object]:
    said = {"labelSelector": f"sandbox.users.io/workspace={made['id']}"}
    return client.get("/api/v1/persistentvolumes", **said)["items"]


def _ready(pod: Object) -> bool:
    rows = (pod.get("status") or {}).get("conditions") or []
    return any((row["type"], row["status"]) == ("Ready", "True") for row in rows)


def _words(refusal: urllib.error.HTTPError) -> str:
    try:
        said = json.loads(refusal.read())
        return f"{said.get('title', '')}: {said.get('detail', '')}"
    except ValueError:
        return refusal.reason
