"""Print workspaces as a table, a line or a page of details."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from agentenv.client.api import Event, Usage, Workspace

# States from which a resume, which waits, leads to a running workspace.
RESUMABLE = frozenset({"suspended", "suspending", "moving", "restarting", "creating"})
_COLOURS = {"running": "green", "suspended": "cyan", "failed": "red"}
_PASSING_COLOUR = "yellow"
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
    from rich.console import Console

    Console(highlight=False).print(_table(workspaces))


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows as a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, no_wrap=head in {"ID", "STATE"})
    for row in rows:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)


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

    with Live(_table(list_workspaces()), auto_refresh=False) as screen:
        while True:
            time.sleep(interval)
            screen.update(_table(list_workspaces()), refresh=True)


def print_details(workspace: Workspace, events: Sequence[Event]) -> None:
    """Print the details of a workspace, and its events."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for key in ("id", *_KEYS, *_OPTIONAL_KEYS, *_END_KEYS):
        if workspace.get(key) not in (None, "", [], {}, 0):
            table.add_row(key.replace("_", " "), _value_text(workspace[key]))
    console.print(table)
    for event in events:
        console.print(
            f"{event.get('at') or ''}  {event.get('reason') or ''}  {event.get('message') or ''}", markup=False
        )


def line(workspace: Mapping[str, Any]) -> str:
    """Return a workspace as one line."""
    reason = workspace.get("why") or workspace.get("suspended_because") or workspace.get("cold")
    return f"{workspace['id']}  {workspace['class']}  {workspace['state']}" + (f"  ({reason})" if reason else "")


def _table(workspaces: Sequence[Workspace]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in ("ID", "CLASS", "MODE", "STATE", "OWNER", "AGE", "HELD BY", ""):
        table.add_column(name, no_wrap=name in {"ID", "STATE"})
    for row in workspaces:
        holders = ", ".join(lease["holder"].rpartition("/")[2] for lease in row.get("leases") or ())
        reason = row.get("suspended_because") or row.get("why") or ""
        table.add_row(
            *(Text(row[key]) for key in ("id", "class", "mode")),
            Text(row["state"], style=_COLOURS.get(row["state"], _PASSING_COLOUR)),
            *(Text(text) for text in (row["owner"], _age(row.get("created")), holders, reason)),
        )
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
