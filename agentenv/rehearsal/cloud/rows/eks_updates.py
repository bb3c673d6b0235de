"""EKS updates, which complete at once, and the versions that EKS offers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows.eks_common import catalog, cluster_of, cluster_records

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext


def describe_update(context: RequestContext) -> dict[str, Any]:
    """Return an update, which is always completed."""
    cluster, update_id = cluster_of(context), context.parameters["updateId"]
    update = context.records("_eks.updates").get(f"{cluster.name}/{update_id}")
    if update is None:
        raise AwsError("ResourceNotFoundException", f"No update found for ID: {update_id}", clusterName=cluster.name)
    return {"update": update}


def list_updates(context: RequestContext) -> dict[str, Any]:
    """Return the updates of a cluster."""
    ids = [update["id"] for update in cluster_records(context, "_eks.updates", cluster_of(context).name).values()]
    shown, token = page(ids, context.parameters.get("maxResults"), context.parameters.get("nextToken"))
    return {"updateIds": shown, "nextToken": token}


def describe_cluster_versions(context: RequestContext) -> dict[str, Any]:
    """Return the cluster versions that EKS offers."""
    requested = context.parameters.get("clusterVersions", list(catalog()["cluster_versions"]))
    default = catalog()["default_version"]
    today = datetime.now(UTC).date().isoformat()
    rows = [
        {
            "clusterVersion": version,
            "clusterType": "eks",
            "defaultPlatformVersion": about["platform"],
            "defaultVersion": version == default,
            **_support(about.get("standard_until"), today),
        }
        for version, about in catalog()["cluster_versions"].items()
        if version in requested and (not context.parameters.get("defaultOnly") or version == default)
    ]
    return {"clusterVersions": rows}


def _support(end: str | None, today: str) -> dict[str, Any]:
    """Return the support of a version, with the end of its standard support where AWS has published it."""
    state = "EXTENDED_SUPPORT" if end is not None and end < today else "STANDARD_SUPPORT"
    ends = (
        {} if end is None else {"endOfStandardSupportDate": datetime.fromisoformat(f"{end}T00:00:00+00:00").timestamp()}
    )
    return {"status": state, "versionStatus": state, **ends}


ROWS = (
    OperationHandler("eks", "DescribeUpdate", describe_update),
    OperationHandler("eks", "ListUpdates", list_updates),
    OperationHandler("eks", "DescribeClusterVersions", describe_cluster_versions),
)
