"""Run folders: a rehearsal's state, logs and record, separate from every other rehearsal's.

A rehearsal holds a lock in its folder for as long as it lives. A folder with a free lock that was not kept on purpose
belongs to a rehearsal that was killed together with its cleanup process. The next rehearsal deletes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

from agentenv.local import processes

_RECORD = "kept.json"


def cache() -> Path:
    """Return the folder for everything that outlives a rehearsal."""
    if path := os.environ.get("AGENTENV_CACHE"):
        return Path(path)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "agentenv"


@dataclass(frozen=True)
class Run:
    """One rehearsal's folder, and the lock that shows that it is alive."""

    id: str
    folder: Path
    lock: TextIOWrapper

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def release(self) -> None:
        """Release the lock; the folder stays."""
        self.lock.close()

    def remove(self) -> None:
        """Release the lock and delete the folder."""
        self.lock.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self, record: dict[str, object]) -> None:
        """Mark the folder as kept on purpose, with the record needed to use and end it."""
        (self.folder / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def create(under: Path | None = None) -> Run:
    """Create a run folder, readable by its owner only: it contains state and a passphrase."""
    parent = under or cache() / "runs"
    parent.mkdir(parents=True, exist_ok=True)
    run_id = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    folder = parent / run_id
    folder.mkdir(mode=0o700)
    (folder / "logs").mkdir()
    # Locked first and renamed second: a concurrent sweep never sees it free
    unnamed = folder / "lock.new"
    lock = unnamed.open("w", encoding="utf-8")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(folder / "lock")
    return Run(run_id, folder, lock)


def kept_runs(under: Path | None = None) -> list[dict[str, object]]:
    """Return the records of the rehearsals that were left up on purpose, oldest first."""
    folders = sorted((under or cache() / "runs").glob(f"*/{_RECORD}"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in folders]


def finish(run_id: str, under: Path | None = None) -> bool:
    """End a kept rehearsal and delete its folder; False when there is none of that name."""
    folder = (under or cache() / "runs") / run_id
    if Path(run_id).name != run_id or not (folder / _RECORD).is_file():
        return False
    processes.end(run_id)
    shutil.rmtree(folder, ignore_errors=True)
    return True


def sweep(under: Path | None = None) -> list[str]:
    """Delete the folders of killed rehearsals: those with a free lock that were not kept on purpose."""
    swept: list[str] = []
    for lock in sorted((under or cache() / "runs").glob("*/lock")):
        if (lock.parent / _RECORD).exists() or _is_locked(lock):
            continue
        processes.end(lock.parent.name)
        shutil.rmtree(lock.parent, ignore_errors=True)
        swept.append(lock.parent.name)
    return swept


def _is_locked(lock: Path) -> bool:
    try:
        with lock.open("r+", encoding="utf-8") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
