"""A pod of Envoy that runs: the program of the wheel, with the pod's configuration, at an address of the pod's own.

Its ports are those of the pod. Names of Services cannot be resolved on this machine, and their pods listen on other
ports of loopback. So a cluster with such a name gets the addresses of its pods from a file, which follows them.
"""

from __future__ import annotations

import json
import logging
import shutil
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentenv.local import processes
from agentenv.local.sandboxes import addresses
from agentenv.local.sandboxes.bundle import CannotStart
from agentenv.rehearsal.cloud.network_load_balancers import envoy
from agentenv.rehearsal.controlplane.client import ApiError, Client
from agentenv.rehearsal.controlplane.pods import status, volumes
from agentenv.rehearsal.controlplane.pods.pod_process import is_ready, process_environment
from agentenv.rehearsal.controlplane.pods.service_endpoints import endpoints

Object = dict[str, Any]

IMAGE = r"(^|/)envoy([:@]|$)"
_LOG = logging.getLogger(__name__)
_SUFFIX = ".svc.cluster.local"
_POLL_SECONDS = 0.25
_RESTART_SECONDS = 1.0
_SHORT_GRACE_SECONDS = 2.0


class GatewayPod:
    """Runs one pod of Envoy in a thread of its own."""

    def __init__(self, client: Client, folder: Path, pod: Object) -> None:
        self._client, self._plane, self._pod = client, folder, pod
        metadata = pod["metadata"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._log = folder / "logs" / f"{metadata['name']}.log"
        self._stopping = threading.Event()
        self._silent = False
        self._grace = _SHORT_GRACE_SECONDS
        self._restarts = 0
        self._ip = ""
        self._thread = threading.Thread(target=self._live, name=metadata["name"], daemon=True)

    def start(self) -> None:
        """Start in the background."""
        self._thread.start()

    def stop(self, *, silently: bool = False, grace: float | None = None) -> None:
        """Stop Envoy; unless silently, the pod is then deleted. A hook before it is not waited for."""
        self._silent = silently
        self._grace = _SHORT_GRACE_SECONDS if silently or grace is None else min(grace, 10.0)
        self._stopping.set()

    def update(self, pod: Object) -> None:
        """Ignore a changed specification: nothing of it can change while Envoy runs."""

    def wait(self) -> None:
        """Wait until Envoy has ended."""
        self._thread.join()

    def _live(self) -> None:
        # A Unix socket's path has at most 108 characters, and a run's folder may be long.
        folder = Path(tempfile.mkdtemp(prefix="envoy"))
        with ExitStack() as resources:
            resources.callback(shutil.rmtree, folder, ignore_errors=True)
            while not self._stopping.is_set():
                try:
                    if not self._ip:
                        held = addresses.hold(self._pod["metadata"]["uid"])
                        resources.callback(held.release)
                        self._ip = held.ip
                    self._run(folder)
                except (CannotStart, ApiError, OSError) as error:
                    _LOG.warning("%s: %s", self._path, error)
                    self._report(ready=False, waiting=("CreateContainerError", str(error)))
                self._stopping.wait(_RESTART_SECONDS)
                self._restarts += 1
        if not self._silent:
            status.delete(self._client, self._path, self._pod)

    def _run(self, folder: Path) -> None:
        mounted = volumes.write_files(self._client, self._pod, folder / "volumes")
        [configuration] = [path for place in mounted.values() for path in place.glob("*.json")]
        document = json.loads(configuration.read_text(encoding="utf-8"))
        services = dict(_adapt(document, self._ip, folder))
        (folder / "envoy.json").write_text(json.dumps(document), encoding="utf-8")
        known: dict[str, list[tuple[str, int]]] = {}
        self._follow(services, folder, known)
        arguments: list[str] = self._pod["spec"]["containers"][0]["args"]
        others = [text for text in arguments if text not in {"-c", str(arguments[arguments.index("-c") + 1])}]
        command = [envoy(), "-c", str(folder / "envoy.json"), *others]
        process = processes.start(command, environment=process_environment({}), log=self._log, folder=folder)
        _LOG.info("%s runs as process %d at %s", self._path, process.pid, self._ip)
        probe = self._pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]
        port = next(row["containerPort"] for row in self._ports() if row["name"] == probe["port"])
        reported: tuple[bool, bool] | None = None
        try:
            while process.poll() is None and not self._stopping.wait(_POLL_SECONDS):
                self._follow(services, folder, known)
                serves = is_ready(f"http://{self._ip}:{port}{probe['path']}")
                now = (serves, serves and self._gates_are_open())
                if now != reported and self._report(ready=now[1], serves=serves):
                    reported = now
        finally:
            code = processes.stop(process, self._grace)
        if not self._stopping.is_set():
            _LOG.warning("%s ended with %d; see %s", self._path, code, self._log)
            self._report(ready=False, waiting=("CrashLoopBackOff", f"the process ended with {code}"), ended_with=code)

    def _ports(self) -> list[Object]:
        return self._pod["spec"]["containers"][0]["ports"]

    def _follow(self, services: Mapping[str, str], folder: Path, known: dict[str, list[tuple[str, int]]]) -> None:
        """Write the addresses of the pods of each Service that a cluster names, where they have changed."""
        for cluster, target in services.items():
            host, _, port = target.rpartition(":")
            name, namespace = host.removesuffix(_SUFFIX).split(".")
            found = sorted(self._pods_of(namespace, name, port))
            if known.get(cluster) != found:
                known[cluster] = found
                _write(folder / f"{cluster}.json", _endpoints(cluster, found))

    def _pods_of(self, namespace: str, service: str, port: str) -> Iterator[tuple[str, int]]:
        document = self._client.find(f"/api/v1/namespaces/{namespace}/services/{service}")
        if document is not None:
            for row in endpoints(self._client, self._plane, document, int(port)):
                yield row.host, row.listens

    def _gates_are_open(self) -> bool:
        """Return whether every readiness gate of the pod is set."""
        gates = {gate["conditionType"] for gate in self._pod["spec"].get("readinessGates") or ()}
        current = self._client.find(self._path) or {}
        conditions = current.get("status", {}).get("conditions") or ()
        return gates <= {each["type"] for each in conditions if each["status"] == "True"}

    def _report(
        self,
        *,
        ready: bool,
        serves: bool = False,
        waiting: tuple[str, str] | None = None,
        ended_with: int | None = None,
    ) -> bool:
        state = status.running() if waiting is None else status.waiting(*waiting)
        last = None if ended_with is None else status.terminated(ended_with)
        main = status.container(
            self._pod["spec"]["containers"][0], state, ready=serves, restarts=self._restarts, last=last
        )
        document = status.pod("Running" if self._ip else "Pending", self._ip, [main], ready=serves)
        for condition in document["conditions"]:
            if condition["type"] == "Ready":
                condition["status"] = str(ready)
        try:
            return status.report(self._client, self._path, document)
        except ApiError as error:
            _LOG.warning("%s: its status could not be reported: %s", self._path, error)
            return False


