"""The SandboxClaim by which somebody takes a sandbox: the one way it is written, by the service, benches and tests.

Whatever is given to a claim beyond labels and annotations of the pod makes upstream start a cold sandbox, so a claim
brings variables only where its class says that claims may.
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
# What becomes of a claim when its time is over. Deleted in the foreground it is there until its pod is gone, so that
# whoever waits for its end knows.
DEFAULT_SHUTDOWN_POLICY = "DeleteForeground"
# A claim without an end is one that nobody would ever miss. The service moves it on for as long as it is used.
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
    """The claim of a sandbox from a pool.

    `owner` is an opaque id. `shutdown` is when it ends at the latest; without one it lives until it is deleted, and the
    outcome says what an end that is set later does.
    """
    if outcome not in SHUTDOWN_POLICIES:
        raise ValueError(f"{outcome} is no outcome of a claim; {', '.join(SHUTDOWN_POLICIES)} are")
    labels = {USER_LABEL: owner, WORKSPACE_LABEL: workspace, MODE_LABEL: mode}
    if task is not None:
        labels[TASK_LABEL] = task
    lifecycle = {"shutdownPolicy": outcome, **({"shutdownTime": format_whole_seconds(shutdown)} if shutdown else {})}
    return {
        "apiVersion": EXTENSIONS,
        "kind": "SandboxClaim",
        # The claim's own labels go no further than the claim: they are there to find it by.
        "metadata": {"name": name, "namespace": namespace(class_name), "labels": {CLASS_LABEL: class_name, **labels}},
        "spec": {
            "warmPoolRef": {"name": pool},
            "lifecycle": lifecycle,
            "additionalPodMetadata": {
                "labels": labels,
                # From now on somebody would lose what runs in it. An idle member may go with its node.
                "annotations": {DO_NOT_DISRUPT: "true"},
            },
            **({"env": _variables(env)} if env else {}),
        },
    }


def _variables(env: Mapping[str, str]) -> list[Plain]:
    return [{"name": name, "value": value, "containerName": SANDBOX} for name, value in env.items()]
