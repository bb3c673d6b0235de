"""Start a control plane, wait until it is ready, and stop it: `with control_plane(...) as plane`.

Every program is started with the run's mark in its environment (`agentenv/local/processes.py`), so that the
run's cleanup process finds it should this process be killed.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil

from agentenv.local import processes
from agentenv.rehearsal.controlplane import eks_controllers, kubeconfig, preinstalled, programs, restarts
from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.controlplane.client import Client, Credentials, has_condition, until
from agentenv.rehearsal.controlplane.nodes import kwok_stages
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.controlplane.pods import real_pods
from agentenv.rehearsal.controlplane.ports import HOST, Ports
from agentenv.rehearsal.controlplane.programs import Keys, Layout
from agentenv.rehearsal.controlplane.sandboxes import launcher
from agentenv.rehearsal.tools.toolbox import Toolbox

PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
    *real_pods.TOOLS,
)
_UP_SECONDS = 120.0
_END_SECONDS = 5.0
_SERVER_END_SECONDS = 1.5
_CONTROLLERS = {"kube-controller-manager": "controller-manager", "kube-scheduler": "scheduler"}  # and their ports
_SHOWN_LINES = 10


class PlaneFailed(Exception):
    """The control plane did not start; the message is for the user."""


@dataclass
class ControlPlane:
    """A control plane that is up. Start one with `control_plane()`."""

    layout: Layout
    admin: Credentials
    processes: Mapping[str, subprocess.Popen[bytes]] = field(repr=False)
    seconds: float  # to start
    server_seconds: float  # of those, until the API server was ready
    missing: Mapping[str, str] = field(default_factory=dict)  # the tools that it lacks, and why
    keep_running: bool = False  # whether it stays up at the end; it is then ended by the run's mark

    @property
    def server(self) -> str:
        """Return the API server's address."""
        return self.layout.server

    @property
    def issuer(self) -> str:
        """Return the issuer of service account tokens, as `DescribeCluster` names it."""
        return self.layout.issuer

    @cached_property
    def ca_pem(self) -> str:
        """Return the certificate of the authority that signed the server's certificate."""
        return self.layout.keys.ca.read_text(encoding="ascii")

    @cached_property
    def client(self) -> Client:
        """Return a client with the administrator's credentials."""
        return self.client_as(self.admin)

    def client_as(self, credentials: Credentials) -> Client:
        """Return a client with these credentials; anonymous with empty ones."""
        return Client(self.server, self.layout.keys.ca, credentials)

    def not_simulated(self) -> list[str]:
        """Return what of sandboxes is not simulated here."""
        return launcher.not_simulated(self.layout.folder, self.missing)

    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig file."""
        return self.layout.kubeconfig("admin")

    def add_nodes(self, shapes: Iterable[NodeShape]) -> None:
        """Create nodes and wait until they are Ready."""
        names = [self.client.create(shape.node())["metadata"]["name"] for shape in shapes]
        if not until(lambda: all(map(self._node_is_ready, names)), _UP_SECONDS):
            raise PlaneFailed(f"the nodes {', '.join(names)} did not become Ready; see {self.layout.folder / 'logs'}")

    def memory(self) -> dict[str, float]:
        """Return the resident memory of each process in MB, including those that the controllers started."""
        used: dict[str, float] = {}
        for name, process in self.processes.items():
            with contextlib.suppress(psutil.NoSuchProcess):
                used[name] = psutil.Process(process.pid).memory_info().rss / 2**20
                for child in _children(process):
                    used[child.name()] = used.get(child.name(), 0) + child.memory_info().rss / 2**20
        return used

    def _node_is_ready(self, name: str) -> bool:
        node = self.client.get(f"/api/v1/nodes/{name}")
        ready = has_condition(node)
        # The controller manager removes condition taints a moment later
        return ready and not any(row["key"].startswith("node.kubernetes.io/") for row in node["spec"].get("taints", ()))


@contextmanager
def control_plane(
    toolbox: Toolbox,
    folder: Path,
    environment: Mapping[str, str],
    *,
    cluster: str = "",
    issuer: str = "https://oidc.eks.us-east-1.amazonaws.com/id/REHEARSAL",
    sandboxes: bool = False,
    home_latency: float = 0.0,
) -> Iterator[ControlPlane]:
    """Run a control plane in `folder`, which is deleted at the end.

    `environment` carries the run's mark, and the address and keys of the simulated AWS account if there is one. The
    token webhook takes tokens for `cluster`, or for whichever cluster the account has. With `sandboxes`, pods that
    workspaced starts run as processes if the toolbox has what they need; else they are simulated as others are. Each
    operation on their homes takes `home_latency` milliseconds more.
    """
    if processes.MARK not in environment:
        raise ValueError(f"the environment of a control plane has to carry {processes.MARK}")
    began = time.monotonic()
    with Ports(programs.PORTS) as ports:
        layout = _lay_out(folder, ports, issuer)
        started: dict[str, subprocess.Popen[bytes]] = {}
        plane: ControlPlane | None = None
        try:
            run_sandboxes = sandboxes and launcher.WORKSPACED in toolbox.tools and sys.platform == "linux"
            server_ready_at = (
                _start(toolbox, layout, environment, cluster, started, sandboxes=run_sandboxes, latency=home_latency)
                - began
            )
            admin = Credentials(*layout.users["admin"])
            missing = dict(toolbox.missing) if sandboxes else {}
            if sandboxes and sys.platform != "linux":
                missing[launcher.WORKSPACED] = "workspaced runs on Linux only"
            plane = ControlPlane(layout, admin, started, time.monotonic() - began, server_ready_at, missing)
            yield plane
        finally:
            if plane is None or not plane.keep_running:
                restarts.stop(folder)
                _end(started)
                shutil.rmtree(folder, ignore_errors=True)


def _lay_out(folder: Path, ports: Ports, issuer: str) -> Layout:
    for name in ("logs", "certs"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = Authority(folder / "certs")
    hosts = [HOST, "localhost"]
    inside = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "172.20.0.1"]
    keys = Keys(
        ca=authority.ca,
        ca_key=authority.ca_key,
        etcd=authority.server("etcd", hosts),
        etcd_client=authority.client("kube-apiserver"),
        front_proxy=authority.client("front-proxy-client"),
        server=authority.server("server", [*hosts, *inside]),
        accounts=authority.service_account_key(),
        attendant=authority.server("attendant", hosts),
    )
    users = {
        "controller-manager": authority.client("system:kube-controller-manager"),
        "scheduler": authority.client("system:kube-scheduler"),
        # The stand-ins act for kubelets, the cloud and EKS itself, which RBAC does not restrict either
        "kwok": authority.client("rehearsal:kwok", ["system:masters"]),
        "attendant": authority.client("rehearsal:attendant", ["system:masters"]),
        "admin": authority.client("rehearsal:admin", ["system:masters"]),
    }
    layout = Layout(folder, keys, ports, issuer, users)
    for name, pair in users.items():
        kubeconfig.write(layout.kubeconfig(name), server=layout.server, ca=keys.ca, user=name, client=pair)
    review = f"https://{HOST}:{ports['attendant']}{eks_controllers.REVIEW}"
    kubeconfig.write(layout.kubeconfig("reviewer"), server=review, ca=keys.ca, user="server")
    return layout


def _start(
    toolbox: Toolbox,
    layout: Layout,
    environment: Mapping[str, str],
    cluster: str,
    started: dict[str, subprocess.Popen[bytes]],
    *,
    sandboxes: bool,
    latency: float,
) -> float:
    """Start every program; wait until the server is ready, the scheduler serves and the controllers run.

    Returns the time at which the server was ready.
    """
    commands: dict[str, list[str]] = {}  # of the programs that are started again when they end

    def start(name: str, arguments: list[str], *, again: bool = True) -> None:
        log = layout.folder / "logs" / f"{name}.log"
        if again:
            commands[name] = arguments
        started[name] = processes.start(arguments, environment=environment, log=log, folder=layout.folder)

    start("etcd", programs.etcd(toolbox.path("etcd"), layout))
    start("kube-apiserver", programs.api_server(toolbox.path("kube-apiserver"), layout))
    command = [
        sys.executable,
        "-m",
        "agentenv.rehearsal.controlplane.eks_controllers",
        str(_write_settings(toolbox, layout, cluster, sandboxes=sandboxes, latency=latency)),
    ]
    start("attendant", command, again=False)
    client = Client(layout.server, layout.keys.ca, Credentials(*layout.users["admin"]))
    _wait("the API server", lambda: client.get("/readyz"), layout, started)
    server_ready_at = time.monotonic()
    for definition in preinstalled.definitions():
        client.apply(definition, "eks")
    rules = kwok_stages.stages([row.image for row in real_pods.PROCESS_IMAGES], sandboxes=sandboxes)
    (layout.folder / "stages.yaml").write_text(rules, encoding="utf-8")
    start("kube-controller-manager", programs.controller_manager(toolbox.path("kube-controller-manager"), layout))
    start("kube-scheduler", programs.scheduler(toolbox.path("kube-scheduler"), layout))
    start("kwok", programs.kwok(toolbox.path("kwok"), layout, layout.folder / "stages.yaml"))
    for name, port in _CONTROLLERS.items():
        _wait(name, lambda port=port: _listens(layout.ports[port]), layout, started)
    # No pod can be created in the namespace without it; it shows that the controllers run
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    _wait("the first service account", lambda: client.find(account), layout, started)
    _wait("the attendant", (layout.folder / eks_controllers.READY_FILE).exists, layout, started)
    restarts.write(layout.folder, {name: (started[name].pid, command) for name, command in commands.items()})
    return server_ready_at


def _write_settings(toolbox: Toolbox, layout: Layout, cluster: str, *, sandboxes: bool, latency: float) -> Path:
    keys, credentials = layout.keys, layout.users["attendant"]
    own = (*launcher.TOOLS, launcher.LATENCYFS) if sandboxes else ()
    names = [*real_pods.TOOLS, *(name for name in own if name in toolbox.tools)]
    settings = eks_controllers.ControllerSettings(
        server=layout.server,
        port=layout.ports["attendant"],
        folder=str(layout.folder),
        ca=str(keys.ca),
        certificate=str(keys.attendant[0]),
        key=str(keys.attendant[1]),
        client_certificate=str(credentials[0]),
        client_key=str(credentials[1]),
        cluster=cluster,
        programs={name: str(toolbox.path(name)) for name in names},
        home_latency=latency,
    )
    return settings.write(layout.folder / "duty.json")


def _listens(port: int) -> bool:
    socket.create_connection((HOST, port), timeout=1).close()
    return True


def _wait(
    what: str, question: Callable[[], Any], layout: Layout, started: Mapping[str, subprocess.Popen[bytes]]
) -> None:
    def failed_program() -> str | None:
        return next((name for name, process in started.items() if process.poll() is not None), None)

    if until(question, _UP_SECONDS, failed=failed_program):
        return
    program = failed_program()
    why = f"{program} ended with {started[program].returncode}" if program else f"it took over {_UP_SECONDS:.0f} s"
    log = layout.folder / "logs" / f"{program or 'kube-apiserver'}.log"
    lines = log.read_text(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
    raise PlaneFailed(f"{what} did not come up: {why}. The end of {log.name}:\n" + "\n".join(lines))


def _end(started: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Stop the clients first, then the server, then its store, so that none logs errors about the others.

    The server would wait a minute for open watches, and there is nothing left for it to save.
    """
    children = [child for process in started.values() for child in _children(process)]
    clients = [name for name in started if name not in {"etcd", "kube-apiserver"}]
    for names, timeout in (
        (clients, _END_SECONDS),
        (["kube-apiserver"], _SERVER_END_SECONDS),
        (["etcd"], _END_SECONDS),
    ):
        stopping = [started[name] for name in names if name in started]
        for process in stopping:
            process.terminate()
        deadline = time.monotonic() + timeout
        for process in stopping:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    for child in children:
        # Pod processes end with the controllers, unless those were killed
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def _children(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    try:
        return psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