def _adapt(document: Object, ip: str, folder: Path) -> Iterator[tuple[str, str]]:
    """Adapt a configuration to this machine; yield each cluster that names a Service, and the Service."""
    resources = document["static_resources"]
    for listener in resources["listeners"]:
        listener["address"]["socket_address"]["address"] = ip
    pipe = str(folder / "admin.sock")
    document["admin"]["address"]["pipe"]["path"] = pipe
    for cluster in resources["clusters"]:
        for address in _addresses(cluster):
            socket_address = address.get("socket_address", {})
            if "pipe" in address:
                address["pipe"]["path"] = pipe
            elif str(socket_address.get("address")).endswith(_SUFFIX):
                yield cluster["name"], f"{socket_address['address']}:{socket_address['port_value']}"
                for name in ("type", "dns_lookup_family", "load_assignment"):
                    cluster.pop(name, None)
                source = {"path_config_source": {"path": str(folder / f"{cluster['name']}.json")}}
                cluster |= {
                    "type": "EDS",
                    "eds_cluster_config": {"eds_config": {**source, "resource_api_version": "V3"}},
                }


def _addresses(cluster: Object) -> list[Object]:
    assignment = cluster.get("load_assignment") or {"endpoints": []}
    return [row["endpoint"]["address"] for endpoints in assignment["endpoints"] for row in endpoints["lb_endpoints"]]


def _endpoints(cluster: str, found: list[tuple[str, int]]) -> Object:
    rows = [
        {"endpoint": {"address": {"socket_address": {"address": address, "port_value": port}}}}
        for address, port in found
    ]
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": [{"lb_endpoints": rows}],
    }
    return {"resources": [assignment]}


def _write(path: Path, document: Object) -> None:
    """Write a file in one step: Envoy reads it when it is moved into its place."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(document), encoding="utf-8")
    unfinished.replace(path)
