"""When EKS upgrades a cluster by itself: at the end of standard support of its Kubernetes version."""

from __future__ import annotations

from datetime import date, timedelta

from agentenv.config.sections.cluster import Cluster
from agentenv.core.pinned_versions import releases

NOTICE = timedelta(days=60)


def upgrade_warning(cluster: Cluster, today: date) -> str:
    """Return the warning for a cluster whose standard support ends soon; empty without one.

    The owner of an existing cluster decides on its support.
    """
    end = releases().standard_support.get(cluster.version)
    if cluster.existing is not None or cluster.support_policy != "standard" or end is None or end - today > NOTICE:
        return ""
    return (
        f"standard support of {cluster.version} ends on {end}, and EKS then upgrades the cluster by itself; upgrade it"
        " before, or set supportPolicy to extended"
    )
