"""Enter a workspace by its host, as its callers do: over TLS, through the load balancer, Envoy and the service.

The certificate is one of the rehearsal's authority. A program behind a port is opened, compared with the same program
at its pod's address, and refused to a stranger. After a suspension the request for a file wakes the workspace.
"""

from __future__ import annotations

import http.client
import secrets
import socket
import ssl
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentenv.core.capabilities.cluster_facts import DAEMON_PORT
from agentenv.core.gateway.hosts import port_host
from agentenv.core.workspaces.workspace import workspace_id
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.scenario import command_probe
from agentenv.rehearsal.scenario.storage_probe import ProbeFailed

Object = dict[str, Any]

PORT = 3000
TEXT = "rehearsed\n"  # the content of the file that the first command leaves in the home
_FILE = "rehearsal"
_REQUESTS = 40
_SECONDS = 90.0
_READY_SECONDS = 60.0
_SERVE = f"cd && (setsid python3 -m http.server {PORT} --bind 127.0.0.1 >/dev/null 2>&1 </dev/null &)"


class Caller(Protocol):
    """A caller of the deployed service."""

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        """Send one request to the API."""
        ...


@dataclass(frozen=True)
class Front:
    """Where the load balancer of an environment listens, the authority of its certificate, and its domains."""

    address: str  # host and port
    authority: str = field(repr=False)  # a file
    workspace_domain: str

    @contextmanager
    def connection(self, host: str) -> Iterator[http.client.HTTPSConnection]:
        """Yield a connection to a host, whose certificate is checked."""
        where, _, port = self.address.rpartition(":")
        context = ssl.create_default_context(cafile=self.authority)
        connection = _Connection(host, (where, int(port)), context)
        try:
            yield connection
        finally:
            connection.close()

    def get(self, host: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """Return the status and the body of a response."""
        with self.connection(host) as connection:
            return _get(connection, path, headers)


class _Connection(http.client.HTTPSConnection):
    """A connection to a host at an address that no resolver knows."""

    def __init__(self, host: str, address: tuple[str, int], context: ssl.SSLContext) -> None:
        super().__init__(host, timeout=_SECONDS, context=context)
        self._address, self._tls = address, context

    def connect(self) -> None:
        plain = socket.create_connection(self._address, timeout=_SECONDS)
        # As http.client does: a request would wait until the end of the handshake is acknowledged, for 40 ms
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


@dataclass(frozen=True)
class Hosts:
    """The hosts of a workspace, and the keys of its owner and of a stranger."""

    front: Front
    workspace: str
    owner: str = field(repr=False)
    stranger: str = field(repr=False)

    @property
    def port(self) -> str:
        """Return the host of the program."""
        return port_host(PORT, self.workspace, self.front.workspace_domain)

    @property
    def api(self) -> str:
        """Return the host of workspaced's API."""
        return port_host(DAEMON_PORT, self.workspace, self.front.workspace_domain)


def front_of(settings: Mapping[str, Any], balancers: Mapping[str, Any]) -> Front | None:
    """Return where an environment is entered, by the settings of its service and the listeners that are served."""
    # The section of the stack file, which has texts and lists where the settings have other types.
    domain = settings.get("workspaceDomain") or settings.get("domain")
    listeners = list(balancers.get("listeners", {}).values())
    if not domain or len(listeners) != 1:
        return None
    return Front(listeners[0], str(balancers["authority"]), str(domain))


@contextmanager
def keys_of(front: Front, workspace: str, owner: Caller, stranger: Caller) -> Iterator[Hosts]:
    """Yield the hosts of a workspace with a key of its owner and one of a stranger, which are revoked at the end."""
    created: list[tuple[Caller, Object]] = []
    try:
        for caller in (owner, stranger):
            body = {"name": "rehearsal", "scopes": ["use", "wake"], "expires_in": 3600}
            created.append((caller, caller.request("POST", "/v1/keys", body)))
        mine, theirs = (str(key["key"]) for _, key in created)
        yield Hosts(front, workspace, mine, theirs)
    finally:
        for caller, key in created:
            caller.request("DELETE", f"/v1/keys/{key['id']}")


def enter(hosts: Hosts, commands: command_probe.Workspace) -> float:
    """Open a program by its host; return the milliseconds that the way there adds to a request at its pod."""
    commands.run(_SERVE)
    mine = _bearer(hosts.owner)

    def is_open() -> bool:
        return hosts.front.get(hosts.port, f"/{_FILE}", mine) == (200, TEXT)

    # The program may not listen yet.
    if not until(is_open, _READY_SECONDS):
        status, body = hosts.front.get(hosts.port, f"/{_FILE}", mine)
        raise ProbeFailed(f"the server at {hosts.port} answers {status}: {body[:200]}")
    _refuse_stranger(hosts)
    with hosts.front.connection(hosts.port) as connection:
        through = _median_ms(connection, mine)
    pod = commands.pod_connection(_SECONDS)
    try:
        direct = _median_ms(pod, {**commands.headers(f"port:{PORT}"), "X-Workspace-Port": str(PORT)})
    finally:
        pod.close()
    return round(through - direct, 2)


def wake(hosts: Hosts) -> float:
    """Return the milliseconds of a request for a file, which wakes the workspace."""
    status, body = hosts.front.get(hosts.api, f"/files?path={_FILE}", _bearer(hosts.stranger))
    if status == 200:
        raise ProbeFailed(f"a stranger woke {hosts.workspace}")
    began = time.monotonic()
    status, body = hosts.front.get(hosts.api, f"/files?path={_FILE}", _bearer(hosts.owner))
    milliseconds = (time.monotonic() - began) * 1000
    if (status, body) != (200, TEXT):
        raise ProbeFailed(f"the request that wakes {hosts.workspace} was answered with {status}: {body[:200]}")
    return round(milliseconds, 1)


def _refuse_stranger(hosts: Hosts) -> None:
    """Check that a stranger gets the same 404 for a workspace of another and for one that does not exist."""
    none = port_host(PORT, workspace_id("nobody", secrets.token_hex(8), "a0"), hosts.front.workspace_domain)
    answers = {hosts.front.get(host, "/", _bearer(hosts.stranger)) for host in (hosts.port, none)}
    statuses = {status for status, _ in answers}
    if statuses != {404} or len(answers) != 1:
        raise ProbeFailed(f"a stranger at {hosts.port} and at a host of nobody is answered with {sorted(statuses)}")


def _median_ms(connection: http.client.HTTPConnection, headers: Mapping[str, str]) -> float:
    durations: list[float] = []
    for _ in range(_REQUESTS):
        began = time.perf_counter()
        status, body = _get(connection, f"/{_FILE}", headers)
        durations.append((time.perf_counter() - began) * 1000)
        if (status, body) != (200, TEXT):
            raise ProbeFailed(f"a warm request is answered with {status}: {body[:200]}")
    return statistics.median(durations)


def _get(connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
    connection.request("GET", path, headers=dict(headers))
    response = connection.getresponse()
    return response.status, response.read().decode(errors="replace")


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
