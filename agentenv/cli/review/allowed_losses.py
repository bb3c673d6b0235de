"""Read `policies/allowed_losses.yaml`: the resources with data that a pull request may delete, by URN and expiry.

It is a file and not text in the pull request, because a file is part of what is approved: a later change dismisses the
approval, code owners review it, and the deployment after the merge reads the same file.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError

FILE = "policies/allowed_losses.yaml"
MAX_DURATION = timedelta(days=30)
_KEYS = ("urn", "reason", "owner", "until")


@dataclass(frozen=True)
class Allowance:
    """A resource with data that may be deleted or replaced until a date."""

    urn: str
    reason: str
    owner: str
    until: date
    line: int = 1

    def in_force(self, today: date) -> bool:
        """Return whether it has not expired. A date far in the future is a mistake in the file."""
        return today <= self.until


def read_allowances(root: Path, today: date) -> list[Allowance]:
    """Return every allowance of the file, which may not exist. `CommandError` with all its mistakes."""
    from agentenv.cli.stack_yaml import read_document

    path = root / FILE
    if not path.is_file():
        return []
    document = read_document(path)
    mistakes = [f"{FILE}:{row.line}: {row.found}; allowed is {row.allowed}" for row in document.mistakes]
    value: Any = document.value
    rows: Any = value.get("losses") if isinstance(value, dict) else None
    if not mistakes and (not isinstance(value, dict) or list(value) != ["losses"] or not isinstance(rows, list)):
        mistakes.append(f"{FILE}:1: it must have one key, losses, with a list")
    allowances: list[Allowance] = []
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        line = document.line(("losses", index))
        problems = _problems(row, today)
        mistakes += [f"{FILE}:{line}: {problem}" for problem in problems]
        if not problems:
            allowances.append(Allowance(row["urn"], row["reason"], row["owner"], row["until"], line))
    if mistakes:
        raise CommandError("\n".join(mistakes))
    return allowances


def _problems(row: Any, today: date) -> list[str]:
    if not isinstance(row, dict):
        return [f"an entry is a mapping of {', '.join(_KEYS)}"]
    mistakes = [f"'{key}' is not a key of an entry; allowed are {', '.join(_KEYS)}" for key in row if key not in _KEYS]
    texts = [key for key in _KEYS if key != "until"]
    mistakes += [
        f"'{key}' is missing, or no text" for key in texts if not isinstance(row.get(key), str) or not row[key]
    ]
    until = row.get("until")
    if not isinstance(until, date):
        mistakes.append(f"'until' is missing, or no day such as {today + timedelta(days=7)}")
    elif until > today + MAX_DURATION:
        mistakes.append(f"{until} is more than {MAX_DURATION.days} days away; allowed is until {today + MAX_DURATION}")
    if mistakes:
        return mistakes
    if not row["urn"].startswith("urn:pulumi:") or any(mark in row["urn"] for mark in "*?"):
        mistakes.append(f"'{row['urn']}' is not the whole URN of one resource; the review prints it")
    return mistakes
