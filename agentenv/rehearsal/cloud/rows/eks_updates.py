"""EKS updates, which are done as soon as they are asked for, and the versions that clusters can be updated to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows.eks_common import belonging_to, cluster_of, offered

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk


def described_update(desk: Desk) -> dict[str, Any]:
    """An update, which is always done by the time it is asked for."""
    cluster, wanted = cluster_of(desk), desk.asked["updateId"]
    found = desk.shelf("_eks.updates").get(f"{cluster.name}/{wanted}")
    if found is None:
        raise Refused("ResourceNotFoundException", f"No update found for ID: {wanted}", clusterName=cluster.name)
    return {"update": found}


def updates(desk: Desk) -> dict[str, Any]:
    """The updates of a cluster."""
    found = [one["id"] for one in belonging_to(desk, "_eks.updates", cluster_of(desk).name).values()]
    shown, token = page(found, desk.asked.get("maxResults"), desk.asked.get("nextToken"))
    return {"updateIds": shown, "nextToken": token}


def versions(desk: Desk) -> dict[str, Any]:
    """The cluster versions that EKS offers."""
    wanted = desk.asked.get("clusterVersions", list(offered()["cluster_versions"]))
    default = offered()["default_version"]
    found = [
        {
            "clusterVersion": version,
            "clusterType": "eks",
            "defaultPlatformVersion": about["platform"],
            "defaultVersion": version == default,
            "status": "STANDARD_SUPPORT",
            "versionStatus": "STANDARD_SUPPORT",
        }
        for version, about in offered()["cluster_versions"].items()
        if version in wanted and (not desk.asked.get("defaultOnly") or version == default)
    ]
    return {"clusterVersions": found}


ROWS = (
    Row("eks", "DescribeUpdate", described_update),
    Row("eks", "ListUpdates", updates),
    Row("eks", "DescribeClusterVersions", versions),
)
