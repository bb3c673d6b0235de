"""The SandboxClaim of a workspace. The service, the benchmarks and the tests all create it here.

A claim with more than labels and annotations for its pod makes the controller start a cold sandbox. So a claim only has
environment variables if its class allows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentenv.core.capabilities.cluster_facts import CLASS_LABEL
from agentenv.core.classes.names import (
    EXTENSIONS,
    MODE_LABEL,
    SANDBOX,
    TASK_LABEL,
    USER_LABEL,
    WORKSPACE_LABEL,
    namespace,
)
from agentenv.core.values.timestamps import format_whole_seconds

Plain = dict[str, Any]

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
# With foreground deletion a claim exists until its pod is gone, so its deletion can be awaited.
DEFAULT_SHUTDOWN_POLICY = "DeleteForeground"
SHUTDOWN_POLICIES = ("Delete", "DeleteForeground", "Retain")


def claim(
    class_name: str,
    pool: str,
    name: str,
    *,
    owner: str,
    workspace: str,
    mode: str = "user",
    task: str | None = None,
    shutdown: datetime | None = None,
    outcome: str = DEFAULT_SHUTDOWN_POLICY,
    env: Mapping[str, str] | None = None,
) -> Plain:
    """Return the claim of a sandbox from a pool.

    `owner` is an opaque id. `shutdown` is its latest end; without one it lives until it is deleted. `outcome` is the
    shutdown policy, also for an end that is set later.
    """
    if outcome not in SHUTDOWN_POLICIES:
        raise ValueError(f"{outcome} is not a shutdown policy; allowed: {', '.join(SHUTDOWN_POLICIES)}")
    labels = {USER_LABEL: owner, WORKSPACE_LABEL: workspace, MODE_LABEL: mode}
    if task is not None:
        labels[TASK_LABEL] = task
    lifecycle = {"shutdownPolicy": outcome, **({"shutdownTime": format_whole_seconds(shutdown)} if shutdown else {})}
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxClaim",
        # These labels are on the claim only, for selectors.
        "metadata": {"name": name, "namespace": namespace(class_name), "labels": {CLASS_LABEL: class_name, **labels}},
        "spec": {
            "warmPoolRef": {"name": pool},
            "lifecycle": lifecycle,
            "additionalPodMetadata": {
                "labels": labels,
                # Karpenter must not evict a claimed sandbox; it may evict unclaimed ones.
                "annotations": {DO_NOT_DISRUPT: "true"},
            },
            **({"env": _variables(env)} if env else {}),
        },
    }


def _variables(env: Mapping[str, str]) -> list[Plain]:
    return [{"name": name, "value": value, "containerName": SANDBOX} for name, value in env.items()]
