"""List the packages of a Python environment, with their `pulumi-plugin.json`.

Imported for the current environment. For any other its source is run by that environment's Python, so it uses only
the standard library and Python 3.9.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path


def packages() -> list[dict[str, object]]:
    """Return name, version and `pulumi-plugin.json` (None without one) of every package."""
    by_name: dict[str, dict[str, object]] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if not name:
            continue
        normal = re.sub(r"[-_.]+", "-", name).lower()
        # The first on the search path is the one that an import would take.
        if normal not in by_name:
            by_name[normal] = {"name": normal, "version": distribution.version, "plugin": _plugin(name)}
    return sorted(by_name.values(), key=lambda row: str(row["name"]))


def _plugin(name: str) -> object:
    try:
        spec = importlib.util.find_spec(name.replace("-", "_"))
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "pulumi-plugin.json"
        if path.is_file():
            return json.loads(path.read_text(encoding="utf-8"))
    return None


if __name__ == "__main__":
    json.dump(packages(), sys.stdout)
