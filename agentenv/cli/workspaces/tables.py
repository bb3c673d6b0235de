"""Print workspaces as a table, a line or a page of details."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.cli.terminal_text import columns
from agentenv.cli.workspaces.wording import event_text, reason_text

if TYPE_CHECKING:
    from rich.table import Table

    from agentenv.client.api import Event, Usage, Workspace

# States from which a resume, which waits, leads to a running workspace.
RESUMABLE = frozenset({"suspended", "suspending", "moving", "restarting", "creating"})
_COLOURS = {"running": "green", "suspended": "cyan", "failed": "red"}
_PASSING_COLOUR = "yellow"
_SUSPENDED = {"suspended", "suspending"}
_HEADS = ("ID", "CLASS", "MODE", "STATE", "OWNER", "AGE", "HELD BY", "REASON")
_KEYS = ("owner", "class", "mode", "state", "created", "created_by", "task", "sandbox", "labels", "shared", "leases")
_OPTIONAL_KEYS = (
    "last_active",
    "busy_until",
    "wake_at",
    "idle_after",
    "deadline",
    "budget",
    "session",
    "parent",
    "cold",
    "why",
    "restarts",
    "last_end",
)
_END_KEYS = ("suspended_because", "deleted_at", "destroy_after")


def print_table(workspaces: Sequence[Workspace]) -> None:
    """Print workspaces as a table."""
    print_rows(_HEADS, _rows(workspaces))


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table: at a terminal within its width, else a line each, so that a pipe can search them."""
    if not sys.stdout.isatty():
        sys.stdout.write(columns([heads, *rows] if heads else rows))
        return
    from rich.console import Console

    Console(highlight=False).print(_table(heads, rows))


def print_usage(usage: Usage) -> None:
    """Print usage by day and workspace, and what the month cost."""
    rows = [
        (
            row["day"],
            row["workspace"],
            row["class"],
            f"{float(row['hours']):.2f} h",
            f"{float(row['cpu_seconds']) / 3600:.2f} core h",
            f"{float(row['memory_gib_hours']):.2f} GiB h",
            f"${float(row.get('dollars') or 0):.4f}",
        )
        for row in usage["lines"]
    ]
    print_rows(("DAY", "ID", "CLASS", "RUNNING", "CPU", "MEMORY", "COST"), rows)
    month = usage.get("month")
    if month:
        limit = month.get("cap")
        cap = f" of ${limit}" if limit is not None else ""
        sys.stdout.write(f"${month['spent']}{cap} spent this month\n")


def watch(list_workspaces: Callable[[], list[Workspace]], interval: float) -> None:
    """Print workspaces as a table, and refresh it until Ctrl-C."""
    from rich.live import Live

    with Live(_table(_HEADS, _rows(list_workspaces())), auto_refresh=False) as screen:
        while True:
            time.sleep(interval)
            screen.update(_table(_HEADS, _rows(list_workspaces())), refresh=True)


def print_details(workspace: Workspace, events: Sequence[Event]) -> None:
    """Print the details of a workspace, and its events."""
    shown = {**workspace, "suspended_because": reason_text(workspace.get("suspended_because") or "")}
    keys = [key for key in ("id", *_KEYS, *_OPTIONAL_KEYS, *_END_KEYS) if shown.get(key) not in (None, "", [], {}, 0)]
    print_rows((), [(key.replace("_", " "), _value_text(shown[key])) for key in keys])
    for event in events:
        reason, message = event.get("reason") or "", event.get("message") or ""
        sys.stdout.write(f"{event.get('at') or ''}  {reason}  {event_text(reason, message)}".rstrip() + "\n")


def line(workspace: Mapping[str, Any], *, created: bool = False) -> str:
    """Return a workspace as one line, with the reason of its state; of one that was created, of its cold start."""
    because = workspace.get("suspended_because") if workspace["state"] in _SUSPENDED else None
    reason = workspace.get("why") or reason_text(because or "") or (workspace.get("cold") if created else "")
    return f"{workspace['id']}  {workspace['class']}  {workspace['state']}" + (f"  ({reason})" if reason else "")


def _rows(workspaces: Sequence[Workspace]) -> list[tuple[str, ...]]:
    return [
        (
            row["id"],
            row["class"],
            row["mode"],
            row["state"],
            row["owner"],
            _age(row.get("created")),
            ", ".join(lease["holder"].rpartition("/")[2] for lease in row.get("leases") or ()),
            reason_text(row.get("suspended_because") or "") or row.get("why") or "",
        )
        for row in workspaces
    ]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=bool(heads), pad_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=head in {"ID", "STATE"})
    for row in rows:
        cells = [Text(cell) for cell in row]
        for head, cell in zip(heads, cells, strict=False):
            if head == "STATE":
                cell.stylize(_COLOURS.get(cell.plain, _PASSING_COLOUR))
        table.add_row(*cells)
    return table


def _age(created: Any) -> str:
    if not created:
        return ""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(str(created))).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{max(seconds, 0)}s"


def _value_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}={inner}" for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return ", ".join(_value_text(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
    return str(value)
