"""Generate the `PulumiPolicy.yaml` of each policy pack, the only place where the engine reads the pack's version."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

DESCRIPTIONS: Final = {
    "cost": "Owners and costs of resources",
    "isolation": "Isolation of sandboxes from each other, from the platform and from AWS",
}


def policy_pack_text(pack: str) -> str:
    """Return the file of a pack, with the version of the package."""
    return f"""\
# Written by `make generate`
description: {DESCRIPTIONS[pack]}
runtime:
  name: python
  options: {{toolchain: pip, virtualenv: ../../.venv}}
version: {version("agent-environment")}
main: .
"""
