"""The platform's dashboard in CloudWatch, as plain data: what AWS itself measures, and what costs money.

No user appears on it. A metric a user would cost $0.30 a month each, and CloudWatch is not where users are told apart;
everything here is one of AWS's own metrics, which cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Widget = dict[str, Any]
WIDTH, HEIGHT = 12, 6


@dataclass(frozen=True)
class Watched:
    """The resources that the dashboard shows."""

    environment: str
    region: str
    cluster: str
    file_systems: Sequence[str]
    log_groups: Sequence[str]


def dashboard(watched: Watched) -> dict[str, Any]:
    """Return the body of the dashboard."""
    cluster = ("ClusterName", watched.cluster)
    rows = [
        _graph(
            watched,
            "Requests to the API server",
            "Sum",
            [
                ["AWS/EKS", f"apiserver_request_total{of}", *cluster, {"label": label}]
                for of, label in (("", "all"), ("_429", "throttled"), ("_5XX", "failed"))
            ],
        ),
        _graph(
            watched,
            "Slowest of a hundred requests, seconds",
            "Maximum",
            [
                ["AWS/EKS", f"apiserver_request_duration_seconds_{verb}_P99", *cluster, {"label": verb}]
                for verb in ("GET", "POST", "PATCH", "DELETE")
            ],
        ),
        _graph(
            watched,
            "Pods that wait for a node",
            "Maximum",
            [
                ["AWS/EKS", f"scheduler_pending_pods{of}", *cluster, {"label": label}]
                for of, label in (("", "all"), ("_UNSCHEDULABLE", "no node takes them"))
            ],
        ),
        _graph(
            watched,
            "vCPUs that run, of the account",
            "Maximum",
            [
                [
                    *("AWS/Usage", "ResourceCount", "Service", "EC2", "Type", "Resource", "Resource", "vCPU"),
                    *("Class", f"Standard/{term}", {"label": label}),
                ]
                for term, label in (("Spot", "Spot"), ("OnDemand", "on demand"))
            ],
        ),
        _graph(
            watched,
            "Stored in file systems, bytes",
            "Average",
            [
                ["AWS/EFS", "StorageBytes", "StorageClass", kind, "FileSystemId", name, {"label": f"{name} {kind}"}]
                for name in watched.file_systems
                for kind in ("Standard", "IA", "Archive")
            ],
            period=3600,
        ),
        _graph(
            watched,
            "Billed by file systems for reading and writing, bytes",
            "Sum",
            [["AWS/EFS", "MeteredIOBytes", "FileSystemId", name] for name in watched.file_systems],
        ),
        _graph(
            watched,
            "Mounts of file systems",
            "Sum",
            [["AWS/EFS", "ClientConnections", "FileSystemId", name] for name in watched.file_systems],
        ),
        _graph(
            watched,
            "Taken in by log groups, bytes",
            "Sum",
            [["AWS/Logs", "IncomingBytes", "LogGroupName", name] for name in watched.log_groups if name],
            period=3600,
        ),
    ]
    markdown = (
        f"## {watched.environment}\nThe platform, without anybody's name."
        " What users cost is in Grafana, and in the saved queries of Athena."
    )
    head: Widget = {
        "type": "text",
        "x": 0,
        "y": 0,
        "width": 2 * WIDTH,
        "height": 2,
        "properties": {"markdown": markdown},
    }
    placed = [
        {**row, "x": WIDTH * (number % 2), "y": 2 + HEIGHT * (number // 2)}
        for number, row in enumerate(row for row in rows if row["properties"]["metrics"])
    ]
    return {"widgets": [head, *placed]}


def _graph(watched: Watched, title: str, stat: str, metrics: list[list[Any]], period: int = 300) -> Widget:
    return {
        "type": "metric",
        "width": WIDTH,
        "height": HEIGHT,
        "properties": {
            "title": title,
            "region": watched.region,
            "view": "timeSeries",
            "stat": stat,
            "period": period,
            "metrics": metrics,
        },
    }
