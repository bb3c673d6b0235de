"""What a rehearsal only pretends: kept in a file that it names, a line of JSON each, for its summary to tell."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

WHERE: Final = "AGENTENV_NOT_SIMULATED"


def listening(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether somebody collects what is not simulated; where nobody does, nothing may be pretended."""
    return bool(environment.get(WHERE))


def record(what: str, details: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> None:
    """Add a line; many plugins may do so at once."""
    line = json.dumps({"what": what, **details}, sort_keys=True, default=str) + "\n"
    descriptor = os.open(environment[WHERE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def recorded(path: Path) -> list[dict[str, Any]]:
    """The different lines of a file, in their order; previews and second runs tell the same again."""
    if not path.exists():
        return []
    lines = dict.fromkeys(path.read_text(encoding="utf-8").splitlines())
    return [json.loads(line) for line in lines]
