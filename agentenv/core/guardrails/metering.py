"""The place where all homes of a class are mounted, to read only, so that somebody can look how large they are.

Nothing runs there but the jobs that a deployment declared, and nobody gets into one of them: else whoever may make pods
or enter them anywhere, as the usual roles for workloads may, would see everybody's files.
"""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, unless
from agentenv.core.guardrails.principals import Principals, requested_by
from agentenv.core.service.home_metering import NAME

_CONNECT_SUBRESOURCES = ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy")


def policies(principals: Principals) -> tuple[Policy, ...]:
    """What runs there, and who enters."""
    return (
        Policy(
            name="looking",
            about=f"Jobs and pods in the namespace `{NAME}`, where homes are looked at, and ways into those.",
            watches=(
                Watch("batch", ("cronjobs", "jobs")),
                Watch("", ("pods", "pods/ephemeralcontainers")),
                Watch("", _CONNECT_SUBRESOURCES, ("CONNECT",)),
            ),
            in_classes=False,
            within=NAME,
            rules=(
                Rule(
                    "looking-by",
                    "Whatever runs there can have the homes of all owners mounted.",
                    unless(
                        "request.operation == 'CONNECT' || (oldObject != null && object.?spec == oldObject.?spec)",
                        requested_by(*principals.jobs),
                    ),
                    "what looks into homes is declared by deployers, and started by Kubernetes's own controllers of"
                    " jobs",
                ),
                Rule(
                    "looking-entered",
                    "Whoever is in such a pod sees the files of all owners.",
                    unless("request.operation != 'CONNECT'", requested_by()),
                    "nobody but deployers gets into what looks into homes",
                ),
            ),
        ),
    )
