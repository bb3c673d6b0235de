"""The ConfigMap `sandbox-class` of a class: the parameters that admission policies and the service read.

The policies are the same for all classes; the values that differ between classes are in this ConfigMap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentenv.core.classes.names import CONSTRAINTS, SANDBOX, namespace, storage_class
from agentenv.core.classes.namespace import claimable_by, class_labels
from agentenv.core.classes.pods.aws_identity import audiences
from agentenv.core.classes.pools.hours import HOURS_KEY, format_pool_hours
from agentenv.core.classes.releases import releases_of
from agentenv.core.classes.retirement import RELEASES_KEY
from agentenv.core.classes.template import pod_labels
from agentenv.core.values.posix_ids import class_id

if TYPE_CHECKING:
    from datetime import timedelta

    from agentenv.core.classes.plan import ClassPlan

Plain = dict[str, Any]


# The ids that a sandbox may run with besides its class's own: a home from another class keeps its ids.
HOME_IDS = "homeIds"
SUSPEND_AFTER, MAX_LIFETIME = "suspendAfter", "maxLifetime"
RETAIN_DELETED_FOR, SESSION_RETENTION = "retainDeletedFor", "sessionRetention"


def constraints(plan: ClassPlan, file_systems: Any) -> Plain:
    """Return the parameters of a class; `file_systems` has the ids of all file systems, joined by commas."""
    wall = plan.wall
    shards = range(plan.shards) if plan.slots else ()
    images = [*(image for _, image in plan.images), *plan.init_images]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONSTRAINTS, "namespace": namespace(plan.name), "labels": class_labels(plan)},
        "data": {
            "class": plan.name,
            "tier": plan.settings.tier,
            "runtimeClassName": (wall.runtime_class or "") if wall else "",
            "uid": str(plan.uid),
            "serviceAccount": SANDBOX,
            "storage": plan.settings.storage.kind,
            "storageClasses": ",".join(storage_class(plan.name, shard) for shard in shards),
            "claimEnv": "true" if plan.settings.claim_env else "false",
            "compute": plan.settings.compute,
            # Fargate sets the priority of its pods itself.
            "priorityClassName": "" if plan.on_fargate else SANDBOX,
            HOME_IDS: ",".join(f"{name}:{class_id(name)}" for name in plan.home_sources),
            "seats": ",".join(f"{seat.name}:{seat.uid}" for seat in plan.seats),
            "fileSystems": file_systems,
            "images": ",".join(images),
            "pools": plan.name,
            "podLabels": ",".join(f"{key}={value}" for key, value in sorted(pod_labels(plan).items())),
            # The audience of tokens that the workspace service exchanges.
            "tokenAudiences": audiences(plan),
            # With these the service suspends and deletes workspaces, and destroys their data.
            SUSPEND_AFTER: _seconds(plan.settings.suspend_after),
            MAX_LIFETIME: _seconds(plan.settings.max_lifetime),
            RETAIN_DELETED_FOR: _seconds(plan.retain_deleted_for),
            SESSION_RETENTION: _seconds(plan.session_retention),
            "modes": ",".join(plan.settings.modes),
            "claimableBy": claimable_by(plan),
            # With these the service knows the current releases, and the sizes at which they replace old ones.
            HOURS_KEY: format_pool_hours(plan.settings.pool),
            RELEASES_KEY: ",".join(
                f"{release.channel}/{name}" for release in releases_of(plan) for name in release.names
            ),
        },
    }


def _seconds(duration: timedelta | None) -> str:
    """Return a duration in seconds, or an empty text for None."""
    return "" if duration is None else str(int(duration.total_seconds()))
