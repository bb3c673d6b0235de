"""Guardrails for pods outside the namespaces of classes: what the workspace service may delete there."""

from __future__ import annotations

from agentenv.core.guardrails.guardrail import Policy, Rule, Watch, all_of, quoted
from agentenv.core.guardrails.principals import Principals
from agentenv.core.nodes.fargate_profiles import SCHEDULER


def policies(principals: Principals) -> tuple[Policy, ...]:
    """Return the policy for deletions of pods of the platform by the service."""
    return (
        Policy(
            name="platform-pods",
            about="Deletions of pods outside the namespaces of classes by the workspace service, which replaces those"
            " that the webhook of their Fargate profile missed.",
            watches=(Watch("", ("pods",), ("DELETE",)),),
            in_classes=False,
            elsewhere=True,
            when={"by-the-service": f"request.userInfo.username == {quoted(principals.service)}"},
            rules=(
                Rule(
                    "platform-pod-waits",
                    "RBAC knows no labels or states of pods: the same permission would end any pod of a controller.",
                    all_of(
                        "oldObject != null",
                        "oldObject.spec.?nodeName.orValue('') == ''",
                        f"oldObject.spec.?schedulerName.orValue('') != {quoted(SCHEDULER)}",
                        "oldObject.metadata.?ownerReferences.orValue([]).exists(owner,"
                        " owner.?controller.orValue(false))",
                    ),
                    "the workspace service may only delete pods that no scheduler has placed and a controller creates"
                    " again",
                ),
            ),
        ),
    )
