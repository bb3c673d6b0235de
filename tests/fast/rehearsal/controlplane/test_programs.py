"""Arguments, files and ports of the programs of a control plane."""

from __future__ import annotations

import re
import socket
import ssl
import stat
from pathlib import Path

import pytest
import yaml

from agentenv.rehearsal.controlplane import programs
from agentenv.rehearsal.controlplane.auth.certificates import Authority
from agentenv.rehearsal.controlplane.nodes import kwok_stages
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape, taint
from agentenv.rehearsal.controlplane.pods import real_pods
from agentenv.rehearsal.controlplane.ports import HOST, Ports
from agentenv.rehearsal.controlplane.programs import Keys, Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    pair = (tmp_path / "crt", tmp_path / "key")
    keys = Keys(tmp_path / "ca", tmp_path / "ca.key", *[pair] * 6)
    with Ports(programs.PORTS) as ports:
        return Layout(tmp_path, keys, ports, "https://issuer.example")


def test_programs_listen_on_loopback_and_require_authorization(layout: Layout) -> None:
    program = Path("/bin/program")
    commands = [
        programs.etcd(program, layout),
        programs.api_server(program, layout),
        programs.controller_manager(program, layout),
        programs.scheduler(program, layout),
    ]
    for command in commands:
        words = " ".join(command)
        assert f"={HOST}" in words or f"=https://{HOST}" in words
        assert "http://" not in words
    server = commands[1]
    assert "--authorization-mode=Node,RBAC" in server
    assert not any("AlwaysAllow" in word or "disable-admission" in word or "anonymous" in word for word in server)
    assert "--client-cert-auth" in commands[0]


def test_keys_are_private_and_certificates_cover_their_hosts(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    certificate, key = authority.server("server", [HOST, "localhost"])
    authority.client("system:kube-scheduler", ["group"])
    authority.service_account_key()
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "certs").iterdir()} == {0o600}
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=str(authority.ca))
    assert _shake(serving, trusting, HOST) == {("DNS", "localhost"), ("IP Address", HOST)}
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        _shake(serving, trusting, "127.0.0.2")
    other = ssl.create_default_context(cafile=str(Authority(tmp_path / "other").ca))
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake(serving, other, HOST)


def _shake(serving: ssl.SSLContext, trusting: ssl.SSLContext, host: str) -> set[tuple[str, str]]:
    """A handshake in memory; the names in the server's certificate."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = trusting.wrap_bio(to_client, to_server, server_hostname=host)
    waiting = [client, server]
    while waiting:
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
    names = (client.getpeercert() or {})["subjectAltName"]
    return {(str(kind), str(name)) for kind, name in names}


def test_reserved_port_is_only_bound_by_number() -> None:
    with Ports(["one", "two"]) as ports:
        assert ports["one"] != ports["two"]
        with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
            stranger.bind((HOST, ports["one"]))
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((HOST, ports["one"]))
            server.listen()
            with socket.create_connection((HOST, ports["one"]), timeout=5):
                pass


@pytest.mark.parametrize(
    ("image", "ours"),
    [
        ("registry.k8s.io/agent-sandbox/agent-sandbox-controller:v1.0.3", True),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/mirror/agent-sandbox-controller@sha256:0123", True),
        ("ko://sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller", True),
        ("agent-sandbox-controller", True),
        ("registry.example/agent-sandbox-controller-ui:v1", False),
        ("registry.example/my-agent-sandbox-controller:v1", False),
        ("busybox", False),
    ],
)
def test_kwok_leaves_exactly_the_pods_that_run_for_real(image: str, ours: bool) -> None:
    pod = {"spec": {"containers": [{"name": "c", "image": image}]}}
    assert (real_pods.process_image(pod) is not None) is ours
    pattern = real_pods.PROCESS_IMAGES[0].image
    documents = list(yaml.safe_load_all(kwok_stages.stages([pattern])))
    closed = f'.spec.containers[] | select(.command == null) | .image | test("{pattern}")'
    for stage in documents:
        rules = stage["spec"]["selector"]["matchExpressions"]
        assert (closed in [rule["key"] for rule in rules]) is (stage["spec"]["resourceRef"]["kind"] == "Pod")
    assert bool(re.search(pattern, image)) is ours


def test_a_pod_that_runs_something_else_of_an_image_is_left_to_kwok() -> None:
    container = {"name": "c", "image": "workspace-service", "command": ["python", "-m", "service.metering"]}
    assert real_pods.process_image({"spec": {"containers": [container]}}) is None


def test_node_has_the_fields_that_the_scheduler_reads() -> None:
    shape = NodeShape(
        "n1",
        "us-east-1b",
        "m7g.large",
        "1930m",
        "6Gi",
        labels={"karpenter.sh/nodepool": "standard"},
        taints=("sandbox=standard:NoSchedule", "busy:NoExecute"),
    )
    node = shape.node()
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "us-east-1b"
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "us-east-1"
    assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
    assert node["metadata"]["labels"]["karpenter.sh/nodepool"] == "standard"
    assert node["spec"]["taints"] == [
        {"key": "sandbox", "value": "standard", "effect": "NoSchedule"},
        {"key": "busy", "effect": "NoExecute"},
    ]
    assert node["status"]["allocatable"]["cpu"] == "1930m"
    assert node["status"]["addresses"][0]["address"] == NodeShape("n1", "x", "", "1", "1Gi").address


def test_invalid_taint_is_refused_with_its_form() -> None:
    with pytest.raises(ValueError, match="key=value:effect"):
        taint("sandbox=standard")


def test_the_only_instance_of_a_controller_has_no_lease_to_lose(layout: Layout) -> None:
    for command in (programs.controller_manager(Path("/bin/p"), layout), programs.scheduler(Path("/bin/p"), layout)):
        assert "--leader-elect=false" in command
