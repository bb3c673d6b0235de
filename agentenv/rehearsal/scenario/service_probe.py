"""Create a workspace through the service: time it, suspend it, resume it with the same home, and delete it.

The service runs as processes of the stack's own pods. Its callers here are service accounts, whose tokens the API
server signs for the service's audience. A second request with another key gets another workspace, with another home.
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
from agentenv.rehearsal.controlplane.client import Client, has_condition, until
from agentenv.rehearsal.controlplane.pods import listen_addresses
from agentenv.rehearsal.controlplane.ports import DIRECTLY
from agentenv.rehearsal.scenario import command_probe, gateway_probe, storage_probe
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed, Slot

Object = dict[str, Any]

# These need a running container; tests cover them with stubs.
NOT_SIMULATED = (
    "storage metering: what its jobs find in homes, for no container of theirs runs",
    "kubectl: exec, port-forward, cp and logs, for no kubelet answers",
)
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}"
_ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
_TIMEOUT_SECONDS = 60.0
_RELEASE_SECONDS = 180.0


@dataclass(frozen=True)
class Entry:
    """The result of entering a workspace by its host."""

    wake_ms: float
    gateway_added_ms: float


@dataclass(frozen=True)
class Visit:
    """How a workspace is entered by its host, and by whom it must not be."""

    front: gateway_probe.Front
    stranger: Service


@dataclass(frozen=True)
class CreatedWorkspace:
    """The result of creating a workspace through the service."""

    milliseconds: float
    slot: Slot | None
    first_command_ms: float | None = None  # None where no command can run in it
    entry: Entry | None = None  # None where it has no host


class Service:
    """A client of the deployed service, as one of its callers."""

    def __init__(self, address: str, token: str) -> None:
        self.address, self.token = address, token

    def request(self, method: str, path: str, body: Object | None = None, seconds: float = _TIMEOUT_SECONDS) -> Object:
        """Send one request; ProbeFailed, with the service's own message, unless it succeeds."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.address}{path}", data, headers, method=method)  # noqa: S310 - loopback
        try:
            with DIRECTLY.open(request, timeout=seconds) as response:
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise ProbeFailed(
                f"the service answered {method} {path} with {error.code}: {_problem_text(error)}"
            ) from None
        except OSError as failure:
            raise ProbeFailed(f"the service does not answer {method} {path}: {failure}") from failure


def is_deployed(client: Client) -> bool:
    """Return whether the stack has the service."""
    return client.find(DEPLOYMENT) is not None


def addresses(client: Client, plane: Path) -> list[str]:
    """Return the addresses of its Ready pods."""
    pods = client.get(f"/api/v1/namespaces/{NAME}/pods")["items"]
    ready = [pod for pod in pods if has_condition(pod) and "deletionTimestamp" not in pod["metadata"]]
    urls = [listen_addresses.address(plane, pod["metadata"]["uid"], "--port") for pod in ready]
    return [url for url in urls if url is not None]


@contextmanager
def service_client(
    client: Client, plane: Path, audience: str | None = None, name: str | None = None
) -> Iterator[Service]:
    """Yield a client of the service that authenticates as a service account created for the rehearsal."""
    name = name or f"rehearsal-{secrets.token_hex(3)}"
    try:
        yield connect(client, plane, audience, name)
    finally:
        client.delete(f"{_ACCOUNTS}/{name}")


def connect(client: Client, plane: Path, audience: str | None, account: str, seconds: int = 3600) -> Service:
    """Return a client of the service that authenticates as a service account, which is created."""
    urls = until(lambda: addresses(client, plane), _TIMEOUT_SECONDS)
    if not urls:
        raise ProbeFailed("no pod of the workspace service is Ready")
    metadata = {"name": account, "namespace": "default"}
    client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    spec = {"audiences": [audience or Settings().audience], "expirationSeconds": seconds}
    token_request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    token = client.request("POST", f"{_ACCOUNTS}/{account}/token", token_request)["status"]["token"]
    return Service(urls[0], token)


def probe_workspace(
    client: Client,
    service: Service,
    pool: Object,
    sign: command_probe.Signer | None = None,
    visit: Visit | None = None,
) -> CreatedWorkspace:
    """Create a workspace of a pool's class, suspend, resume and delete it; its home must stay the same.

    With a signer of tokens, commands run in it where its pod does: one at first, and one after the suspension. Where it
    has a host, it is entered and woken by it.
    """
    request = {"class": pool["metadata"]["labels"][CLASS_LABEL], "mode": _mode(client, pool), "key": "rehearsal"}
    if request["mode"] != "user":
        request[{"session": "session", "agent": "agent"}[request["mode"]]] = "rehearsal"
    began = time.monotonic()
    created = service.request("POST", "/v1/workspaces?wait=60", request)
    milliseconds = (time.monotonic() - began) * 1000
    first_command_ms: float | None = None
    entry: Entry | None = None
    try:
        _expect_state(created, "running")
        workspace = _commands(client, created, sign)
        if workspace is not None:
            first_command_ms = command_probe.first_command(workspace, began)
        repeated = service.request("POST", "/v1/workspaces?wait=60", request)
        if repeated["id"] != created["id"]:
            raise ProbeFailed(
                f"for two requests with one key, the service created {created['id']} and {repeated['id']}"
            )
        _check_sizes(service, created)
        before = _slot(client, created)
        service.request("POST", f"/v1/workspaces/{created['id']}/suspend")
        _wait_for_state(service, created, "suspended")
        service.request("POST", f"/v1/workspaces/{created['id']}/resume?wait=60")
        _wait_for_state(service, created, "running")
        if (after := _slot(client, created)) != before:
            raise ProbeFailed(f"a workspace was suspended with {before} and resumed with {after}")
        if workspace is not None and before is not None:
            command_probe.check_file(workspace)
            entry = _enter(service, created, workspace, visit) if visit is not None else None
    finally:
        service.request("DELETE", f"/v1/workspaces/{created['id']}?destroy=true")
        _wait_until_deleted(client, created)
    return CreatedWorkspace(round(milliseconds, 1), before, first_command_ms, entry)


