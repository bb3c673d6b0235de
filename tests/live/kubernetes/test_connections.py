"""Connections to a real API server: certificates, exec credentials, other server names, and refusals."""

from __future__ import annotations

import base64
import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.rehearsal.controlplane.plane import ControlPlane
from agentenv.rehearsal.providers.kubernetes.provider import Provider
from agentenv.rehearsal.providers.kubernetes.reach import ClusterUnreachable


@pytest.fixture
def config(plane: ControlPlane) -> dict[str, Any]:
    """The administrator's kubeconfig, with its files inlined."""
    path = plane.kubeconfig()
    result = yaml.safe_load(path.read_text(encoding="utf-8"))
    for part in (result["clusters"][0]["cluster"], result["users"][0]["user"]):
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if key in part:
                content = (path.parent / part.pop(key)).read_bytes()
                part[f"{key}-data"] = base64.b64encode(content).decode()
    return result


def version(config: dict[str, Any]) -> str:
    provider = Provider()
    provider.configure({"kubeconfig": json.dumps(config)}, {})
    cluster = provider.cluster()
    assert cluster.list(cluster.discovery.find("v1", "Namespace"))
    return cluster.version()


def server(config: dict[str, Any]) -> dict[str, Any]:
    return config["clusters"][0]["cluster"]


def test_client_certificate_and_certificate_authority(config: dict[str, Any]) -> None:
    assert version(config).startswith("v1.")


def test_kubeconfig_may_be_a_path(plane: ControlPlane) -> None:
    provider = Provider()
    provider.configure({}, {"KUBECONFIG": str(plane.kubeconfig())})
    assert provider.cluster().version().startswith("v1.")


def test_server_name_may_differ_or_not_be_verified(config: dict[str, Any]) -> None:
    named = copy.deepcopy(config)
    server(named)["tls-server-name"] = "kubernetes.default.svc"
    assert version(named).startswith("v1.")
    server(named)["tls-server-name"] = "somebody.example.com"
    with pytest.raises(ClusterUnreachable, match=r"[Hh]ostname|not match"):
        version(named)
    blind = copy.deepcopy(config)
    del server(blind)["certificate-authority-data"]
    with pytest.raises(ClusterUnreachable, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
        version(blind)
    server(blind)["insecure-skip-tls-verify"] = True
    assert version(blind).startswith("v1.")


def test_exec_plugin_provides_the_certificate(config: dict[str, Any], tmp_path: Path) -> None:
    user = config["users"][0]["user"]
    pair = {name: base64.b64decode(user[f"client-{name}-data"]).decode() for name in ("certificate", "key")}
    status = {"clientCertificateData": pair["certificate"], "clientKeyData": pair["key"]}
    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps({"kind": "ExecCredential", "status": status}), encoding="utf-8")
    source = f"print(open({str(answer)!r}).read())"
    config["users"][0]["user"] = {"exec": {"command": sys.executable, "args": ["-c", source]}}
    assert version(config).startswith("v1.")


def test_refusal_has_the_servers_message(config: dict[str, Any]) -> None:
    config["users"][0]["user"] = {"token": "a-token-of-nobody"}
    with pytest.raises(ClusterUnreachable, match="Unauthorized") as caught:
        version(config)
    assert "a-token-of-nobody" not in str(caught.value)
