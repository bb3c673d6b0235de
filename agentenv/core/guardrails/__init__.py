"""Guardrails: what reaches the API server at run time and never passes through a deployment, held to the same rules.

Each module is a family. It says which requests it looks at and which rules they have to keep, as rows; `guardrail.py`
makes ValidatingAdmissionPolicies of them. `principals.py` names the controllers that are exempt, `class_parameters.py`
reads what a class says of itself in the ConfigMap `sandbox-class` of its namespace.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentenv.core.guardrails import claims, network, owners, sandboxes, volumes
from agentenv.core.guardrails import metering as looking
from agentenv.core.guardrails import namespaces as spaces
from agentenv.core.guardrails import pod_shape as shapes
from agentenv.core.guardrails import pods as running
from agentenv.core.guardrails import service_accounts as identity
from agentenv.core.guardrails.anchor import lasting
from agentenv.core.guardrails.guardrail import Policy
from agentenv.core.guardrails.principals import EKS, Hands

__all__ = ["EKS", "Hands", "Policy", "lasting", "policies"]


def policies(file_systems: Sequence[str], hands: Hands = EKS) -> tuple[Policy, ...]:
    """All of them, for an environment with these file systems."""
    return (
        *claims.policies(hands),
        *owners.policies(),
        *shapes.policies(hands),
        *sandboxes.policies(hands),
        *running.policies(hands),
        *network.policies(hands),
        *identity.policies(),
        *volumes.policies(hands, file_systems),
        *spaces.policies(hands),
        *looking.policies(hands),
    )
