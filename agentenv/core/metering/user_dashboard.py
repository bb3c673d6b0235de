"""The dashboard of one user: what it has, uses and costs, and of that its shares of what is everybody's."""

from __future__ import annotations

from agentenv.core.metering.panel import BYTES, DOLLARS, PART, Choice, Dashboard, Panel, Query, Section
from agentenv.core.metering.tariff import HOURS_A_MONTH

_USER = 'user="$user"'
_NAMED = "{{workspace}} {{class}}"
_OWN = f"sum(sandbox:user_dollars:per_hour{{{_USER}}}) or vector(0)"
_FILES = f"sum(sandbox:user_storage_dollars:per_hour{{{_USER}}}) or vector(0)"
_SHARES = f"sum(sandbox:user_share_dollars:per_hour{{{_USER}}}) or vector(0)"

_MONEY = Section(
    "What it costs",
    (
        Panel(
            "Dollars of the last day",
            "number",
            "sandboxes, files and shares of shared cost",
            (
                Query(
                    " + ".join(
                        f"(sum(sum_over_time(sandbox:{word}_dollars:per_hour{{{_USER}}}[1d])) / 60 or vector(0))"
                        for word in ("user", "user_storage", "user_share")
                    )
                ),
            ),
            DOLLARS,
            6,
        ),
        Panel(
            "Month at this moment's rate",
            "number",
            "everything",
            (Query(f"(({_OWN}) + ({_FILES}) + ({_SHARES})) * {HOURS_A_MONTH}"),),
            DOLLARS,
            6,
        ),
        Panel(
            "Of what a user may cost",
            "number",
            "the month at the last day's pace, without shares, of the cap",
            (
                Query(
                    f"(sum(sum_over_time(sandbox:user_dollars:per_hour{{{_USER}}}[1d])) or vector(0))"
                    f" / 60 / 24 * {HOURS_A_MONTH} / scalar(sandbox:per_user_cap:dollars)"
                ),
            ),
            PART,
            6,
        ),
        Panel(
            "Files",
            "number",
            "including those of suspended workspaces",
            (Query(f"sum(sandbox:user_storage_bytes:last{{{_USER}}})"),),
            BYTES,
            6,
        ),
        Panel(
            "Cost by part",
            "stack",
            "dollars an hour: own cost, and shares of shared cost",
            (
                Query(f"sum by (class) (sandbox:user_dollars:per_hour{{{_USER}}})", "sandboxes, {{class}}"),
                Query(f"sum(sandbox:user_storage_dollars:per_hour{{{_USER}}})", "files"),
                Query(f"sum by (share) (sandbox:user_share_dollars:per_hour{{{_USER}}})", "share of {{share}}"),
            ),
            DOLLARS,
        ),
        Panel(
            "Dollars a day",
            "days",
            "sandboxes, without shares",
            (Query(f"sum(sum_over_time(sandbox:user_dollars:per_hour{{{_USER}}}[1d])) / 60", "sandboxes"),),
            DOLLARS,
        ),
    ),
)

_USE = Section(
    "What it uses",
    (
        Panel(
            "Processor",
            "lines",
            "cores in use",
            (
                Query(
                    f"sum by (class, workspace) (sandbox:owner_cpu_seconds:rate1m{{{_USER}}})",
                    _NAMED,
                ),
            ),
        ),
        Panel(
            "Memory",
            "lines",
            "in use",
            (
                Query(
                    f"sum by (class, workspace) (sandbox:owner_memory_bytes:avg1m{{{_USER}}})",
                    _NAMED,
                ),
            ),
            BYTES,
        ),
        Panel(
            "Traffic",
            "lines",
            "bytes a second, sent and received",
            (
                Query(
                    f"sum by (class, workspace) (sandbox:owner_network_bytes:rate1m{{{_USER}}})",
                    _NAMED,
                ),
            ),
            "Bps",
        ),
        Panel(
            "Workspaces of the last day",
            "ranking",
            "what each cost",
            (Query(f"sum by (workspace, class) (sum_over_time(sandbox:owner_dollars:per_hour{{{_USER}}}[1d])) / 60"),),
            DOLLARS,
            columns=("workspace", "class"),
        ),
    ),
)

USER = Dashboard(
    "user",
    "Sandboxes: a user",
    "What one user has, uses and costs.",
    "now-24h",
    (_MONEY, _USE),
    (Choice("user", "User", "sandbox:user:present"),),
)
