"""`policies/allowed_losses.yaml`: what a pull request says may be lost, by URN and until a day.

It is a file and not a line in the pull request's text, because a file is part of what is approved: whoever changes it
afterwards loses the approval, code owners are asked, and the deployment that follows the merge reads the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from agentenv.cli.main import Refusal

FILE = "policies/allowed_losses.yaml"
LONGEST = timedelta(days=30)
_KEYS = ("urn", "reason", "owner", "until")


@dataclass(frozen=True)
class Allowance:
    """One thing that may be lost until a day has passed."""

    urn: str
    reason: str
    owner: str
    until: date
    line: int = 1

    def holds(self, today: date) -> bool:
        """Whether it is in force; a day far ahead is refused when the file is read."""
        return today <= self.until


def read_allowances(root: Path, today: date) -> list[Allowance]:
    """Every allowance of the file, which may not exist; `Refusal` with all that is wrong in it."""
    from agentenv.cli.stack_yaml import read_document

    path = root / FILE
    if not path.is_file():
        return []
    document = read_document(path)
    wrong = [f"{FILE}:{one.line}: {one.found}; allowed is {one.allowed}" for one in document.mistakes]
    value: Any = document.value
    rows: Any = value.get("losses") if isinstance(value, dict) else None
    if not wrong and (not isinstance(value, dict) or list(value) != ["losses"] or not isinstance(rows, list)):
        wrong.append(f"{FILE}:1: it holds one key, losses, with a list")
    found: list[Allowance] = []
    for index, row in enumerate(rows if isinstance(rows, list) else []):
        line = document.line(("losses", index))
        problems = _problems(row, today)
        wrong += [f"{FILE}:{line}: {problem}" for problem in problems]
        if not problems:
            found.append(Allowance(row["urn"], row["reason"], row["owner"], row["until"], line))
    if wrong:
        raise Refusal("\n".join(wrong))
    return found


def _problems(row: Any, today: date) -> list[str]:
    if not isinstance(row, dict):
        return [f"an entry is a mapping of {', '.join(_KEYS)}"]
    wrong = [f"'{key}' is no key of an entry; allowed are {', '.join(_KEYS)}" for key in row if key not in _KEYS]
    texts = [key for key in _KEYS if key != "until"]
    wrong += [f"'{key}' is missing, or no text" for key in texts if not isinstance(row.get(key), str) or not row[key]]
    until = row.get("until")
    if not isinstance(until, date):
        wrong.append(f"'until' is missing, or no day such as {today + timedelta(days=7)}")
    elif until > today + LONGEST:
        wrong.append(f"{until} is more than {LONGEST.days} days away; allowed is until {today + LONGEST}")
    if wrong:
        return wrong
    if not row["urn"].startswith("urn:pulumi:") or any(mark in row["urn"] for mark in "*?"):
        wrong.append(f"'{row['urn']}' is not the whole URN of one resource; the review prints it")
    return wrong
