"""The data plane of network load balancers: each listener is an Envoy that passes connections on to healthy targets.

It terminates TLS with the listener's certificate, offers the protocols of its ALPN policy, sends the PROXY protocol,
checks the health of targets and ends connections that were idle for 350 s, as the real one does. It is stricter in one
point: TCP keep-alives do not count as activity, because a proxy does not see them. It listens on a free port of
loopback.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.controlplane.ports import HOST, Ports

Plain = dict[str, Any]

IDLE_SECONDS = 350
PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "HTTP1Only": ("http/1.1",),
    "HTTP2Only": ("h2",),
    "HTTP2Optional": ("http/1.1", "h2"),
    "HTTP2Preferred": ("h2", "http/1.1"),
}
_TYPE = "type.googleapis.com/envoy.extensions"
_STOP_SECONDS = 5


@dataclass(frozen=True)
class ListenerState:
    """The inputs of a listener's configuration, without its targets."""

    certificate: str  # the ARN
    alpn: str
    proxy_protocol: bool
    port: int  # of targets
    check_port: int
    check_path: str
    check_seconds: int
    healthy: int
    unhealthy: int


@dataclass
class _Running:
    state: ListenerState
    group: str
    ports: Ports
    folder: Path
    process: subprocess.Popen[bytes]
    targets: tuple[str, ...] = field(default=())


class NetworkLoadBalancers:
    """The listeners of an account that are served."""

    def __init__(self, *, served: bool) -> None:
        self._served = served
        self._running: dict[str, _Running] = {}

    @cached_property
    def folder(self) -> Path:
        """Return the folder of certificates and configurations."""
        # A Unix socket's path is short, and a run's folder may be long.
        return Path(tempfile.mkdtemp(prefix="balancers"))

    @cached_property
    def authority(self) -> Authority:
        """Return the authority that signs the certificates of listeners."""
        return Authority(self.folder / "authority")

    def certificate(self, arn: str, hosts: list[str]) -> tuple[Path, Path]:
        """Create the certificate of an ARN for these hosts, and its key."""
        return self.authority.server(_file_name(arn), hosts)

    def update(self, elb: Any) -> None:
        """Serve the listeners of moto's state, with their targets."""
        if not self._served:
            return
        listeners = dict(_listeners(elb))
        for arn in [arn for arn, running in self._running.items() if _changed(running, listeners.get(arn))]:
            self._stop(arn)
        for arn, (state, group, targets) in listeners.items():
            if not self._has_certificate(state.certificate):
                continue
            running = self._running.get(arn) or self._start(arn, state, group)
            if running.targets != targets:
                running.targets = targets
                _write(running.folder / "targets.json", _endpoints(state, targets))

    def health(self, group: str) -> dict[str, str]:
        """Return the state of each target of a group."""
        for running in self._running.values():
            if running.group == group:
                return dict.fromkeys(running.targets, "initial") | _health(running)
        return {}

    def addresses(self) -> dict[str, str]:
        """Return the address of each listener, by its ARN."""
        return {arn: f"{HOST}:{running.ports['tls']}" for arn, running in self._running.items()}

    def close(self) -> None:
        """Stop serving."""
        for arn in list(self._running):
            self._stop(arn)
        if "folder" in vars(self):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _has_certificate(self, arn: str) -> bool:
        return (self.authority.folder / f"{_file_name(arn)}.crt").exists()

    def _start(self, arn: str, state: ListenerState, group: str) -> _Running:
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        ports = Ports(("tls",))
        _write(folder / "targets.json", _endpoints(state, ()))
        base = self.authority.folder / _file_name(state.certificate)
        _write(folder / "envoy.json", _configuration(state, folder, ports["tls"], base))
        command = [envoy(), "-c", str(folder / "envoy.json"), "--disable-hot-restart", "--concurrency", "1"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--log-level", "warning"], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self._running[arn] = _Running(state, group, ports, folder, process)
        return self._running[arn]

    def _stop(self, arn: str) -> None:
        running = self._running.pop(arn)
        running.process.terminate()
        try:
            running.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            running.process.kill()
            running.process.wait()
        running.ports.close()
        shutil.rmtree(running.folder, ignore_errors=True)


def envoy() -> str:
    """Return the path of Envoy: that of its wheel beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("envoy")
    return str(beside) if beside.exists() else shutil.which("envoy") or str(beside)


def _file_name(arn: str) -> str:
    return arn.rpartition("/")[2]


def _changed(running: _Running, listeners: tuple[ListenerState, str, tuple[str, ...]] | None) -> bool:
    return listeners is None or listeners[:2] != (running.state, running.group) or running.process.poll() is not None


def _listeners(elb: Any) -> Iterator[tuple[str, tuple[ListenerState, str, tuple[str, ...]]]]:
    """Yield the TLS listeners with a target group, in moto's state."""
    for balancer in elb.load_balancers.values():
        for listener in balancer.listeners.values():
            forward = next((action for action in listener.default_actions if action.type == "forward"), None)
            arn = forward.data.get("TargetGroupArn") if forward is not None else None
            group = elb.target_groups.get(arn)
            if listener.protocol != "TLS" or group is None:
                continue
            check_port = str(group.health_check_port)
            state = ListenerState(
                certificate=listener.certificate,
                alpn=(listener.alpn_policy or ["None"])[0],
                proxy_protocol=str(group.attributes.get("proxy_protocol_v2.enabled")).lower() == "true",
                port=int(group.port),
                check_port=int(check_port) if check_port.isdigit() else int(group.port),
                check_path=group.health_check_path or "/",
                check_seconds=int(group.health_check_interval_seconds),
                healthy=int(group.healthy_threshold_count),
                unhealthy=int(group.unhealthy_threshold_count),
            )
            yield listener.arn, (state, group.arn, tuple(sorted(group.targets)))


def _configuration(state: ListenerState, folder: Path, port: int, certificate: Path) -> Plain:
    tls: Plain = {
        "@type": f"{_TYPE}.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "alpn_protocols": list(PROTOCOLS.get(state.alpn, ())),
            "tls_certificates": [
                {
                    "certificate_chain": {"filename": f"{certificate}.crt"},
                    "private_key": {"filename": f"{certificate}.key"},
                }
            ],
        },
    }
    proxy: Plain = {
        "@type": f"{_TYPE}.filters.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "targets",
        "cluster": "targets",
        "idle_timeout": f"{IDLE_SECONDS}s",
    }
    return {
        "node": {"id": "balancer", "cluster": "balancer"},
        "admin": {"address": {"pipe": {"path": str(folder / "admin.sock"), "mode": 0o600}}},
        "static_resources": {
            "listeners": [
                {
                    "name": "tls",
                    "address": {"socket_address": {"address": HOST, "port_value": port}},
                    "filter_chains": [
                        {
                            "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
                            "filters": [{"name": "envoy.filters.network.tcp_proxy", "typed_config": proxy}],
                        }
                    ],
                }
            ],
            "clusters": [_cluster(state, folder)],
        },
    }


