"""Guardrails for the namespace of storage metering, whose jobs mount all homes of a class read-only to measure them.

Only the jobs that a deployment declared run there, and nobody may connect to their pods. Otherwise anyone who may
create pods or exec into them anywhere, as the usual roles for workloads may, would see the files of all owners.
"""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, unless
from agentenv.core.guardrails.principals import Principals, requested_by
from agentenv.core.service.home_metering import NAME

_CONNECT_SUBRESOURCES = ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy")


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policy for Jobs, pods and connections in the namespace."""
    return (
        Policy(
            name="looking",
            about=f"Jobs and pods in the namespace `{NAME}`, which mount homes to measure them, and connections to it.",
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
                    "Every pod in the namespace can mount the homes of all owners.",
                    unless(
                        "request.operation == 'CONNECT' || (oldObject != null && object.?spec == oldObject.?spec)",
                        requested_by(*principals.jobs),
                    ),
                    "only deployers and the Job controllers of Kubernetes may create or change Jobs and pods that mount"
                    " homes for metering",
                ),
                Rule(
                    "looking-entered",
                    "A connection to such a pod shows the files of all owners.",
                    unless("request.operation != 'CONNECT'", requested_by()),
                    "only deployers may connect to pods that mount homes for metering",
                ),
            ),
        ),
    )
