"""The kubeconfig of the component. It has no credentials, but the command that gets a token."""

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
    """Return a kubeconfig. Its keys have the official order, because the JSON text is an output too."""
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
    server: dict[str, Any] = {"server": endpoint, "certificate-authority-data": authority}
    return {
        "apiVersion": "v1",
        "clusters": [{"cluster": server, "name": "kubernetes"}],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [{"name": "aws", "user": {"exec": command}}],
    }


def region_of(arn: str) -> str:
    """Return the region in the ARN of a cluster."""
    parts = arn.split(":")
    if len(parts) < 6 or not parts[3]:
        raise ValueError(f"'{arn}' is not the ARN of a cluster: arn:aws:eks:<region>:<account>:cluster/<name>")
    return parts[3]


def to_json(value: Any, *, ordered: bool = False) -> str:
    """Return compact JSON. The engine sends numbers as floats, so 1.0 becomes 1."""
    return json.dumps(_with_integers(value), separators=(",", ":"), sort_keys=ordered, ensure_ascii=False)


def _with_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
