"""The alarms of the cluster, which Prometheus evaluates beside the recording rules.

Nothing sends them: the platform's dashboard shows those that fire, and an Alertmanager or Grafana of your own can read
them from Prometheus.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentenv.core.metering.rule import EVERY

GROUP = "alarms"
# Karpenter deletes a NodeClaim that has not registered for 15 minutes, and launches another one.
_WINDOW = "1h"
RUNBOOK = "docs/how-to/runbook.md"


@dataclass(frozen=True)
class Alarm:
    """An alerting rule."""

    name: str
    expr: str
    summary: str


def nodes_do_not_register(threshold: int) -> Alarm:
    """Return the alarm on NodeClaims that come and go without becoming nodes: more than `threshold` an hour and pool.

    Karpenter counts a node when its NodeClaim registers. A pool none of whose nodes ever did has no such series.
    """
    created = f"sum by (nodepool) (increase(karpenter_nodeclaims_created_total[{_WINDOW}]))"
    registered = f"sum by (nodepool) (increase(karpenter_nodes_created_total[{_WINDOW}]))"
    return Alarm(
        "NodesDoNotRegister",
        f"{created} - ({registered} or {created} * 0) > {threshold}",
        "{{ $value | humanize }} NodeClaims of the pool {{ $labels.nodepool }} did not become nodes within an hour",
    )


def alarm_group(threshold: int) -> dict[str, Any]:
    """Return the alarms as a group of a Prometheus rule file."""
    return {
        "name": GROUP,
        "interval": EVERY,
        "rules": [
            {
                "alert": alarm.name,
                "expr": alarm.expr,
                "labels": {"severity": "warning"},
                "annotations": {"summary": alarm.summary, "runbook": RUNBOOK},
            }
            for alarm in (nodes_do_not_register(threshold),)
        ],
    }
