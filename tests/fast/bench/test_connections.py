"""The environment of the Kubernetes client benchmark has everything that the service's client needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from bench.client_side import CLIENTS
from bench.connections import NAMES, PINNED

ROOT = Path(__file__).parents[3]
# The modules of the service's client with either connection, and a program that prints what they import.
PATH = (
    "import agentenv.service.kube.client, agentenv.service.kube.connection, lightkube, lightkube.config.client_adapter"
)
LOADED = f"""
import json, sys
before = set(sys.modules)
{PATH}
# An optional import of backports.zstd finds the folder of any other backport that is installed.
new = [module for name, module in sys.modules.items() if name not in {{*before, "backports"}}]
print(json.dumps([file for module in new if (file := getattr(module, "__file__", None))]))
"""


def test_each_client_is_measured() -> None:
    assert set(NAMES) == set(CLIENTS)


def test_the_environment_has_everything_that_the_service_client_needs() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, cwd=ROOT)
    files = [Path(file) for file in json.loads(ended.stdout)]
    needed = _distributions(files)
    assert {"aiohttp", "httpx2", "lightkube", "opentelemetry-api"} <= needed
    assert needed <= _installed_with()


def _distributions(files: list[Path]) -> set[str]:
    """Return the distributions of files, without the project's own files."""
    roots = [Path(path) for path in sys.path if path.endswith("site-packages")]
    paths = {file.relative_to(root) for file in files for root in roots if file.is_relative_to(root)}
    owners = packages_distributions()
    found: set[str] = set()
    for path in paths:
        candidates = set(owners.get(path.parts[0].partition(".")[0], ()))
        # Several distributions can share a namespace package: the file list of each decides.
        found |= candidates if len(candidates) == 1 else {name for name in candidates if path in _files(name)}
    return {_plain(name) for name in found}


def _files(name: str) -> set[Path]:
    return {Path(file) for file in distribution(name).files or ()}


def _installed_with() -> set[str]:
    """Return the pinned distributions and their installed dependencies."""
    lines = [line for line in PINNED.read_text(encoding="utf-8").splitlines() if line]
    assert all("==" in line for line in lines)
    pending, found = [_plain(line) for line in lines], set[str]()
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        try:
            required = distribution(name).requires or ()
        except PackageNotFoundError:
            continue
        # Dependencies of extras are not installed.
        pending += [_plain(line) for line in required if "extra ==" not in line]
    return found


def _plain(requirement: str) -> str:
    """Return the normalized name of a requirement."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()
