"""Where residents listen: each on ports of loopback in place of its pod's own, written down for whoever calls them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agentenv.rehearsal.controlplane.ports import HOST

_FILE = "ports.json"


def tell(folder: Path, ports: Mapping[str, int]) -> None:
    """Write down the ports of a resident, by the flags that it was told them with."""
    fresh = folder / f"{_FILE}.new"
    fresh.write_text(json.dumps(dict(ports)), encoding="utf-8")
    fresh.replace(folder / _FILE)


def address(plane: Path, pod_uid: str, flag: str) -> str | None:
    """The address that stands for a pod's port, while the plane in that folder runs its program."""
    try:
        found = json.loads((plane / "residents" / pod_uid / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return f"http://{HOST}:{found[flag]}"
