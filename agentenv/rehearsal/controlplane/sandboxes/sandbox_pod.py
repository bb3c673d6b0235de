"""One pod of a sandbox class that runs: its volumes, its process, its address, and the status that is reported.

Its life is that of a pod under a kubelet. Containers that end are started again with Kubernetes' back-off, as the
pod's `restartPolicy` says; a deleted pod has its grace period to end in; homes are the same folder afterwards.
Simplified: one container, and of the probes only HTTP requests to workspaced are made.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import logging
import os
import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from agentenv.local import processes
from agentenv.local.cgroups import Cgroup, Cgroups
from agentenv.local.sandboxes import addresses, relay, root_folder
from agentenv.local.sandboxes.bundle import SOCKET, SOCKET_FOLDER, Bundle, CannotStart, Mount, Network, Runtime
from agentenv.local.sandboxes.limits import (
    EVICTED,
    OOM_KILLED,
    Limits,
    Monitor,
    child_processes,
    limit_of,
    memory_limit,
    memory_usage,
)
from agentenv.local.sandboxes.relay import Entrance, Relay
from agentenv.local.sandboxes.way_out import Protocol, Way
from agentenv.rehearsal.controlplane.client import ApiError, PodApi
from agentenv.rehearsal.controlplane.pods import container, status
from agentenv.rehearsal.controlplane.sandboxes import init_containers, resizes
from agentenv.rehearsal.controlplane.sandboxes.homes import Homes, Owner
from agentenv.rehearsal.controlplane.sandboxes.mounts import PodVolumes
from agentenv.rehearsal.controlplane.sandboxes.network_policies import NetworkPolicies, Sandbox, resolv_conf
from agentenv.rehearsal.controlplane.sandboxes.resizes import Resize

Object = dict[str, Any]

_LOG = logging.getLogger(__name__)
PORT_NAME = "workspaced"
# Kubernetes' own, in seconds: the first restart is at once, and a run of ten minutes resets it.
_BACKOFF_SECONDS = (0.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0)
_RESET_SECONDS = 600.0
_RETRY_SECONDS = 1.0  # after a failure to start
_START_SECONDS = 1.0  # until a container that is not ready is reported as such
_REFRESH_SECONDS = 10.0
_PROBE_SECONDS = 0.02
_PROBE_TIMEOUT_SECONDS = 5.0
_READY_PROBE_SECONDS = 2.0
_SHORT_GRACE_SECONDS = 2.0  # while the whole plane stops
_DEFAULT_GRACE_SECONDS = 30.0


def runs_workspaced(pod: Object) -> bool:
    """Return whether the pod's container is started by workspaced."""
    command = pod["spec"]["containers"][0].get("command") or ()
    return len(command) > 1 and (Path(command[0]).name, command[1]) == ("workspaced", "run")


@dataclass(frozen=True)
class Host:
    """The resources that the pods of a control plane share."""

    client: PodApi
    folder: Path  # the plane's
    workspaced: Path
    runtime: Runtime
    relay: Relay
    monitor: Monitor
    file_systems: Homes
    network: PodNetwork | None = None  # without one, sandboxes have no way out
    cgroups: Cgroups | None = None  # without them, processors are not limited


@dataclass(frozen=True)
class PodNetwork:
    """What gives sandboxes an interface, and decides where their connections lead."""

    program: Path
    policies: NetworkPolicies


