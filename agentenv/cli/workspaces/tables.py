"""Workspaces as people read them: a table, a line, a page."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from agentenv.cli.workspaces.client import Document

_COLOURS = {"running": "green", "suspended": "cyan", "creating": "yellow", "failed": "red", "deleting": "yellow"}
_PARTS = ("owner", "class", "mode", "state", "created", "created_by", "task", "sandbox", "labels", "shared", "leases")
_MORE = ("last_active", "busy_until", "wake_at", "idle_after", "deadline", "budget", "session", "parent", "cold", "why")
_ENDS = ("suspended_because", "deleted_at", "destroy_after")


def listed(found: Sequence[Document]) -> None:
    """The table of several."""
    from rich.console import Console

    Console(highlight=False).print(_table(found))


def watch(look: Callable[[], list[Document]], every: float) -> None:
    """The same table, kept true until Ctrl-C."""
    from rich.live import Live

    with Live(_table(look()), auto_refresh=False) as screen:
        while True:
            time.sleep(every)
            screen.update(_table(look()), refresh=True)


def shown(found: Document, events: Sequence[Document]) -> None:
    """All of one, and what happened to it."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    told = Table(box=None, show_header=False, pad_edge=False)
    for key in ("id", *_PARTS, *_MORE, *_ENDS):
        if found.get(key) not in (None, "", [], {}):
            told.add_row(key.replace("_", " "), _plain(found[key]))
    console.print(told)
    for event in events:
        console.print(
            f"{event.get('at') or ''}  {event.get('reason') or ''}  {event.get('message') or ''}", markup=False
        )


def line(found: Document) -> str:
    """One in a line."""
    more = found.get("why") or found.get("suspended_because") or found.get("cold")
    return f"{found['id']}  {found['class']}  {found['state']}" + (f"  ({more})" if more else "")


def _table(found: Sequence[Document]) -> Table:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, pad_edge=False)
    for name in ("ID", "CLASS", "MODE", "STATE", "OWNER", "AGE", "HELD BY", ""):
        made.add_column(name, no_wrap=name in {"ID", "STATE"})
    for one in found:
        state = one["state"]
        holders = ", ".join(lease["holder"].rpartition("/")[2] for lease in one.get("leases") or ())
        because = one.get("suspended_because") or one.get("why") or ""
        words = (one["id"], one["class"], one["mode"])
        told = [Text(word) for word in words]
        colour = Text(state, style=_COLOURS.get(state, ""))
        made.add_row(
            *told, colour, *(Text(word) for word in (one["owner"], _age(one.get("created")), holders, because))
        )
    return made


def _age(created: Any) -> str:
    if not created:
        return ""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(str(created))).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return ", ".join(_plain(one) for one in value)  # pyright: ignore[reportUnknownVariableType]
    return str(value)
