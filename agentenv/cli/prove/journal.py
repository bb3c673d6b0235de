"""The journal of a proof: what was tested and what exists, so that a run that was killed can be resumed or cleaned up.

It is written before the first resource is created and after each promise, and replaced atomically.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentenv.cli.main import CommandError
from agentenv.cli.prove.promises import Outcome

FILE = "journal.json"


@dataclass
class Journal:
    """The state of one proof."""

    path: Path
    stack: str
    began: float = field(default_factory=time.time)
    destroying: bool = False  # what exists may be half of a stack
    finished: bool = False  # destroyed, and the report is written
    outcomes: list[Outcome] = field(default_factory=list[Outcome])

    @property
    def names(self) -> set[str]:
        """Return the promises that have an outcome."""
        return {outcome.name for outcome in self.outcomes}

    def record(self, outcome: Outcome) -> None:
        """Add an outcome, and write the journal."""
        self.outcomes.append(outcome)
        self.write()

    def write(self) -> None:
        """Replace the file; a crash leaves the former or the new one."""
        document: dict[str, Any] = {
            "stack": self.stack,
            "began": self.began,
            "destroying": self.destroying,
            "finished": self.finished,
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }
        draft = self.path.with_suffix(".draft")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


def read_journal(folder: Path) -> Journal | None:
    """Return the journal in a folder, None where there is none."""
    path = folder / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        outcomes = [Outcome(**row) for row in document["outcomes"]]
        return Journal(
            path,
            str(document["stack"]),
            float(document["began"]),
            destroying=bool(document["destroying"]),
            finished=bool(document["finished"]),
            outcomes=outcomes,
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(f"{path} is not the journal of a proof: {error}") from None
