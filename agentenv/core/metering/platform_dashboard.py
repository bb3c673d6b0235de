"""The platform's dashboard: its cost, how that is attributed, and the health of metering."""

from __future__ import annotations

from agentenv.core.metering.panel import BYTES, DOLLARS, PART, SECONDS, Dashboard, Panel, Query, Section
from agentenv.core.metering.tariff import HOURS_A_MONTH

_ALL = "sum(sandbox:dollars:per_hour)"
# A day's mean, so that a quiet night and a busy morning weigh as they do in a month.
_PACE = f"sum(avg_over_time(sandbox:dollars:per_hour[1d])) * {HOURS_A_MONTH}"
_OWN = "sum by (user) (sum_over_time(sandbox:user_dollars:per_hour[1d])) / 60"
_FIRING = 'count(ALERTS{alertstate="firing"}) or vector(0)'
_ASLEEP = 'sandbox:user_storage_bytes:last unless on (user) group by (user) (sandbox:pod_owner:info{held_by="owner"})'

COST = Section(
    "What it costs",
    (
        Panel("Dollars a day", "number", "everything, at this moment's rate", (Query(f"{_ALL} * 24"),), DOLLARS, 4),
        Panel("Month at this pace", "number", "the last day's mean, over a month", (Query(_PACE),), DOLLARS, 4),
        Panel(
            "Of the budget at this pace",
            "number",
            "more than 100 % is more than the settings allow for",
            (Query(f"{_PACE} / scalar(sandbox:monthly_budget:dollars)"),),
            PART,
            4,
        ),
        Panel(
            "Dollars a user and month",
            "number",
            "the pace over everybody who has a sandbox or a home",
            (Query(f"{_PACE} / scalar(count(sandbox:user:present))"),),
            DOLLARS,
            4,
        ),
        Panel("Users", "number", "who has a sandbox or a home", (Query("count(sandbox:user:present)"),), "short", 4),
        Panel(
            "Spot saves a month",
            "number",
            "what Spot nodes cost less than the same nodes on demand, at this moment's prices",
            (Query(f"(sum(sandbox:node_saved_dollars:per_hour) or vector(0)) * {HOURS_A_MONTH}"),),
            DOLLARS,
            4,
        ),
        Panel(
            "Cost by part",
            "stack",
            "dollars an hour; the parts add up to what is spent",
            (Query("sum by (share) (sandbox:dollars:per_hour)", "{{share}}"),),
            DOLLARS,
        ),
        Panel(
            "Attributable and shared",
            "stack",
            "what somebody's own sandboxes and files cost, and what is there for everybody",
            (
                Query('sum(sandbox:dollars:per_hour{share=~"owners|storage"})', "attributable"),
                Query('sum(sandbox:dollars:per_hour{share!~"owners|storage"})', "shared"),
            ),
            DOLLARS,
        ),
        Panel(
            "Month at this pace, and the budget",
            "lines",
            "the forecast of a day and of a week; a line above the budget is a budget that will not do",
            (
                Query(_PACE, "as the last day"),
                Query(_PACE.replace("[1d]", "[7d]"), "as the last week"),
                Query("sandbox:monthly_budget:dollars", "budget"),
            ),
            DOLLARS,
        ),
        Panel(
            "Budget burnt",
            "lines",
            "what was spent in the 30 days before, as far as Prometheus remembers, of the budget",
            (
                Query(
                    "sum(sum_over_time(sandbox:dollars:per_hour[30d])) / 60 / scalar(sandbox:monthly_budget:dollars)",
                    "burnt",
                ),
            ),
            PART,
        ),
        Panel(
            "Fixed, by what it is for",
            "stack",
            "cost that does not depend on the number of users; other than nodes, as estimated from the settings",
            (Query("sum by (part) (sandbox:fixed_dollars:per_hour)", "{{part}}"),),
            DOLLARS,
        ),
        Panel(
            "Idle",
            "lines",
            "the unused share of the cost of sandbox nodes",
            (
                Query(
                    'sum(sandbox:dollars:per_hour{share="idle"})'
                    ' / (sum(sandbox:dollars:per_hour{share=~"owners|pool|nobody|idle"}) > 0)',
                    "idle",
                ),
            ),
            PART,
        ),
    ),
)

