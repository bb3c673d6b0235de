"""Write kubeconfig files for the parts of a plane, its pod processes and its users."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write(
    path: Path,
    *,
    server: str,
    ca: Path,
    user: str,
    client: tuple[Path, Path] | None = None,
    token_file: Path | None = None,
    namespace: str = "default",
) -> Path:
    """Write a file with one cluster, one user and one context, keys named by path; as JSON, which is YAML."""
    credentials: dict[str, str] = {}
    if client is not None:
        credentials = {"client-certificate": str(client[0]), "client-key": str(client[1])}
    if token_file is not None:
        credentials["tokenFile"] = str(token_file)
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rehearsal", "cluster": {"server": server, "certificate-authority": str(ca)}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "rehearsal", "context": {"cluster": "rehearsal", "user": user, "namespace": namespace}}],
        "current-context": "rehearsal",
    }
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file, indent=2)
        file.write("\n")
    return path
