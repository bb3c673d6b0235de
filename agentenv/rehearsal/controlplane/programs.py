"""The programs of a control plane and their command lines, from file paths and ports.

Flags keep their defaults wherever EKS does. Those that differ set paths and loopback addresses, or save resources: a
rehearsal needs no fsync and little memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentenv.rehearsal.controlplane.ports import HOST, Ports

PORTS = ("etcd", "etcd-peer", "server", "controller-manager", "scheduler", "attendant")
SERVICES = "172.20.0.0/16"  # EKS's own choice where the VPC lies in 10/8
DNS = "cluster.local"


@dataclass(frozen=True)
class Keys:
    """Certificate and key files."""

    ca: Path
    ca_key: Path
    etcd: tuple[Path, Path]
    etcd_client: tuple[Path, Path]
    front_proxy: tuple[Path, Path]
    attendant: tuple[Path, Path]
    server: tuple[Path, Path]
    accounts: tuple[Path, Path]  # private and public key of the service account issuer


@dataclass(frozen=True)
class Layout:
    """The folder, files and addresses of one plane."""

    folder: Path
    keys: Keys
    ports: Ports
    issuer: str
    users: Mapping[str, tuple[Path, Path]] = field(default_factory=dict)  # certificate and key of each part

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.ports['server']}"

    def kubeconfig(self, name: str) -> Path:
        """The kubeconfig of one of the parts."""
        return self.folder / "kubeconfigs" / f"{name}.yaml"


def etcd(program: Path, layout: Layout) -> list[str]:
    """Return the command line of a single member, with TLS even for peers: etcd bypasses the API server's rules."""
    clients = f"https://{HOST}:{layout.ports['etcd']}"
    peers = f"https://{HOST}:{layout.ports['etcd-peer']}"
    keys = layout.keys
    return [
        str(program),
        "--name=only",
        f"--data-dir={layout.folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=only={peers}",
        f"--cert-file={keys.etcd[0]}",
        f"--key-file={keys.etcd[1]}",
        f"--trusted-ca-file={keys.ca}",
        "--client-cert-auth",
        f"--peer-cert-file={keys.etcd[0]}",
        f"--peer-key-file={keys.etcd[1]}",
        f"--peer-trusted-ca-file={keys.ca}",
        "--peer-client-cert-auth",
        # Its data is not needed after a crash, and a single member waits for no other
        "--unsafe-no-fsync",
        "--heartbeat-interval=50",
        "--election-timeout=500",
        f"--quota-backend-bytes={512 * 2**20}",
        "--log-level=warn",
    ]


def api_server(program: Path, layout: Layout) -> list[str]:
    """Return the command line of the API server: Node and RBAC authorization, default admission."""
    keys = layout.keys
    return [
        str(program),
        f"--bind-address={HOST}",
        f"--secure-port={layout.ports['server']}",
        # Endpoints may not name loopback, so the address of the `kubernetes` service stays unwritten
        "--advertise-address=10.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--etcd-servers=https://{HOST}:{layout.ports['etcd']}",
        f"--etcd-cafile={keys.ca}",
        f"--etcd-certfile={keys.etcd_client[0]}",
        f"--etcd-keyfile={keys.etcd_client[1]}",
        f"--tls-cert-file={keys.server[0]}",
        f"--tls-private-key-file={keys.server[1]}",
        f"--client-ca-file={keys.ca}",
        # Proxies are allowed by name, so one authority is enough
        f"--requestheader-client-ca-file={keys.ca}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={keys.front_proxy[0]}",
        f"--proxy-client-key-file={keys.front_proxy[1]}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={SERVICES}",
        f"--service-account-issuer={layout.issuer}",
        f"--service-account-signing-key-file={keys.accounts[0]}",
        f"--service-account-key-file={keys.accounts[1]}",
        f"--api-audiences={layout.issuer},https://kubernetes.default.svc",
        f"--authentication-token-webhook-config-file={layout.kubeconfig('reviewer')}",
        "--authentication-token-webhook-version=v1",
        # Short, so that a deleted access entry takes effect soon; the server itself caches for ten seconds
        "--authentication-token-webhook-cache-ttl=2s",
        "--shutdown-delay-duration=0s",
        # So that a benchmark can have it collect its garbage before a turn, and not within one
        "--profiling=true",
    ]


# There is one instance of each. With a lease it would lose that on a busy machine, and exit.
_WITHOUT_LEASE = "--leader-elect=false"


def controller_manager(program: Path, layout: Layout) -> list[str]:
    """Return the command line with every default controller, each under its own service account."""
    keys = layout.keys
    kubeconfig = layout.kubeconfig("controller-manager")
    return [
        str(program),
        f"--bind-address={HOST}",
        f"--secure-port={layout.ports['controller-manager']}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--cert-dir={layout.folder / 'certs'}",
        f"--root-ca-file={keys.ca}",
        f"--cluster-signing-cert-file={keys.ca}",
        f"--cluster-signing-key-file={keys.ca_key}",
        f"--service-account-private-key-file={keys.accounts[0]}",
        "--use-service-account-credentials=true",
        # The default of 20 calls a second makes it start for four seconds, a token for each of its controllers
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--profiling=false",
        _WITHOUT_LEASE,
    ]


def scheduler(program: Path, layout: Layout) -> list[str]:
    """Return the command line of the default scheduler."""
    kubeconfig = layout.kubeconfig("scheduler")
    return [
        str(program),
        f"--bind-address={HOST}",
        f"--secure-port={layout.ports['scheduler']}",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--cert-dir={layout.folder / 'certs'}",
        "--profiling=false",
        _WITHOUT_LEASE,
    ]


def kwok(program: Path, layout: Layout, stages: Path) -> list[str]:
    """Return the command line of kwok, which simulates every node's kubelet."""
    return [
        str(program),
        f"--kubeconfig={layout.kubeconfig('kwok')}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--cidr=10.128.0.0/9",
    ]