class SandboxPod:
    """Runs one pod in a thread of its own, from `start` to its end."""

    def __init__(self, host: Host, pod: Object) -> None:
        self._host = host
        self._pod = pod
        metadata = pod["metadata"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._folder = host.folder / "sandboxes" / metadata["uid"]
        self._log = host.folder / "logs" / f"{metadata['namespace']}-{metadata['name']}.log"
        self._labelled = pod  # as the API server has it now
        self._container: Object = pod["spec"]["containers"][0]
        self._changed: Object | None = None  # the pod with another specification than the container has
        self._resize = Resize(self._container.get("resources") or {})
        self._stopping = threading.Event()
        self._silent = False
        self._grace = _DEFAULT_GRACE_SECONDS
        self._restarts = 0
        self._last: Object | None = None
        self._cgroup: Cgroup | None = None
        self._exceeded: tuple[str, str] | None = None  # the reason and message of the limit that ended the container
        self._ip = ""
        self._host_ip = ""
        self._started_at = status.now()
        self._thread = threading.Thread(target=self._live, name=metadata["name"], daemon=True)

    def start(self) -> None:
        """Start in the background."""
        self._wake, self._waker = socket.socketpair()
        self._thread.start()

    def stop(self, *, silently: bool = False, grace: float | None = None) -> None:
        """Stop the sandbox within its grace period; unless silently, the pod is then deleted."""
        self._silent = silently
        self._grace = _SHORT_GRACE_SECONDS if silently else _DEFAULT_GRACE_SECONDS if grace is None else grace
        self._stopping.set()
        with contextlib.suppress(OSError):  # it has ended, or is stopping already
            self._waker.send(b"x", socket.MSG_DONTWAIT)

    def update(self, pod: Object) -> None:
        """Resize the sandbox if the pod requests other resources than it did, and hold it to its labels' policies."""
        self._labelled = pod
        if pod["spec"]["containers"][0].get("resources") != self._pod["spec"]["containers"][0].get("resources"):
            self._pod = self._changed = pod
            with contextlib.suppress(OSError):  # it has ended, or is stopping
                self._waker.send(b"r", socket.MSG_DONTWAIT)

    def wait(self) -> None:
        """Wait until the sandbox has ended."""
        self._thread.join()

    def _live(self) -> None:
        try:
            self._hold_and_run()
        except Exception:  # noqa: BLE001 - whatever happened, the pod has to be deleted when it is time
            _LOG.exception("%s does not run", self._path)
            self._stopping.wait()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._wake.close()
            self._waker.close()
            if not self._silent and self._stopping.is_set():
                status.delete(self._host.client, self._path, self._pod)

    def _hold_and_run(self) -> None:
        with contextlib.ExitStack() as resources:
            while not self._stopping.is_set():
                try:
                    entrance = self._open(resources)
                except (CannotStart, OSError) as error:
                    resources.close()
                    self._wait_after(error)
                else:
                    self._run_until_stopped(entrance)

    def _open(self, resources: contextlib.ExitStack) -> Entrance | None:
        """Hold an address and listen on it; None where the sandbox listens itself."""
        held = addresses.hold(self._pod["metadata"]["uid"])
        resources.callback(held.release)
        self._ip = held.ip
        if not self._host.runtime.own_network:
            return None
        entrance = self._host.relay.open(held.ip, self._port())
        resources.callback(self._host.relay.close, entrance)
        return entrance

    def _run_until_stopped(self, entrance: Entrance | None) -> None:
        """Run the container until the pod ends, with Kubernetes' back-off between its starts."""
        failures = 0
        while not self._stopping.is_set():
            began = time.monotonic()
            started_at = status.now()
            try:
                code = self._run(entrance)
            except (CannotStart, ApiError, OSError, subprocess.SubprocessError) as error:
                self._wait_after(error)
                continue
            finally:
                if entrance is not None:
                    self._host.relay.lead_to(entrance, None)
            if self._stopping.is_set():
                return
            reason, message = self._exceeded or ("", "")
            state = status.terminated(code, reason if reason == OOM_KILLED else "", since=started_at)
            policy = self._pod["spec"].get("restartPolicy", "Always")
            _LOG.info("%s ended with %d; see %s", self._path, code, self._log)
            if reason == EVICTED:
                self._report("Failed", state, reason=reason, message=message)
                self._stopping.wait()
                return
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                self._report("Failed" if code else "Succeeded", state)
                self._stopping.wait()
                return
            self._last = state
            failures = 0 if time.monotonic() - began > _RESET_SECONDS else failures
            delay = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)]
            failures += 1
            if delay:
                name = f"{self._container['name']} in pod {self._pod['metadata']['name']}"
                text = f"back-off {delay:.0f}s restarting failed container={name}"
                self._report("Running", status.waiting("CrashLoopBackOff", text))
                self._stopping.wait(delay)
            self._restarts += 1

    def _run(self, entrance: Entrance | None) -> int:
        """Run one process from start to end and return its code."""
        folder = self._folder / str(self._restarts)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "socket").mkdir(parents=True)
        pod_volumes = PodVolumes(
            self._host.client, self._pod, self._folder / "volumes", self._host.file_systems, self._seen_ip()
        )
        pod_volumes.create()
        bundle = self._bundle(folder, pod_volumes)
        command = self._host.runtime.command(bundle)
        self._resize = Resize(self._pod["spec"]["containers"][0].get("resources") or {})
        self._container = self._pod["spec"]["containers"][0]
        limits = Limits.of(self._pod, pod_volumes.folder)
        self._exceeded = None
        with self._way_out(bundle), self._limited_processors() as cgroup:
            self._cgroup = cgroup
            command = cgroup.command(command) if cgroup is not None else command
            process = processes.start(command, environment=_environment(), log=self._log, folder=folder)

            def exceeded(reason: str, message: str) -> None:
                self._exceeded = (reason, message)
                process.kill()

            try:
                if entrance is not None:
                    self._host.relay.lead_to(entrance, bundle.socket)
                with self._host.monitor.watching(process.pid, limits, exceeded):
                    self._attend(process, bundle, pod_volumes)
            finally:
                terminate = functools.partial(self._host.runtime.terminate, bundle, process)
                code = processes.stop(process, self._grace, terminate)
                shutil.rmtree(folder, ignore_errors=True)
        return code

    @contextlib.contextmanager
    def _limited_processors(self) -> Iterator[Cgroup | None]:
        if self._host.cgroups is None:
            yield None
            return
        with self._host.cgroups.create(limit_of(self._resize.resources, "cpu")) as cgroup:
            yield cgroup

    @contextlib.contextmanager
    def _way_out(self, bundle: Bundle) -> Iterator[None]:
        """Take the sandbox's connections, and let others reach it, as policies allow both."""
        if bundle.network is None or self._host.network is None:
            yield
            return
        policies, address = self._host.network.policies, bundle.network.address

        def decide(protocol: Protocol, destination: IPv4Address, port: int) -> Way:
            return policies.decide(self._labelled, address, protocol, destination, port)

        exit_ = self._host.relay.open_exit(bundle.network.relay, decide)
        policies.add(address, self._sandbox(bundle.network.inbound))
        try:
            yield
        finally:
            policies.remove(address)
            self._host.relay.close_exit(exit_)

    def _sandbox(self, inbound: Path) -> Sandbox:
        return Sandbox(lambda: self._labelled, inbound)

    def _network(self, folder: Path) -> Network | None:
        if self._host.network is None or not self._host.runtime.own_network:
            return None
        sockets = folder / "network"
        sockets.mkdir()
        return Network(self._host.network.program, self._seen_ip(), sockets / "relay", sockets / "inbound")

    def _seen_ip(self) -> str:
        """Return the pod's address as sandboxes see it."""
        networked = self._host.network is not None and self._host.runtime.own_network
        return addresses.inside(self._ip) if networked else self._ip

    def _attend(self, process: subprocess.Popen[bytes], bundle: Bundle, pod_volumes: PodVolumes) -> None:
        """Report readiness and refresh the volumes until the process ends or the pod is to stop."""
        descriptor = os.pidfd_open(process.pid)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        state = status.running()
        reported: bool | None = None
        not_ready_at = time.monotonic() + _START_SECONDS
        refresh_at = time.monotonic() + _REFRESH_SECONDS
        try:
            while True:
                if poller.poll((_READY_PROBE_SECONDS if reported else _PROBE_SECONDS) * 1000):
                    if self._stopping.is_set() or process.poll() is not None:
                        return
                    self._wake.recv(1)
                if (changed := self._changed) is not None:
                    self._changed = None
                    self._apply_resize(changed, process)
                    self._report("Running", state, ready=bool(reported))
                ready = self._is_ready(bundle)
                due = reported is not None or ready or time.monotonic() > not_ready_at
                if ready != reported and due and self._report("Running", state, ready=ready):
                    reported = ready
                if time.monotonic() > refresh_at:
                    refresh_at = time.monotonic() + _REFRESH_SECONDS
                    self._refresh(pod_volumes)
        finally:
            os.close(descriptor)

    def _apply_resize(self, pod: Object, process: subprocess.Popen[bytes]) -> None:
        """Give the container the resources that the pod requests now, unless its node cannot."""
        try:
            self._resize = resizes.decide(
                self._host.client, pod, self._resize.resources, lambda: memory_usage(process.pid, child_processes())
            )
        except (ApiError, OSError) as error:
            _LOG.warning("%s: it is not resized: %s", self._path, error)
            return
        self._container = {**pod["spec"]["containers"][0], "resources": self._resize.resources}
        self._host.monitor.resize(process.pid, memory_limit(self._resize.resources))
        if self._cgroup is not None:
            self._cgroup.limit(limit_of(self._resize.resources, "cpu"))

    def _refresh(self, pod_volumes: PodVolumes) -> None:
        try:
            pod_volumes.refresh()
        except (ApiError, CannotStart, OSError) as error:
            _LOG.warning("%s: its volumes stay as they were: %s", self._path, error)

    def _bundle(self, folder: Path, pod_volumes: PodVolumes) -> Bundle:
        metadata, spec = self._pod["metadata"], self._pod["spec"]
        security = {**(spec.get("securityContext") or {}), **(self._container.get("securityContext") or {})}
        uid = int(security.get("runAsUser", 0))
        gid = int(security.get("runAsGroup", uid))
        hostname = spec.get("hostname") or metadata["name"]
        root = folder / "root"
        network = self._network(folder)
        resolver = resolv_conf(self._pod) if network else ""
        programs = root_folder.create(root, hostname, self._seen_ip(), resolver=resolver)
        init_containers.run(self._pod, pod_volumes, self._host.workspaced, root, Owner(uid, gid))
        variables = {
            "PATH": root_folder.PATH,
            "HOSTNAME": hostname,
            **container.environment(self._pod, self._seen_ip()),
        }
        entrance = Mount(folder / "socket", SOCKET_FOLDER)
        if os.geteuid() == 0:
            os.chown(entrance.source, uid, gid)
        return Bundle(
            id=f"{metadata['uid']}-{self._restarts}",
            folder=folder,
            root=root,
            arguments=tuple(self._arguments(variables)),
            environment=variables,
            mounts=(*programs, *self._kubelet_mounts(pod_volumes), entrance),
            uid=uid,
            gid=gid,
            groups=tuple(security.get("supplementalGroups") or ()),
            cwd=self._container.get("workingDir") or "/",
            hostname=hostname,
            read_only_root=bool(security.get("readOnlyRootFilesystem")),
            network=network,
        )

    def _kubelet_mounts(self, pod_volumes: PodVolumes) -> tuple[Mount, ...]:
        """Return the pod's mounts; the volume with the program is read-only, because the file is shared."""
        program = Path(self._container["command"][0]).parent
        return tuple(
            replace(row, read_only=row.read_only or Path(row.target) == program)
            for row in pod_volumes.mounts(self._container)
        )

    def _arguments(self, variables: Mapping[str, str]) -> list[str]:
        """Return workspaced's command line, which listens where the relay enters."""
        command = [*self._container["command"], *(self._container.get("args") or ())]
        expanded = [container.expand(text, variables) for text in command]
        address = f"unix:{SOCKET_FOLDER}/{SOCKET}" if self._host.runtime.own_network else f"{self._ip}:{self._port()}"
        end = expanded.index("--") if "--" in expanded else len(expanded)
        return [*expanded[:end], "--listen", address, *expanded[end:]]

    def _port(self) -> int:
        for row in self._container.get("ports") or ():
            if row.get("name") == PORT_NAME:
                return int(row["containerPort"])
        raise CannotStart(f"the container has no port named {PORT_NAME}")

    def _is_ready(self, bundle: Bundle) -> bool:
        """Return whether workspaced serves: what it answers to an HTTP probe, else that it accepts connections."""
        try:
            connection = self._connect(bundle)
        except OSError:
            return False
        request = http.client.HTTPConnection(self._ip)
        request.sock = connection
        try:
            if (path := self._probe_path()) is None:
                return True
            request.request("GET", path, headers={"User-Agent": "kube-probe/1.35"})
            return 200 <= request.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            request.close()

    def _probe_path(self) -> str | None:
        """Return the path that the readiness probe gets from workspaced, if it gets one."""
        probe = (self._container.get("readinessProbe") or {}).get("httpGet") or {}
        return probe.get("path") if probe.get("port") in {PORT_NAME, self._port()} else None

    def _connect(self, bundle: Bundle) -> socket.socket:
        if not self._host.runtime.own_network:
            return socket.create_connection((self._ip, self._port()), _PROBE_TIMEOUT_SECONDS)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_PROBE_TIMEOUT_SECONDS)
        try:
            with relay.short_path(bundle.socket) as path:
                connection.connect(path)
        except OSError:
            connection.close()
            raise
        return connection

    def _report(self, phase: str, state: Object, *, ready: bool = False, **more: str) -> bool:
        """Report the pod's status with more of its fields; return whether the server took it."""
        main = status.container(self._container, state, ready=ready, restarts=self._restarts, last=self._last)
        first = status.terminated(0, since=self._started_at)
        if phase == "Pending":
            first = status.waiting("PodInitializing", "")
        init = [
            status.container(row, first, ready="terminated" in first)
            for row in self._pod["spec"].get("initContainers") or ()
        ]
        more |= {"startTime": self._started_at, **self._host_address()}
        conditions = self._resize.conditions()
        document = status.pod(phase, self._ip, [main], ready=ready, init=init, conditions=conditions, **more)
        try:
            return status.report(self._host.client, self._path, document)
        except (ApiError, OSError) as error:
            _LOG.warning("%s: its status could not be reported: %s", self._path, error)
            return False

    def _host_address(self) -> dict[str, str]:
        if not self._host_ip:
            node = self._host.client.find(f"/api/v1/nodes/{self._pod['spec']['nodeName']}") or {}
            rows = (node.get("status") or {}).get("addresses") or ()
            self._host_ip = next((row["address"] for row in rows if row["type"] == "InternalIP"), "")
        return {"hostIP": self._host_ip} if self._host_ip else {}

    def _wait_after(self, error: Exception) -> None:
        reason = "CreateContainerConfigError" if isinstance(error, CannotStart) else "CreateContainerError"
        _LOG.warning("%s: %s", self._path, error)
        self._report("Running" if self._restarts else "Pending", status.waiting(reason, str(error)))
        self._stopping.wait(_RETRY_SECONDS)


def _environment() -> dict[str, str]:
    """Return the runtime's own environment: nothing of the rehearsal's but its mark."""
    return {name: os.environ[name] for name in ("PATH", processes.MARK) if name in os.environ}