USERS = Section(
    "Users",
    (
        Panel(
            "Most expensive users of the last day",
            "ranking",
            "their sandboxes, without shares of what is everybody's",
            (Query(f"topk(20, {_OWN})"),),
            DOLLARS,
            columns=("user",),
        ),
        Panel(
            "Dollars a user and day",
            "days",
            "the ten most expensive ones of each day",
            (Query(f"topk(10, {_OWN})", "{{user}}"),),
            DOLLARS,
        ),
        Panel(
            "Files a user",
            "ranking",
            "what each keeps, those included whose sandboxes are asleep",
            (Query("topk(20, sandbox:user_storage_bytes:last)"),),
            BYTES,
            columns=("user",),
        ),
        Panel(
            "Files",
            "stack",
            "what is kept for users who have a sandbox now, and for those who have none",
            (
                Query(f"(sum(sandbox:user_storage_bytes:last) or vector(0)) - (sum({_ASLEEP}) or vector(0))", "awake"),
                Query(f"sum({_ASLEEP}) or vector(0)", "all asleep"),
            ),
            BYTES,
        ),
    ),
)

TRUST = Section(
    "Whether to believe it",
    (
        Panel(
            "Sandboxes of nobody",
            "number",
            "neither claimed by a user nor waiting in a pool: each is a fault",
            (Query('count(sandbox:pod_owner:info{held_by="nobody"}) or vector(0)'),),
            width=4,
        ),
        Panel(
            "Nodes without a price",
            "number",
            "what runs there seems to cost nothing",
            (Query("count(sandbox:node:info unless on (node) sandbox:node_dollars:per_hour) or vector(0)"),),
            width=4,
        ),
        Panel(
            "Rules that failed in an hour",
            "number",
            "a minute whose rule failed is nobody's",
            (Query("sum(increase(prometheus_rule_evaluation_failures_total[1h]))"),),
            width=4,
        ),
        Panel(
            "Gap to OpenCost's prices",
            "number",
            "what our prices of all nodes are above OpenCost's, of theirs: Spot is where they differ",
            (
                Query(
                    "sum(sandbox:node_dollars:per_hour and on (node) node_total_hourly_cost)"
                    " / sum(max by (node) (node_total_hourly_cost)) - 1"
                ),
            ),
            PART,
            4,
        ),
        Panel("Series", "number", "what Prometheus holds", (Query("sum(prometheus_tsdb_head_series)"),), width=4),
        Panel(
            "Gap to the bill",
            "words",
            "What AWS bills comes a day late and is not here. `agentenv cost report --since 30d` reads it, lays all of"
            " it to somebody to the cent, and says by how much what is metered here was off.",
            width=4,
        ),
    ),
)

SERVICE = Section(
    "The service",
    (
        Panel(
            "Requests",
            "lines",
            "a second, by answer",
            (Query("sum by (code) (rate(agentenv_requests_total[5m]))", "{{code}}"),),
            "reqps",
            8,
        ),
        Panel(
            "Slowest requests",
            "lines",
            "of twenty requests, nineteen are answered within this",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le, route) (rate(agentenv_request_seconds_bucket[5m])))",
                    "{{route}}",
                ),
            ),
            SECONDS,
            8,
        ),
        Panel(
            "Passes of loops",
            "lines",
            "the slowest of twenty, and how many failed in an hour",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le, loop) (rate(agentenv_loop_seconds_bucket[15m])))", "{{loop}}"
                ),
                Query("sum by (loop) (increase(agentenv_loop_failures_total[1h]))", "{{loop}} failed"),
            ),
            SECONDS,
            8,
        ),
        Panel("Leaders", "number", "1, or no loop runs", (Query("sum(agentenv_leader)"),), width=4),
        Panel(
            "Found by the loops",
            "lines",
            "inconsistent pools, volumes and access points",
            (Query("max by (loop, kind) (agentenv_findings)", "{{loop}}: {{kind}}"),),
            width=10,
        ),
        Panel(
            "Rows of the ledger",
            "lines",
            "written a minute",
            (Query("sum(rate(agentenv_ledger_rows_total[5m])) * 60", "rows"),),
            width=5,
        ),
        Panel(
            "What budgets did",
            "lines",
            "notices, suspensions and refusals in an hour",
            (Query("sum by (action) (increase(agentenv_budget_actions_total[1h]))", "{{action}}"),),
            width=5,
        ),
    ),
)

NODES = Section(
    "Nodes",
    (
        Panel("Alarms", "number", "that fire now: the runbook has each", (Query(_FIRING),), width=4),
        Panel(
            "NodeClaims and nodes",
            "lines",
            "created in an hour, by pool; a NodeClaim that does not register never becomes a node",
            (
                Query(
                    "sum by (nodepool) (increase(karpenter_nodeclaims_created_total[1h]))", "{{nodepool}} NodeClaims"
                ),
                Query("sum by (nodepool) (increase(karpenter_nodes_created_total[1h]))", "{{nodepool}} nodes"),
            ),
            width=20,
        ),
    ),
)

PLATFORM = Dashboard(
    "platform",
    "Sandboxes: the platform",
    "The cost of the environment, and how it is attributed.",
    "now-24h",
    (COST, USERS, TRUST, SERVICE, NODES),
)