def _cluster(state: ListenerState, folder: Path) -> Plain:
    raw: Plain = {
        "name": "envoy.transport_sockets.raw_buffer",
        "typed_config": {"@type": f"{_TYPE}.transport_sockets.raw_buffer.v3.RawBuffer"},
    }
    proxied = {
        "@type": f"{_TYPE}.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        "config": {"version": "V2"},
        "transport_socket": raw,
    }
    sender = {"name": "envoy.transport_sockets.upstream_proxy_protocol", "typed_config": proxied}
    return {
        "name": "targets",
        "type": "EDS",
        "connect_timeout": "5s",
        "eds_cluster_config": {
            "eds_config": {"path_config_source": {"path": str(folder / "targets.json")}, "resource_api_version": "V3"}
        },
        # Where no target is healthy, connections go to all of them. Changes of health take effect at once.
        "common_lb_config": {"healthy_panic_threshold": {"value": 1}, "update_merge_window": "0s"},
        "close_connections_on_host_health_failure": True,
        "ignore_health_on_host_removal": True,
        "health_checks": [
            {
                "interval": f"{state.check_seconds}s",
                "timeout": "5s",
                "healthy_threshold": state.healthy,
                "unhealthy_threshold": state.unhealthy,
                "http_health_check": {"path": state.check_path, "host": "health-check"},
            }
        ],
        **({"transport_socket": sender} if state.proxy_protocol else {}),
    }


def _endpoints(state: ListenerState, targets: tuple[str, ...]) -> Plain:
    endpoints = [
        {
            "endpoint": {
                "address": {"socket_address": {"address": target, "port_value": state.port}},
                "health_check_config": {"port_value": state.check_port},
            }
        }
        for target in targets
    ]
    assignment = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": "targets",
        "endpoints": [{"lb_endpoints": endpoints}],
    }
    return {"resources": [assignment]}


def _write(path: Path, document: Plain) -> None:
    """Write a file in one step: Envoy reads it when it is moved into its place."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(document, indent=1), encoding="utf-8")
    unfinished.replace(path)


class _Admin(HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("admin", timeout=5)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def _health(running: _Running) -> dict[str, str]:
    """Return what the health checks found; nothing while Envoy starts."""
    try:
        with closing(_Admin(running.folder / "admin.sock")) as admin:
            admin.request("GET", "/clusters?format=json")
            document = json.load(admin.getresponse())
    except (OSError, ValueError):
        return {}
    found: dict[str, str] = {}
    for cluster in document.get("cluster_statuses", ()):
        for host in cluster.get("host_statuses", ()):
            status = host.get("health_status", {})
            address = host["address"]["socket_address"]["address"]
            if status.get("pending_active_hc"):
                found[address] = "initial"
            else:
                found[address] = "unhealthy" if status.get("failed_active_health_check") else "healthy"
    return {address: state for address, state in found.items() if address in running.targets}
