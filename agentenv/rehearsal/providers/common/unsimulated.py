"""Record what a rehearsal does not simulate, one JSON line each, in the file that the rehearsal names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

FILE_VARIABLE: Final = "AGENTENV_NOT_SIMULATED"


def is_recording(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a rehearsal collects the records. Without one, unsimulated features are errors."""
    return bool(environment.get(FILE_VARIABLE))


def record(what: str, details: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> None:
    """Append a record; several plugins may do so at the same time."""
    line = json.dumps({"what": what, **details}, sort_keys=True, default=str) + "\n"
    descriptor = os.open(environment[FILE_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the distinct records of a file, in order. Previews and second runs repeat them."""
    if not path.exists():
        return []
    lines = dict.fromkeys(path.read_text(encoding="utf-8").splitlines())
    return [json.loads(line) for line in lines]
