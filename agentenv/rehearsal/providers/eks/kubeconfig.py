"""The kubeconfig as the component hands it out: no credential in it, but the command that fetches one."""

from __future__ import annotations

import json
from typing import Any

_API = "client.authentication.k8s.io/v1beta1"


def kubeconfig(
    *,
    cluster: str,
    endpoint: str,
    authority: str | None,
    region: str,
    role: str | None = None,
    profile: str | None = None,
) -> dict[str, Any]:
    """A kubeconfig for a cluster; keys stand in the official order, because its JSON is an output too."""
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"]
    if role:
        arguments += ["--role", role]
    if profile:
        arguments += ["--profile", profile]
    command = {
        "apiVersion": _API,
        "command": "aws",
        "args": arguments,
        "env": [{"name": "KUBERNETES_EXEC_INFO", "value": json.dumps({"apiVersion": _API})}],
    }
    where: dict[str, Any] = {"server": endpoint, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "clusters": [{"cluster": where, "name": "kubernetes"}],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [{"name": "aws", "user": {"exec": command}}],
    }


def region_of(arn: str) -> str:
    """The region that a cluster's ARN names."""
    parts = arn.split(":")
    if len(parts) < 6 or not parts[3]:
        raise ValueError(f"'{arn}' is not the ARN of a cluster: arn:aws:eks:<region>:<account>:cluster/<name>")
    return parts[3]


def text(value: Any, *, ordered: bool = False) -> str:
    """JSON without blanks. Numbers come from the engine as floats, and 1.0 means 1."""
    return json.dumps(_whole(value), separators=(",", ":"), sort_keys=ordered, ensure_ascii=False)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
