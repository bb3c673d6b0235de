"""Guardrails: admission policies for requests to the API server that do not come from a deployment.

Each module is a family of policies: the requests that they match and the rules that these must satisfy. `guardrail.py`
compiles them into ValidatingAdmissionPolicies; rules read the parameters of a class from the ConfigMap `sandbox-class`
in its namespace. `principals.py` names the controllers that are exempt.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentenv.core.guardrails import (
    claims,
    emptying,
    metering,
    namespaces,
    network,
    owners,
    platform_pods,
    pod_shape,
    pods,
    sandboxes,
    service_accounts,
    volumes,
)
from agentenv.core.guardrails.anchor import anchor_documents
from agentenv.core.guardrails.guardrail import Policy
from agentenv.core.guardrails.principals import EKS, Principals

__all__ = ["EKS", "Policy", "Principals", "anchor_documents", "policies"]


def policies(file_systems: Sequence[str], principals: Principals = EKS) -> tuple[Policy, ...]:
    """Return all admission policies of an environment with these file systems."""
    return (
        *claims.policies(principals),
        *owners.policies(),
        *pod_shape.policies(principals),
        *sandboxes.policies(principals),
        *pods.policies(principals),
        *network.policies(principals),
        *service_accounts.policies(),
        *volumes.policies(principals, file_systems),
        *namespaces.policies(principals),
        *metering.policies(principals),
        *emptying.policies(principals),
        *platform_pods.policies(principals),
    )
