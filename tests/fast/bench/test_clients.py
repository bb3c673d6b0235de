"""The environment that the benchmark of Kubernetes clients is made of has all that ours needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from bench.client_side import CLIENTS
from bench.clients import NAMES, PINNED

ROOT = Path(__file__).parents[3]
# What our own verbs are made of, over either connection; and what it has imported when it is there.
PATH = (
    "import agentenv.service.kube.client, agentenv.service.kube.connection, lightkube, lightkube.config.client_adapter"
)
LOADED = f"""
import json, sys
before = set(sys.modules)
{PATH}
new = [module for name, module in sys.modules.items() if name not in before]
print(json.dumps([file for module in new if (file := getattr(module, "__file__", None))]))
"""


def test_each_client_is_measured() -> None:
    assert set(NAMES) == set(CLIENTS)


def test_all_that_our_verbs_need_is_in_the_environment() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True, cwd=ROOT)
    files = [Path(file) for file in json.loads(ended.stdout)]
    needed = _distributions(files)
    assert {"aiohttp", "httpx2", "lightkube", "opentelemetry-api"} <= needed
    assert needed <= _brought()


def _distributions(files: list[Path]) -> set[str]:
    """Whose files they are, by the name of a distribution; ours are nobody's."""
    roots = [Path(path) for path in sys.path if path.endswith("site-packages")]
    places = {file.relative_to(root) for file in files for root in roots if file.is_relative_to(root)}
    owners = packages_distributions()
    found: set[str] = set()
    for place in places:
        could = set(owners.get(place.parts[0].partition(".")[0], ()))
        # Several share a namespace: what says whose a file is, is the list of each.
        found |= could if len(could) == 1 else {name for name in could if place in _files(name)}
    return {_plain(name) for name in found}


def _files(name: str) -> set[Path]:
    return {Path(file) for file in distribution(name).files or ()}


def _brought() -> set[str]:
    """What is named there, and what that brings with it, as far as it is here too."""
    lines = [line for line in PINNED.read_text(encoding="utf-8").splitlines() if line]
    assert all("==" in line for line in lines)
    waiting, found = [_plain(line) for line in lines], set[str]()
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            required = distribution(name).requires or ()
        except PackageNotFoundError:
            continue
        # An extra's are brought to whoever asks for the extra: nobody here does.
        waiting += [_plain(line) for line in required if "extra ==" not in line]
    return found


def _plain(requirement: str) -> str:
    """The name in a requirement, as all spell it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()
