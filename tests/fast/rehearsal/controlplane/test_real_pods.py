"""Residents that are Python: how they are started, which files they are told of, and where they are found."""

from __future__ import annotations

from pathlib import Path

from agentenv.core.gateway.envoy import AUTHORIZER_PORT
from agentenv.local.sandboxes.bundle import replace_paths
from agentenv.rehearsal.controlplane.pods import container, listen_addresses, real_pods
from agentenv.rehearsal.controlplane.ports import HOST, Ports

IMAGE = f"registry.example.com/workspace-service@sha256:{'a' * 64}"


def test_the_service_is_run_by_the_interpreter_with_its_pods_arguments() -> None:
    args = ["--settings=/etc/workspace-service/settings.json", "--port=8080", "--metrics-port=9090"]
    pod = {
        "metadata": {"namespace": "workspace-service", "name": "pod-1"},
        "spec": {"containers": [{"image": IMAGE, "args": args}]},
    }
    row = real_pods.process_image(pod)
    assert row is not None
    assert row.command(Path("/usr/bin/python3")) == ["/usr/bin/python3", "-m", "agentenv.service"]
    arguments = container.arguments(pod, {}, {"--port": "1234", "--metrics-port": "1235"}, row.in_cluster_flags)
    assert arguments == [args[0], f"--host={HOST}", "--port=1234", "--metrics-port=1235"]
    where = {Path("/etc/workspace-service"): Path("/run/x/volumes/settings")}
    assert replace_paths(arguments[0], where) == "--settings=/run/x/volumes/settings/settings.json"
    assert replace_paths("--settings=/etc/workspace-service-2/a", where) == "--settings=/etc/workspace-service-2/a"


def test_every_run_of_the_gateways_authorization_has_a_port_of_its_own() -> None:
    args = ["--port=8080", f"--authorizer-port={AUTHORIZER_PORT}"]
    pod = {"metadata": {"namespace": "n", "name": "pod-1"}, "spec": {"containers": [{"image": IMAGE, "args": args}]}}
    row = real_pods.process_image(pod)
    assert row is not None
    with Ports(row.flags_of(pod)) as first, Ports(row.flags_of(pod)) as second:
        assert first["--authorizer-port"] != second["--authorizer-port"]
        listens = {flag: str(first[flag]) for flag in row.flags_of(pod)}
        arguments = container.arguments(pod, {}, listens, row.in_cluster_flags)
    assert str(AUTHORIZER_PORT) not in " ".join(arguments)


def test_python_is_not_built() -> None:
    assert real_pods.PYTHON not in real_pods.TOOLS
    assert "agent-sandbox-controller" in real_pods.TOOLS


def test_ports_of_a_process_are_found_by_its_pod(tmp_path: Path) -> None:
    folder = tmp_path / "residents" / "uid-1"
    folder.mkdir(parents=True)
    assert listen_addresses.address(tmp_path, "uid-1", "--port") is None
    listen_addresses.write_ports(folder, {"--port": 1234, "--metrics-port": 1235})
    assert listen_addresses.address(tmp_path, "uid-1", "--port") == f"http://{HOST}:1234"
    assert listen_addresses.address(tmp_path, "uid-2", "--port") is None
