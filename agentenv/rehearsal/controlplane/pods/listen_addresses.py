"""The loopback ports that stand for the ports of pods with real programs, recorded in a file for their callers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agentenv.rehearsal.controlplane.ports import HOST

_FILE = "ports.json"


def write_ports(folder: Path, ports: Mapping[str, int]) -> None:
    """Record the ports of a pod's process, by the flags that set them."""
    temporary = folder / f"{_FILE}.new"
    temporary.write_text(json.dumps(dict(ports)), encoding="utf-8")
    temporary.replace(folder / _FILE)


def address(plane: Path, pod_uid: str, flag: str) -> str | None:
    """Return the address that stands for a pod's port while its program runs."""
    try:
        ports = json.loads((plane / "residents" / pod_uid / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return f"http://{HOST}:{ports[flag]}"
