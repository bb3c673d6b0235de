"""Lists the packages of a Python environment, and what each says of the plugin that it needs.

Imported for the environment that we run in; for any other its text is run by that environment's Python, so it has to do
with the standard library and with Python 3.9.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import sys
from pathlib import Path


def packages() -> list[dict[str, object]]:
    """Name, version and `pulumi-plugin.json` (None if there is none) of every package."""
    found: dict[str, dict[str, object]] = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if not name:
            continue
        normal = re.sub(r"[-_.]+", "-", name).lower()
        # The first on the search path is the one that an import would take.
        if normal not in found:
            found[normal] = {"name": normal, "version": distribution.version, "plugin": _plugin(name)}
    return sorted(found.values(), key=lambda row: str(row["name"]))


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
