"""The alarms of the cluster, which Prometheus evaluates beside the recording rules.

Those that fire are on the platform's dashboard, and are sent to the Alertmanager of the settings, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenv.core.metering.rule import EVERY

GROUP = "alarms"
RUNBOOK = "docs/how-to/runbook.md"


@dataclass(frozen=True)
class Alarm:
    """An alerting rule."""

    name: str
    expr: str
    lasts: str
    summary: str


def nodes_do_not_register(threshold: int) -> Alarm:
    """Return the alarm on NodeClaims that come and go without becoming nodes: more than `threshold` an hour and pool.

    Karpenter counts a node when its NodeClaim registers, and deletes one that has not registered for 15 minutes.
    Totals are compared, and not increases: a counter's series begins with its first event, which no increase has. Those
    that are being launched count, too, so it waits until they would have registered.
    """
    now, before = _unregistered(""), _unregistered(" offset 1h")
    return Alarm(
        "NodesDoNotRegister",
        f"{now} - ({before} or {now} * 0) > {threshold}",
        "10m",
        "{{ $value | humanize }} NodeClaims of the pool {{ $labels.nodepool }} did not become nodes within an hour",
    )


def _unregistered(offset: str) -> str:
    """Return how many NodeClaims of each pool have not registered since Karpenter started."""
    created = f"sum by (nodepool) (karpenter_nodeclaims_created_total{offset})"
    registered = f"sum by (nodepool) (karpenter_nodes_created_total{offset})"
    return f"({created} - ({registered} or {created} * 0))"


def alarm_group(threshold: int) -> dict[str, Any]:
    """Return the alarms as a group of a Prometheus rule file."""
    return {
        "name": GROUP,
        "interval": EVERY,
        "rules": [
            {
                "alert": alarm.name,
                "expr": alarm.expr,
                "for": alarm.lasts,
                "labels": {"severity": "warning"},
                "annotations": {"summary": alarm.summary, "runbook": RUNBOOK},
            }
            for alarm in (nodes_do_not_register(threshold),)
        ],
    }
