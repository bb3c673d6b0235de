"""Guardrails: what reaches the API server at run time and never passes through a deployment, held to the same rules.

Each module is a family. It says which requests it looks at and which rules they have to keep, as rows; `row.py` makes
ValidatingAdmissionPolicies of them. `hands.py` names the controllers that are exempt, `constraints.py` reads what a
class says of itself in the ConfigMap `sandbox-class` of its namespace.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.guardrails import claims, identity, looking, network, owners, running, sandboxes, shapes, spaces, volumes
from model.guardrails.hands import EKS, Hands
from model.guardrails.lasting import lasting
from model.guardrails.row import Policy

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
