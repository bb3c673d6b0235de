"""The records of workspaces, their events, usage and access, in one SQLite file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from agentenv.core.ledger.rows import Row
from agentenv.core.values.timestamps import format_whole_seconds
from agentenv.core.workspaces.workspace import Event, Workspace


@dataclass(frozen=True)
class LocalSwarm:
    """The swarm of a task by its name; the failure of its last creation is recorded until the next one."""

    name: str
    owner: str
    class_name: str
    requested: int = 0
    handed_over: int = 0
    shared: bool = False  # whether it has a shared folder
    deleted_at: datetime | None = None
    destroy_after: datetime | None = None
    failure: str = ""


_WORKSPACE, _EVENT, _ROW = TypeAdapter(Workspace), TypeAdapter(Event), TypeAdapter(Row)
_SWARM = TypeAdapter(LocalSwarm)
_MOST_EVENTS = 100
_SCHEMA = """
CREATE TABLE IF NOT EXISTS workspaces (id TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, document TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_of ON events (id);
CREATE TABLE IF NOT EXISTS usage (
  owner TEXT NOT NULL, row TEXT NOT NULL, began TEXT NOT NULL, closed INTEGER NOT NULL, document TEXT NOT NULL,
  PRIMARY KEY (owner, row)
);
CREATE TABLE IF NOT EXISTS swarms (name TEXT PRIMARY KEY, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS access (
  kind TEXT NOT NULL, row TEXT NOT NULL, changed TEXT NOT NULL, document TEXT NOT NULL, PRIMARY KEY (kind, row)
);
"""


class Records:
    """The records of one `agentenv dev`; safe to share between threads."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file, check_same_thread=False)
        self._lock = threading.Lock()
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def workspaces(self) -> list[Workspace]:
        """Return all workspaces, deleted ones with retained data included."""
        return [_WORKSPACE.validate_json(text) for (text,) in self._read("SELECT document FROM workspaces ORDER BY id")]

    def put(self, workspace: Workspace) -> None:
        """Write a workspace."""
        document = _WORKSPACE.dump_json(workspace).decode()
        with self._writing() as write:
            write.execute("REPLACE INTO workspaces VALUES (?, ?)", (workspace.id, document))

    def remove(self, id_: str) -> None:
        """Delete a workspace and its events; its usage stays."""
        with self._writing() as write:
            write.execute("DELETE FROM workspaces WHERE id = ?", (id_,))
            write.execute("DELETE FROM events WHERE id = ?", (id_,))

    def swarms(self) -> list[LocalSwarm]:
        """Return all swarms."""
        return [_SWARM.validate_json(text) for (text,) in self._read("SELECT document FROM swarms")]

    def put_swarm(self, swarm: LocalSwarm) -> None:
        """Write a swarm."""
        with self._writing() as write:
            write.execute("REPLACE INTO swarms VALUES (?, ?)", (swarm.name, _SWARM.dump_json(swarm).decode()))

    def remove_swarm(self, name: str) -> None:
        """Delete a swarm."""
        with self._writing() as write:
            write.execute("DELETE FROM swarms WHERE name = ?", (name,))

    def add_event(self, id_: str, event: Event) -> int:
        """Record an event of a workspace, and return its number; the oldest of many are dropped."""
        with self._writing() as write:
            values = (id_, _EVENT.dump_json(event).decode())
            added = write.execute("INSERT INTO events (id, document) VALUES (?, ?)", values).lastrowid
            write.execute(
                "DELETE FROM events WHERE id = ? AND number NOT IN"
                " (SELECT number FROM events WHERE id = ? ORDER BY number DESC LIMIT ?)",
                (id_, id_, _MOST_EVENTS),
            )
        return added or 0

    def all_events(self) -> list[tuple[int, str, Event]]:
        """Return the events of all workspaces with their numbers, in order."""
        rows = self._read("SELECT number, id, document FROM events ORDER BY number")
        return [(number, id_, _EVENT.validate_json(text)) for number, id_, text in rows]

    def events(self, id_: str) -> list[Event]:
        """Return the events of a workspace, the latest first."""
        rows = self._read("SELECT document FROM events WHERE id = ? ORDER BY number DESC", id_)
        return [_EVENT.validate_json(text) for (text,) in rows]

    def put_usage(self, row: Row) -> None:
        """Write a row of usage in place of its earlier version."""
        values = (row.owner, row.sort_key, format_whole_seconds(row.began), row.closed, _ROW.dump_json(row).decode())
        with self._writing() as write:
            write.execute("REPLACE INTO usage VALUES (?, ?, ?, ?, ?)", values)

    def open_usage(self) -> list[Row]:
        """Return the rows of usage that have not ended."""
        return [_ROW.validate_json(text) for (text,) in self._read("SELECT document FROM usage WHERE NOT closed")]

    def usage(self, owner: str, since: datetime, until: datetime) -> list[Row]:
        """Return an owner's rows that began in an interval, in order."""
        interval = (format_whole_seconds(since), format_whole_seconds(until))
        rows = self._read(
            "SELECT document FROM usage WHERE owner = ? AND began >= ? AND began < ? ORDER BY began", owner, *interval
        )
        return [_ROW.validate_json(text) for (text,) in rows]

    def put_access(self, kind: str, row: str, changed: str, document: str) -> None:
        """Write a row of access in place of its earlier version."""
        with self._writing() as write:
            write.execute("REPLACE INTO access VALUES (?, ?, ?, ?)", (kind, row, changed, document))

    def add_access(self, kind: str, row: str, changed: str, document: str) -> bool:
        """Write a row of access; return False where it exists."""
        with self._writing() as write:
            added = write.execute("INSERT OR IGNORE INTO access VALUES (?, ?, ?, ?)", (kind, row, changed, document))
            return added.rowcount == 1

    def access(self, kind: str, *, changed: str = "", prefix: str = "") -> list[tuple[str, str]]:
        """Return the rows of access of a kind with their documents, in order."""
        query = "SELECT row, document FROM access WHERE kind = ? AND changed >= ? AND row LIKE ? || '%' ORDER BY row"
        return self._read(query, kind, changed, prefix)

    def _read(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._database:
            yield self._database
