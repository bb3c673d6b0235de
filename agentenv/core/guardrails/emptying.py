"""Guardrails for the namespace of the Jobs that empty homes, whose pods mount one home each to remove its files.

The service creates them, and nobody may connect to their pods. Otherwise the service could read homes, or anyone who
may create pods anywhere.
"""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, all_of, quoted_list, unless
from agentenv.core.guardrails.principals import Principals, requested_by
from agentenv.core.service.home_emptying import COMMAND, NAME

_CONNECT_SUBRESOURCES = ("pods/exec", "pods/attach", "pods/portforward", "pods/proxy")


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policy for Jobs, pods, volume claims and connections in the namespace."""
    return (
        Policy(
            name="emptying",
            about=f"Jobs, pods and volume claims in the namespace `{NAME}`, which mount homes to empty them, and"
            " connections to its pods.",
            watches=(
                Watch("batch", ("cronjobs", "jobs")),
                Watch("", ("pods", "pods/ephemeralcontainers", "persistentvolumeclaims")),
                Watch("", _CONNECT_SUBRESOURCES, ("CONNECT",)),
            ),
            in_classes=False,
            within=NAME,
            rules=(
                Rule(
                    "emptying-by",
                    "Every pod in the namespace can mount a home that is being emptied.",
                    unless(
                        "request.operation == 'CONNECT' || (oldObject != null && object.?spec == oldObject.?spec)",
                        requested_by(principals.service, *principals.jobs),
                    ),
                    "only deployers, the workspace service and the Job controllers of Kubernetes may create or change"
                    " Jobs, pods and volume claims that empty homes",
                ),
                Rule(
                    "emptying-entered",
                    "A connection to such a pod shows the files of an owner.",
                    unless("request.operation != 'CONNECT'", requested_by()),
                    "only deployers may connect to pods that empty homes",
                ),
            ),
        ),
        Policy(
            name="emptying-jobs",
            about=f"Jobs in the namespace `{NAME}`.",
            watches=(Watch("batch", ("jobs",)),),
            in_classes=False,
            within=NAME,
            rules=(
                Rule(
                    "emptying-program",
                    "Another program would read the files, and not remove them.",
                    all_of(
                        f"object.spec.template.spec.containers.all(container, container.?command.orValue([]) =="
                        f" {quoted_list(list(COMMAND))} && !has(container.env) && !has(container.envFrom))",
                        "!has(object.spec.template.spec.initContainers)",
                    ),
                    "a Job in this namespace runs the program that empties homes, and nothing else",
                ),
            ),
        ),
    )
