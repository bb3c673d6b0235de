"""The pools' dashboard: how quickly claims are filled, and what it costs to have slots wait."""

from __future__ import annotations

from agentenv.core.metering.panel import BYTES, DOLLARS, PART, SECONDS, Choice, Dashboard, Panel, Query, Section
from agentenv.core.metering.tariff import HOURS_A_MONTH

_CLASS = 'class=~"$class"'
_SPACE = 'namespace=~"sandbox-($class)"'
_HITS, _MISSES = (f"agentenv_pool_{word}_total{{{_CLASS}}}" for word in ("hits", "misses"))

_CLAIMS = Section(
    "Claims",
    (
        Panel(
            "Found warm",
            "number",
            "of the last hour's claims",
            (
                Query(
                    f"sum(increase({_HITS}[1h]))"
                    f" / (sum(increase({_HITS}[1h])) + (sum(increase({_MISSES}[1h])) or vector(0)) > 0)"
                ),
            ),
            PART,
            4,
        ),
        Panel(
            "From request to ready",
            "number",
            "of twenty claims that found a warm sandbox, nineteen took no longer",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le)"
                    f' (rate(agentenv_claim_seconds_bucket{{{_CLASS},outcome="warm"}}[1h])))'
                ),
            ),
            SECONDS,
            4,
        ),
        Panel(
            "Pools cost a month",
            "number",
            "slots that wait, at this moment's rate",
            (Query(f"(sum(sandbox:pool_dollars:per_hour{{{_CLASS}}}) or vector(0)) * {HOURS_A_MONTH}"),),
            DOLLARS,
            4,
        ),
        Panel(
            "From request to ready, by outcome",
            "lines",
            "of twenty claims, nineteen took no longer",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le, outcome)"
                    f" (rate(agentenv_claim_seconds_bucket{{{_CLASS}}}[15m])))",
                    "{{outcome}}",
                ),
            ),
            SECONDS,
        ),
        Panel(
            "Hit ratio",
            "lines",
            "of a class's claims in the hour before, those that found a warm sandbox",
            (
                Query(
                    f"sum by (class) (increase({_HITS}[1h]))"
                    f" / (sum by (class) (increase({_HITS}[1h])) + sum by (class) (increase({_MISSES}[1h])) > 0)",
                    "{{class}}",
                ),
            ),
            PART,
        ),
        Panel(
            "Misses",
            "lines",
            "in an hour, by their reason",
            (Query(f"sum by (class, why) (increase({_MISSES}[1h]))", "{{class}} {{why}}"),),
            width=6,
        ),
        Panel(
            "As the controller saw it",
            "lines",
            "sandboxes adopted or begun in an hour",
            (
                Query(
                    f"sum by (namespace, launch_type) (increase(agent_sandbox_claim_creation_total{{{_SPACE}}}[1h]))",
                    "{{namespace}} {{launch_type}}",
                ),
            ),
            width=6,
        ),
        Panel(
            "The controller's part of it",
            "lines",
            "milliseconds from a claim seen to a claim ready; of twenty, nineteen took no longer",
            (
                Query(
                    "histogram_quantile(0.95, sum by (le, launch_type)"
                    " (rate(agent_sandbox_claim_controller_startup_latency_ms_bucket[15m])))",
                    "{{launch_type}}",
                ),
            ),
            "ms",
        ),
    ),
)

_SLOTS = Section(
    "Slots and workspaces",
    (
        Panel(
            "Slots that wait",
            "lines",
            "pods of pools, and of those the ready ones",
            (
                Query(f'count by (class) (sandbox:pod_owner:info{{held_by="pool",{_CLASS}}})', "{{class}}"),
                # Each replica of the controller counts all of them.
                Query(
                    "sum by (namespace) (max without (replica, instance)"
                    f' (agent_sandboxes{{owned_by="SandboxWarmPool",ready_condition="true",{_SPACE}}}))',
                    "{{namespace}} ready",
                ),
            ),
        ),
        Panel(
            "What slots cost",
            "stack",
            "dollars an hour; warm time stays here, whoever adopts the slot later",
            (Query(f"sum by (class) (sandbox:pool_dollars:per_hour{{{_CLASS}}})", "{{class}}"),),
            DOLLARS,
        ),
        Panel(
            "What slots use",
            "lines",
            "cores in use by sandboxes that nobody has claimed",
            (Query(f"sum by (class) (sandbox:pool_cpu_seconds:rate1m{{{_CLASS}}})", "{{class}}"),),
        ),
        Panel(
            "Memory of slots",
            "lines",
            "in use by sandboxes that nobody has claimed",
            (Query(f"sum by (class) (sandbox:pool_memory_bytes:avg1m{{{_CLASS}}})", "{{class}}"),),
            BYTES,
        ),
        Panel(
            "Workspaces",
            "stack",
            "by state",
            (Query(f"max by (class, state) (agentenv_workspaces{{{_CLASS}}})", "{{class}} {{state}}"),),
        ),
        Panel(
            "Put to sleep",
            "lines",
            "in an hour, by the reason",
            (
                Query(
                    f"sum by (class, because) (increase(agentenv_suspends_total{{{_CLASS}}}[1h]))",
                    "{{class}} {{because}}",
                ),
            ),
        ),
    ),
)

POOL = Dashboard(
    "pool",
    "Sandboxes: pools",
    "How quickly claims are filled, and what it costs to have slots wait.",
    "now-6h",
    (_CLAIMS, _SLOTS),
    (Choice("class", "Class", "sandbox:pod_owner:info", every=True),),
)
