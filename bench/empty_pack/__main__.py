"""A pack with one policy for resources and one for the stack, which look at nothing: the SDK's own price."""

from __future__ import annotations

from typing import Any

from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy, StackValidationPolicy


def nothing(_args: Any, _report: Any) -> None:
    """Look at nothing."""


PolicyPack(
    name="empty",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(name="empty", description="Looks at no resource", validate=nothing),
        StackValidationPolicy(name="empty-of-the-stack", description="Looks at no stack", validate=nothing),
    ],
)
