"""Write the generated files, or with --check list those that are out of date.

Each has a row: its path, and the pure function that returns its text.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentenv.cli.generated.cli_reference import cli_page
from agentenv.cli.generated.client import PATH as CLIENT
from agentenv.cli.generated.client import client_text
from agentenv.cli.generated.grafana import dashboard_text
from agentenv.cli.generated.openapi import openapi_text
from agentenv.cli.generated.policy_packs import DESCRIPTIONS, policy_pack_text
from agentenv.cli.generated.taggable import taggable_text
from agentenv.cli.project import checkout
from agentenv.config.reference import settings_page, stack_schema_text
from agentenv.core.guardrails.reference import guardrails_page
from agentenv.core.metering.dashboards import DASHBOARDS, FOLDER
from agentenv.policies.reference import policies_page


@dataclass(frozen=True)
class Generated:
    """A generated file: its path and the function for its text."""

    path: str
    text: Callable[[], str]


FILES = (
    Generated("docs/reference/stack.schema.json", stack_schema_text),
    Generated("docs/reference/settings.md", settings_page),
    Generated("docs/reference/cli.md", cli_page),
    Generated("docs/reference/guardrails.md", guardrails_page),
    Generated("docs/reference/policies.md", policies_page),
    Generated("docs/reference/workspaces.openapi.json", openapi_text),
    Generated(CLIENT, client_text),
    Generated("policies/taggable.txt", taggable_text),
    *(
        Generated(f"policies/{pack}/PulumiPolicy.yaml", functools.partial(policy_pack_text, pack))
        for pack in DESCRIPTIONS
    ),
    *(
        Generated(f"{FOLDER}/{layout.name}.json", functools.partial(dashboard_text, layout.name))
        for layout in DASHBOARDS
    ),
)


def write(folder: Path) -> list[str]:
    """Write the files that have changed, and return their paths."""
    changed = _changed(folder)
    for name, text in changed.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return [*changed]


def drifted(folder: Path) -> list[str]:
    """Return the paths of the files that are missing or out of date."""
    return [*_changed(folder)]


def _changed(folder: Path) -> dict[str, str]:
    return {file.path: text for file in FILES if _present(folder / file.path) != (text := file.text())}


def difference(folder: Path, path: str) -> str:
    """Return the first differences between a file and its generated text."""
    file = next(file for file in FILES if file.path == path)
    present = _present(folder / path).splitlines()
    lines = difflib.unified_diff(present, file.text().splitlines(), "is", "should be", lineterm="", n=0)
    return "\n".join(line[:160] for line, _ in zip(lines, range(12), strict=False))


def _present(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with --check return 1 if one is out of date."""
    parser = argparse.ArgumentParser(prog="python -m agentenv.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a file is not up to date")
    check = parser.parse_args(arguments).check
    folder = checkout()
    if not check:
        for path in write(folder):
            sys.stdout.write(f"wrote {path}\n")
        return 0
    outdated = drifted(folder)
    for path in outdated:
        sys.stdout.write(f"{path} is not up to date; run python -m agentenv.generate\n{difference(folder, path)}\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
