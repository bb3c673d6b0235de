"""Measure what kubectl reads: `python -m tests.fast.policies.kubectl.measure` fills in `readings.json`.

A row of the file is a manifest (`text`, or `bytes` in Base64) and what kubectl makes of it: the objects, its error, and
whether it reads something else another time. For a new manifest add a row with the text alone, then measure.
It needs Go and the module proxy; the tests need neither.
"""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
FILE: Final = FOLDER / "readings.json"
_INT64: Final = range(-(2**63), 2**63)


def readings() -> list[dict[str, Any]]:
    """Return the rows."""
    return json.loads(FILE.read_text(encoding="utf-8"), parse_int=_number)


def manifest_of(row: dict[str, Any]) -> bytes:
    """Return the manifest of a row."""
    return base64.b64decode(row["bytes"]) if "bytes" in row else str(row["text"]).encode()


def _number(digits: str) -> int | float:
    """Go has a whole number of more than 64 bits as a float."""
    return int(digits) if int(digits) in _INT64 else float(digits)


def main() -> None:
    """Read every manifest with kubectl's reader."""
    rows = [{key: row[key] for key in ("text", "bytes") if key in row} for row in readings()]
    manifests = json.dumps([base64.b64encode(manifest_of(row)).decode() for row in rows])
    run = subprocess.run(["go", "run", "."], cwd=FOLDER, input=manifests.encode(), stdout=subprocess.PIPE, check=True)
    measured = [json.dumps({**row, **found}) for row, found in zip(rows, json.loads(run.stdout), strict=True)]
    FILE.write_text("[\n" + ",\n".join(measured) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