def _enter(service: Service, created: Object, commands: command_probe.Workspace, visit: Visit) -> Entry:
    """Open a program of a workspace by its host, suspend the workspace, and wake it by a request."""
    with gateway_probe.keys_of(visit.front, created["id"], service, visit.stranger) as hosts:
        added = gateway_probe.enter(hosts, commands)
        service.request("POST", f"/v1/workspaces/{created['id']}/suspend")
        _wait_for_state(service, created, "suspended")
        return Entry(gateway_probe.wake(hosts), added)


def _check_sizes(service: Service, workspace: Object) -> None:
    """Check that the sandbox gets each larger size of its class in place, and the smallest one again."""
    classes = service.request("GET", "/v1/classes")["items"]
    sizes = next((row["sizes"] for row in classes if row["name"] == workspace["class"]), [])
    for size in [*sizes[1:], sizes[0]] if len(sizes) > 1 else ():
        changed = service.request("PATCH", f"/v1/workspaces/{workspace['id']}", {"size": size})
        if (changed["current_size"], changed["sandbox"]) != (size, workspace["sandbox"]):
            raise ProbeFailed(f"a workspace was not resized to {size}: {changed['size_pending'] or changed}")


def _commands(client: Client, workspace: Object, sign: command_probe.Signer | None) -> command_probe.Workspace | None:
    """Return the workspace as one in which commands run; None without a signer, or where its pod is simulated."""
    claim = _claim(client, workspace)
    if sign is None or claim is None:
        return None
    commands = command_probe.Workspace(client, claim, sign)
    return commands if commands.is_running() else None


def _mode(client: Client, pool: Object) -> str:
    """Return a mode that the pool's class supports."""
    config_map = client.find(f"/api/v1/namespaces/{pool['metadata']['namespace']}/configmaps/sandbox-class") or {}
    modes = (config_map.get("data") or {}).get("modes") or "user"
    return modes.split(",")[0].strip()


def _claim(client: Client, workspace: Object) -> Object | None:
    return client.find(f"/apis/{EXTENSIONS}/namespaces/{namespace(workspace['class'])}/sandboxclaims/{workspace['id']}")


def _slot(client: Client, workspace: Object) -> Slot | None:
    claim = _claim(client, workspace)
    if claim is None:
        raise ProbeFailed(f"the service reports {workspace['id']}, which has no claim")
    return storage_probe.slot_of(client, claim)


def _expect_state(workspace: Object, state: str) -> None:
    if workspace["state"] != state:
        raise ProbeFailed(
            f"a workspace is {workspace['state']} and not {state}: {workspace.get('why') or 'no reason given'}"
        )


def _wait_for_state(service: Service, workspace: Object, state: str) -> None:
    path = f"/v1/workspaces/{workspace['id']}"
    if not until(lambda: service.request("GET", path)["state"] == state, _TIMEOUT_SECONDS):
        _expect_state(service.request("GET", path), state)


def _wait_until_deleted(client: Client, workspace: Object) -> None:
    """Wait until the workspace's claim is deleted, and its home is emptied and deleted, with a record of it."""
    if not until(lambda: _claim(client, workspace) is None, _TIMEOUT_SECONDS):
        raise ProbeFailed(f"the claim of {workspace['id']} still exists a minute after its deletion")
    if not until(lambda: not _volumes(client, workspace), _RELEASE_SECONDS):
        raise ProbeFailed(f"the home of {workspace['id']} still exists {_RELEASE_SECONDS:.0f} s after its release")
    query = {"labelSelector": "sandbox.users.io/record=destroyed"}
    pages = client.get(f"/api/v1/namespaces/{NAME}/configmaps", **query)["items"]
    records = [json.loads(text) for page in pages for text in (page.get("data") or {}).values()]
    own = [record for record in records if record["workspace"] == workspace["id"]]
    if not all("emptied" in record for record in own):
        raise ProbeFailed(f"the home of {workspace['id']} was deleted with its files: {own}")


def _volumes(client: Client, workspace: Object) -> list[Object]:
    query = {"labelSelector": f"sandbox.users.io/workspace={workspace['id']}"}
    return client.get("/api/v1/persistentvolumes", **query)["items"]


def _problem_text(error: urllib.error.HTTPError) -> str:
    try:
        problem = json.loads(error.read())
        return f"{problem.get('title', '')}: {problem.get('detail', '')}"
    except ValueError:
        return error.reason
