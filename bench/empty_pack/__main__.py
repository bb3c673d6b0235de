"""A pack with one resource policy and one stack policy without checks: the time of the SDK alone."""

from __future__ import annotations

from typing import Any

from pulumi_policy import EnforcementLevel, PolicyPack, ResourceValidationPolicy, StackValidationPolicy


def nothing(_args: Any, _report: Any) -> None:
    """Check nothing."""


PolicyPack(
    name="empty",
    enforcement_level=EnforcementLevel.MANDATORY,
    policies=[
        ResourceValidationPolicy(name="empty", description="Checks no resource", validate=nothing),
        StackValidationPolicy(name="empty-of-the-stack", description="Checks no stack", validate=nothing),
    ],
)
